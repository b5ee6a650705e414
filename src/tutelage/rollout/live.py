"""One live episode behind the failure boundary.

Whatever environment and policies raise is classified here, and only here: it ends this episode, stays with its
partial record, and never touches a sibling. Two kinds pass through, because every episode would meet them: errors
that the user must mend (a recipe, a missing extra, a broken file), and bugs of the loop itself.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from tutelage.envs.action_formats import action_format_of
from tutelage.envs.base import Env, StepResult
from tutelage.errors import (
    ConfigError,
    ContextOverflow,
    EnvError,
    EpisodeBudgetSpent,
    FormatError,
    MissingExtra,
    TutelageError,
)
from tutelage.policies.base import Policy
from tutelage.rollout.episode import Ask, Episode, Play, play
from tutelage.types import Action, Actor, Observation, StopReason, Task, Trajectory

T = TypeVar("T")

USER_ERRORS = (ConfigError, MissingExtra, FormatError)
"""Not this episode's fault: the run ends."""

LIMITS = (ContextOverflow, EpisodeBudgetSpent)
"""What a policy raises where an episode may not go on with it. A limit like that on steps: no failure."""

Limit = ContextOverflow | EpisodeBudgetSpent


class Failure(Exception):
    """Something of the environment or a policy raised."""

    def __init__(self, stop_reason: StopReason, cause: Exception) -> None:
        super().__init__(describe(cause))
        self.stop_reason = stop_reason


class Abandoned(Exception):
    """The runner has closed this episode's book; its thread, come back late, must touch nothing more."""


def guarded(stop_reason: StopReason, call: Callable[[], T]) -> T:
    """The value of `call`; what it raises as a `Failure` with this stop reason."""
    try:
        return call()
    except (*USER_ERRORS, *LIMITS):
        raise
    except Exception as error:
        raise Failure(stop_reason, error) from error


def describe(error: Exception) -> str:
    """One line for the record. Errors that tutelage did not raise on purpose get the place they came from."""
    text = f"{type(error).__name__}: {error}"
    frames = traceback.extract_tb(error.__traceback__)
    if isinstance(error, TutelageError) or not frames:
        return text
    return f"{text} ({Path(frames[-1].filename).name}:{frames[-1].lineno})"


class GuardedEnv:
    """An environment whose exceptions are failures of the environment."""

    def __init__(self, env: Env) -> None:
        self.env = env
        self.inline = env.inline
        self.action_format = action_format_of(env)

    def reset(self, seed: int) -> Observation:
        return guarded(StopReason.ENV_ERROR, lambda: self.env.reset(seed))

    def step(self, action: Action) -> StepResult:
        return guarded(StopReason.ENV_ERROR, lambda: self.env.step(action))

    def reward(self) -> float | None:
        return guarded(StopReason.ENV_ERROR, self.env.reward)

    def admissible(self) -> tuple[str, ...] | None:
        return guarded(StopReason.ENV_ERROR, self.env.admissible)

    def state_hash(self) -> str | None:
        return guarded(StopReason.ENV_ERROR, self.env.state_hash)

    def close(self) -> None:
        self.env.close()


class Live:
    """An episode being played. `outcome` is None until it has ended."""

    def __init__(self, episode: Episode, make_env: Callable[[Task], Env], policies: Mapping[Actor, Policy]) -> None:
        self.episode = episode
        self.policies = policies
        self.outcome: Trajectory | None = None
        self.abandoned = False
        self.needs_thread = any(getattr(policy, "blocking", False) for policy in policies.values())
        """True: a step or an action may wait for something outside this process."""
        self._env: Env | None = None
        self._loop: Play | None = None
        self._close_lock = threading.Lock()
        try:
            self._env = GuardedEnv(guarded(StopReason.ENV_ERROR, lambda: make_env(episode.task)))
            self.needs_thread = self.needs_thread or not self._env.inline
            self._loop = play(episode, self._env)
        except Failure as failure:
            self.fail(failure)

    def drive(self, answer: Action | Limit | None) -> Ask | None:
        """Play on until a batched policy is asked, which is returned, or to the end: None, and `outcome` is set."""
        try:
            ask = self._go_on(answer)
            while not self.policies[ask.actor].batched:
                ask = self._go_on(self._act(ask))
            return ask
        except StopIteration as end:
            self._end(end.value)
        except Failure as failure:
            self.fail(failure)
        except EnvError as error:
            self.fail(Failure(StopReason.ENV_ERROR, error))
        return None

    def fail(self, failure: Failure) -> None:
        """End with the partial record and no reward."""
        self._end(self.episode.trajectory(failure.stop_reason, error=str(failure)))

    def give_up(self, stop_reason: StopReason, error: str | None = None) -> None:
        """End from outside, whatever a thread of the episode is doing; `close` is the caller's business."""
        self.abandoned = True
        if self.outcome is None:
            self.outcome = self.episode.trajectory(stop_reason, error=error)

    def close(self) -> None:
        """Close the environment, once. A failure to close is noted in the record and changes nothing else."""
        with self._close_lock:
            env, self._env = self._env, None
        if env is None:
            return
        try:
            env.close()
        except Exception as error:
            if self.outcome is not None:
                note = f"close failed: {describe(error)}"
                self.outcome = replace(self.outcome, error="; ".join(filter(None, (self.outcome.error, note))))

    def _end(self, outcome: Trajectory) -> None:
        if not self.abandoned:
            self.outcome = outcome
            self.close()

    def _go_on(self, answer: Action | Limit | None) -> Ask:
        assert self._loop is not None
        self._check_still_wanted()
        if isinstance(answer, LIMITS):
            return self._loop.throw(answer)
        return next(self._loop) if answer is None else self._loop.send(answer)

    def _act(self, ask: Ask) -> Action | Limit:
        self._check_still_wanted()
        try:
            return guarded(StopReason.POLICY_ERROR, lambda: self.policies[ask.actor].act(ask.so_far))
        except LIMITS as error:
            return error

    def _check_still_wanted(self) -> None:
        if self.abandoned:
            raise Abandoned
