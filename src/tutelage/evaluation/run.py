"""A policy and a panel in, scored trajectories and a success table out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tutelage.evaluation.compare import Comparison, compare_outcomes
from tutelage.evaluation.metrics import Interval, SuccessRow, is_solved, success_table
from tutelage.policies.base import Policy
from tutelage.rollout.episode import Limits
from tutelage.rollout.runner import make_jobs, run_rollouts
from tutelage.rollout.summary import RolloutSummary, latest_attempts
from tutelage.rollout.switch import ExpertOnly, Never
from tutelage.store import RecordStore
from tutelage.types import Actor, Task, Trajectory


@dataclass(frozen=True, kw_only=True, slots=True)
class EvaluationResult:
    """What one policy did on one panel."""

    name: str
    policy_version: str
    num_tasks: int
    rows: tuple[SuccessRow, ...]
    """By task kind, then ``all``."""
    outcomes: Mapping[str, bool | None]
    """task_id (with the sample index when a task is played more than once) -> solved; None: not scored."""
    stop_reasons: Mapping[str, int]

    @property
    def overall(self) -> SuccessRow:
        return self.rows[-1]

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; NaN is written as null."""
        data = asdict(self)
        data["rows"] = [_without_nan(row) for row in data["rows"]]
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> EvaluationResult:
        rows = tuple(
            SuccessRow(**{**_with_nan(row), "success": Interval(**_with_nan(row["success"]))}) for row in data["rows"]
        )
        return cls(**{**data, "rows": rows})


def evaluate(
    policy: Policy,
    tasks: Sequence[Task],
    *,
    role: Actor = Actor.STUDENT,
    name: str | None = None,
    limits: Limits | None = None,
    samples_per_task: int = 1,
    seed: int = 0,
    concurrency: int = 64,
    store: RecordStore | None = None,
    on_trajectory: Callable[[Trajectory], None] | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> tuple[EvaluationResult, RolloutSummary]:
    """Play every task of a panel with one policy and score it.

    With a `store`, what it holds already is not played again, so that an interrupted evaluation goes on.
    The panel is always played whole: tasks are never drawn with replacement.
    """
    rule = Never() if role is Actor.STUDENT else ExpertOnly()
    summary = run_rollouts(
        make_jobs(tasks, seed=seed, samples_per_task=samples_per_task),
        policies={role: policy},
        rule=rule,
        limits=limits or Limits(),
        store=store,
        concurrency=concurrency,
        on_trajectory=on_trajectory,
        on_progress=on_progress,
    )
    return result_of(summary.trajectories, name=name or policy.name, policy_version=policy.version), summary


def result_of(trajectories: Iterable[Trajectory], *, name: str, policy_version: str = "") -> EvaluationResult:
    """Score stored trajectories. Of several attempts at one episode the last one counts."""
    stored = latest_attempts(trajectories)
    several = any(one.sample_index for one in stored)
    outcomes: dict[str, bool | None] = {}
    reasons: dict[str, int] = {}
    for one in stored:
        key = f"{one.task_id}#{one.sample_index}" if several else one.task_id
        outcomes[key] = None if one.reward is None else is_solved(one)
        reasons[one.stop_reason.value] = reasons.get(one.stop_reason.value, 0) + 1
    return EvaluationResult(
        name=name,
        policy_version=policy_version,
        num_tasks=len(stored),
        rows=tuple(success_table(stored)),
        outcomes=outcomes,
        stop_reasons=dict(sorted(reasons.items())),
    )


def compare(a: EvaluationResult, b: EvaluationResult, *, num_resamples: int = 10_000, seed: int = 0) -> Comparison:
    """B against A on their common panel."""
    return compare_outcomes(
        a.outcomes, b.outcomes, name_a=a.name, name_b=b.name, num_resamples=num_resamples, seed=seed
    )


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(one) for key, one in value.items()}
    return None if isinstance(value, float) and value != value else value


def _with_nan(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: float("nan") if value is None else value for key, value in row.items()}
