"""Common sense about types of household things: what fits where, and where to look first.

Nothing here is read from a game: it is what anybody knows of kitchens and bathrooms before entering one.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from tutelage.envs.household.rooms import CAN_CONTAIN, OPENABLE
from tutelage.types import stable_hash

STEP_LIMIT: Final = 50
"""The usual limit of an episode, by which the search order `auto` chooses."""

ERRANDS: Final = 8
"""Steps besides searching that a task may take: take, go, treat, go, open, place, and the like."""

SURFACES_OF_LAMPS: Final = frozenset({"desk", "dresser", "shelf", "sidetable", "diningtable", "coffeetable"})
"""Receptacle types on which a lamp may stand."""


def has_door(receptacle: str) -> bool:
    """Whether a receptacle of that name is of a type that mostly has a door or is a drawer."""
    return receptacle.rpartition(" ")[0] in OPENABLE


def fits(wanted: str, receptacle: str) -> bool:
    """Whether a thing of type `wanted` may lie in a receptacle of that name; lamps stand on furniture.

    Example: ``fits("mug", "coffeemachine 1")``, not ``fits("apple", "coffeemachine 1")``.
    """
    kind = receptacle.rpartition(" ")[0]
    if wanted.endswith("lamp"):
        return kind in SURFACES_OF_LAMPS
    return wanted in CAN_CONTAIN.get(kind, ())


def list_order_is_short(receptacles: Sequence[str]) -> bool:
    """Whether all receptacles can be looked into, in any order, within the usual limit and time is left for the rest."""
    return sum(2 if has_door(name) else 1 for name in receptacles) <= STEP_LIMIT - ERRANDS


@lru_cache(maxsize=4096)
def likely_order(receptacles: tuple[str, ...], wanted: str) -> tuple[str, ...]:
    """Where it can be before where it cannot; what is in the open before what is behind doors; else as listed."""
    return tuple(sorted(receptacles, key=lambda name: (not fits(wanted, name), has_door(name))))


@lru_cache(maxsize=4096)
def fitting_first(receptacles: tuple[str, ...], wanted: str) -> tuple[str, ...]:
    """Where it can be before where it cannot, else as listed."""
    return tuple(sorted(receptacles, key=lambda name: not fits(wanted, name)))


@lru_cache(maxsize=4096)
def random_order(receptacles: tuple[str, ...], seed: int) -> tuple[str, ...]:
    """An order drawn from a seed."""
    order = list(receptacles)
    random.Random(stable_hash(seed, "search")).shuffle(order)
    return tuple(order)
