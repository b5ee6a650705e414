"""The python expert: a scripted policy that solves generated problems, from any state another policy left behind.

In: the texts of the trajectory so far. Out: one action. It knows the templates that problems are made of, finds the
numbers in the text, and goes through the steps of the calculation: one run of code for each, then the answer. A step
counts as done when its very code has run and printed a whole number; so it does not matter who acted before.
"""

from __future__ import annotations

from typing import Final

from tutelage.envs.action_formats import action_of
from tutelage.envs.python.env import ACTION_FORMAT
from tutelage.envs.python.judge import whole_number_in
from tutelage.envs.python.templates import Template, calculate, match_template
from tutelage.errors import PolicyError
from tutelage.policies.base import PartialTrajectory, SingleActPolicy
from tutelage.types import Action, ParsedCall

MOST_TRIES: Final = 2
"""How often the code of a step is run, if it does not print a number, before the expert calculates the step itself."""


class PythonExpert(SingleActPolicy):
    """Solves generated problems with the tool. Same texts, same action.

    Raises PolicyError for a problem of a file: there is no script for those.
    """

    name = "python_expert"
    version = "python_expert-1"

    def act(self, so_far: PartialTrajectory) -> Action:
        steps = so_far.steps
        problem = (steps[0].observation if steps else so_far.observation).text
        found = match_template(problem)
        if found is None:
            raise PolicyError(
                f"task {so_far.task.task_id} is no generated problem, and the python expert knows only those",
                role="expert",
            )
        outputs = [*(step.observation.text for step in steps[1:]), so_far.observation.text]
        record = [(step.action.command, output) for step, output in zip(steps, outputs, strict=False)]
        return action_of(ACTION_FORMAT, _next_call(*found, record))


def _next_call(template: Template, slots: dict[str, str], record: list[tuple[str | None, str]]) -> ParsedCall:
    results: list[int] = []
    for step in range(len(template.steps)):
        expression = template.expression(step, slots, results)
        code = f"print({expression})"
        printed = [output for command, output in record if command == f"<python>{code}</python>"]
        numbers = [number for output in printed if (number := whole_number_in(output)) is not None]
        if not numbers and len(printed) < MOST_TRIES:
            return ParsedCall(name="python", arguments={"code": code})
        results.append(numbers[-1] if numbers else calculate(expression))
    return ParsedCall(name="answer", arguments={"text": str(results[-1])})
