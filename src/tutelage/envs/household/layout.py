"""How the receptacles of a generated room stand: which there are, and which share a location.

A `Layout` is a value without ids, so that two games can be compared by it: the test split plays only layouts that
the other splits never draw.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal, TypeVar

from tutelage.envs.household.game import Game
from tutelage.envs.household.rooms import NUM_RECEPTACLES, ROOM_OF_NAME, Room
from tutelage.types import stable_hash

Layouts = Literal["any", "seen", "unseen"]
"""Which layouts a game may have: `seen` those of train and validation, `unseen` those of test."""

UNSEEN_ONE_IN: Final = 5
"""One layout in this many is set aside for test."""

T = TypeVar("T")


def draw(rng: random.Random, options: Sequence[T]) -> T:
    """One of the options, evenly. Built on `random()` alone, which gives the same numbers in every Python version."""
    return options[int(rng.random() * len(options))]


@dataclass(frozen=True)
class Layout:
    """Receptacle types by location, both in text order.

    Example: a fridge, and a coffee machine on a countertop: ``(("coffeemachine", "countertop"), ("fridge",))``,
    with the key ``coffeemachine+countertop fridge``.
    """

    spots: tuple[tuple[str, ...], ...]

    @cached_property
    def key(self) -> str:
        """The layout in one line; equal layouts have equal keys."""
        return " ".join("+".join(spot) for spot in self.spots)

    @cached_property
    def is_unseen(self) -> bool:
        """Whether it belongs to the test split: decided by its hash, so the same for all games and sizes."""
        return stable_hash("household layout", self.key) % UNSEEN_ONE_IN == 0

    @cached_property
    def types(self) -> frozenset[str]:
        """The receptacle types that are there."""
        return frozenset(kind for spot in self.spots for kind in spot)

    def admitted(self, layouts: Layouts) -> bool:
        """Whether a game that may have `layouts` may have this one."""
        return layouts == "any" or self.is_unseen == (layouts == "unseen")


def draw_layout(rng: random.Random, room: str, size: str, layouts: Layouts) -> Layout:
    """A layout for a room, drawn again until it is one of those asked for."""
    table = ROOM_OF_NAME[room]
    low, high = NUM_RECEPTACLES[size]
    while True:
        layout = _draw_any(rng, table, size)
        if low <= sum(map(len, layout.spots)) <= high and layout.admitted(layouts):
            return layout


def layout_of(game: Game) -> Layout:
    """The layout of any game, generated or read."""
    at: dict[str, list[str]] = {}
    for receptacle in game.receptacles:
        at.setdefault(receptacle.location, []).append(receptacle.type)
    return Layout(tuple(sorted(tuple(sorted(types)) for types in at.values())))


def _draw_any(rng: random.Random, room: Room, size: str) -> Layout:
    single = {kind: draw(rng, counts) for kind, counts in room.receptacles[size].items()}
    together: list[list[str]] = []
    for first, second, probability in room.shared:
        if first == second:
            pairs = single.get(first, 0) // 2
        else:
            pairs = min(single.get(first, 0), single.get(second, 0), 1)
        for _ in range(pairs):
            if rng.random() < probability:
                single[first] -= 1
                single[second] -= 1
                together.append(sorted((first, second)))
    spots = [(kind,) for kind, count in single.items() for _ in range(count)]
    return Layout(tuple(sorted([*spots, *(tuple(pair) for pair in together)])))
