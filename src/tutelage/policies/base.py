"""Who acts, and who scores. Policy and scorer hold a role (student, expert, teacher) by configuration, never by subclass.

A policy chooses actions. A scorer says how probable token ids are that somebody else sampled; it never acts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tutelage.errors import SupervisionError
from tutelage.types import Action, Actor, Observation, Step, Task

Floats = NDArray[np.floating[Any]]

Access = Literal["sampled", "candidates", "topk", "full"]

ACCESSES: Final = ("sampled", "candidates", "topk", "full")
"""What a scorer can be asked for at each position: the id that stands there; ids named in the request; its own most
probable ids; all ids of the vocabulary. The first comes with each of the others."""


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


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ScoreRequest:
    """Token ids, and the positions whose ids are to be scored, each given all ids before it.

    Example, context 7 8, action 3 4: ``token_ids`` 7 8 3 4, ``positions`` 2 3.
    """

    request_id: str
    token_ids: NDArray[np.int64]
    """[T]"""
    positions: NDArray[np.int64]
    """[M] ascending; at least 1, since nothing precedes the first id."""
    candidates: NDArray[np.int64] | None = None
    """[M, K] ids to score at each position; for the access ``candidates`` only."""

    def __post_init__(self) -> None:
        positions = self.positions
        inside = len(positions) == 0 or (positions[0] >= 1 and positions[-1] < len(self.token_ids))
        if not inside or (np.diff(positions) <= 0).any():
            raise SupervisionError(
                f"request {self.request_id}: positions {positions[:3].tolist()}...{positions[-1:].tolist()} of "
                f"{len(self.token_ids)} ids, expected ascending ones from 1 to {len(self.token_ids) - 1}"
            )
        if self.candidates is not None and self.candidates.shape[:1] != positions.shape:
            raise SupervisionError(
                f"request {self.request_id}: candidates for {len(self.candidates)} positions, expected {len(positions)}"
            )


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class TokenScores:
    """Natural log-probabilities at the M positions of one request, or of one step."""

    request_id: str
    logprobs: Floats
    """[M] of the ids that stand there."""
    top_ids: NDArray[np.int64] | None = None
    """[M, K] the candidates of the request, or the most probable ids, most probable first."""
    top_logprobs: Floats | None = None
    """[M, K] of `top_ids`."""
    full: Floats | None = None
    """[M, V] of every id."""

    def __len__(self) -> int:
        return len(self.logprobs)

    def part(self, start: int, end: int) -> TokenScores:
        """The scores of positions `start` to `end` (exclusive), counted within this request."""
        cut = slice(start, end)
        return TokenScores(
            request_id=self.request_id,
            logprobs=self.logprobs[cut],
            top_ids=None if self.top_ids is None else self.top_ids[cut],
            top_logprobs=None if self.top_logprobs is None else self.top_logprobs[cut],
            full=None if self.full is None else self.full[cut],
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoreFailure:
    """A request without scores. Whoever asked masks it; a missing score is never read as 0."""

    request_id: str
    reason: str
    """For counting, e.g. ``too_long`` or ``not_finite``."""
    detail: str = ""


@runtime_checkable
class Scorer(Protocol):
    """Scores token ids. One call takes many requests, so that few passes serve all of them."""

    name: str
    version: str
    """Which weights scored."""
    vocabulary_id: str
    """Of the ids it reads (`rendering.base.vocabulary_id`)."""
    max_context: int
    """Most token ids of one request."""
    temperature: float
    """Log-probabilities are those of softmax(logits / temperature)."""
    accesses: frozenset[Access]
    """What it can give."""

    def score(
        self, requests: Sequence[ScoreRequest], access: Access = "sampled", *, k: int = 64
    ) -> list[TokenScores | ScoreFailure]:
        """One answer per request, in order. `k`: how many ids the access ``topk`` gives.

        Raises `TeacherError` for an access that it does not have.
        """
        ...
