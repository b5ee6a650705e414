"""The tables agree with each other, and with the released games where those are there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tutelage.envs.household.game import TASK_TYPES
from tutelage.envs.household.reader import find_games, read_game
from tutelage.envs.household.rooms import (
    APPLIANCE,
    CAN_CONTAIN,
    CROWDING,
    FIXED,
    NUM_RECEPTACLES,
    OBJECT_TYPES,
    OPENABLE,
    PROPERTIES,
    RECEPTACLE_TYPES,
    ROOM_OF_NAME,
    ROOMS,
    SIZES,
    STANDS_ON,
    TASK_ROOMS,
)

REPOSITORY = Path(__file__).parents[3]
SHARED_DATA = Path(os.environ.get("TUTELAGE_SHARED_DATA", REPOSITORY.parent / "shared" / "data"))
REAL_GAMES = SHARED_DATA / "alfworld"


def test_every_type_of_a_room_is_in_the_tables() -> None:
    assert tuple(ROOM_OF_NAME) == ROOMS
    assert set(CROWDING) == set(RECEPTACLE_TYPES)
    assert set(NUM_RECEPTACLES) == set(SIZES)
    for room in ROOM_OF_NAME.values():
        assert set(room.receptacles) == set(SIZES)
        for counts in room.receptacles.values():
            assert set(counts) <= set(RECEPTACLE_TYPES)
        assert all(0.0 < often <= 1.0 for often in room.objects.values())
        for first, second, probability in room.shared:
            assert {first, second} <= set(RECEPTACLE_TYPES)
            assert 0.0 < probability <= 1.0
        assert set(room.doorless) <= OPENABLE


def test_every_object_type_has_a_place_in_its_room() -> None:
    for name, room in ROOM_OF_NAME.items():
        there = {kind for counts in room.receptacles.values() for kind in counts}
        for kind in room.objects:
            fits = STANDS_ON.get(kind) or {r for r, inside in CAN_CONTAIN.items() if kind in inside}
            assert there & fits, (name, kind)
            assert (kind in FIXED) == (kind in STANDS_ON)


def test_every_task_type_has_rooms_with_what_it_needs() -> None:
    assert set(TASK_ROOMS) == set(TASK_TYPES)
    for task_type, rooms in TASK_ROOMS.items():
        for name in rooms:
            room = ROOM_OF_NAME[name]
            if task_type in APPLIANCE:
                assert all(min(counts[APPLIANCE[task_type]]) >= 1 for counts in room.receptacles.values())
            if task_type == "look_at_obj_in_light":
                assert "desklamp" in room.objects


@pytest.mark.skipif(not REAL_GAMES.is_dir(), reason=f"no released games at {REAL_GAMES}; set TUTELAGE_SHARED_DATA")
def test_the_tables_say_what_the_released_games_say() -> None:
    pairs: set[tuple[str, str]] = set()
    for folder in find_games(REAL_GAMES):
        game = read_game(folder)
        pairs |= game.can_contain
        for thing in game.objects:
            for field, who in PROPERTIES.items():
                if thing.type in OBJECT_TYPES:
                    assert getattr(thing, field) == (thing.type in who), (thing.type, field)
            if thing.type in OBJECT_TYPES:
                assert thing.pickupable == (thing.type not in FIXED), thing.type
        for receptacle in game.receptacles:
            assert not receptacle.openable or receptacle.type in OPENABLE
            if receptacle.type in {"fridge", "microwave", "safe"}:
                assert receptacle.openable
    assert pairs == {(r, o) for r, inside in CAN_CONTAIN.items() for o in inside}
