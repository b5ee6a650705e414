"""Problems with a Python tool as an environment: one problem, runs of code, one answer.

In: a `Task` whose settings name a problem. Settings, all plain JSON:

  source        generated, aime, math, gpqa or lcb
  level, problem_seed, share            of a generated problem (`generate_problem`), or
  root, file, row, shuffle_seed, version   of a row of a file (`read_problems`)
  content_hash  what the problem must hash to, so that a changed file or generator is noticed
  max_steps     steps before the episode is truncated; 16 where absent
  persist       true: names of earlier runs stay known, since earlier code runs again before each; false where absent
  limits        of one run: seconds, cpu_seconds, memory_mb, output_chars; `PYTHON_LIMITS` where absent
  sandbox, allow_unsafe                 see `make_sandbox`; auto and false where absent
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from tutelage.envs.action_formats import TagFormat
from tutelage.envs.base import StepResult
from tutelage.envs.lifetime import Lifetime
from tutelage.envs.python.judge import Judgement, judge
from tutelage.envs.python.sources import problem_of
from tutelage.envs.sandbox import PYTHON_LIMITS, SandboxLimits, SandboxResult, shared_runner
from tutelage.errors import ConfigError, EnvError
from tutelage.types import Action, Observation, Task, stable_hash

DEFAULT_MAX_STEPS: Final = 16

SETTABLE_LIMITS: Final = ("seconds", "cpu_seconds", "memory_mb", "output_chars")

ACTION_FORMAT: Final = TagFormat(
    tags={"python": "code", "answer": "text"},
    help=(
        "No action was found in that reply. End with exactly one action: <python>code</python> to run code and see what "
        "it prints, or <answer>the answer</answer> to finish."
    ),
    boxed_as="answer",
    descriptions={
        "python": "Run code and show what it prints, or the last line of its error.",
        "answer": "End the task with the answer: the bare result.",
    },
)

ANSWERED: Final = "The answer was taken."
"""The observation after an answer; whether it is right is not said."""

UNREADABLE: Final = "The answer was taken, but nothing could be read in it."
"""The observation after an answer of the wrong kind, e.g. words where a number is asked for. It counts as wrong."""

NO_OUTPUT: Final = "The code printed nothing."

STOPPED: Final = {
    "timeout": "Stopped: the code took too long.",
    "cpu": "Stopped: the code took too long.",
    "memory": "Stopped: the code used too much memory.",
    "processes": "Stopped: the code started too many processes.",
    "disk": "Stopped: the code wrote too many files.",
    "output": "Stopped: the code printed without end.",
}
"""The observation after a run that broke a limit. Nothing of its output is shown: how far it came depends on the
machine. Which of the two times ran out first depends on it too, so both are told alike."""

_FACTS: Final = """\
Print what you want to see: values are not shown by themselves. Every run starts afresh, knows nothing of earlier ones, and \
must end within seconds. There is no network, no input and nothing but the standard library. You have 16 turns, and one of \
them must be the answer. Answer with the bare result: a number as digits, a choice as its letter, a program as its whole \
source."""

INSTRUCTIONS: Final = f"""\
You solve a problem, and you may run Python to do so. In every turn, think first, then give exactly one action as the last \
thing you write:

<python>code</python>   runs the code and shows what it prints, or the last line of its error
<answer>the answer</answer>   ends the task with your answer

{_FACTS} Instead of the answer tag, the last \\boxed{{...}} of a turn without tags counts as well.

Example
Problem: There are 12 bags with 34 pens in each. How many pens are there?
You: I multiply. <python>print(12 * 34)</python>
Output: 408
You: <answer>408</answer>"""
"""What a language model is told before the first observation."""

_RULES: Final = f"""\
You solve a problem, and you may run Python to do so. In every turn, think first, then do exactly one of these:

python(code)   runs the code and shows what it prints, or the last line of its error
answer(text)   ends the task with your answer

{_FACTS}"""


def instructions_of(task: Task, own_format: bool) -> str:
    """`own_format`: actions are written in tags. False: nothing is said of how an action is written."""
    return INSTRUCTIONS if own_format else _RULES


_FENCED: Final = re.compile(r"\s*```(?:python|py)?[ \t]*\n(.*?)\n?```\s*", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Moment:
    """A point of an episode, for `PythonEnv.restore`."""

    cells: tuple[str, ...]
    life: tuple[int, bool]
    judgement: Judgement | None


class PythonEnv:
    """One problem. The seed of `reset` changes nothing: the task alone decides the problem."""

    inline = False
    action_format = ACTION_FORMAT

    def __init__(self, task: Task) -> None:
        """Raises ConfigError, FormatError, or EnvError if the problem is not the one that the task was made of."""
        settings = task.settings
        self.task = task
        self.problem = problem_of(settings)
        expected = settings.get("content_hash")
        if expected is not None and self.problem.content_hash != expected:
            raise EnvError(
                f"the problem has content hash {self.problem.content_hash[:12]}, the task was made of {expected[:12]}.\n"
                "  Its file or the generator has changed since. Load the tasks again and start a new run.",
                task_id=task.task_id,
            )
        self.max_steps = int(settings.get("max_steps", DEFAULT_MAX_STEPS))
        self.persist = bool(settings.get("persist", False))
        self.limits = limits_of(settings.get("limits", {}))
        self._runner = shared_runner(settings.get("sandbox", "auto"), bool(settings.get("allow_unsafe", False)))
        self._cells: tuple[str, ...] = ()
        """Code of runs that ended by themselves: what runs again if names persist."""
        self._judgement: Judgement | None = None
        self.life = Lifetime(task, self.max_steps)

    def reset(self, seed: int) -> Observation:
        self.life.begin()
        return Observation.of(self.problem.text)

    def step(self, action: Action) -> StepResult:
        """Run code or take the answer. Code that fails or must be stopped is the agent's error, and an observation."""
        self.life.check_step()
        call = ACTION_FORMAT.apply(action).call
        if call is None:
            text = ACTION_FORMAT.help
        elif call.name == "python":
            text = self._run(str(call.arguments["code"]))
        else:
            self._judgement = judge(self.problem, str(call.arguments["text"]), self._runner)
            text = UNREADABLE if self._judgement is Judgement.NO_ANSWER else ANSWERED
        terminated = self._judgement is not None
        truncated = self.life.count_step(terminated)
        return StepResult(
            observation=Observation.of(text), reward=self.reward(), terminated=terminated, truncated=truncated
        )

    def reward(self) -> float:
        """1.0 if the answer is right, else 0.0."""
        return 1.0 if self._judgement is Judgement.RIGHT else 0.0

    @property
    def no_answer(self) -> bool:
        """No answer was given, or nothing could be read in it."""
        return self._judgement in (None, Judgement.NO_ANSWER)

    def admissible(self) -> None:
        """Any code may be run."""
        return

    def state_hash(self) -> str:
        """Of the answer's judgement and, if names persist, the code that has run."""
        cells = self._cells if self.persist else ()
        return f"{stable_hash(self._judgement, *map(repr, cells)):016x}"

    def snapshot(self) -> Moment:
        return Moment(self._cells, self.life.moment(), self._judgement)

    def restore(self, snapshot: object) -> None:
        if not isinstance(snapshot, Moment):
            raise TypeError(f"restore got a {type(snapshot).__name__}, expected what snapshot() gave")
        self.life.go_to(snapshot.life)
        self._cells, self._judgement = snapshot.cells, snapshot.judgement

    def close(self) -> None:
        """End the episode; again is harmless. The interpreter that runs code is shared by all episodes and stays."""
        self.life.close()

    def _run(self, code: str) -> str:
        fenced = _FENCED.fullmatch(code)
        source = fenced[1] if fenced else code
        result = self._runner.run([*self._cells, source] if self.persist else [source], limits=self.limits)
        if result.killed_by is None and self.persist:
            self._cells = (*self._cells, source)
        return output_text(result, self.limits)


def output_text(result: SandboxResult, limits: SandboxLimits) -> str:
    """What an agent sees of a run: standard output, then the last line of the traceback.

    Example: ``print(1); 1/0`` -> ``1``, newline, ``ZeroDivisionError: division by zero``
    """
    if result.killed_by is not None:
        return STOPPED[result.killed_by]
    lines = [result.stdout.rstrip("\n")] if result.stdout.strip() else []
    if result.exit_code:
        error = result.stderr.rstrip("\n").rpartition("\n")[2]
        if result.exit_code > 128:
            error = f"Stopped: the process ended by signal {result.exit_code - 128}."
        lines += [error[: limits.output_chars]] if error else []
    return "\n".join(lines) or NO_OUTPUT


def limits_of(settings: Mapping[str, Any]) -> SandboxLimits:
    """Limits of one run. Raises ConfigError for one that cannot be set."""
    for name in settings:
        if name not in SETTABLE_LIMITS:
            raise ConfigError.unknown("python tasks: limits", name, SETTABLE_LIMITS)
    return replace(PYTHON_LIMITS, **settings)
