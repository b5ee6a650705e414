"""Environments that count how often they are closed, whatever else they are."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tutelage.envs.base import Env, StepResult
from tutelage.types import Action, Observation, Task


class CountedEnv:
    """Passes everything on to an environment and counts its closes."""

    def __init__(self, env: Env) -> None:
        self._env = env
        self.inline = env.inline
        self.num_closed = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)  # What an environment may offer besides: a format, snapshots, progress.

    def reset(self, seed: int) -> Observation:
        return self._env.reset(seed)

    def step(self, action: Action) -> StepResult:
        return self._env.step(action)

    def reward(self) -> float | None:
        return self._env.reward()

    def admissible(self) -> tuple[str, ...] | None:
        return self._env.admissible()

    def state_hash(self) -> str | None:
        return self._env.state_hash()

    def close(self) -> None:
        self._env.close()
        self.num_closed += 1


class CountedEnvs:
    """Makes environments and keeps the account: ``make_env=envs.make``, then ``envs.made``."""

    def __init__(self, make_env: Callable[[Task], Env]) -> None:
        self._make_env = make_env
        self.made: list[CountedEnv] = []

    def make(self, task: Task) -> CountedEnv:
        env = CountedEnv(self._make_env(task))
        self.made.append(env)
        return env

    @property
    def num_open(self) -> int:
        return sum(env.num_closed == 0 for env in self.made)

    def wait_until_closed(self, seconds: float) -> bool:
        """Whether all are closed within that time: the runner closes in another thread what may hang."""
        until = time.monotonic() + seconds
        while self.num_open and time.monotonic() < until:
            time.sleep(0.01)
        return self.num_open == 0
