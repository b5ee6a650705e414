"""Making household games: a seed in, a `Game` out, the same in every process.

A game is drawn in the order room, layout, goal, objects, places, names. It is solvable by construction: every object
that can be picked up lies where `move` would accept it, the goal's receptacle and appliance are there, and so is
the lamp. It is never won at the start: whatever has to be carried does not yet lie where it has to go.
"""

from __future__ import annotations

import math
import random
from bisect import bisect
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final

from tutelage.envs.household.game import (
    LIGHT_TASK,
    TASK_TYPES,
    Game,
    Goal,
    HouseholdObject,
    Receptacle,
)
from tutelage.envs.household.layout import Layout, Layouts, draw, draw_layout
from tutelage.envs.household.rooms import (
    APPLIANCE,
    CAN_CONTAIN,
    CROWDING,
    FIXED,
    OBJECT_TYPES,
    ONE_EACH,
    OPENABLE,
    PROPERTIES,
    ROOM_OF_NAME,
    ROOMS,
    SIZES,
    STANDS_ON,
    TASK_ROOMS,
    Room,
)
from tutelage.errors import ConfigError
from tutelage.types import stable_hash

PICK_TWO: Final = "pick_two_obj_and_place"
LAMP: Final = "desklamp"

SMALL_NUM_OBJECTS: Final = (9, 9, 10, 10, 11, 11, 12, 13, 14)
SMALL_COPIES: Final = (1, 1, 1, 1, 2, 2, 3)
"""How many of an object type a small room has, for goal objects and others alike."""
ONE_ALREADY_THERE: Final = 0.1
"""How often one object of a pick-two game lies in a receptacle of the goal's type at the start."""
COOL_AT_START: Final = 0.15
"""How often something in the fridge of a kitchen of real size is cool at the start, as in some released games."""

_TREATABLE: Final = {
    "pick_clean_then_place_in_recep": PROPERTIES["cleanable"],
    "pick_heat_then_place_in_recep": PROPERTIES["heatable"],
    "pick_cool_then_place_in_recep": PROPERTIES["coolable"],
}
_FACTS: Final[dict[str, dict[str, Any]]] = {
    kind: {"type": kind, "pickupable": kind not in FIXED} | {name: kind in who for name, who in PROPERTIES.items()}
    for kind in OBJECT_TYPES
}
_FITS: Final = {
    kind: STANDS_ON.get(kind) or frozenset(r for r, inside in CAN_CONTAIN.items() if kind in inside)
    for kind in OBJECT_TYPES
}
"""Object type -> the receptacle types it may lie in."""
_PAIRS: Final = {r: frozenset((r, o) for o in inside) for r, inside in CAN_CONTAIN.items()}
_CROWDING: Final = {"real": CROWDING, "small": {kind: math.sqrt(weight) for kind, weight in CROWDING.items()}}
"""Small rooms spread their objects more evenly, so that there is something to search."""
_COORDINATES: Final = tuple(
    f"_{'minus' if n < 0 else 'plus'}_{abs(n) // 100:02d}_dot_{abs(n) % 100:02d}" for n in range(-400, 400)
)
_BASIN: Final = {"sinkbasin": "sink", "bathtubbasin": "bathtub"}
"""Receptacle types whose id begins with what they belong to and ends with the type."""


def generate_game(
    seed: int,
    *,
    size: str = "small",
    task_type: str | None = None,
    room: str | None = None,
    layouts: Layouts = "any",
) -> Game:
    """The game of a seed. All arguments together decide it.

    size: `small` (about 12 receptacles and 11 objects) or `real` (about 23 and 36, as the released games).
    task_type, room: drawn from the seed where None; a room must allow the task type (a microwave stands in kitchens).
    layouts: `seen` or `unseen` restricts the room to the layouts of train and validation, or to those of test.
    Raises ConfigError on an unknown name or a room that does not allow the task type.
    """
    rng = random.Random(stable_hash("household game", size, seed))
    task_type, room = _choose_task_and_room(rng, size, task_type, room)
    goal = None
    while goal is None:
        layout = draw_layout(rng, room, size, layouts)
        goal = _draw_goal(rng, task_type, ROOM_OF_NAME[room], layout)
    return _Builder(rng, size, ROOM_OF_NAME[room], layout, goal).build(f"generated-{size}-{room}-{seed}")


def _choose_task_and_room(rng: random.Random, size: str, task_type: str | None, room: str | None) -> tuple[str, str]:
    for what, name, known in (("size", size, SIZES), ("task type", task_type, TASK_TYPES), ("room", room, ROOMS)):
        if name is not None and name not in known:
            raise ConfigError.unknown(f"household {what}", name, known)
    if task_type is None:
        task_type = draw(rng, [t for t in TASK_TYPES if room is None or room in TASK_ROOMS[t]])
    shares = TASK_ROOMS[task_type]
    if room is None:
        room = _draw_weighted(rng, list(shares), list(accumulate(shares.values())))
    elif room not in shares:
        raise ConfigError(
            f"household games: no task '{task_type}' in a '{room}'. Rooms for it: {', '.join(sorted(shares))}."
        )
    return task_type, room


def _draw_weighted(rng: random.Random, options: Sequence[Any], cumulative: Sequence[float]) -> Any:
    return options[bisect(cumulative, rng.random() * cumulative[-1], 0, len(options) - 1)]


def _draw_goal(rng: random.Random, task_type: str, room: Room, layout: Layout) -> Goal | None:
    """A goal that this layout allows. None: it allows none, so another layout has to be drawn."""
    types = [t for t in sorted(room.objects) if t not in FIXED and not layout.types.isdisjoint(_FITS[t])]
    if task_type == LIGHT_TASK:
        if layout.types.isdisjoint(STANDS_ON[LAMP]):
            return None
        return Goal(task_type=task_type, object_type=draw(rng, types), lamp_type=LAMP)
    appliance = APPLIANCE.get(task_type)
    if appliance is not None and appliance not in layout.types:
        return None
    targets: dict[str, list[str]] = {}
    for object_type in types:
        fitting = sorted(layout.types & _FITS[object_type])
        if appliance is not None:
            if object_type in _TREATABLE[task_type]:
                targets[object_type] = [r for r in fitting if r != appliance]
        elif len(fitting) > 1:
            # With one kind of place only, the object would lie where it has to go.
            targets[object_type] = fitting
    options = sorted(object_type for object_type, fitting in targets.items() if fitting)
    if not options:
        return None
    object_type = draw(rng, options)
    return Goal(task_type=task_type, object_type=object_type, receptacle_type=draw(rng, targets[object_type]))


class _Builder:
    """One game in the making. All methods draw from one generator, so their order is part of the seed's meaning."""

    def __init__(self, rng: random.Random, size: str, room: Room, layout: Layout, goal: Goal) -> None:
        self.rng = rng
        self.size = size
        self.room = room
        self.layout = layout
        self.goal = goal
        self.used_ids: set[str] = set()
        self.used_locations: set[str] = set()
        self.receptacles: list[Receptacle] = []
        self.choices: dict[tuple[str, bool], tuple[list[Receptacle], list[float]]] = {}
        """(object type, whether the goal's receptacles are left out) -> places and their cumulated weights."""
        self.objects: dict[str, str] = {}
        """Object id -> type."""
        self.lies_in: list[tuple[str, Receptacle]] = []

    def build(self, game_id: str) -> Game:
        form = int(self.rng.random() * 2)
        start = self._new_location()
        self._place_receptacles()
        for object_type, count in self._object_counts().items():
            self._place_objects(object_type, count)
        kinds = set(self.objects.values())
        return Game(
            game_id=game_id,
            task=self.goal.sentence(form),
            goal=self.goal,
            start_location=start,
            receptacles=tuple(sorted(self.receptacles, key=lambda r: r.id)),
            objects=tuple(HouseholdObject(id=i, **_FACTS[kind]) for i, kind in sorted(self.objects.items())),
            in_receptacle=tuple(sorted((i, place.id) for i, place in self._with_neighbours())),
            object_locations=tuple(sorted((i, place.location) for i, place in self.lies_in)),
            initial_states=self._initial_states(),
            can_contain=frozenset(pair for kind in self.layout.types for pair in _PAIRS[kind] if pair[1] in kinds),
        )

    # Receptacles

    def _place_receptacles(self) -> None:
        doorless = self.room.doorless if self.size == "real" else {}
        for spot in self.layout.spots:
            location = self._new_location()
            for kind in spot:
                openable = kind in OPENABLE and not (kind in doorless and self.rng.random() < doorless[kind])
                stem = _BASIN.get(kind, kind)
                suffix = f"_bar_{kind}" if kind in _BASIN else ""
                self.receptacles.append(
                    Receptacle(id=self._new_id(stem, suffix), type=kind, location=location, openable=openable)
                )

    # Objects

    def _object_counts(self) -> dict[str, int]:
        """Object type -> how many there will be, the goal's first."""
        goal, rng = self.goal, self.rng
        copies = SMALL_COPIES if self.size == "small" else self.room.copies
        counts = {goal.object_type: self._num_copies(goal.object_type, copies)}
        if goal.task_type == PICK_TWO:
            counts[goal.object_type] = max(2, draw(rng, copies))
        if goal.lamp_type is not None:
            counts[goal.lamp_type] = 1
        others = [t for t in self.room.objects if t not in counts and not self.layout.types.isdisjoint(_FITS[t])]
        if self.size == "real":
            for kind in others:
                if rng.random() < self.room.objects[kind]:
                    counts[kind] = self._num_copies(kind, copies)
            return counts
        wanted = draw(rng, SMALL_NUM_OBJECTS)
        others = [kind for kind in others if rng.random() < math.sqrt(self.room.objects[kind])]
        total = sum(counts.values())
        while total < wanted and others:
            kind = others.pop(int(rng.random() * len(others)))
            counts[kind] = min(self._num_copies(kind, copies), wanted - total)
            total += counts[kind]
        return counts

    def _num_copies(self, kind: str, copies: tuple[int, ...]) -> int:
        count = draw(self.rng, copies)
        if kind in FIXED:
            return 1
        return 1 if kind in ONE_EACH and self.rng.random() < 0.6 else count

    def _place_objects(self, object_type: str, count: int) -> None:
        goal = self.goal
        is_goal = object_type == goal.object_type
        away = is_goal and goal.task_type not in APPLIANCE and goal.task_type != LIGHT_TASK
        one_there = is_goal and goal.task_type == PICK_TWO and self.rng.random() < ONE_ALREADY_THERE
        for index in range(count):
            places, cumulative = self._choices(object_type, away and not (one_there and index == 0))
            place = _draw_weighted(self.rng, places, cumulative)
            object_id = self._new_id(object_type)
            self.objects[object_id] = object_type
            self.lies_in.append((object_id, place))

    def _choices(self, object_type: str, away: bool) -> tuple[list[Receptacle], list[float]]:
        found = self.choices.get((object_type, away))
        if found is None:
            fits, crowding = _FITS[object_type], _CROWDING[self.size]
            target = self.goal.receptacle_type if away else None
            places = [p for p in self.receptacles if p.type in fits and p.type != target]
            found = places, list(accumulate(crowding[p.type] for p in places))
            self.choices[object_type, away] = found
        return found

    def _with_neighbours(self) -> list[tuple[str, Receptacle]]:
        """Which object is in which receptacle. In rooms of real size a pan over two burners is in both."""
        inside = list(self.lies_in)
        if self.size == "real":
            burners = [p for p in self.receptacles if p.type == "stoveburner"]
            inside += [
                (object_id, other)
                for object_id, place in self.lies_in
                if place.type == "stoveburner"
                for other in burners
                if other is not place and other.location == place.location
            ]
        return inside

    def _initial_states(self) -> tuple[tuple[str, str], ...]:
        if self.size == "small" or self.rng.random() >= COOL_AT_START:
            return ()
        in_fridge = [
            object_id
            for object_id, place in self.lies_in
            if place.type == "fridge" and self.objects[object_id] in PROPERTIES["coolable"]
        ]
        return (("cool", draw(self.rng, in_fridge)),) if in_fridge else ()

    # Names in the form of the game files

    def _new_id(self, stem: str, suffix: str = "") -> str:
        while True:
            x, y, z = (draw(self.rng, _COORDINATES) for _ in range(3))
            name = f"{stem}_bar_{x}_bar_{y}_bar_{z}{suffix}"
            if name not in self.used_ids:
                self.used_ids.add(name)
                return name

    def _new_location(self) -> str:
        while True:
            x, z = (int(self.rng.random() * 25) - 12 for _ in range(2))
            turn, tilt = int(self.rng.random() * 4), draw(self.rng, (0, 15, 30, 45, 60))
            parts = (f"_minus_{-n}" if n < 0 else str(n) for n in (x, z, turn, tilt))
            name = "loc_bar_" + "_bar_".join(parts)
            if name not in self.used_locations:
                self.used_locations.add(name)
                return name
