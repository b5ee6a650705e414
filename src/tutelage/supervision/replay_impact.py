"""What happens when a step is taken away: the causal impact of each step, measured by acting the episode again.

    impact = replay_impact(trajectory, task)
    impact.impact          # [N] success drop + progress drop + half the share of later commands that become invalid

For every step t the environment executes a_0 .. a_{t-1}, then (intervention) nothing or one idle command, then
a_{t+1} .. a_{N-1} as recorded, until the episode ends. Before anything is measured the record itself is replayed and must
be met exactly. An environment that can go back to an earlier moment (`Snapshotting`) acts only what follows the step;
the numbers are the same.

Example, "go, take, go, put": without the take the put is refused and the task fails:
  success_drop 1, invalid_share 1/2 (put, of the two later commands), impact 1.25 plus the drop in progress
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from tutelage.envs.base import Env, ReportsProgress, Snapshotting, StepResult, is_no_effect
from tutelage.envs.registry import make_env as make_registered_env
from tutelage.errors import EnvError, SupervisionError
from tutelage.rollout.replay import ReplayMismatch, replay_steps
from tutelage.types import Action, StopReason, Task, Trajectory

Intervention = Literal["omit", "noop"]

INTERVENTIONS: Final[tuple[Intervention, ...]] = ("omit", "noop")
"""Leave the step out (one step less is spent), or put an idle command in its place."""

INVALID_WEIGHT: Final = 0.5
"""What the invalid share counts for in the impact."""


class ReplayRejected(SupervisionError):
    """A record that the environment does not repeat, so that nothing can be said about its steps."""

    def __init__(self, trajectory_id: str, reason: str, detail: str) -> None:
        super().__init__(f"trajectory {trajectory_id}: replay rejected ({reason}): {detail}")
        self.trajectory_id = trajectory_id
        self.reason = reason
        """For counting: ``no_steps``, ``not_scored``, ``other_task``, ``env_error``, ``stop_reason``, ``total_reward``,
        or what of a step differs: ``observation``, ``reward``, ``state_hash``, ``end``."""
        self.detail = detail

    def __reduce__(self) -> tuple[type[ReplayRejected], tuple[str, str, str]]:
        return (ReplayRejected, (self.trajectory_id, self.reason, self.detail))


@dataclass(frozen=True, kw_only=True, slots=True)
class StepImpact:
    """The measured impact of each step of one trajectory."""

    trajectory_id: str
    success: bool
    """Of the record itself."""
    success_drop: tuple[float, ...]
    """[N] S: success as recorded minus success without the step; 1, 0, or -1 where leaving it out wins a lost episode."""
    progress_drop: tuple[float, ...] | None
    """[N] G: share of goal conditions met at the end, as recorded minus without the step. None: the environment does
    not tell, and the term is left out of the impact."""
    invalid_share: tuple[float, ...]
    """[N] B: share of the later commands that the environment accepted in the record and refuses without the step;
    0 for the last step. A command that was refused anyway, or is not reached any more, does not count."""
    intervention: Intervention
    num_env_steps: int
    """Environment steps spent, the validation included."""

    @property
    def impact(self) -> tuple[float, ...]:
        """[N] S + G + 0.5 B."""
        progress = self.progress_drop or (0.0,) * len(self.success_drop)
        return tuple(
            success + gained + INVALID_WEIGHT * invalid
            for success, gained, invalid in zip(self.success_drop, progress, self.invalid_share, strict=True)
        )


def replay_impact(
    trajectory: Trajectory,
    task: Task,
    make_env: Callable[[Task], Env] = make_registered_env,
    intervention: Intervention = "omit",
    *,
    idle_command: str = "look",
    min_reward: float = 1.0,
    use_snapshots: bool = True,
) -> StepImpact:
    """Measure the impact of every step of a stored trajectory.

    idle_command: what `noop` does instead of the step; it should change nothing in the environment.
    min_reward: reward from which a completed episode is a success.
    use_snapshots: False acts every prefix again in a fresh environment, also where going back is possible.
    Raises `ReplayRejected` where the record is not met: every observation and reward, the ending and the total reward.
    """
    if intervention not in INTERVENTIONS:
        raise ValueError(f"intervention is {intervention!r}, expected one of {', '.join(INTERVENTIONS)}")
    _check_record(trajectory, task)
    idle = Action.of(idle_command) if intervention == "noop" else None
    env: Env | None = None
    try:
        env = make_env(task)
        record = _act_record(env, trajectory, task, min_reward, use_snapshots)
        again = _Again(env, trajectory, task, make_env, record, idle, min_reward)
        outcomes = [again.without(index) for index in range(len(trajectory.steps))]
    except ReplayMismatch as error:
        detail = f"step {error.step_index}: got {error.got!r}, the record says {error.expected!r}"
        raise ReplayRejected(trajectory.trajectory_id, error.what.replace(" ", "_"), detail) from error
    except EnvError as error:
        raise ReplayRejected(trajectory.trajectory_id, "env_error", str(error)) from error
    finally:
        if env is not None:
            env.close()
    end = record.end
    drops = [None if end.progress is None or one.progress is None else end.progress - one.progress for one in outcomes]
    progress_drop = tuple(drop for drop in drops if drop is not None)
    return StepImpact(
        trajectory_id=trajectory.trajectory_id,
        success=end.success,
        success_drop=tuple(float(end.success) - float(one.success) for one in outcomes),
        progress_drop=progress_drop if len(progress_drop) == len(outcomes) else None,
        invalid_share=tuple(one.num_invalid / max(1, one.num_later) for one in outcomes),
        intervention=intervention,
        num_env_steps=record.end.num_env_steps + sum(one.num_env_steps for one in outcomes),
    )


@dataclass(frozen=True, slots=True)
class _Acceptance:
    """How the environment took a command."""

    listed: bool | None
    """It stood among the admissible commands. None: the environment lists none."""
    effective: bool
    """The reply was not one of those that say that nothing happened."""

    def refused_now(self, now: _Acceptance) -> bool:
        """Accepted in the record (self) and refused now: no longer listed, or answered that nothing happened."""
        return (self.effective and not now.effective) or (self.listed is True and now.listed is False)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Outcome:
    """How one run of the commands ended."""

    success: bool
    progress: float | None
    num_env_steps: int
    num_later: int = 0
    """Recorded commands after the step that was taken away."""
    num_invalid: int = 0
    """Of those, how many the environment refuses now."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Record:
    """The record, acted and met."""

    end: _Outcome
    accepted: list[_Acceptance]
    moments: list[object]
    """Snapshots before each step; empty where the environment cannot go back."""


def _check_record(trajectory: Trajectory, task: Task) -> None:
    if trajectory.task_id != task.task_id:
        raise ReplayRejected(
            trajectory.trajectory_id, "other_task", f"it was played on {trajectory.task_id}, got {task.task_id}"
        )
    if not trajectory.steps:
        raise ReplayRejected(trajectory.trajectory_id, "no_steps", "the record holds no step")
    if trajectory.reward is None:
        raise ReplayRejected(
            trajectory.trajectory_id, "not_scored", f"it ended by {trajectory.stop_reason} without a reward"
        )


def _act_record(env: Env, trajectory: Trajectory, task: Task, min_reward: float, use_snapshots: bool) -> _Record:
    """Act all steps as recorded. Raises `ReplayMismatch` at the first difference."""
    steps = trajectory.steps
    keeper = env if use_snapshots and isinstance(env, Snapshotting) else None
    accepted: list[_Acceptance] = []
    moments: list[object] = []
    observation = env.reset(task.seed)
    listed = _listed(env, steps[0].action)
    result: StepResult | None = None
    if keeper is not None:
        moments.append(keeper.snapshot())
    for index, (_, result) in enumerate(replay_steps(env, task, observation, steps)):
        observation = result.observation
        accepted.append(_Acceptance(listed, not is_no_effect(observation.text)))
        if index + 1 < len(steps):
            listed = _listed(env, steps[index + 1].action)
            if keeper is not None:
                moments.append(keeper.snapshot())
    assert result is not None
    end, reward = len(steps), env.reward()
    for what, expected, got in (
        ("observation", trajectory.final_observation, observation),
        ("total reward", trajectory.reward, reward),
        ("stop_reason", trajectory.stop_reason, _stop_reason(result, trajectory.stop_reason)),
    ):
        if expected != got:
            raise ReplayMismatch(task_id=task.task_id, step=end, what=what, expected=expected, got=got)
    return _Record(end=_outcome(env, result, min_reward, num_env_steps=end), accepted=accepted, moments=moments)


def _stop_reason(last: StepResult, recorded: StopReason) -> StopReason:
    """The stop reason that the environment stands for; where it had not ended, a limit of the rollout had."""
    if last.terminated:
        return StopReason.COMPLETED
    if last.truncated:
        return StopReason.MAX_STEPS
    return StopReason.INTERRUPTED if recorded is StopReason.COMPLETED else recorded


@dataclass(frozen=True, slots=True)
class _Again:
    """Acts a record again without one of its steps."""

    env: Env
    trajectory: Trajectory
    task: Task
    make_env: Callable[[Task], Env]
    record: _Record
    idle: Action | None
    min_reward: float

    def without(self, index: int) -> _Outcome:
        """Without step `index`: from the moment before it, or in a fresh environment."""
        if self.record.moments:
            assert isinstance(self.env, Snapshotting)
            self.env.restore(self.record.moments[index])
            return self._act_rest(self.env, index, num_env_steps=0)
        fresh = self.make_env(self.task)
        try:
            fresh.reset(self.task.seed)
            for step in self.trajectory.steps[:index]:
                fresh.step(step.action)
            return self._act_rest(fresh, index, num_env_steps=index)
        finally:
            fresh.close()

    def _act_rest(self, env: Env, index: int, *, num_env_steps: int) -> _Outcome:
        """From before step `index`: the idle command if there is one, then the later commands until the episode ends."""
        result: StepResult | None = None
        num_invalid = 0
        steps = self.trajectory.steps
        if self.idle is not None:
            result = env.step(self.idle)
            num_env_steps += 1
        for later in range(index + 1, len(steps)):
            if result is not None and (result.terminated or result.truncated):
                break
            listed = _listed(env, steps[later].action)
            result = env.step(steps[later].action)
            num_env_steps += 1
            now = _Acceptance(listed, not is_no_effect(result.observation.text))
            num_invalid += self.record.accepted[later].refused_now(now)
        return _outcome(
            env,
            result,
            self.min_reward,
            num_env_steps=num_env_steps,
            num_later=len(steps) - 1 - index,
            num_invalid=num_invalid,
        )


def _outcome(env: Env, last: StepResult | None, min_reward: float, **counts: int) -> _Outcome:
    won = last is not None and last.terminated and (env.reward() or 0.0) >= min_reward
    return _Outcome(success=won, progress=env.progress() if isinstance(env, ReportsProgress) else None, **counts)


def _listed(env: Env, action: Action) -> bool | None:
    admissible = env.admissible()
    return None if admissible is None else action.command in admissible
