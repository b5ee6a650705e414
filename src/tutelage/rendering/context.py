"""Which observations a policy still sees in full when it acts.

In: the observations of an episode, oldest first, the newest unanswered. Out: the same list as the policy sees it,
where an older observation may be a stub, or None (the step is not shown). The first one, which states the task, and
the newest one always stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Protocol, runtime_checkable

from tutelage.errors import ConfigError
from tutelage.types import Message, Observation


@runtime_checkable
class ContextRule(Protocol):
    """One way to shorten an episode. The same rule serves acting and training, so that both see the same tokens."""

    @property
    def extends_prefix(self) -> bool:
        """True: the view of step t+1 starts with the view of step t, so one sample can hold a whole episode."""
        ...

    def observations(self, observations: Sequence[Observation]) -> list[Observation | None]:
        """The view before the next action, as long as the input. None: neither this observation nor its action."""
        ...


@dataclass(frozen=True)
class Full:
    """Everything is seen."""

    extends_prefix: ClassVar[bool] = True

    def observations(self, observations: Sequence[Observation]) -> list[Observation | None]:
        return list(observations)


@dataclass(frozen=True)
class LastObservations:
    """The first and the last `n` observations in full, the others as one line that counts theirs. Actions all stay.

    Example, n=2, observations of 9, 3, 1, 2 and 2 lines:
      o0  [observation elided: 3 lines]  [observation elided: 1 lines]  o3  o4
    """

    n: int = 5
    extends_prefix: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _check_positive("LastObservations", self.n)

    def observations(self, observations: Sequence[Observation]) -> list[Observation | None]:
        first_kept = len(observations) - self.n
        return [one if index == 0 or index >= first_kept else elided(one) for index, one in enumerate(observations)]


@dataclass(frozen=True)
class LastSteps:
    """The first step, the last `n` steps and the newest observation; the steps between are not shown at all.

    The first step keeps its action, so that observation and action go on taking turns.

    Example, n=1, four steps and the newest observation:
      o0 a0  -  -  o3 a3  o4
    """

    n: int = 2
    extends_prefix: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _check_positive("LastSteps", self.n)

    def observations(self, observations: Sequence[Observation]) -> list[Observation | None]:
        first_kept = len(observations) - 1 - self.n
        return [one if index == 0 or index >= first_kept else None for index, one in enumerate(observations)]


CONTEXT_RULES: Final = {"full": Full, "last_observations": LastObservations, "last_steps": LastSteps}
"""Name in recipes -> rule."""


def elided(observation: Observation) -> Observation:
    """The stub of an observation: how many lines its text had. An empty text counts as one line."""
    text = observation.text
    num_lines = max(1, text.count("\n") + (not text.endswith("\n")))
    role = observation.messages[-1].role if observation.messages else "user"
    return Observation(messages=(Message(role=role, content=f"[observation elided: {num_lines} lines]"),))


def _check_positive(rule: str, n: int) -> None:
    if n < 1:
        raise ConfigError(f"context rule {rule}: n is {n}, expected at least 1. Use 'full' to keep everything.")
