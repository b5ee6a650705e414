"""What all adapters share: the contract of `Env` around a foreign reset and step.

An adapter says how a foreign environment is reset, stepped and closed; `AdapterEnv` does the rest. Settings that all
adapters read from a task, all plain JSON:

  max_steps       steps before the episode is truncated; null leaves it to the environment
  score           what the episode's reward is: ``sum`` or ``last`` of the rewards of its steps
  help            the observation after an action in which no command was found
  action_format   place of an `ActionFormat` by which replies are read; absent: the whole reply is the command
  footprints      place of a function Trajectory -> footprints; see `supervision.footprints.adapters`

A place is ``package.module:name``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tutelage.envs.action_formats import ActionFormat, text_in
from tutelage.envs.base import StepResult
from tutelage.envs.lifetime import Lifetime
from tutelage.envs.registry import load_place
from tutelage.errors import ConfigError, EnvError
from tutelage.types import Action, Message, Observation, Task

SCORES: Final = ("sum", "last")

HELP: Final = "No action of this environment was found in that reply. Give one in the form that was asked for."
"""The observation after an action without a command, where the settings give no `help`."""

_ROLES: Final = ("system", "user", "assistant", "tool")


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What a foreign environment answered to one action. Both flags may be set; `AdapterEnv` decides."""

    observation: Observation
    reward: float | None
    terminated: bool
    truncated: bool
    info: Mapping[str, Any] = field(default_factory=dict)


class AdapterEnv(ABC):
    """One episode in a foreign environment.

    Terminated and truncated at once is terminated: the task has ended, whatever else has. Where a step fails, the
    episode is over: nobody knows what the environment has done.
    """

    inline = False
    """A foreign step may take any time, so the runner keeps the clock from outside."""

    def __init__(self, task: Task) -> None:
        settings = task.settings
        self.task = task
        self.max_steps: int | None = settings.get("max_steps")
        self.score = str(settings.get("score", "sum"))
        if self.score not in SCORES:
            raise ConfigError.unknown(f"task {task.task_id}: score", self.score, SCORES)
        self.action_format = self.format_of(task)
        self.help = str(settings.get("help") or (self.action_format.help if self.action_format else HELP))
        self.info: Mapping[str, Any] = {}
        """What the environment said besides, with its latest answer; e.g. a footprint."""
        self.executed = False
        """Whether the latest action reached the environment; the adapter answers by itself where it is none."""
        self._rewards: list[float] = []
        self.life = Lifetime(task, self.max_steps)

    @staticmethod
    def format_of(task: Task) -> ActionFormat | None:
        """Raises ConfigError where nothing stands at its place."""
        place = task.settings.get("action_format")
        found: ActionFormat | None = None if place is None else load_place(place)
        return found

    # What an adapter defines

    @abstractmethod
    def _reset(self, seed: int) -> Answer:
        """Start the foreign episode. Of the answer, observation and info are read."""

    @abstractmethod
    def _step(self, action: Action) -> Answer | None:
        """Have an action executed that has a command. None: it is no action of this environment; nothing was executed."""

    def _step_malformed(self) -> Answer | None:
        """Have an action counted that has no command. None: the environment is not told."""
        return None

    @abstractmethod
    def _close(self) -> None:
        """Free everything. Called once."""

    # The contract

    def reset(self, seed: int) -> Observation:
        self.life.begin(ready=False)
        answer = self._reset(seed)
        if answer.terminated or answer.truncated:
            raise self.error("the episode was over before the first action; the environment is not ready for this task")
        self.info = answer.info
        self.life.ready()
        return answer.observation

    def step(self, action: Action) -> StepResult:
        self.life.check_step()
        self.life.hold()
        if self.action_format is not None:
            action = self.action_format.apply(action)
        answer = self._step_malformed() if action.command is None else self._step(action)
        self.executed = answer is not None
        if answer is None:
            answer = Answer(
                observation=Observation.of(self.help), reward=None, terminated=False, truncated=False, info={}
            )
        self.info = answer.info
        if answer.reward is not None:
            self._rewards.append(answer.reward)
        truncated = self.life.count_step(answer.terminated, truncated=answer.truncated)
        return StepResult(
            observation=answer.observation, reward=answer.reward, terminated=answer.terminated, truncated=truncated
        )

    def reward(self) -> float | None:
        """Sum or last of the rewards that steps have had. None: no step has had one."""
        if not self._rewards:
            return None
        return self._rewards[-1] if self.score == "last" else math.fsum(self._rewards)

    def admissible(self) -> tuple[str, ...] | None:
        """None: a foreign environment does not say."""
        return None

    def state_hash(self) -> str | None:
        """None: a foreign environment cannot tell."""
        return None

    def close(self) -> None:
        closed = self.life.closed
        self.life.close()
        if not closed:
            self._close()

    def error(self, message: str) -> EnvError:
        """An error that names the task and the step."""
        return EnvError(message, task_id=self.task.task_id, step=self.life.num_steps)

    def place(self, setting: str) -> Callable[..., Any] | None:
        """The user's function that a setting names. None: the setting is absent."""
        place = self.task.settings.get(setting)
        return None if place is None else function_at(place, f"task {self.task.task_id}: {setting}")

    def said(self, action: Action) -> str:
        """The reply for an environment that reads replies itself: the author's, or, where that says the action in another
        way (calls of a server, tags of its own), the action as this environment would read it."""
        if self.action_format is not None:
            return text_in(self.action_format, action)
        own = action.command is None or action.command.strip() == action.text.strip()
        return action.text if own else str(action.command)

    # Reading what comes from outside

    def observed(self, value: object) -> Observation:
        """Text, or a list of messages ``{"role": ..., "content": ...}``, as an observation.

        Example: ``"You win."`` is one message of the role ``user``.
        """
        if isinstance(value, Observation):
            return value
        if isinstance(value, str):
            return Observation.of(value)
        if isinstance(value, list | tuple):
            return Observation(messages=tuple(self._message(one) for one in value))
        raise self.error(f"the observation is {_shown(value)}, expected text or a list of messages")

    def rewarded(self, value: object) -> float | None:
        """A finite number, or None. True counts as 1."""
        if value is None:
            return None
        try:
            number = float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            raise self.error(f"the reward is {_shown(value)}, expected a number or null") from None
        if isinstance(value, str) or not math.isfinite(number):
            raise self.error(f"the reward is {_shown(value)}, expected a finite number or null")
        return number

    def flag(self, name: str, value: object) -> bool:
        """A truth value; anything else is an end of an unknown kind."""
        # numpy's own kind of truth value, without loading numpy for it.
        if isinstance(value, bool) or type(value).__name__ in ("bool", "bool_"):
            return bool(value)
        raise self.error(
            f"'{name}' is {_shown(value)}, expected true or false. An end is either of the task (terminated) or of a "
            "limit (truncated); another kind cannot be recorded."
        )

    def informed(self, value: object) -> Mapping[str, Any]:
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            raise self.error(f"'info' is {_shown(value)}, expected an object")
        return value

    def _message(self, value: object) -> Message:
        if isinstance(value, Message):
            return value
        role, content = (value.get("role"), value.get("content")) if isinstance(value, Mapping) else (None, None)
        if role not in _ROLES or not isinstance(content, str):
            raise self.error(
                f"a message of the observation is {_shown(value)}, expected a role of {', '.join(_ROLES)} and text"
            )
        return Message(role=role, content=content)


def function_at(place: object, where: str) -> Callable[..., Any]:
    """The function at a place. Raises ConfigError, with `where` in front, where there is none."""
    if not isinstance(place, str):
        raise ConfigError(f"{where}: {place!r} is no place; write package.module:function.")
    try:
        found = load_place(place)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None
    if not callable(found):
        raise ConfigError(f"{where}: {place} is {_shown(found)}, expected a function.")
    function: Callable[..., Any] = found
    return function


def _shown(value: object) -> str:
    """A value in an error message, cut to what one can read. Example: ``a list: [1, 2]``"""
    text = repr(value)
    return f"a {type(value).__name__}: {text if len(text) <= 120 else text[:117] + '...'}"
