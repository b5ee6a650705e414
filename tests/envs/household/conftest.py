"""Small household games built by hand, with ids in the real mangled form."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest

from tutelage.envs.household.game import Game, Goal, HouseholdObject, Receptacle
from tutelage.envs.household.names import base_name

OPENABLE = {"cabinet", "drawer", "fridge", "microwave", "safe"}
CLEANABLE = {"apple", "egg", "knife", "mug", "pan"}
HEATABLE = {"apple", "egg", "mug"}
COOLABLE = {"apple", "egg", "mug", "pan"}
SLICEABLE = {"apple", "egg"}
VESSELS = {"mug", "pan"}
LAMPS = {"desklamp"}


def make_game(
    receptacles: Mapping[str, str],
    contents: Mapping[str, Sequence[str]],
    goal: tuple[str, ...] = ("pick_and_place_simple", "cd", "safe"),
    *,
    start: str = "loc_start",
    states: Sequence[tuple[str, str]] = (),
    inner: Mapping[str, tuple[str, ...]] | None = None,
    can_contain: Sequence[tuple[str, str]] | None = None,
) -> Game:
    """receptacles: id -> location. contents: object id -> ids of the receptacles it is in."""
    task_type, object_type, target = goal
    light = task_type == "look_at_obj_in_light"
    types = {r: base_name(r) for r in receptacles}
    kinds = {o: base_name(o) for o in contents}
    pairs = {(r, o) for r in types.values() for o in kinds.values()} if can_contain is None else set(can_contain)
    goal_record = Goal(
        task_type=task_type,
        object_type=object_type,
        receptacle_type=None if light else target,
        lamp_type=target if light else None,
    )
    return Game(
        game_id="hand-made",
        task=goal_record.sentence(),
        goal=goal_record,
        start_location=start,
        receptacles=tuple(
            Receptacle(id=r, type=types[r], location=receptacles[r], openable=types[r] in OPENABLE)
            for r in sorted(receptacles)
        ),
        objects=tuple(
            HouseholdObject(
                id=o,
                type=kinds[o],
                pickupable=kinds[o] not in LAMPS,
                cleanable=kinds[o] in CLEANABLE,
                heatable=kinds[o] in HEATABLE,
                coolable=kinds[o] in COOLABLE,
                sliceable=kinds[o] in SLICEABLE,
                toggleable=kinds[o] in LAMPS,
                is_receptacle_object=kinds[o] in VESSELS,
                inner=(inner or {}).get(o, ()),
            )
            for o in sorted(contents)
        ),
        in_receptacle=tuple(sorted((o, r) for o, places in contents.items() for r in places)),
        object_locations=tuple(sorted((o, receptacles[places[0]]) for o, places in contents.items() if places)),
        initial_states=tuple(sorted(states)),
        can_contain=frozenset(pairs),
    )


GameMaker = Callable[..., Game]


@pytest.fixture(name="make_game", scope="session")
def make_game_fixture() -> GameMaker:
    return make_game


SINK = "sink_bar__plus_00_bar_sinkbasin"


@pytest.fixture(scope="session")
def kitchen() -> Game:
    """One of everything: shared locations, an object in two receptacles, appliances, a knife, a lamp."""
    return make_game(
        {
            "cabinet_bar__plus_01": "loc_west",
            "cabinet_bar__plus_02": "loc_west",
            "countertop_bar__plus_01": "loc_north",
            "fridge_bar__plus_01": "loc_east",
            "garbagecan_bar__plus_01": "loc_east",
            "microwave_bar__plus_01": "loc_south",
            SINK: "loc_sink",
            "stoveburner_bar__plus_01": "loc_stove",
            "stoveburner_bar__plus_02": "loc_stove_2",
        },
        {
            "apple_bar__plus_01": ["countertop_bar__plus_01"],
            "apple_bar__plus_02": ["fridge_bar__plus_01"],
            "desklamp_bar__plus_01": ["cabinet_bar__plus_01"],
            "egg_bar__plus_01": ["fridge_bar__plus_01"],
            "knife_bar__plus_01": ["countertop_bar__plus_01"],
            "mug_bar__plus_01": ["countertop_bar__plus_01"],
            "mug_bar__plus_02": [],
            "pan_bar__plus_01": ["stoveburner_bar__plus_01", "stoveburner_bar__plus_02"],
        },
        ("pick_heat_then_place_in_recep", "mug", "cabinet"),
        states=[("cool", "apple_bar__plus_02")],
        inner={"pan_bar__plus_01": ("egg_bar__plus_01",)},
    )
