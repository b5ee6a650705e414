"""What came of a run of rollouts, in numbers and one line; and which stored attempts count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tutelage.types import StopReason, Trajectory

JobKey = tuple[str, int, int]
"""(task_id, seed, sample_index): one episode to play, whatever the number of attempts."""


def job_key(trajectory: Trajectory) -> JobKey:
    """The job that a record is an attempt at."""
    return (trajectory.task_id, trajectory.seed, trajectory.sample_index)


def latest_attempts(trajectories: Iterable[Trajectory]) -> list[Trajectory]:
    """Of each job the attempt that counts, the last one; sorted by (task_id, seed, sample_index).

    Example: attempts 0 (env_error) and 1 (completed) of one job -> attempt 1. A file's order depends on who finished
    first; this order does not.
    """
    latest: dict[JobKey, Trajectory] = {}
    for trajectory in trajectories:
        key = job_key(trajectory)
        if key not in latest or trajectory.attempt > latest[key].attempt:
            latest[key] = trajectory
    return [latest[key] for key in sorted(latest)]


@dataclass(frozen=True, kw_only=True, slots=True)
class RolloutSummary:
    """Counts over jobs; each job counts once, by its latest attempt."""

    trajectories: tuple[Trajectory, ...]
    """The latest attempt of each job, in the order of the jobs."""
    num_resumed: int
    """Jobs that the store had already."""
    num_played: int
    """Episodes played in this run, retries included."""
    stop_reasons: Mapping[StopReason, int]
    attempts: Mapping[int, int]
    """Attempt number -> records with it, stored before or played now; of the stored ones only the latest is seen."""
    num_student_steps: int
    num_expert_steps: int
    num_scored: int
    """Jobs with a reward; the others were spoilt by the machinery."""
    reward_sum: float
    num_switched: int
    """Jobs in which the expert acted."""
    switch_sum: int
    """Sum of their switch_index."""
    seconds: float
    """Wall-clock time of this run."""

    @classmethod
    def of(
        cls, *, stored: Sequence[Trajectory], played: Sequence[Trajectory], order: Sequence[JobKey], seconds: float
    ) -> RolloutSummary:
        """From the records found in the store and those of this run; `order` are the jobs."""
        latest = {job_key(trajectory): trajectory for trajectory in latest_attempts([*stored, *played])}
        trajectories = tuple(latest[key] for key in order if key in latest)
        replayed = {job_key(trajectory) for trajectory in played}
        rewards = [trajectory.reward for trajectory in trajectories if trajectory.reward is not None]
        switches = [trajectory.switch_index for trajectory in trajectories if trajectory.switch_index is not None]
        return cls(
            trajectories=trajectories,
            num_resumed=len(trajectories) - len(replayed),
            num_played=len(played),
            stop_reasons=dict(Counter(trajectory.stop_reason for trajectory in trajectories).most_common()),
            attempts=dict(sorted(Counter(trajectory.attempt for trajectory in [*stored, *played]).items())),
            num_student_steps=sum(trajectory.num_student_steps for trajectory in trajectories),
            num_expert_steps=sum(trajectory.num_expert_steps for trajectory in trajectories),
            num_scored=len(rewards),
            reward_sum=sum(rewards),
            num_switched=len(switches),
            switch_sum=sum(switches),
            seconds=seconds,
        )

    @property
    def num_jobs(self) -> int:
        return len(self.trajectories)

    @property
    def mean_reward(self) -> float | None:
        """Over the scored jobs. None: none was scored."""
        return self.reward_sum / self.num_scored if self.num_scored else None

    @property
    def mean_switch(self) -> float | None:
        """Mean switch_index where the expert acted."""
        return self.switch_sum / self.num_switched if self.num_switched else None

    def __str__(self) -> str:
        """One line, e.g. ``500 episodes  482 completed  11 max_steps  7 env_error   mean reward 0.93 ...``"""
        parts = [f"{self.num_jobs} episodes"]
        parts += [f"{count} {reason}" for reason, count in self.stop_reasons.items()]
        if self.mean_reward is not None:
            parts.append(f" mean reward {self.mean_reward:.3f}")
        parts.append(f" steps {self.num_student_steps} student, {self.num_expert_steps} expert")
        if self.mean_switch is not None and self.num_student_steps:
            parts.append(f" expert acted in {self.num_switched} (mean switch {self.mean_switch:.1f})")
        if self.num_resumed:
            parts.append(f" {self.num_resumed} were there already")
        return "  ".join([*parts, f" {self.seconds:.1f} s"])
