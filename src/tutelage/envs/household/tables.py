"""What never changes in a game, as small integers and lists: made once, shared by all engines on it.

Objects and receptacles are counted in id order, locations in text order. The order of every list in the game's
texts is id order, so a sorted list of indices is a list ready to be written.
"""

from __future__ import annotations

from typing import Final

from tutelage.envs.household.game import LIGHT_TASK, Game
from tutelage.envs.household.names import display_names, list_text
from tutelage.envs.household.place import Place

KNIVES: Final = ("knife", "butterknife")
APPLIANCES: Final = {
    "sinkbasin": ("clean", "cleanable"),
    "microwave": ("heat", "heatable"),
    "fridge": ("cool", "coolable"),
}
"""Receptacle type -> what it does to the object in the hand, and the property that the object needs for it."""

CLEAN, HOT, COOL, SLICED, TOGGLED = 1, 2, 4, 8, 16
FLAGS: Final = {"clean": CLEAN, "hot": HOT, "cool": COOL, "sliced": SLICED, "toggled": TOGGLED}
"""State of an object -> its bit."""


class Tables:
    """The fixed side of one game under one numbering of names."""

    def __init__(self, game: Game, renumber: int | None = None) -> None:
        self.game = game
        names = display_names([r.id for r in game.receptacles] + [o.id for o in game.objects], renumber)
        objects, receptacles = game.objects, game.receptacles
        object_index = {o.id: i for i, o in enumerate(objects)}
        receptacle_index = {r.id: i for i, r in enumerate(receptacles)}
        self.object_names = [names[o.id] for o in objects]
        self.receptacle_names = [names[r.id] for r in receptacles]
        self.object_by_name = {name: i for i, name in enumerate(self.object_names)}
        self.receptacle_by_name = {name: i for i, name in enumerate(self.receptacle_names)}
        self.pickupable = [o.pickupable for o in objects]
        self.sliceable = [o.sliceable for o in objects]
        self.toggleable = [o.toggleable for o in objects]
        self.knife = [o.type in KNIVES for o in objects]
        self.vessel = [o.is_receptacle_object for o in objects]
        self._names = names
        self.openable = [r.openable for r in receptacles]

        # The agent reaches no other location, so objects elsewhere are left out.
        self.locations = sorted({game.start_location, *(r.location for r in receptacles)})
        location_index = {location: i for i, location in enumerate(self.locations)}
        self.start = location_index[game.start_location]
        self.location_of = [location_index[r.location] for r in receptacles]
        here: list[list[int]] = [[] for _ in self.locations]
        self.slot_of: list[int] = []
        """Receptacle -> its position in `here` of its location."""
        for receptacle, at_location in enumerate(self.location_of):
            self.slot_of.append(len(here[at_location]))
            here[at_location].append(receptacle)
        self.here = [tuple(receptacles_here) for receptacles_here in here]
        """Location -> the receptacles there."""
        self.destination = {f"go to {name}": r for r, name in enumerate(self.receptacle_names)}
        """`go to` command -> receptacle; not admissible for those at the agent's own location."""
        self._everywhere = sorted(self.destination)
        self._travel: dict[int, tuple[str, ...]] = {}
        self.arrival = [f"You arrive at {name}. " for name in self.receptacle_names]

        goal = game.goal
        self.goal_objects = frozenset(i for i, o in enumerate(objects) if o.type == goal.object_type)
        self.goal_receptacles = [
            (self.location_of[i], self.slot_of[i])
            for i, r in enumerate(receptacles) if r.type == goal.receptacle_type
        ]  # fmt: skip
        """(location, slot) of every receptacle of the goal's type."""
        self.goal_lamps = frozenset(i for i, o in enumerate(objects) if o.type == goal.lamp_type and o.toggleable)
        treatment = {
            "pick_clean_then_place_in_recep": ("cleanable", CLEAN),
            "pick_heat_then_place_in_recep": ("heatable", HOT),
            "pick_cool_then_place_in_recep": ("coolable", COOL),
        }.get(goal.task_type)
        self.goal_flag = 0
        """The state bit that the object must have to be placed. 0: any state will do."""
        if treatment:
            able, self.goal_flag = treatment
            self.goal_objects = frozenset(o for o in self.goal_objects if getattr(objects[o], able))
        self.goal_needs_place = goal.task_type == LIGHT_TASK
        """Whether the goal depends on where the agent stands."""
        self.goal_count = 2 if goal.task_type == "pick_two_obj_and_place" else 1

        self.first_flags = [0] * len(objects)
        first_opened = [False] * len(receptacles)
        for state, thing_id in game.initial_states:
            if state == "opened":
                first_opened[receptacle_index[thing_id]] = True
            else:
                self.first_flags[object_index[thing_id]] |= FLAGS[state]
        contents: list[list[int]] = [[] for _ in receptacles]
        for object_id, receptacle_id in game.in_receptacle:
            contents[receptacle_index[receptacle_id]].append(object_index[object_id])
        at: list[list[int]] = [[] for _ in self.locations]
        for object_id, location in game.object_locations:
            if location in location_index:
                at[location_index[location]].append(object_index[object_id])
        self.first_places = [
            Place(
                self,
                location,
                opened=tuple(first_opened[r] for r in here),
                contents=tuple(tuple(sorted(contents[r])) for r in here),
                left=tuple(() for _ in here),
                at=tuple(sorted(at[location])),
            )
            for location, here in enumerate(self.here)
        ]

    def travel(self, location: int) -> tuple[str, ...]:
        """The admissible `go to` commands at a location, sorted."""
        commands = self._travel.get(location)
        if commands is None:
            near = {f"go to {self.receptacle_names[r]}" for r in self.here[location]}
            commands = self._travel[location] = tuple([c for c in self._everywhere if c not in near])
        return commands

    def fits(self, o: int, receptacle: int) -> bool:
        """Whether a receptacle takes an object of this type."""
        pair = (self.game.receptacles[receptacle].type, self.game.objects[o].type)
        return pair in self.game.can_contain

    def treatment(self, o: int, receptacle: int) -> str | None:
        """What this receptacle can do to this object: `clean`, `heat`, `cool` or None."""
        verb, able = APPLIANCES.get(self.game.receptacles[receptacle].type, (None, ""))
        return verb if verb and getattr(self.game.objects[o], able) else None

    def inner_text(self, o: int) -> str:
        """The list of what is inside a vessel, which never changes."""
        return list_text([self._names[i] for i in self.game.objects[o].inner])

    def all_receptacles_text(self) -> str:
        """The list that the intro shows in the middle of the room."""
        return list_text(self.receptacle_names)


def tables_of(game: Game, renumber: int | None = None) -> Tables:
    """The tables of a game, made at the first call and kept with the game."""
    key = f"tables/{renumber}"
    tables: Tables | None = game.cache.get(key)
    if tables is None:
        tables = game.cache[key] = Tables(game, renumber)
    return tables
