"""Acting a record again in a fresh environment, and naming the first step where it differs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tutelage.envs.base import Env, StepResult
from tutelage.errors import EnvError
from tutelage.types import Observation, Step, Task, Trajectory


class ReplayMismatch(EnvError):
    """A fresh environment answered something else than the record says."""

    def __init__(self, *, task_id: str, step: int, what: str, expected: object, got: object) -> None:
        super().__init__(
            f"replay differs in {what}: got {got!r}, expected {expected!r}. The environment is not the same function "
            "of task, seed and actions as when this was recorded (tutelage env check).",
            task_id=task_id,
            step=step,
        )
        self.step_index = step
        self.what = what
        self.expected = expected
        self.got = got


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """The first thing that a replay found different."""

    step_index: int
    """The step whose observation, reward or state differs. The final observation counts as the step after the last."""
    what: str
    """``observation``, ``reward``, ``state_hash``, ``end`` or ``total reward``."""
    expected: object
    got: object


@dataclass(frozen=True, kw_only=True, slots=True)
class Replay:
    """What came of acting one record again."""

    trajectory_id: str
    num_steps: int
    """Steps that were acted."""
    difference: Difference | None
    """None: everything was equal."""

    @property
    def same(self) -> bool:
        return self.difference is None

    def __str__(self) -> str:
        if self.difference is None:
            return f"{self.trajectory_id}: {self.num_steps} steps replayed, all equal"
        found = self.difference
        return (
            f"{self.trajectory_id}, step {found.step_index}: {found.what} is {found.got!r}, "
            f"the record says {found.expected!r}"
        )


def replay(trajectory: Trajectory, task: Task, make_env: Callable[[Task], Env]) -> Replay:
    """Act all steps of a record in a fresh environment; compare observations, rewards, state hashes and the ending."""
    env = make_env(task)
    num_steps = 0
    try:
        observation = env.reset(task.seed)
        for _, result in replay_steps(env, task, observation, trajectory.steps):
            observation = result.observation
            num_steps += 1
        _same(task, num_steps, "observation", trajectory.final_observation, observation)
        if trajectory.reward is not None:
            _same(task, num_steps, "total reward", trajectory.reward, env.reward())
    except ReplayMismatch as error:
        difference = Difference(step_index=error.step_index, what=error.what, expected=error.expected, got=error.got)
        return Replay(trajectory_id=trajectory.trajectory_id, num_steps=num_steps, difference=difference)
    finally:
        env.close()
    return Replay(trajectory_id=trajectory.trajectory_id, num_steps=num_steps, difference=None)


def replay_steps(
    env: Env, task: Task, observation: Observation, steps: Sequence[Step]
) -> Iterator[tuple[Step, StepResult]]:
    """Act stored steps in an environment that was just reset; give each with the environment's answer.

    Raises `ReplayMismatch` at the first difference, before anything more is acted.
    """
    for index, step in enumerate(steps):
        _same(task, index, "observation", step.observation, observation)
        result = env.step(step.action)
        observation = result.observation
        if step.reward is not None:
            _same(task, index, "reward", step.reward, result.reward)
        if step.state_hash is not None:
            _same(task, index, "state_hash", step.state_hash, env.state_hash())
        if index < len(steps) - 1:
            _same(task, index, "end", False, result.terminated or result.truncated)
        yield step, result


def _same(task: Task, index: int, what: str, expected: object, got: object) -> None:
    if expected != got:
        raise ReplayMismatch(task_id=task.task_id, step=index, what=what, expected=expected, got=got)
