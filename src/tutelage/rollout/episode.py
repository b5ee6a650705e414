"""Playing one episode: who acts, what is recorded, why it ends.

`play` is the loop, written once as a generator: it yields what it asks of a policy and is sent the action.
`run_episode` answers it directly; the runner drives many of them and answers in batches.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from tutelage.envs.action_formats import ActionFormat, action_format_of, executed
from tutelage.envs.base import Env
from tutelage.errors import ConfigError, ContextOverflow, EpisodeBudgetSpent
from tutelage.policies.base import PartialTrajectory, Policy
from tutelage.rollout.replay import replay_steps
from tutelage.rollout.switch import RuleSeed, SwitchRule
from tutelage.types import (
    Action,
    Actor,
    FailedAttempt,
    Observation,
    ParseOutcome,
    Step,
    StopReason,
    SwitchEvent,
    Task,
    Trajectory,
    stable_hash,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """Where an episode stops, whichever limit comes first. None: no limit but the environment's own."""

    max_steps: int | None = None
    student_max_steps: int | None = None
    expert_max_steps: int | None = None
    """Counted apart from the student's."""
    episode_seconds: float | None = 600.0
    """Wall-clock limit over all phases: construction, reset, actions, steps, reward. Its end gives `TIMEOUT`."""
    parse_retries: int = 2
    """How often a reply without a command is asked for again. The last one, if malformed too, is made as a step."""
    on_student_limit: Literal["end", "switch"] = "end"
    """What follows when the student may not go on (its steps, its context, a reply cut off, malformed replies)
    before the rule switches: the end of the episode, or an early handover."""

    def __post_init__(self) -> None:
        for name in ("max_steps", "student_max_steps", "expert_max_steps", "episode_seconds"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ConfigError(f"limits: {name} is {value}, expected more than 0, or none")
        if self.parse_retries < 0:
            raise ConfigError(f"limits: parse_retries is {self.parse_retries}, expected 0 or more")
        if self.on_student_limit not in ("end", "switch"):
            raise ConfigError(f"limits: on_student_limit is {self.on_student_limit!r}, expected 'end' or 'switch'")


@dataclass(frozen=True, slots=True)
class Ask:
    """What the loop wants to know: the action of `actor`, the trajectory being what it is."""

    actor: Actor
    so_far: PartialTrajectory


@dataclass(kw_only=True)
class Episode:
    """The record while it grows. After a failure it holds what had happened."""

    task: Task
    policies: Mapping[Actor, Policy]
    rule: SwitchRule
    limits: Limits = field(default_factory=Limits)
    seed: int
    sample_index: int = 0
    attempt: int = 0
    state_hashes: bool = False
    prefix: Sequence[Step] = ()
    """Steps of a stored trajectory to act again before anybody is asked."""
    parent_id: str | None = None
    """The trajectory that `prefix` comes from."""
    steps: list[Step] = field(default_factory=list)
    events: list[SwitchEvent] = field(default_factory=list)
    observation: Observation | None = None
    note: str | None = None
    """What a record without a failure tells as its error: the budget that ended it or a part of it."""
    started: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        missing = sorted(self.rule.roles - self.policies.keys())
        if missing:
            raise ConfigError(
                f"switch rule '{self.rule.name}' needs a policy for the role '{missing[0]}'; none was given"
            )

        if self.limits.on_student_limit == "switch" and Actor.EXPERT not in self.policies:
            raise ConfigError("limits: on_student_limit 'switch' needs a policy for the role 'expert'; none was given")

    @property
    def trajectory_id(self) -> str:
        return f"{self.task.task_id}.{self.rule.name}.s{self.seed}.n{self.sample_index}.a{self.attempt}"

    @property
    def rule_seed(self) -> RuleSeed:
        return RuleSeed(self.seed, self.task.task_id, self.sample_index)

    @property
    def deadline(self) -> float:
        """On the clock of `time.monotonic`."""
        seconds = self.limits.episode_seconds
        return float("inf") if seconds is None else self.started + seconds

    def so_far(self) -> PartialTrajectory:
        assert self.observation is not None
        return PartialTrajectory(
            trajectory_id=self.trajectory_id,
            task=self.task,
            steps=tuple(self.steps),
            observation=self.observation,
            # Own to task and sample, so that samples of a task differ; without the attempt, so that a retry does not.
            seed=stable_hash(self.seed, self.task.task_id, self.sample_index),
        )

    def num_steps(self, actor: Actor) -> int:
        return sum(step.actor is actor for step in self.steps)

    def trajectory(self, stop_reason: StopReason, reward: float | None = None, error: str | None = None) -> Trajectory:
        """The frozen record."""
        return Trajectory(
            trajectory_id=self.trajectory_id,
            task_id=self.task.task_id,
            env=self.task.env,
            task_kind=self.task.kind,
            goal=self.task.goal,
            split=self.task.split,
            steps=tuple(self.steps),
            final_observation=self.observation,
            stop_reason=stop_reason,
            reward=reward,
            seed=self.seed,
            sample_index=self.sample_index,
            attempt=self.attempt,
            switch_rule=self.rule.name,
            drawn_switch=self.rule.drawn(self.rule_seed),
            switch_events=tuple(self.events),
            error=self.note if error is None else error,
            seconds=round(time.monotonic() - self.started, 6),
            parent_id=self.parent_id,
        )


Play = Generator[Ask, Action, Trajectory]
"""Yields what it asks, is sent the action, returns the record. `ContextOverflow` and `EpisodeBudgetSpent` may be thrown in
as an answer."""


def play(episode: Episode, env: Env) -> Play:
    """Play to the end and score. Failures of the environment pass through; `episode` keeps what had happened."""
    stop_reason = yield from _play_steps(episode, env)
    return episode.trajectory(stop_reason, None if stop_reason.is_infrastructure else env.reward())


def _play_steps(episode: Episode, env: Env) -> Generator[Ask, Action, StopReason]:
    rule, limits, task = episode.rule, episode.limits, episode.task
    action_format = action_format_of(env)
    episode.observation = env.reset(task.seed)
    for step, result in replay_steps(env, task, episode.observation, episode.prefix):
        episode.steps.append(step)
        episode.observation = result.observation
        if result.terminated or result.truncated:
            return StopReason.COMPLETED if result.terminated else StopReason.MAX_STEPS
    student_limit: StopReason | None = None
    while True:
        if time.monotonic() >= episode.deadline:
            return StopReason.TIMEOUT
        so_far = episode.so_far()
        actor, reason = rule.next_actor(so_far, episode.rule_seed), rule.describe(episode.rule_seed)
        if actor is Actor.STUDENT and _reached(limits.student_max_steps, episode.num_steps(actor)):
            student_limit = StopReason.MAX_STEPS
        if actor is Actor.STUDENT and student_limit is not None:
            if limits.on_student_limit == "end":
                return student_limit
            actor, reason = Actor.EXPERT, "student_limit"
        if actor is Actor.EXPERT and _reached(limits.expert_max_steps, episode.num_steps(actor)):
            return StopReason.MAX_STEPS
        if _reached(limits.max_steps, len(episode.steps)):
            return StopReason.MAX_STEPS

        try:
            action = yield from _ask(Ask(actor, so_far), action_format, limits.parse_retries)
            label = action if rule.labels else None
            if rule.labels and actor is not Actor.EXPERT:
                label = yield from _ask(Ask(Actor.EXPERT, so_far), action_format, limits.parse_retries)
        except ContextOverflow:
            if actor is Actor.EXPERT:
                return StopReason.CONTEXT_OVERFLOW
            student_limit = StopReason.CONTEXT_OVERFLOW
            continue
        except EpisodeBudgetSpent as error:
            episode.note = str(error)
            if actor is Actor.EXPERT:
                return StopReason.MAX_STEPS
            student_limit = StopReason.MAX_STEPS
            continue
        if actor is not _last_actor(episode):
            episode.events.append(SwitchEvent(step_index=len(episode.steps), actor=actor, reason=reason))

        result = env.step(action)
        step = Step(
            observation=so_far.observation,
            action=action,
            actor=actor,
            expert_action=label,
            reward=result.reward,
            policy_version=episode.policies[actor].version,
            state_hash=env.state_hash() if episode.state_hashes else None,
        )
        episode.steps.append(step)
        episode.observation = result.observation
        cut = _reply_limit(action)
        # A reply that was cut off is never a completed episode, even if the part that came was enough to win.
        if result.terminated and cut is not StopReason.MAX_TOKENS:
            return StopReason.COMPLETED
        if result.truncated:
            return StopReason.MAX_STEPS
        if cut is not None and (actor is Actor.EXPERT or result.terminated):
            return cut
        student_limit = cut or student_limit


def _ask(ask: Ask, action_format: ActionFormat | None, retries: int) -> Generator[Ask, Action, Action]:
    """The action asked for, a malformed one only after `retries` more tries; failed replies are kept with it."""
    failed: list[FailedAttempt] = []
    action = _read((yield ask), action_format)
    while action.parse is ParseOutcome.MALFORMED and len(failed) < retries:
        num_tokens = None if action.token_ids is None else len(action.token_ids)
        failed.append(FailedAttempt(text=action.text, num_tokens=num_tokens, error=action.parse.value))
        # Another seed, or a policy that samples by the seed would give the same reply again.
        seed = stable_hash(ask.so_far.seed, "retry", len(failed))
        action = _read((yield Ask(ask.actor, dataclasses.replace(ask.so_far, seed=seed))), action_format)
    return dataclasses.replace(action, attempts=(*failed, *action.attempts)) if failed else action


def _read(action: Action, action_format: ActionFormat | None) -> Action:
    # With a format of its own a policy may say the plain command of an environment as a call.
    return executed(action, action_format)


def _reached(limit: int | None, count: int) -> bool:
    return limit is not None and count >= limit


def _reply_limit(action: Action) -> StopReason | None:
    """The limit that a reply shows its author has met."""
    limits = {ParseOutcome.ENDED_WITHOUT_STOP: StopReason.MAX_TOKENS, ParseOutcome.MALFORMED: StopReason.PARSE_ERROR}
    return limits.get(action.parse)


def _last_actor(episode: Episode) -> Actor:
    """Who made the last step. Before the first: the student is on turn, where the rule has one."""
    if episode.steps:
        return episode.steps[-1].actor
    return Actor.STUDENT if Actor.STUDENT in episode.rule.roles else Actor.EXPERT


def run_episode(
    task: Task,
    env: Env,
    policies: Mapping[Actor, Policy],
    rule: SwitchRule,
    limits: Limits = Limits(),
    *,
    seed: int,
    sample_index: int = 0,
    attempt: int = 0,
    state_hashes: bool = False,
    prefix: Sequence[Step] = (),
    parent_id: str | None = None,
) -> Trajectory:
    """Play one episode, close the environment, return the record.

    Failures of environment and policy are raised as they are; `run_rollouts` turns them into records. The time limit
    is tested between steps. `prefix`: steps of the stored trajectory `parent_id` to act again first, each checked.
    """
    episode = Episode(
        task=task,
        policies=policies,
        rule=rule,
        limits=limits,
        seed=seed,
        sample_index=sample_index,
        attempt=attempt,
        state_hashes=state_hashes,
        prefix=prefix,
        parent_id=parent_id,
    )
    loop = play(episode, env)
    try:
        ask = next(loop)
        while True:
            try:
                action = policies[ask.actor].act(ask.so_far)
            except (ContextOverflow, EpisodeBudgetSpent) as error:
                ask = loop.throw(error)
            else:
                ask = loop.send(action)
    except StopIteration as end:
        trajectory: Trajectory = end.value
        return trajectory
    finally:
        env.close()
        for policy in policies.values():
            policy.release(episode.trajectory_id)
