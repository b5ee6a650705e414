"""The records of one household game: rooms as data, without any rule of play.

In: plain values, from `reader.read_game` or from the generator. Out: a frozen `Game` that `engine.Engine` plays.
Ids are the lower-cased names of the game files (`apple_bar__plus_00_dot_78_bar_...`), types are lower case
without the `type` ending (`countertop`). Names as the player sees them (`apple 2`) come from `names`.
A record that exists is well formed: everything is checked once, here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

from tutelage.errors import FormatError

TASK_TYPES: Final = (
    "pick_and_place_simple",
    "look_at_obj_in_light",
    "pick_clean_then_place_in_recep",
    "pick_heat_then_place_in_recep",
    "pick_cool_then_place_in_recep",
    "pick_two_obj_and_place",
)
"""The six kinds of goal."""

LIGHT_TASK: Final = "look_at_obj_in_light"
"""The one kind whose goal names a lamp instead of a receptacle."""

STATES: Final = ("opened", "hot", "cool", "clean", "sliced", "toggled")
"""Facts that may hold of one thing at the start: `opened` of a receptacle, the others of an object."""

TASK_SENTENCES: Final = {
    "pick_and_place_simple": ("put a {o} in {r}", "put some {o} on {r}"),
    "look_at_obj_in_light": ("look at {o} under the {t}", "examine the {o} with the {t}"),
    "pick_clean_then_place_in_recep": ("put a clean {o} in {r}", "clean some {o} and put it in {r}"),
    "pick_heat_then_place_in_recep": ("put a hot {o} in {r}", "heat some {o} and put it in {r}"),
    "pick_cool_then_place_in_recep": ("put a cool {o} in {r}", "cool some {o} and put it in {r}"),
    "pick_two_obj_and_place": ("put two {o} in {r}", "find two {o} and put them in {r}"),
}
"""Two sentence forms per kind; o, r, t are the types of object, receptacle and lamp (toggled)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Goal:
    """What has to be true for the game to be won, by types."""

    task_type: str
    """One of `TASK_TYPES`."""
    object_type: str
    """Type of the thing to carry or to look at, e.g. `apple`."""
    receptacle_type: str | None = None
    """Type of the place it goes to. None in the light task."""
    lamp_type: str | None = None
    """Type of the lamp, in the light task only."""

    def __post_init__(self) -> None:
        if self.task_type not in TASK_TYPES:
            raise FormatError(f"goal: unknown task type {self.task_type!r}, expected one of {', '.join(TASK_TYPES)}.")
        needs_lamp = self.task_type == LIGHT_TASK
        if needs_lamp != (self.lamp_type is not None) or needs_lamp != (self.receptacle_type is None):
            raise FormatError(
                f"goal: task type {self.task_type!r} came with receptacle_type={self.receptacle_type!r} and "
                f"lamp_type={self.lamp_type!r}.\n"
                "  The light task takes a lamp type and no receptacle type; every other takes only a receptacle type."
            )
        for value in (self.object_type, self.receptacle_type, self.lamp_type):
            if value is not None:
                _check_type(value, where="goal")

    def sentence(self, form: int = 0) -> str:
        """The task in words, without the full stop. `form` is 0 or 1: `put a cd in safe`, `put some cd on safe`."""
        return TASK_SENTENCES[self.task_type][form].format(o=self.object_type, r=self.receptacle_type, t=self.lamp_type)


@dataclass(frozen=True, kw_only=True, slots=True)
class Receptacle:
    """A place that holds objects. It never moves; several may share one location."""

    id: str
    type: str
    location: str
    openable: bool = False

    def __post_init__(self) -> None:
        _check_id(self.id, where="receptacle")
        _check_type(self.type, where=f"receptacle {self.id}")
        _check_id(self.location, where=f"location of receptacle {self.id}")


@dataclass(frozen=True, kw_only=True, slots=True)
class HouseholdObject:
    """A thing that lies in receptacles and may be carried, with what can be done to it."""

    id: str
    type: str
    pickupable: bool = False
    cleanable: bool = False
    heatable: bool = False
    coolable: bool = False
    sliceable: bool = False
    toggleable: bool = False
    is_receptacle_object: bool = False
    """A vessel such as a mug: examined, it tells what is in it."""
    inner: tuple[str, ...] = ()
    """Ids of the objects inside this vessel. They stay there; sorted."""

    def __post_init__(self) -> None:
        _check_id(self.id, where="object")
        _check_type(self.type, where=f"object {self.id}")
        _check_sorted(self.inner, where=f"object {self.id}: inner")


@dataclass(frozen=True, kw_only=True, slots=True)
class Game:
    """One room and one task, at the start of play."""

    game_id: str
    """Identity for people and manifests; no part of the content."""
    task: str
    """The task sentence without its full stop, e.g. `put some apple on countertop`."""
    goal: Goal
    start_location: str
    """Where the agent stands at the start; in real games no receptacle is there."""
    receptacles: tuple[Receptacle, ...]
    """Sorted by id."""
    objects: tuple[HouseholdObject, ...]
    """Sorted by id."""
    in_receptacle: tuple[tuple[str, str], ...]
    """(object id, receptacle id), sorted. One object may be in several receptacles at once."""
    object_locations: tuple[tuple[str, str], ...]
    """(object id, location), sorted. Matters for slicing and for what lies next to a receptacle."""
    initial_states: tuple[tuple[str, str], ...] = ()
    """(state, id), sorted, state from `STATES`. Some real games start with cool objects."""
    can_contain: frozenset[tuple[str, str]]
    """(receptacle type, object type) pairs that `move` accepts."""
    cache: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False, hash=False)
    """Values derived from this game, made at first use by `content_hash` and the engine. Never stored."""

    def __post_init__(self) -> None:
        where = f"game {self.game_id}"
        if not self.task or self.task.endswith(".") or "\n" in self.task or self.task != self.task.strip():
            raise FormatError(f"{where}: task is {self.task!r}, expected one line of text without a final full stop.")
        _check_id(self.start_location, where=f"{where}: start location")
        receptacle_ids = tuple(r.id for r in self.receptacles)
        object_ids = tuple(o.id for o in self.objects)
        _check_sorted(receptacle_ids, where=f"{where}: receptacles by id")
        _check_sorted(object_ids, where=f"{where}: objects by id")
        _check_sorted(self.in_receptacle, where=f"{where}: in_receptacle")
        _check_sorted(self.object_locations, where=f"{where}: object_locations")
        _check_sorted(self.initial_states, where=f"{where}: initial_states")
        receptacles, objects = set(receptacle_ids), set(object_ids)
        if not receptacles:
            raise FormatError(f"{where}: no receptacle, expected at least one.")
        if both := receptacles & objects:
            raise FormatError(f"{where}: {min(both)!r} is a receptacle and an object, expected one of the two.")
        for object_id, receptacle_id in self.in_receptacle:
            _check_known(object_id, objects, "object", where=f"{where}: in_receptacle")
            _check_known(receptacle_id, receptacles, "receptacle", where=f"{where}: in_receptacle")
        for object_id, _location in self.object_locations:
            _check_known(object_id, objects, "object", where=f"{where}: object_locations")
        for obj in self.objects:
            for inner_id in obj.inner:
                _check_known(inner_id, objects, "object", where=f"{where}: inner of {obj.id}")
        for state, thing_id in self.initial_states:
            if state not in STATES:
                raise FormatError(f"{where}: unknown state {state!r}, expected one of {', '.join(STATES)}.")
            if state == "opened":
                _check_known(thing_id, receptacles, "receptacle", where=f"{where}: initial_states")
            else:
                _check_known(thing_id, objects, "object", where=f"{where}: initial_states")

    @property
    def content_hash(self) -> str:
        """sha256 over everything but `game_id`; equal in every process. 64 hex digits."""
        value: str | None = self.cache.get("content_hash")
        if value is None:
            value = self.cache["content_hash"] = _content_hash(self)
        return value

    def __hash__(self) -> int:
        return hash((self.game_id, self.content_hash))

    def __getstate__(self) -> list[Any]:
        return [getattr(self, name) for name in _GAME_FIELDS]

    def __setstate__(self, state: list[Any]) -> None:
        for name, value in zip(_GAME_FIELDS, state, strict=True):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "cache", {})


_GAME_FIELDS: Final = tuple(name for name in Game.__dataclass_fields__ if name != "cache")


def _content_hash(game: Game) -> str:
    goal = game.goal
    content = [
        game.task,
        [goal.task_type, goal.object_type, goal.receptacle_type, goal.lamp_type],
        game.start_location,
        [[r.id, r.type, r.location, r.openable] for r in game.receptacles],
        [
            [o.id, o.type, o.pickupable, o.cleanable, o.heatable, o.coolable, o.sliceable, o.toggleable,
             o.is_receptacle_object, o.inner]
            for o in game.objects
        ],
        game.in_receptacle,
        game.object_locations,
        game.initial_states,
        sorted(game.can_contain),
    ]  # fmt: skip
    return hashlib.sha256(json.dumps(content, separators=(",", ":")).encode()).hexdigest()


def _check_id(value: str, *, where: str) -> None:
    if not value or value != value.lower() or len(value.split()) != 1 or "(" in value or ")" in value:
        raise FormatError(f"{where}: id {value!r}, expected lower-case text without spaces and brackets.")


def _check_type(value: str, *, where: str) -> None:
    if not value.isalnum() or value != value.lower():
        raise FormatError(f"{where}: type {value!r}, expected lower-case letters only, e.g. 'countertop'.")


def _check_sorted(values: Iterable[Any], *, where: str) -> None:
    listed = list(values)
    for before, after in pairwise(listed):
        if not before < after:
            raise FormatError(
                f"{where}: {after!r} comes after {before!r}, expected ascending order without repeats.\n"
                "  Pass tuple(sorted(set(values))) of the plain ids."
            )


def _check_known(value: str, known: set[str], kind: str, *, where: str) -> None:
    if value not in known:
        raise FormatError(f"{where}: {value!r} is no {kind} of this game; it has {len(known)} of them.")
