"""Who acts. A policy holds a role (student, expert) by configuration, never by subclass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from tutelage.types import Action, Actor, Observation, Step, Task


@dataclass(frozen=True, kw_only=True, slots=True)
class PartialTrajectory:
    """The trajectory so far: what a policy is given to act on. Nothing in it tells who acted unless one looks."""

    trajectory_id: str
    task: Task
    steps: tuple[Step, ...]
    """Executed steps, oldest first."""
    observation: Observation
    """The newest observation, not yet answered."""
    seed: int
    """Seed of the trajectory; sampling draws from it and the step index, so that a replay samples the same."""

    @property
    def actor_of_last_step(self) -> Actor | None:
        return self.steps[-1].actor if self.steps else None


@runtime_checkable
class Policy(Protocol):
    """Chooses actions. Raises `PolicyError` when it cannot; a bad action is an action."""

    name: str
    version: str
    """Which weights or script, recorded on every step."""
    batched: bool
    """True: `act_batch` on many episodes is cheaper than one at a time (a local model). The runner then waits for
    all ready episodes. False: requests are independent (an endpoint, a script)."""

    def act(self, so_far: PartialTrajectory) -> Action: ...

    def act_batch(self, so_far: Sequence[PartialTrajectory]) -> list[Action]:
        """One action per episode, in order."""
        ...

    def release(self, trajectory_id: str) -> None:
        """The episode is over: forget what was kept for it. Unknown ids are fine."""
        ...


class SingleActPolicy:
    """Gives a policy that acts on one episode at a time the rest of the interface."""

    name = "policy"
    version = ""
    batched = False

    def act(self, so_far: PartialTrajectory) -> Action:
        raise TypeError(f"{type(self).__name__} must define act(so_far)")

    def act_batch(self, so_far: Sequence[PartialTrajectory]) -> list[Action]:
        return [self.act(one) for one in so_far]

    def release(self, trajectory_id: str) -> None:
        return None
