"""Episodes that the checks look at: who plays them, and all that the environment says meanwhile."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Protocol

from tutelage.envs.action_formats import ActionFormat, action_format_of, action_of
from tutelage.envs.base import Env, ReportsProgress, StepResult
from tutelage.evaluation.env_check.report import Fault, short
from tutelage.policies.base import PartialTrajectory, Policy
from tutelage.types import (
    Action,
    Actor,
    Observation,
    ParsedCall,
    ParseOutcome,
    Step,
    StopReason,
    Task,
    Trajectory,
    stable_hash,
)

MALFORMED: Final = Action(text="", command=None, parse=ParseOutcome.MALFORMED)
"""A reply without an action."""
NONSENSE: Final = "xyzzy"
"""A word that is no command of any environment."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """Everything that can be seen of an environment after its reset or after a step."""

    observation: Observation
    reward: float | None = None
    terminated: bool = False
    truncated: bool = False
    state_hash: str | None = None
    admissible: tuple[str, ...] | None = None
    progress: float | None = None

    @property
    def ended(self) -> bool:
        return self.terminated or self.truncated


@dataclass(frozen=True, kw_only=True, slots=True)
class Recording:
    """One episode as it was played."""

    player: str
    task: Task
    start: Seen
    actions: tuple[Action, ...]
    """[N] as the environment got them."""
    seen: tuple[Seen, ...]
    """[N] after each action."""
    reward: float | None
    """Of the whole episode."""
    step_seconds: tuple[float, ...]
    """[N] wall-clock time of each step, without the questions that follow it."""

    @property
    def where(self) -> str:
        """For messages."""
        return f"task {self.task.task_id}, {self.player} plays"

    @property
    def won(self) -> bool:
        """The task itself ended, with a reward."""
        return bool(self.seen) and self.seen[-1].terminated and bool(self.reward)

    def moments(self) -> Iterator[tuple[str, Seen]]:
        """After the reset and after each step, with the place for messages."""
        yield f"{self.where}, reset", self.start
        for index, seen in enumerate(self.seen):
            yield f"{self.where}, step {index}", seen

    def trajectory(self) -> Trajectory:
        """The record that a rollout would have made of it."""
        before = (self.start, *self.seen)
        last = before[-1]
        return Trajectory(
            trajectory_id=f"{self.task.task_id}.{self.player.replace(' ', '_')}",
            task_id=self.task.task_id,
            env=self.task.env,
            task_kind=self.task.kind,
            goal=self.task.goal,
            split=self.task.split,
            steps=tuple(
                Step(observation=seen.observation, action=action, actor=Actor.EXPERT)
                for seen, action in zip(before, self.actions, strict=False)
            ),
            final_observation=last.observation,
            stop_reason=StopReason.COMPLETED if last.terminated else StopReason.MAX_STEPS,
            reward=self.reward,
            seed=0,
        )

    def asks(self) -> list[PartialTrajectory]:
        """[N] what a policy is given to act on at each step."""
        steps = self.trajectory().steps
        return [_so_far(self.task, steps[:index], step.observation) for index, step in enumerate(steps)]


class Player(Protocol):
    """Chooses the next action of an episode. It may look at the environment; a policy may not."""

    def __call__(self, so_far: PartialTrajectory, now: Seen) -> Action: ...


def play(player: str, choose: Player, env: Env, task: Task, *, cap: int) -> Recording:
    """Play an episode to its end, or for `cap` steps, and close the environment."""
    action_format = action_format_of(env)
    actions: list[Action] = []
    seen: list[Seen] = []
    seconds: list[float] = []
    steps: list[Step] = []
    try:
        now = start = look(env, env.reset(task.seed))
        while not now.ended and len(actions) < cap:
            action = choose(_so_far(task, tuple(steps), now.observation), now)
            action = action if action_format is None else action_format.apply(action)
            steps.append(Step(observation=now.observation, action=action, actor=Actor.EXPERT))
            started = time.perf_counter()
            result = env.step(action)
            seconds.append(time.perf_counter() - started)
            now = look(env, result)
            actions.append(action)
            seen.append(now)
        reward = env.reward()
    except Exception as error:
        error.add_note(f"task {task.task_id}, {player} plays, step {len(actions)}")
        raise
    finally:
        env.close()
    return Recording(
        player=player,
        task=task,
        start=start,
        actions=tuple(actions),
        seen=tuple(seen),
        reward=reward,
        step_seconds=tuple(seconds),
    )


def look(env: Env, answer: Observation | StepResult) -> Seen:
    """All that the environment says after a reset or a step."""
    result = answer if isinstance(answer, StepResult) else None
    admissible = env.admissible()
    return Seen(
        observation=answer.observation if isinstance(answer, StepResult) else answer,
        reward=None if result is None else result.reward,
        terminated=result is not None and result.terminated,
        truncated=result is not None and result.truncated,
        state_hash=env.state_hash(),
        admissible=None if admissible is None else tuple(admissible),
        progress=env.progress() if isinstance(env, ReportsProgress) else None,
    )


def replay(env: Env, recording: Recording, stop: int | None = None) -> Iterator[Seen]:
    """Act a recording's first `stop` actions in a fresh environment; first comes what its reset shows. Closes nothing."""
    yield look(env, env.reset(recording.task.seed))
    for action in recording.actions[:stop]:
        yield look(env, env.step(action))


def require_same(where: str, got: Seen, expected: Seen, *, source: str, remedy: str) -> None:
    """Raise `Fault` where two moments differ. source: where the expected one comes from, e.g. ``the first play``."""
    for one in fields(Seen):
        mine, theirs = getattr(got, one.name), getattr(expected, one.name)
        if mine != theirs:
            raise Fault(
                f"{where}: {one.name}", got=_shown(mine), expected=f"{_shown(theirs)} as in {source}", remedy=remedy
            )


def _shown(value: Any) -> str:
    return short(value.text if isinstance(value, Observation) else value)


# Players


def no_op(so_far: PartialTrajectory, now: Seen) -> Action:
    """Says nothing that could be an action."""
    return MALFORMED


def nonsense(action_format: ActionFormat | None) -> Player:
    """Says a word that is no command; where actions have structure, as the argument of each call in turn."""
    calls = _calls_of(action_format)
    actions = [action_of(action_format, call) for call in calls] if action_format else []
    actions = actions or [Action.of(NONSENSE)]
    return lambda so_far, now: actions[len(so_far.steps) % len(actions)]


def _calls_of(action_format: ActionFormat | None) -> list[ParsedCall]:
    """Every call that a format knows, with nonsense for arguments."""
    tools: Mapping[str, Sequence[str]] = getattr(action_format, "tools", {})
    tags: Mapping[str, str] = getattr(action_format, "tags", {})
    known = {**tools, **{tag: (argument,) for tag, argument in tags.items()}}
    return [ParsedCall(name=name, arguments=dict.fromkeys(arguments, NONSENSE)) for name, arguments in known.items()]


def of_policy(policy: Policy) -> Player:
    """A policy as a player."""
    return lambda so_far, now: policy.act(so_far)


def random_player(pool: Sequence[Action], seed: int = 0) -> Player:
    """Draws one of the admissible commands, or of the actions in `pool` where the list is open; one in ten is malformed.

    The draw depends on the seed, the task and the step index alone.
    """

    def choose(so_far: PartialTrajectory, now: Seen) -> Action:
        rng = random.Random(stable_hash("random player", seed, so_far.task.task_id, len(so_far.steps)))
        if rng.random() < 0.1:
            return MALFORMED
        if now.admissible:
            return Action.of(rng.choice(now.admissible))
        return rng.choice(pool) if pool else Action.of(NONSENSE)

    return choose


def then(first: Player, num_steps: int, second: Player) -> Player:
    """One player for some steps, then another."""
    return lambda so_far, now: (first if len(so_far.steps) < num_steps else second)(so_far, now)


def step_limit(task: Task) -> int | None:
    """Steps before an episode of the task is truncated. None: the world behind the environment decides."""
    limit = task.settings.get("max_steps")
    return None if limit is None else int(limit)


def with_max_steps(task: Task, max_steps: int) -> Task:
    """The same task with another step limit."""
    return replace(task, settings={**task.settings, "max_steps": max_steps})


def must_refuse(where: str, what: str, call: Callable[[], object], remedy: str) -> None:
    """Raise `Fault` unless the call raises."""
    try:
        call()
    except Exception:
        return
    raise Fault(f"{where}: {what}", got="it went through", expected="an EnvError", remedy=remedy)


def _so_far(task: Task, steps: tuple[Step, ...], observation: Observation) -> PartialTrajectory:
    return PartialTrajectory(
        trajectory_id=f"{task.task_id}.check",
        task=task,
        steps=steps,
        observation=observation,
        seed=stable_hash(0, task.task_id, 0),
    )
