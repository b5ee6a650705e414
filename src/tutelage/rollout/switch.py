"""When the expert takes over: frozen rule objects, seeded and stateless.

A rule is asked before every step who acts, given the trajectory so far and the seed. It keeps nothing between
calls, so a replay, a resume and any order of episodes give the same actors.

To add a rule: write its class here and one line in `SWITCH_RULES`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Protocol, runtime_checkable

from tutelage.errors import ConfigError
from tutelage.policies.base import PartialTrajectory
from tutelage.rollout.triggers import has_error, repeats_itself
from tutelage.types import Actor, stable_hash

STUDENT, EXPERT = Actor.STUDENT, Actor.EXPERT
BOTH: frozenset[Actor] = frozenset(Actor)


@dataclass(frozen=True, slots=True)
class RuleSeed:
    """What a rule draws from. A retry after a failure of the machinery has the same seed, so it draws the same."""

    seed: int
    task_id: str
    sample_index: int = 0

    def integer(self, low: int, high: int, *parts: object) -> int:
        """Uniform over low..high, both included. Example: ``RuleSeed(0, "tw-0001", 1).integer(0, 30) == 14``"""
        return low + stable_hash(self.seed, self.task_id, self.sample_index, *parts) % (high - low + 1)

    def unit(self, *parts: object) -> float:
        """Uniform over [0, 1)."""
        return (stable_hash(self.seed, self.task_id, self.sample_index, *parts) >> 11) / 2.0**53


@runtime_checkable
class SwitchRule(Protocol):
    """Says who acts next."""

    name: ClassVar[str]
    roles: ClassVar[frozenset[Actor]]
    """The roles that need a policy."""
    labels: ClassVar[bool]
    """True: the expert is asked at every state, whoever acts; its answer becomes `Step.expert_action`."""

    def drawn(self, seed: RuleSeed) -> int | None:
        """The step of the handover as drawn at the start. None: the rule draws none."""
        ...

    def next_actor(self, so_far: PartialTrajectory, seed: RuleSeed) -> Actor: ...

    def describe(self, seed: RuleSeed) -> str:
        """Rule and cause for the switch event, e.g. ``uniform k=12``."""
        ...


class _Rule:
    """What most rules share: both roles, no labels, no draw."""

    name: ClassVar[str]
    roles: ClassVar[frozenset[Actor]] = BOTH
    labels: ClassVar[bool] = False

    def drawn(self, seed: RuleSeed) -> int | None:
        return None

    def describe(self, seed: RuleSeed) -> str:
        return self.name


class _DrawnRule(_Rule, ABC):
    """The expert takes over when K steps have been taken."""

    @abstractmethod
    def drawn(self, seed: RuleSeed) -> int: ...

    def next_actor(self, so_far: PartialTrajectory, seed: RuleSeed) -> Actor:
        return EXPERT if len(so_far.steps) >= self.drawn(seed) else STUDENT

    def describe(self, seed: RuleSeed) -> str:
        return f"{self.name} k={self.drawn(seed)}"


@dataclass(frozen=True)
class Never(_Rule):
    """The student plays alone."""

    name: ClassVar[str] = "never"
    roles: ClassVar[frozenset[Actor]] = frozenset({STUDENT})

    def next_actor(self, so_far: PartialTrajectory, seed: RuleSeed) -> Actor:
        return STUDENT


@dataclass(frozen=True)
class ExpertOnly(_Rule):
    """The expert plays alone: data for imitation."""

    name: ClassVar[str] = "expert_only"
    roles: ClassVar[frozenset[Actor]] = frozenset({EXPERT})

    def next_actor(self, so_far: PartialTrajectory, seed: RuleSeed) -> Actor:
        return EXPERT


@dataclass(frozen=True)
class AtStep(_DrawnRule):
    """The expert takes over after exactly `k` student steps. Example, k=3: ``s s s e e e``."""

    name: ClassVar[str] = "at_step"
    k: int

    def __post_init__(self) -> None:
        _require(self.k >= 0, self, "k", self.k, ">= 0")

    def drawn(self, seed: RuleSeed) -> int:
        return self.k


@dataclass(frozen=True)
class UniformStep(_DrawnRule):
    """K is uniform over the integers low..high, both included (Lauffer et al. 2025 with 0..30).

    For short episodes set `high` to the expert's median length minus one: a K beyond the end gives no expert steps.
    """

    name: ClassVar[str] = "uniform"
    low: int = 0
    high: int = 30

    def __post_init__(self) -> None:
        _require(0 <= self.low <= self.high, self, "low, high", (self.low, self.high), "0 <= low <= high")

    def drawn(self, seed: RuleSeed) -> int:
        return seed.integer(self.low, self.high)


@dataclass(frozen=True)
class UniformFraction(_DrawnRule):
    """K is uniform between two fractions of the longest episode. The default 0..0.4 is 0..30 of 75 steps."""

    name: ClassVar[str] = "uniform_fraction"
    max_steps: int
    low: float = 0.0
    high: float = 0.4

    def __post_init__(self) -> None:
        _require(self.max_steps >= 1, self, "max_steps", self.max_steps, ">= 1")
        _require(0.0 <= self.low <= self.high <= 1.0, self, "low, high", (self.low, self.high), "0 <= low <= high <= 1")

    def drawn(self, seed: RuleSeed) -> int:
        return seed.integer(round(self.low * self.max_steps), round(self.high * self.max_steps))


class _Trigger(_Rule, ABC):
    """The expert takes over when something shows in the trajectory, and keeps on to the end."""

    fallback: SwitchRule

    @abstractmethod
    def fires(self, so_far: PartialTrajectory) -> bool: ...

    def drawn(self, seed: RuleSeed) -> int | None:
        return self.fallback.drawn(seed)

    def next_actor(self, so_far: PartialTrajectory, seed: RuleSeed) -> Actor:
        if so_far.actor_of_last_step is EXPERT or self.fires(so_far):
            return EXPERT
        return self.fallback.next_actor(so_far, seed)


@dataclass(frozen=True)
class OnLoop(_Trigger):
    """The last `patience` actions are identical, or the last action met the same answer `patience` times in all."""

    name: ClassVar[str] = "on_loop"
    patience: int = 3
    fallback: SwitchRule = field(default_factory=Never)
    """Who decides while the trigger has not fired: `Never`, or a rule with a draw."""

    def __post_init__(self) -> None:
        _require(self.patience >= 2, self, "patience", self.patience, ">= 2")

    def fires(self, so_far: PartialTrajectory) -> bool:
        return repeats_itself(so_far, self.patience)


@dataclass(frozen=True)
class OnFailure(_Trigger):
    """The last `patience` answers of the environment all report an error: first error with patience 1."""

    name: ClassVar[str] = "on_failure"
    patience: int = 1
    fallback: SwitchRule = field(default_factory=Never)

    def __post_init__(self) -> None:
        _require(self.patience >= 1, self, "patience", self.patience, ">= 1")

    def fires(self, so_far: PartialTrajectory) -> bool:
        if len(so_far.steps) < self.patience:
            return False
        observations = [*(step.observation for step in so_far.steps[1:]), so_far.observation]
        recent = zip(so_far.steps[-self.patience :], observations[-self.patience :], strict=True)
        return all(has_error(step.action, observation) for step, observation in recent)


@dataclass(frozen=True)
class Mix(_Rule):
    """DAgger-style: at each step the expert acts with probability `beta`; at every state it is asked for a label."""

    name: ClassVar[str] = "mix"
    labels: ClassVar[bool] = True
    beta: float

    def __post_init__(self) -> None:
        _require(0.0 <= self.beta <= 1.0, self, "beta", self.beta, "a probability")

    @classmethod
    def for_round(cls, round_index: int, *, decay: float | None = None) -> Mix:
        """The mix of a round, counted from 1: ``max(0.6, 1 - 0.2 (r-1))`` (arXiv 2605.12913), or ``decay ** (r-1)``.

        Example: rounds 1, 2, 3, 4 give beta 1.0, 0.8, 0.6, 0.6.
        """
        past = round_index - 1
        return cls(beta=max(0.6, 1.0 - 0.2 * past) if decay is None else decay**past)

    def next_actor(self, so_far: PartialTrajectory, seed: RuleSeed) -> Actor:
        return EXPERT if seed.unit("mix", len(so_far.steps)) < self.beta else STUDENT

    def describe(self, seed: RuleSeed) -> str:
        return f"mix beta={self.beta:g}"


@dataclass(frozen=True)
class HandBack(_Rule):
    """The expert gives back after `after` steps; then `rule` starts afresh, as if the episode began there.

    The takeover after the last of `max_handbacks` lasts to the end.
    Example, AtStep(2), after=3, max_handbacks=1: ``s s e e e s s e e e e``.
    """

    name: ClassVar[str] = "hand_back"
    rule: SwitchRule
    after: int = 3
    max_handbacks: int = 1

    def __post_init__(self) -> None:
        _require(self.after >= 1, self, "after", self.after, ">= 1")
        _require(self.max_handbacks >= 1, self, "max_handbacks", self.max_handbacks, ">= 1")

    def drawn(self, seed: RuleSeed) -> int | None:
        return self.rule.drawn(seed)

    def next_actor(self, so_far: PartialTrajectory, seed: RuleSeed) -> Actor:
        start = handbacks = expert_run = 0
        for index, step in enumerate(so_far.steps):
            expert_run = expert_run + 1 if step.actor is EXPERT else 0
            if expert_run == self.after and handbacks < self.max_handbacks:
                start, handbacks, expert_run = index + 1, handbacks + 1, 0
        if expert_run > 0:
            return EXPERT
        return self.rule.next_actor(replace(so_far, steps=so_far.steps[start:]), seed)

    def describe(self, seed: RuleSeed) -> str:
        return f"hand_back after={self.after}, {self.rule.describe(seed)}"


@dataclass(frozen=True)
class Segments(_Rule):
    """A fixed order of actors with their lengths; the last one plays to the end.

    A length is a number of steps, or a pair (low, high) to draw from, both included. The last may be None.
    Example: ``Segments([("student", 2), ("expert", 2), ("student", 1), ("expert", None)])`` gives ``s s e e s e e``.
    """

    name: ClassVar[str] = "segments"
    segments: Sequence[tuple[Actor | str, int | tuple[int, int] | None]]

    def __post_init__(self) -> None:
        parsed: list[tuple[Actor, tuple[int, int]]] = []
        for index, (actor, length) in enumerate(self.segments):
            where = f"segments[{index}]"
            _require(actor in list(Actor), self, where, actor, "student or expert")
            last = index == len(self.segments) - 1
            _require(length is not None or last, self, where, length, "a length (only the last goes to the end)")
            low, high = (length, length) if isinstance(length, int) else (length or (0, 0))
            _require(0 <= low <= high, self, where, length, "0 <= low <= high")
            parsed.append((Actor(actor), (low, high)))
        _require(len(parsed) > 0, self, "segments", self.segments, "at least one")
        object.__setattr__(self, "segments", tuple(parsed))

    def next_actor(self, so_far: PartialTrajectory, seed: RuleSeed) -> Actor:
        end = 0
        for index, (actor, length) in enumerate(self.segments):
            assert isinstance(length, tuple)
            end += seed.integer(*length, "segment", index)
            if len(so_far.steps) < end:
                return Actor(actor)
        return Actor(self.segments[-1][0])


SWITCH_RULES: dict[str, type[Any]] = {
    rule.name: rule
    for rule in (
        Never,
        ExpertOnly,
        AtStep,
        UniformStep,
        UniformFraction,
        OnLoop,
        OnFailure,
        Mix,
        HandBack,
        Segments,
    )
}
"""Name in recipes -> rule."""


def make_rule(name: str, **options: Any) -> SwitchRule:
    """The rule of a recipe. An option that is itself a rule is a mapping with `name`.

    Example: ``make_rule("hand_back", rule={"name": "on_failure"}, after=1)``. Raises `ConfigError`.
    """
    if name not in SWITCH_RULES:
        raise ConfigError.unknown("switch rule", name, SWITCH_RULES)
    cls = SWITCH_RULES[name]
    known = [option.name for option in fields(cls)]
    for option in options:
        if option not in known:
            raise ConfigError.unknown(f"switch rule '{name}', option", option, known)
    try:
        rule: SwitchRule = cls(**{key: make_rule(**v) if isinstance(v, Mapping) else v for key, v in options.items()})
    except TypeError as error:
        raise ConfigError(f"switch rule '{name}' with {options}: {error}") from error
    return rule


def _require(holds: bool, rule: Any, option: str, got: object, expected: str) -> None:
    if not holds:
        raise ConfigError(f"switch rule '{rule.name}': {option} is {got!r}, expected {expected}")
