"""Text environments of Gymnasium (1.0 or newer) by our contract.

In: a `Task` whose settings name an environment and say how its observations and actions are texts:

  id, kwargs      for ``gymnasium.make(id, **kwargs)``; ``package.module:Name-v0`` imports the package first
  make, kwargs    instead of an id: place of a function (**kwargs) -> environment
  observe         place of a function (observation, info) -> text or messages; absent: the observation is text
  act             place of a function (command) -> action, or None where the command is no action; absent: the action is text
  options         for ``reset(options=...)``
  inline          a step takes well under a millisecond and may run without a thread of its own

and what all adapters read (`adapters.base`). Only the interface of five values is played: one that returns four cannot
tell an end of the task from an end by a limit.
"""

from __future__ import annotations

from typing import Any

from tutelage.envs.adapters.base import AdapterEnv, Answer
from tutelage.errors import ConfigError, MissingExtra
from tutelage.types import Action, Observation, Task

FIVE_VALUES = (
    "expected (observation, reward, terminated, truncated, info).\n"
    "  Interfaces before Gymnasium give one 'done' that does not tell an end of the task from an end by a limit. Use the "
    "environment's newer version, or wrap it so that it tells them apart."
)


class GymnasiumEnv(AdapterEnv):
    """One episode of a Gymnasium environment. Its seed is the one that `reset` is given."""

    def __init__(self, task: Task) -> None:
        """Raises ConfigError where the settings name no environment or no function, MissingExtra without gymnasium."""
        super().__init__(task)
        self.inline = bool(task.settings.get("inline", False))
        self._observe = self.place("observe")
        self._act = self.place("act")
        self._env = self._made()
        self._space = getattr(self._env, "action_space", None)
        if self._act is None and not self._takes_text():
            self._env.close()
            raise self._refused(f"actions are {self._space}, no text. Name a function in 'act'.")

    def _reset(self, seed: int) -> Answer:
        found = self._env.reset(seed=seed, options=self.task.settings.get("options"))
        if not (isinstance(found, tuple) and len(found) == 2):
            raise self._refused(
                f"reset returned {_kind(found)}, expected (observation, info): an interface before 1.0."
            )
        observation, info = found
        return Answer(
            observation=self._text(observation, info),
            reward=None,
            terminated=False,
            truncated=False,
            info=self.informed(info),
        )

    def _step(self, action: Action) -> Answer | None:
        command = action.command
        made = command if self._act is None else self._act(command)
        if made is None or (self._space is not None and not self._space.contains(made)):
            return None
        try:
            found = self._env.step(made)
        except ValueError as error:
            # A wrapper of Gymnasium unpacks five values before we can count them.
            if "expected 5, got 4" in str(error):
                raise self._refused(f"step returned 4 values, {FIVE_VALUES}") from None
            raise
        if not (isinstance(found, tuple) and len(found) == 5):
            raise self._refused(f"step returned {_kind(found)}, {FIVE_VALUES}")
        observation, reward, terminated, truncated, info = found
        return Answer(
            observation=self._text(observation, info),
            reward=self.rewarded(reward),
            terminated=self.flag("terminated", terminated),
            truncated=self.flag("truncated", truncated),
            info=self.informed(info),
        )

    def _close(self) -> None:
        self._env.close()

    def _made(self) -> Any:
        try:
            import gymnasium
        except ImportError:
            raise MissingExtra("the adapter 'gymnasium'", "gymnasium") from None
        settings = self.task.settings
        kwargs = settings.get("kwargs") or {}
        make = self.place("make")
        if (make is None) == (settings.get("id") is None):
            raise self._refused("give either 'id' (for gymnasium.make) or 'make' (place of a function).")
        if make is not None:
            env = make(**kwargs)
        else:
            try:
                # Its checker only warns; what matters here is checked with every answer.
                env = gymnasium.make(settings["id"], disable_env_checker=True, **kwargs)
            except (gymnasium.error.Error, ModuleNotFoundError) as error:
                raise self._refused(str(error)) from None
        if not isinstance(env, gymnasium.Env):
            raise self._refused(f"it is {_kind(env)}, expected a gymnasium.Env (1.0 or newer).")
        return env

    def _takes_text(self) -> bool:
        import gymnasium

        return self._space is None or isinstance(self._space, gymnasium.spaces.Text)

    def _text(self, observation: object, info: object) -> Observation:
        if self._observe is not None:
            return self.observed(self._observe(observation, info))
        if not isinstance(observation, str):
            raise self._refused(f"the observation is {_kind(observation)}, no text. Name a function in 'observe'.")
        return Observation.of(observation)

    def _refused(self, reason: str) -> ConfigError:
        named = self.task.settings.get("id") or self.task.settings.get("make")
        return ConfigError(f"task {self.task.task_id}: gymnasium environment {named}: {reason}")


def _kind(value: object) -> str:
    return f"a tuple of {len(value)}" if isinstance(value, tuple) else f"a {type(value).__name__}"
