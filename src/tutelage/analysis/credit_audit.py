"""The audit over many trajectories: replay each without each of its steps, and collect what the signals say.

result = run_audit(trajectories, {task.task_id: task for task in tasks}, workers=2)
rows = credit_table(score_cases(result.cases))
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import islice
from multiprocessing import get_context
from typing import Final, NamedTuple

from tutelage.analysis.credit import CreditCase
from tutelage.analysis.credit_signals import DEFAULT_SIGNALS, check_signals, signals_of
from tutelage.errors import ConfigError
from tutelage.supervision.replay_impact import Intervention, ReplayRejected, replay_impact
from tutelage.types import StepAptitude, Task, Trajectory

CHUNK: Final = 16
"""Trajectories that a worker gets at a time."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rejection:
    """A trajectory that its environment does not repeat."""

    trajectory_id: str
    reason: str
    detail: str


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditResult:
    """What came of the replays, in the order of the trajectories."""

    cases: tuple[CreditCase, ...]
    rejections: tuple[Rejection, ...]
    num_env_steps: int
    """Environment steps spent on the cases, validation included."""
    seconds: float

    @property
    def rejected(self) -> dict[str, int]:
        """Reason -> number of trajectories."""
        return dict(sorted(Counter(one.reason for one in self.rejections).items()))


class _Work(NamedTuple):
    trajectory: Trajectory
    task: Task
    aptitude: StepAptitude | None


def run_audit(
    trajectories: Iterable[Trajectory],
    tasks: Mapping[str, Task],
    *,
    signals: Sequence[str] = DEFAULT_SIGNALS,
    aptitudes: Mapping[str, StepAptitude] | None = None,
    intervention: Intervention = "omit",
    seed: int = 0,
    workers: int = 1,
    on_progress: Callable[[int, int], None] | None = None,
) -> AuditResult:
    """Audit every trajectory. `tasks` by task id, `aptitudes` of a teacher by trajectory id.

    workers: processes side by side; the result does not depend on it. on_progress gets the numbers done and in all.
    Raises ConfigError where a trajectory's task is missing.
    """
    names = check_signals(signals)
    works = [_Work(one, _task_of(one, tasks), (aptitudes or {}).get(one.trajectory_id)) for one in trajectories]
    started = time.monotonic()
    cases: list[CreditCase] = []
    rejections: list[Rejection] = []
    for done, outcome in enumerate(_outcomes(works, names, intervention, seed, workers), start=1):
        if isinstance(outcome, Rejection):
            rejections.append(outcome)
        else:
            cases.append(outcome)
        if on_progress is not None:
            on_progress(done, len(works))
    return AuditResult(
        cases=tuple(cases),
        rejections=tuple(rejections),
        num_env_steps=sum(case.impact.num_env_steps for case in cases),
        seconds=time.monotonic() - started,
    )


def _task_of(trajectory: Trajectory, tasks: Mapping[str, Task]) -> Task:
    if trajectory.task_id not in tasks:
        raise ConfigError(
            f"audit: trajectory {trajectory.trajectory_id} was played on task {trajectory.task_id}, which is not among "
            f"the {len(tasks)} tasks given. Give the tasks it was made of."
        )
    return tasks[trajectory.task_id]


def _outcomes(
    works: Sequence[_Work], names: tuple[str, ...], intervention: Intervention, seed: int, workers: int
) -> Iterator[CreditCase | Rejection]:
    if workers == 1 or len(works) <= CHUNK:
        for work in works:
            yield _audit(work, names, intervention, seed)
        return
    remaining = iter(works)
    chunks = list(iter(lambda: list(islice(remaining, CHUNK)), []))
    # Spawned, not forked: the caller may have threads (torch) that a fork would leave behind locked.
    with ProcessPoolExecutor(min(workers, len(chunks)), mp_context=get_context("spawn")) as pool:
        futures = [pool.submit(_audit_chunk, chunk, names, intervention, seed) for chunk in chunks]
        for future in futures:
            yield from future.result()


def _audit_chunk(
    works: Sequence[_Work], names: tuple[str, ...], intervention: Intervention, seed: int
) -> list[CreditCase | Rejection]:
    return [_audit(work, names, intervention, seed) for work in works]


def _audit(work: _Work, names: tuple[str, ...], intervention: Intervention, seed: int) -> CreditCase | Rejection:
    trajectory, task, aptitude = work
    try:
        impact = replay_impact(trajectory, task, intervention=intervention)
    except ReplayRejected as rejected:
        return Rejection(trajectory_id=trajectory.trajectory_id, reason=rejected.reason, detail=rejected.detail)
    return CreditCase(
        trajectory_id=trajectory.trajectory_id,
        task_id=trajectory.task_id,
        kind=trajectory.task_kind,
        impact=impact,
        signals=signals_of(trajectory, task, names, aptitude, seed=seed),
    )
