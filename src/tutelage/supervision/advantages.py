"""Rewards of a group of trajectories -> signed credit per step, relative to the group (GRPO, Shao et al. 2024).

    advantage = (score - mean of the group) / (std of the group + 1e-6)

A trajectory that was not scored leaves the statistics and learns nothing; it is counted, never read as 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from tutelage.errors import SupervisionError
from tutelage.types import Trajectory

Std = Literal["population", "sample", "none"]
Statistics = Literal["trajectories", "steps"]

EPSILON: Final = 1e-6
"""Added to the standard deviation."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupAdvantages:
    """Credit of one group of G trajectories."""

    steps: tuple[tuple[float, ...] | None, ...]
    """[G] of [N] advantages. None: not scored, so it has no part in the policy gradient."""
    num_unscored: int
    """Trajectories without a reward."""
    num_non_finite: int
    """Trajectories whose reward is NaN or infinite; treated as not scored."""
    zero_variance: bool
    """All scores that count are equal, so every advantage is exactly 0."""


def step_scores(
    trajectory: Trajectory,
    ineffective: Sequence[bool],
    *,
    reward_scale: float = 1.0,
    invalid_action_penalty: float = 0.0,
) -> tuple[float, ...] | None:
    """[N] score of each step: reward of the episode x scale, less the penalty where the action did nothing.

    `ineffective` [N]: malformed, or the environment answered that nothing happened. None: the episode was not scored.

    Example, reward 1, scale 10, penalty 0.1, the second of two steps ineffective: (10.0, 9.9)
    """
    if len(ineffective) != len(trajectory.steps):
        raise SupervisionError.length(
            "ineffective", got=len(ineffective), expected=len(trajectory.steps), trajectory_id=trajectory.trajectory_id
        )
    if trajectory.reward is None:
        return None
    return tuple(reward_scale * trajectory.reward - invalid_action_penalty * bool(one) for one in ineffective)


def group_advantages(
    scores: Sequence[Sequence[float] | None], *, std: Std = "population", statistics: Statistics = "trajectories"
) -> GroupAdvantages:
    """Advantages of a group from the scores of its steps.

    trajectories   a trajectory's score is the mean over its steps, and its steps share one advantage
    steps          mean and deviation over all steps of the group, so that long trajectories count more

    Example, two trajectories of 2 steps (score 10) and 6 steps (score 0): trajectories 1 and -1, steps 1.7321 and -0.5774

    std: ``population`` (divide by n), ``sample`` (by n - 1) or ``none`` (only the mean is taken off).
    """
    unscored = [one is None or len(one) == 0 for one in scores]
    broken = [
        not left_out and not all(math.isfinite(value) for value in one or ())
        for left_out, one in zip(unscored, scores, strict=True)
    ]
    counted = [
        np.asarray(one, dtype=np.float64) if statistics == "steps" else np.array([np.mean(one or ())])
        for one, left_out, bad in zip(scores, unscored, broken, strict=True)
        if not (left_out or bad)
    ]
    flat = np.concatenate(counted) if counted else np.zeros(0)
    # Compared, not computed: the deviation of three equal floats need not come out as 0.
    zero_variance = len(flat) > 0 and float(flat.min()) == float(flat.max())
    credit = iter(np.split(_standardise(flat, std, zero_variance), np.cumsum([len(one) for one in counted])[:-1]))
    steps: list[tuple[float, ...] | None] = []
    for one, left_out, bad in zip(scores, unscored, broken, strict=True):
        if left_out or bad:
            steps.append(None)
            continue
        values = next(credit).tolist()
        steps.append(tuple(values) if statistics == "steps" else tuple(values * len(one or ())))
    return GroupAdvantages(
        steps=tuple(steps), num_unscored=sum(unscored), num_non_finite=sum(broken), zero_variance=zero_variance
    )


def _standardise(values: NDArray[np.float64], std: Std, zero_variance: bool) -> NDArray[np.float64]:
    if zero_variance or len(values) == 0:
        return np.zeros_like(values)
    centred: NDArray[np.float64] = values - values.mean()
    if std != "none":
        centred /= values.std(ddof=1 if std == "sample" else 0) + EPSILON
    return centred
