"""What an environment is. One Env plays one Task once: reset, step ..., close."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

from tutelage.types import Action, Observation

NO_EFFECT_REPLIES: Final = ("Nothing happens.",)
"""Replies by which an environment says that a well-formed command did nothing."""


def is_no_effect(text: str) -> bool:
    """Whether an observation says that the command did nothing."""
    return text.strip() in NO_EFFECT_REPLIES


@dataclass(frozen=True, kw_only=True, slots=True)
class StepResult:
    """The environment's answer to one action."""

    observation: Observation
    reward: float | None
    """Of this step. None: scored only at the end."""
    terminated: bool
    """The task itself ended (won, bought, answered, submitted)."""
    truncated: bool
    """A limit of the environment ended it. Never together with `terminated`."""

    def __post_init__(self) -> None:
        if self.terminated and self.truncated:
            raise ValueError(
                "a step is terminated or truncated, not both; a win on the last allowed step is terminated"
            )


@runtime_checkable
class Env(Protocol):
    """One live episode of one task. Same task, seed and actions give byte-equal observations in any process.

    Failure of the machinery raises `EnvError`; an impossible command is an ordinary observation.
    """

    inline: bool
    """True: a step is pure computation of well under a millisecond, so the runner calls it without a thread."""

    def reset(self, seed: int) -> Observation:
        """Start the episode. Called once, before any step."""
        ...

    def step(self, action: Action) -> StepResult:
        """Execute one action. A malformed action (command None) costs a step and changes nothing."""
        ...

    def reward(self) -> float | None:
        """Reward of the episode so far, e.g. 1.0 if won, else 0.0. None: not scored. Read once, at the end."""
        ...

    def admissible(self) -> tuple[str, ...] | None:
        """Sorted commands that would do something now, or None where the list is open. Never needed to act."""
        ...

    def state_hash(self) -> str | None:
        """Stable hash of the state, or None where the environment cannot tell."""
        ...

    def close(self) -> None:
        """Free everything. The runner calls it exactly once on every path."""
        ...


@runtime_checkable
class Snapshotting(Protocol):
    """What an environment may offer besides `Env`: go back to an earlier moment of the same episode.

    After `restore` the environment answers as if only the steps before the snapshot had been made, limits included.
    """

    def snapshot(self) -> object:
        """The present moment; unchanged by later steps."""
        ...

    def restore(self, snapshot: object) -> None:
        """Go to a moment of this episode, also after its end; never after `close`."""
        ...


@runtime_checkable
class ReportsProgress(Protocol):
    """What an environment may offer besides `Env`: how much of the goal is reached."""

    def progress(self) -> float | None:
        """Share of the goal's conditions that hold now, in [0, 1]; 1 exactly when the goal is reached. None: unknown."""
        ...
