"""The python expert: solves every generated problem, from any state, by its texts alone."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tutelage.envs.python.env import ACTION_FORMAT, STOPPED
from tutelage.envs.registry import make_env
from tutelage.errors import PolicyError
from tutelage.policies.base import PartialTrajectory
from tutelage.policies.experts.python import PythonExpert
from tutelage.policies.scripted import ScriptedPolicy
from tutelage.rollout.episode import run_episode
from tutelage.rollout.switch import AtStep, ExpertOnly
from tutelage.tasks.python import PythonTasks
from tutelage.types import Action, Actor, Observation, Step, Task

pytestmark = pytest.mark.usefixtures("python_sandbox")

CHAIN = "Let x be 10 * 3. Let y be the remainder of x divided by 4. What is x * y + 10?"


def test_it_solves_every_level_with_as_few_steps_as_there_are():
    for task in PythonTasks().load("test", 0, 50):
        trajectory = run_episode(task, make_env(task), {Actor.EXPERT: PythonExpert()}, ExpertOnly(), seed=0)
        assert trajectory.reward == 1.0
        assert len(trajectory.steps) == {"chains": 3, "long_chains": 4}.get(task.kind, 2)


def so_far(*texts: str) -> PartialTrajectory:
    """[problem, reply, output, reply, output, ...] as another policy played it."""
    problem, *rest = texts
    observation, steps = Observation.of(problem), []
    for reply, output in zip(rest[::2], rest[1::2], strict=True):
        action = ACTION_FORMAT.apply(Action(text=reply, command=reply))
        steps.append(Step(observation=observation, action=action, actor=Actor.STUDENT))
        observation = Observation.of(output)
    task = Task(task_id="t", env="python", goal="")
    return PartialTrajectory(trajectory_id="t", task=task, steps=tuple(steps), observation=observation, seed=0)


@pytest.mark.parametrize(
    ("texts", "reply"),
    [
        ([], "<python>print(10 * 3)</python>"),
        (["<python>print(10 * 3)</python>", "30"], "<python>print(30 % 4)</python>"),
        # Its own code counts whoever ran it, other code does not.
        (["I try.\n<python>print(10 * 3)</python>", "30"], "<python>print(30 % 4)</python>"),
        (["<python>print(10*3)</python>", "30"], "<python>print(10 * 3)</python>"),
        (["nonsense", ACTION_FORMAT.help], "<python>print(10 * 3)</python>"),
        # What failed is tried again, and calculated in the end.
        (["<python>print(10 * 3)</python>", STOPPED["timeout"]], "<python>print(10 * 3)</python>"),
        (["<python>print(10 * 3)</python>", STOPPED["timeout"]] * 2, "<python>print(30 % 4)</python>"),
        (
            ["<python>print(10 * 3)</python>", "30", "<python>print(30 % 4)</python>", "2"],
            "<python>print(30 * 2 + 10)</python>",
        ),
        (
            [
                *("<python>print(10 * 3)</python>", "30", "<python>print(30 % 4)</python>", "2"),
                *("<python>1</python>", "The code printed nothing.", "<python>print(30 * 2 + 10)</python>", "70"),
            ],
            "<answer>70</answer>",
        ),
    ],
)
def test_from_any_state(texts, reply):
    assert PythonExpert().act(so_far(CHAIN, *texts)).text == reply


def test_it_takes_over_from_a_student():
    for number, task in enumerate(PythonTasks().load("validation", 0, 10)):
        student = ScriptedPolicy(
            ["<python>1/0</python>", "<python>print(6)</python>", "<python>print(1)</python>", "<python>x = 3</python>"]
        )
        policies = {Actor.STUDENT: student, Actor.EXPERT: PythonExpert()}
        trajectory = run_episode(task, make_env(task), policies, AtStep(number % 5), seed=0)
        assert trajectory.reward == 1.0


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.text(max_size=30), st.text(max_size=30)), max_size=4))
def test_any_record_gives_an_action_of_the_format(turns):
    action = PythonExpert().act(so_far(CHAIN, *(text for turn in turns for text in turn)))
    assert action.call is not None
    assert action == PythonExpert().act(so_far(CHAIN, *(text for turn in turns for text in turn)))


def test_other_problems_are_none_of_its_business():
    with pytest.raises(PolicyError, match="is no generated problem"):
        PythonExpert().act(so_far("Prove it."))
