"""A world of one counter, with every fault a real environment can have, on order."""

from __future__ import annotations

import itertools
import threading
from typing import Any

from tutelage.envs.base import StepResult
from tutelage.errors import EnvError
from tutelage.types import Action, Observation, Split, Task

_CLOCK = itertools.count()


def counting_task(
    task_id: str = "count-1", *, kind: str = "count", split: Split = Split.TRAIN, **settings: Any
) -> Task:
    """A task for `CountingEnv`; the settings are its options, e.g. ``target=3, die_at=2``."""
    return Task(
        task_id=task_id,
        env="counting",
        goal=f"count to {settings.get('target', 3)}",
        kind=kind,
        split=split,
        settings=settings,
    )


class CountingEnv:
    """``add`` counts up, ``look`` reads, everything else does nothing; reaching the target ends the episode.

    Settings of the task (steps count from 0):
      target 3, max_steps 50     how far to count, and in how many steps at most
      inline True                False: the runner plays it in a thread
      hang_at, hang_seconds      this step waits (3600 s by default); closing wakes it
      hang_reset, hang_reward    seconds that reset or reward waits
      die_at                     this step raises EnvError
      crash_at                   this step raises RuntimeError, as somebody else's code does
      reward_none                the episode is not scored
      hidden_clock               texts hold the count of all observations ever made: no replay is equal
      close_raises               close fails
    """

    def __init__(self, task: Task, world: CountingWorld | None = None) -> None:
        self.task = task
        self.options = task.settings
        self.inline = bool(self.options.get("inline", True))
        self.world = world or CountingWorld()
        self.num_closed = 0
        self.count = 0
        self.num_steps = 0
        self._closed = threading.Event()

    def reset(self, seed: int) -> Observation:
        self._wait(self.options.get("hang_reset", 0.0))
        return self._observe(f"Count to {self.options.get('target', 3)}. The counter shows 0.")

    def step(self, action: Action) -> StepResult:
        index = self.num_steps
        self.num_steps += 1
        if index == self.options.get("hang_at"):
            self._wait(self.options.get("hang_seconds", 3600.0))
        if index == self.options.get("die_at"):
            raise EnvError("the counter's process died", task_id=self.task.task_id, step=index)
        if index == self.options.get("crash_at"):
            raise RuntimeError("counter out of order")
        command = (action.command or "").strip()
        if command == "add":
            self.count += 1
        text = f"The counter shows {self.count}." if command in ("add", "look") else "Nothing happens."
        return StepResult(
            observation=self._observe(text),
            reward=None,
            terminated=self.won,
            truncated=not self.won and self.num_steps >= self.options.get("max_steps", 50),
        )

    @property
    def won(self) -> bool:
        return self.count >= int(self.options.get("target", 3))

    def reward(self) -> float | None:
        self._wait(self.options.get("hang_reward", 0.0))
        return None if self.options.get("reward_none") else float(self.won)

    def admissible(self) -> tuple[str, ...] | None:
        return ("add", "look")

    def state_hash(self) -> str | None:
        return f"count={self.count}"

    def close(self) -> None:
        self.num_closed += 1
        self.world.num_closed += 1
        self._closed.set()
        if self.options.get("close_raises"):
            raise RuntimeError("cannot close")

    def _observe(self, text: str) -> Observation:
        return Observation.of(f"{text} Tick {next(_CLOCK)}." if self.options.get("hidden_clock") else text)

    def _wait(self, seconds: float) -> None:
        if seconds and self._closed.wait(seconds):
            raise EnvError("closed while it was waiting", task_id=self.task.task_id, step=self.num_steps)


class CountingWorld:
    """Makes `CountingEnv`s and counts them: ``make_env=world.make``, then ``world.num_closed == world.num_made``."""

    def __init__(self) -> None:
        self.envs: list[CountingEnv] = []
        self.num_closed = 0

    def make(self, task: Task) -> CountingEnv:
        env = CountingEnv(task, self)
        self.envs.append(env)
        return env

    @property
    def num_made(self) -> int:
        return len(self.envs)
