"""One round's episodes: groups of the student's own play -> credit -> training samples.

tasks -> play G times each -> advantages within the group -> (a guide's step weights and teacher scores) -> samples
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import numpy as np

from tutelage.envs.action_formats import ActionFormat
from tutelage.envs.base import Env
from tutelage.envs.registry import make_env as make_registered_env
from tutelage.policies.base import Policy, Scorer
from tutelage.rendering.base import Renderer
from tutelage.rendering.context import ContextRule, Full
from tutelage.rollout.episode import Limits
from tutelage.rollout.runner import make_jobs, run_rollouts
from tutelage.rollout.switch import Never
from tutelage.store import RecordStore
from tutelage.supervision.advantages import GroupAdvantages, group_advantages, step_scores
from tutelage.supervision.distill import TrajectoryScores, attach_teacher
from tutelage.supervision.effects import ineffective_steps
from tutelage.supervision.samples import Layout, SampleLedger, build_samples
from tutelage.training.rl_config import RLConfig
from tutelage.types import (
    Actor,
    LossComponent,
    StepSupervision,
    Task,
    TrainingSample,
    Trajectory,
    TrajectoryGroup,
)


@dataclass(frozen=True, kw_only=True)
class Play:
    """How episodes are played, in a round and in training samples alike."""

    limits: Limits = field(default_factory=partial(Limits, on_student_limit="end"))
    context_rule: ContextRule = field(default_factory=Full)
    layout: Layout = "whole"
    """``whole``, or ``per_step`` where the context is shortened as an episode goes on."""
    max_action_tokens: int = 24
    max_context: int = 2048
    renderer: Renderer | None = None
    """How the model reads and writes. None: as its folder says, without instructions."""
    action_format: ActionFormat | None = None
    """In which the model writes actions. None: as the environment reads them."""
    make_env: Callable[[Task], Env] = make_registered_env


@dataclass(frozen=True, kw_only=True, slots=True)
class Guidance:
    """What a teacher has to say about one trajectory."""

    step_weights: tuple[float, ...]
    """[N] weight of each step in the distillation, >= 0."""
    scores: TrajectoryScores
    """The teacher's log-probabilities of the student's tokens. A step without them is not taught."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GuidedRound:
    """A guide's answer to one round."""

    guidance: Mapping[str, Guidance]
    """By trajectory id. A trajectory that is missing is not taught."""
    metrics: Mapping[str, float]
    teacher_tokens: int
    """Tokens that the teacher read, its own context included."""


class Guide(Protocol):
    """Says which steps of a round a teacher teaches, and what it thinks of their tokens."""

    def attach(self, student: Any, state: Mapping[str, Any] | None) -> None:
        """Called once before the first round, with the module in training and what `state` gave at the checkpoint."""
        ...

    def guide(
        self, groups: Sequence[TrajectoryGroup], tasks: Mapping[str, Task], student: Scorer, round_index: int
    ) -> GuidedRound: ...

    def distributions(self, trajectory_ids: Sequence[str]) -> Mapping[str, TrajectoryScores]:
        """The teacher's scores with the access ``full`` of trajectories of the round that was guided last."""
        ...

    def identity(self) -> Mapping[str, Any]:
        """Plain values that tell this guide from another."""
        ...

    def state(self) -> Mapping[str, Any]:
        """What it needs to go on after a stop: plain values and tensors."""
        ...


@dataclass(kw_only=True)
class Round:
    """A round, ready to be learnt from."""

    samples: list[TrainingSample]
    groups: list[TrajectoryGroup]
    guided: GuidedRound | None
    num_episodes: int
    """Scored ones."""
    env_steps: int
    metrics: dict[str, float] = field(default_factory=dict)


def play_groups(
    policy: Policy, tasks: Sequence[Task], config: RLConfig, play: Play, seed: int, store: RecordStore | None = None
) -> list[TrajectoryGroup]:
    """Each task `group_size` times, by the student alone. What the store holds is not played again."""
    jobs = make_jobs(tasks, seed=seed, samples_per_task=config.group_size)
    played = run_rollouts(
        jobs,
        policies={Actor.STUDENT: policy},
        rule=Never(),
        limits=play.limits,
        store=store,
        concurrency=config.concurrency,
        make_env=play.make_env,
    )
    by_task: dict[str, list[Trajectory]] = defaultdict(list)
    for trajectory in played.trajectories:
        by_task[trajectory.task_id].append(trajectory)
    return [TrajectoryGroup(group_id=task_id, trajectories=tuple(one)) for task_id, one in by_task.items()]


def build_round(
    groups: list[TrajectoryGroup],
    renderer: Renderer,
    config: RLConfig,
    play: Play,
    guided: GuidedRound | None = None,
) -> Round:
    """Credit and samples of the episodes of a round. An episode that was not scored has neither, and is counted."""
    samples: list[TrainingSample] = []
    ledger = SampleLedger()
    credits = [_credit(group, config) for group in groups]
    scored: list[Trajectory] = []
    for group, credit in zip(groups, credits, strict=True):
        for trajectory, advantages in zip(group.trajectories, credit.steps, strict=True):
            if advantages is None or not trajectory.steps:
                continue
            scored.append(trajectory)
            guidance = guided.guidance.get(trajectory.trajectory_id) if guided else None
            supervision = _supervision(trajectory, advantages, guidance)
            built = build_samples(trajectory, supervision, renderer, play.context_rule, play.layout, ledger=ledger)
            samples += built
    metrics = _metrics(groups, credits, scored)
    if guided is not None:
        samples, attached = attach_teacher(samples, [one.scores for one in guided.guidance.values()])
        metrics |= dict(guided.metrics) | {
            "distill/tokens": float(attached.distill_tokens),
            "distill/masked_tokens": float(sum(attached.masked_tokens.values())),
        }
    metrics |= {
        "rollout/policy_tokens": float(sum(ledger.trained_tokens.values())),
        "rollout/drifted_actions": float(ledger.drifted_actions),
        "rollout/forks": float(ledger.num_forks),
    }
    return Round(
        samples=samples,
        groups=groups,
        guided=guided,
        num_episodes=len(scored),
        env_steps=sum(len(trajectory.steps) for trajectory in scored),
        metrics=metrics,
    )


def _credit(group: TrajectoryGroup, config: RLConfig) -> GroupAdvantages:
    scores = [
        step_scores(
            trajectory,
            ineffective_steps(trajectory),
            reward_scale=config.reward_scale,
            invalid_action_penalty=config.invalid_action_penalty,
        )
        for trajectory in group.trajectories
    ]
    return group_advantages(scores, std=config.std, statistics=config.statistics)


def _supervision(trajectory: Trajectory, advantages: tuple[float, ...], guidance: Guidance | None) -> StepSupervision:
    students = tuple(step.actor is Actor.STUDENT for step in trajectory.steps)
    weights: dict[LossComponent, tuple[float, ...]] = {LossComponent.PG: tuple(float(one) for one in students)}
    weights[LossComponent.DISTILL] = guidance.step_weights if guidance else (0.0,) * len(students)
    return StepSupervision(
        trajectory_id=trajectory.trajectory_id,
        step_mask=students,
        step_weights=weights,
        source="group_relative",
        step_advantages=advantages,
    )


def _metrics(
    groups: Sequence[TrajectoryGroup], credits: Sequence[GroupAdvantages], scored: Sequence[Trajectory]
) -> dict[str, float]:
    ineffective = [flag for trajectory in scored for flag in ineffective_steps(trajectory)]
    rewards = [trajectory.reward for trajectory in scored if trajectory.reward is not None]

    def mean(values: Sequence[Any]) -> float:
        return float(np.mean(values)) if len(values) else float("nan")

    return {
        "rollout/success": mean([reward > 0 for reward in rewards]),
        "rollout/reward": mean(rewards),
        "rollout/steps": mean([len(trajectory.steps) for trajectory in scored]),
        "rollout/ineffective_share": mean(ineffective),
        "rollout/truncated_share": mean([not trajectory.terminated for trajectory in scored]),
        "groups/num": float(len(groups)),
        "groups/zero_variance": float(sum(credit.zero_variance for credit in credits)),
        "groups/unscored_episodes": float(sum(credit.num_unscored + credit.num_non_finite for credit in credits)),
        "groups/non_finite_episodes": float(sum(credit.num_non_finite for credit in credits)),
        "groups/partial": float(
            sum(0 < credit.num_unscored + credit.num_non_finite < len(credit.steps) for credit in credits)
        ),
    }
