"""Scored samples in, avg@k out: the mean score of k samples per task, averaged over tasks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tutelage.errors import ConfigError
from tutelage.evaluation.metrics import Z_95, Interval
from tutelage.types import Trajectory


@dataclass(frozen=True, kw_only=True, slots=True)
class AverageAt:
    """avg@k of one panel."""

    k: int
    score: Interval
    """Mean over tasks, with its 95 % interval (normal, from the spread between tasks). NaN without tasks."""
    num_tasks: int
    """Tasks in the mean."""
    incomplete: tuple[str, ...]
    """Ids of tasks with fewer than k scored samples, sorted. They are in no mean."""

    def __str__(self) -> str:
        left_out = f", {len(self.incomplete)} incomplete" if self.incomplete else ""
        return f"avg@{self.k} {self.score} over {self.num_tasks} tasks{left_out}"


def average_at(scores: Mapping[str, Sequence[float | None]], k: int) -> AverageAt:
    """Mean over tasks of the mean of each task's first k scored samples.

    scores: task id -> scores of its samples, in order. None (not scored) is passed over, never read as 0.

    Example, k = 2: ``{"a": [1, 0], "b": [1, None, 1], "c": [1]}`` -> (0.5 + 1) / 2 = 0.75, ``c`` incomplete.
    """
    if k < 1:
        raise ConfigError(f"average_at: k is {k}, expected at least 1.")
    means, incomplete = [], []
    for task_id in sorted(scores):
        counted = [score for score in scores[task_id] if score is not None][:k]
        if len(counted) < k:
            incomplete.append(task_id)
        else:
            means.append(sum(counted) / k)
    return AverageAt(k=k, score=_mean(means), num_tasks=len(means), incomplete=tuple(incomplete))


def scores_by_task(trajectories: Iterable[Trajectory]) -> dict[str, list[float | None]]:
    """Task id -> rewards of its samples, in the order of their sample index; the last attempt of a sample counts."""
    latest: dict[tuple[str, int], Trajectory] = {}
    for trajectory in trajectories:
        key = (trajectory.task_id, trajectory.sample_index)
        if key not in latest or latest[key].attempt <= trajectory.attempt:
            latest[key] = trajectory
    found: dict[str, list[float | None]] = {}
    for task_id, sample_index in sorted(latest):
        found.setdefault(task_id, []).append(latest[task_id, sample_index].reward)
    return found


def _mean(values: Sequence[float]) -> Interval:
    if not values:
        return Interval(estimate=math.nan, low=math.nan, high=math.nan)
    mean = sum(values) / len(values)
    if len(values) == 1:
        # One task tells nothing of the spread between tasks.
        return Interval(estimate=mean, low=math.nan, high=math.nan)
    spread = math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))
    half = Z_95 * spread / math.sqrt(len(values))
    return Interval(estimate=mean, low=max(0.0, mean - half), high=min(1.0, mean + half))
