"""Scored trajectories in, success by task kind with intervals out.

A trajectory whose reward is None was not scored: it is counted apart and is in no rate.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tutelage.supervision.effects import ineffective_steps
from tutelage.types import Actor, StopReason, Trajectory

Z_95 = 1.959963984540054
"""Two-sided 95 % quantile of the standard normal."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Interval:
    """An estimate with the ends of its 95 % interval."""

    estimate: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.estimate:.3f} [{self.low:.3f}, {self.high:.3f}]"


def wilson(successes: int, total: int, z: float = Z_95) -> Interval:
    """Wilson's score interval of a proportion (Wilson 1927).

    centre = (p + z^2/2n) / (1 + z^2/n), half width = z/(1 + z^2/n) * sqrt(p(1-p)/n + z^2/4n^2).

    Example: 8 of 10 gives 0.8 with [0.490, 0.943]. `total` 0 gives NaN with [0, 1]: nothing is known.
    """
    if not 0 <= successes <= total:
        raise ValueError(f"wilson: {successes} successes of {total}; expected 0 <= successes <= total")
    if total == 0:
        return Interval(estimate=math.nan, low=0.0, high=1.0)
    share = successes / total
    scale = 1.0 + z * z / total
    centre = (share + z * z / (2 * total)) / scale
    half = z / scale * math.sqrt(share * (1 - share) / total + z * z / (4 * total * total))
    # At 0 and at 1 the formula's own end is exact but for rounding.
    low = 0.0 if successes == 0 else max(0.0, centre - half)
    high = 1.0 if successes == total else min(1.0, centre + half)
    return Interval(estimate=share, low=low, high=high)


def count_no_effect_commands(trajectory: Trajectory, actor: Actor | None = None) -> int:
    """Steps (of one actor, or of both) whose command did nothing."""
    return sum(
        ineffective and (actor is None or step.actor is actor)
        for step, ineffective in zip(trajectory.steps, ineffective_steps(trajectory), strict=True)
    )


def has_loop(trajectory: Trajectory, window: int = 3) -> bool:
    """Whether some `window` consecutive steps carry the same command."""
    run = 1
    for before, after in zip(trajectory.steps, trajectory.steps[1:], strict=False):
        run = run + 1 if before.action.command == after.action.command else 1
        if run >= window:
            return True
    return False


@dataclass(frozen=True, kw_only=True, slots=True)
class SuccessRow:
    """One line of the success table."""

    kind: str
    """Task kind, or ``all``."""
    num_tasks: int
    """Scored trajectories."""
    num_solved: int
    num_unscored: int
    success: Interval
    mean_steps: float
    """Over scored trajectories; NaN when there is none."""
    mean_steps_solved: float
    """Over solved ones; NaN when there is none."""
    no_effect_share: float
    """Commands that did nothing, over all commands; NaN when there is none."""
    loop_share: float
    """Scored trajectories with three equal commands in a row."""


def is_solved(trajectory: Trajectory, min_reward: float = 1.0) -> bool:
    """The task itself ended, with at least `min_reward`. A truncated episode is never solved."""
    return (
        trajectory.stop_reason is StopReason.COMPLETED
        and trajectory.reward is not None
        and trajectory.reward >= min_reward
    )


def success_table(trajectories: Iterable[Trajectory], min_reward: float = 1.0) -> list[SuccessRow]:
    """One row per task kind in alphabetical order, then the row ``all``."""
    by_kind: dict[str, list[Trajectory]] = {}
    for trajectory in trajectories:
        by_kind.setdefault(trajectory.task_kind or "task", []).append(trajectory)
    rows = [_row(kind, by_kind[kind], min_reward) for kind in sorted(by_kind)]
    rows.append(_row("all", [one for kind in sorted(by_kind) for one in by_kind[kind]], min_reward))
    return rows


def _row(kind: str, trajectories: Sequence[Trajectory], min_reward: float) -> SuccessRow:
    scored = [one for one in trajectories if one.reward is not None]
    solved = [one for one in scored if is_solved(one, min_reward)]
    num_steps = sum(len(one.steps) for one in scored)
    return SuccessRow(
        kind=kind,
        num_tasks=len(scored),
        num_solved=len(solved),
        num_unscored=len(trajectories) - len(scored),
        success=wilson(len(solved), len(scored)),
        mean_steps=_mean([len(one.steps) for one in scored]),
        mean_steps_solved=_mean([len(one.steps) for one in solved]),
        no_effect_share=sum(map(count_no_effect_commands, scored)) / num_steps if num_steps else math.nan,
        loop_share=_mean([has_loop(one) for one in scored]),
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan
