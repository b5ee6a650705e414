"""What is worth learning from: trajectories in, verdicts out, each with its reason and the steps it points at.

To add a filter: a class with `judge` here and one line in `FILTERS`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, Protocol, get_args, runtime_checkable

from tutelage.errors import ConfigError
from tutelage.rollout.triggers import action_key
from tutelage.selection.reads import is_read
from tutelage.types import Actor, StopReason, Trajectory, Verdict

KEPT = "kept"

Scope = Literal["all", "trained"]
Identity = Literal["parsed", "raw", "action_and_observation"]


@runtime_checkable
class Filter(Protocol):
    """Judges trajectories; most judge each by itself."""

    name: ClassVar[str]

    def judge_all(self, trajectories: Sequence[Trajectory]) -> list[Verdict]:
        """One verdict per trajectory, in order."""
        ...


class TrajectoryFilter(ABC):
    """A filter that judges each trajectory by itself."""

    name: ClassVar[str]

    @abstractmethod
    def judge(self, trajectory: Trajectory) -> Verdict: ...

    def judge_all(self, trajectories: Sequence[Trajectory]) -> list[Verdict]:
        return [self.judge(trajectory) for trajectory in trajectories]


def verdict(trajectory: Trajectory, name: str, reason: str = KEPT, span: tuple[int, int] | None = None) -> Verdict:
    """Keep, or drop for a reason."""
    return Verdict(trajectory_id=trajectory.trajectory_id, keep=reason == KEPT, filter=name, reason=reason, span=span)


@dataclass(frozen=True)
class Solved(TrajectoryFilter):
    """Keep what the task's own check passed.

    Drops ``unscored`` (reward None), ``non_finite``, ``not_successful`` (reward below `min_reward`) and
    ``truncated_success`` (passed, but a limit ended it), unless `keep_truncated_success`.

    Example: rewards 1.0, 0.0, None, 1.0 with endings completed, completed, env_error, max_steps ->
    kept, not_successful, unscored, truncated_success
    """

    name: ClassVar[str] = "solved"
    min_reward: float = 1.0
    keep_truncated_success: bool = False

    def judge(self, trajectory: Trajectory) -> Verdict:
        return verdict(trajectory, self.name, self._reason(trajectory))

    def _reason(self, trajectory: Trajectory) -> str:
        if trajectory.reward is None:
            return "unscored"
        if not math.isfinite(trajectory.reward):
            return "non_finite"
        if trajectory.reward < self.min_reward:
            return "not_successful"
        if trajectory.stop_reason is not StopReason.COMPLETED and not self.keep_truncated_success:
            return "truncated_success"
        return KEPT


@dataclass(frozen=True)
class NotTruncated(TrajectoryFilter):
    """Drop ``truncated``: a limit, a failure or a kill ended the episode, whatever was handed in with it.

    It asks for no reward, so it serves data that nobody scored. `Solved` drops truncated episodes by itself.
    """

    name: ClassVar[str] = "not_truncated"

    def judge(self, trajectory: Trajectory) -> Verdict:
        return verdict(trajectory, self.name, KEPT if trajectory.terminated else "truncated")


@dataclass(frozen=True)
class HasExpertSteps(TrajectoryFilter):
    """Drop ``no_expert_steps``: the episode ended before the switch, whatever ended it, so nothing could be trained."""

    name: ClassVar[str] = "has_expert_steps"

    def judge(self, trajectory: Trajectory) -> Verdict:
        return verdict(trajectory, self.name, KEPT if trajectory.num_expert_steps else "no_expert_steps")


@dataclass(frozen=True)
class NoRepetition(TrajectoryFilter):
    """Drop episodes that go round in circles although they pass.

    ``identical_actions``: `max_identical` of the same action in a row. ``action_loop``: as many rounds of a pattern of
    2..`max_period` actions. ``reading_run``: `max_reads` actions in a row that only read (`selection.reads`).

    `scope` ``trained`` looks at the steps of the `trained` actor only; a step of the other one breaks a run.
    `identity` says when two actions are the same: ``parsed`` by call or command, outer white space apart; ``raw`` by
    reply; ``action_and_observation`` by parsed action and its answer, so that waiting for a change is no repetition.

    Example, scope all: ``A A B A A`` -> kept; ``A A A B`` -> identical_actions at (0, 2)
    """

    name: ClassVar[str] = "no_repetition"
    max_identical: int = 3
    max_reads: int = 20
    scope: Scope = "all"
    identity: Identity = "parsed"
    max_period: int = 1
    trained: Actor = Actor.EXPERT

    def __post_init__(self) -> None:
        for option, lowest in (("max_identical", 2), ("max_reads", 2), ("max_period", 1)):
            if getattr(self, option) < lowest:
                raise ConfigError(f"filter '{self.name}': {option} is {getattr(self, option)}, expected >= {lowest}")
        for option, known in (("scope", get_args(Scope)), ("identity", get_args(Identity))):
            if getattr(self, option) not in known:
                raise ConfigError.unknown(f"filter '{self.name}', {option}", getattr(self, option), known)
        object.__setattr__(self, "trained", Actor(self.trained))

    def judge(self, trajectory: Trajectory) -> Verdict:
        keys = self._keys(trajectory)
        for period in range(1, self.max_period + 1):
            for first, past in self._stretches(trajectory):
                found = _first_loop(keys[first:past], period, self.max_identical)
                if found is not None:
                    reason = "identical_actions" if period == 1 else "action_loop"
                    return verdict(trajectory, self.name, reason, (first + found[0], first + found[1]))
        reads = [is_read(trajectory.env, step.action) for step in trajectory.steps]
        for first, past in self._stretches(trajectory):
            for run_first, run_past in _runs(reads[first:past]):
                if run_past - run_first >= self.max_reads:
                    return verdict(trajectory, self.name, "reading_run", (first + run_first, first + run_past - 1))
        return verdict(trajectory, self.name)

    def _stretches(self, trajectory: Trajectory) -> Iterator[tuple[int, int]]:
        """[first, past) of each unbroken stretch of steps in scope."""
        return _runs([self.scope == "all" or step.actor is self.trained for step in trajectory.steps])

    def _keys(self, trajectory: Trajectory) -> list[Hashable]:
        steps = trajectory.steps
        if self.identity == "raw":
            return [step.action.text.strip() for step in steps]
        keys: list[Hashable] = [action_key(step.action) for step in steps]
        if self.identity == "parsed":
            return keys
        observations = [*(step.observation for step in steps[1:]), trajectory.final_observation]
        return list(zip(keys, [seen and seen.text for seen in observations], strict=False))


@dataclass(frozen=True)
class PerTaskCap:
    """Keep at most `cap` trajectories of a task, those with the lowest sample index; the others are ``over_task_cap``.

    Put it last, so that only what passed the other filters counts.
    """

    name: ClassVar[str] = "per_task_cap"
    cap: int

    def __post_init__(self) -> None:
        if self.cap < 1:
            raise ConfigError(f"filter '{self.name}': cap is {self.cap}, expected >= 1")

    def judge_all(self, trajectories: Sequence[Trajectory]) -> list[Verdict]:
        kept: Counter[str] = Counter()
        reasons: dict[str, str] = {}
        for trajectory in sorted(trajectories, key=lambda one: (one.sample_index, one.seed, one.trajectory_id)):
            kept[trajectory.task_id] += 1
            over = kept[trajectory.task_id] > self.cap
            reasons[trajectory.trajectory_id] = "over_task_cap" if over else KEPT
        return [verdict(one, self.name, reasons[one.trajectory_id]) for one in trajectories]


FILTERS: dict[str, type[Any]] = {
    one.name: one for one in (Solved, NotTruncated, HasExpertSteps, NoRepetition, PerTaskCap)
}
"""Name in recipes -> filter."""


def make_filter(name: str, **options: Any) -> Filter:
    """The filter of a recipe. Raises `ConfigError` on an unknown name or option."""
    if name not in FILTERS:
        raise ConfigError.unknown("filter", name, FILTERS)
    known = [option.name for option in fields(FILTERS[name])]
    for option in options:
        if option not in known:
            raise ConfigError.unknown(f"filter '{name}', option", option, known)
    try:
        made: Filter = FILTERS[name](**options)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"filter '{name}' with {options}: {error}") from error
    return made


def _runs(flags: Sequence[bool]) -> Iterator[tuple[int, int]]:
    """[first, past) of each run of True. Example: ``0 1 1 0 1`` -> (1, 3), (4, 5)"""
    first: int | None = None
    for index, flag in enumerate([*flags, False]):
        if flag and first is None:
            first = index
        elif not flag and first is not None:
            yield first, index
            first = None


def _first_loop(keys: Sequence[Hashable], period: int, rounds: int) -> tuple[int, int] | None:
    """First and last index of the first whole stretch with at least `rounds` rounds of one pattern of this period.

    Example, period 2, rounds 3: ``x A B A B A B A`` -> (1, 7)
    """
    repeats = [keys[index] == keys[index - period] for index in range(period, len(keys))]
    for first, past in _runs(repeats):
        if past - first + period >= rounds * period:
            return first, past - 1 + period
    return None
