"""Playing one household game: commands in, the original game's texts out.

The state is the agent's location, the object in the hand, one `Place` per location and the state bits per object.
A command is admissible iff the menu of the place holds it, or it is a `go to` elsewhere; everything else is
answered `Nothing happens.` and changes nothing. Not thread-safe; engines on one game share only what is fixed
or filled in at first use.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tutelage.envs.household.game import Game
from tutelage.envs.household.place import NOBODY, Place
from tutelage.envs.household.tables import CLEAN, COOL, FLAGS, HOT, SLICED, TOGGLED, Tables, tables_of

NOTHING_HAPPENS: Final = "Nothing happens."
WELCOME: Final = "-= Welcome to TextWorld, ALFRED! =-"

HELP: Final = (
    "Available commands:\n"
    "  look:                             look around your current location\n"
    "  inventory:                        check your current inventory\n"
    "  go to (receptacle):               move to a receptacle\n"
    "  open (receptacle):                open a receptacle\n"
    "  close (receptacle):               close a receptacle\n"
    "  take (object) from (receptacle):  take an object from a receptacle\n"
    "  move (object) to (receptacle):  place an object in or on a receptacle\n"
    "  examine (something):              examine a receptacle or an object\n"
    "  use (object):                     use an object\n"
    "  heat (object) with (receptacle):  heat an object using a receptacle\n"
    "  clean (object) with (receptacle): clean an object using a receptacle\n"
    "  cool (object) with (receptacle):  cool an object using a receptacle\n"
    "  slice (object) with (object):     slice an object using a sharp object\n"
)

PUT_SEPARATORS: Final = (" in/on ", " in ", " on ", " to ")
"""Between object and receptacle in the older form `put O in/on R`."""

CONDITIONS: Final = (
    (CLEAN | HOT | SLICED, "hot and clean sliced"),
    (CLEAN | COOL | SLICED, "cool and clean sliced"),
    (CLEAN | SLICED, "clean sliced"),
    (HOT | SLICED, "hot sliced"),
    (COOL | SLICED, "cool sliced"),
    (CLEAN | HOT, "hot and clean"),
    (CLEAN | COOL, "cool and clean"),
    (HOT, "hot"),
    (CLEAN, "clean"),
    (COOL, "cold"),
)
"""How a held object is described: the first line whose bits it has. An object that is only cool is `cold`."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The whole state of play at one moment, for `Engine.restore` on the same game."""

    tables: Tables
    location: int
    held: int
    places: tuple[Place, ...]
    flags: tuple[int, ...]


def as_move(command: str) -> str:
    """``put O in/on R`` (also `in`, `on`, `to`) as ``move O to R``; other commands as they are."""
    if command.startswith("put "):
        for separator in PUT_SEPARATORS:
            name, found, receptacle = command[4:].partition(separator)
            if found:
                return f"move {name} to {receptacle}"
    return command


class Engine:
    """One play of one game.

    accept_put: read the older `put O in/on R` (also `in`, `on`, `to`) as `move O to R`.
    renumber: a seed that permutes the numbers in the names (`apple 2`), for training; None as in the original.

    Example: engine.reset() -> intro; engine.step("go to fridge 1") -> "You arrive at fridge 1. The fridge 1 is closed."
    """

    __slots__ = ("_flags", "_held", "_location", "_places", "_tables", "_won", "accept_put", "game")

    def __init__(self, game: Game, accept_put: bool = False, renumber: int | None = None) -> None:
        self.game = game
        self.accept_put = accept_put
        self._tables = tables_of(game, renumber)
        self.reset()

    # Play

    def reset(self) -> str:
        """Back to the start. Returns the intro with the task sentence."""
        tables = self._tables
        self._location = tables.start
        self._held = NOBODY
        self._places = tables.first_places.copy()
        self._flags = tables.first_flags.copy()
        self._won: bool | None = None
        view = self._places[self._location].look_text()
        if not tables.here[self._location]:
            # Only here are all receptacles listed; a later `look` from the middle of the room sees nothing.
            view = view.replace("nothing", tables.all_receptacles_text())
        return f"{WELCOME}\n\n{view}\n\nYour task is to: {self.game.task}."

    def step(self, command: str) -> str:
        """Do one command and return the game's answer."""
        command = command.strip()
        tables = self._tables
        destination = tables.destination.get(command)
        if destination is not None:
            location = tables.location_of[destination]
            if location == self._location:
                return NOTHING_HAPPENS
            self._location = location
            if tables.goal_needs_place:
                self._won = None
            return tables.arrival[destination] + self._places[location].contents_text(tables.slot_of[destination])
        place = self._places[self._location]
        actions = place.menu(self._held).actions
        action = actions.get(command)
        if action is None and self.accept_put:
            action = actions.get(as_move(command))
        if action is None:
            return NOTHING_HAPPENS
        verb, first, second = action
        return DO[verb](self, place, first, second)

    def admissible(self) -> tuple[str, ...]:
        """The commands that do something now, sorted as text."""
        return self._places[self._location].menu(self._held).commands

    @property
    def won(self) -> bool:
        """Whether the goal holds in the present state."""
        if self._won is None:
            self._won = self._goal_holds()
        return self._won

    def conditions(self) -> tuple[bool, ...]:
        """The conditions of the goal, true where they hold now; all of them hold exactly when the game is won.

        placing            placed
        placing two        one placed, two in one receptacle
        clean, heat, cool  an object of the kind is placed; one has the state; one that has it is placed
        light              an object of the kind is held; a lamp of the kind is on; held where such a lamp is on
        """
        tables = self._tables
        if tables.goal_needs_place:
            lit = any(self._flags[o] & TOGGLED for o in tables.goal_lamps)
            return (self._held in tables.goal_objects, lit, self.won)
        most = max(
            (
                len(tables.goal_objects.intersection(self._places[at].contents[slot]))
                for at, slot in tables.goal_receptacles
            ),
            default=0,
        )
        if tables.goal_flag:
            treated = any(self._flags[o] & tables.goal_flag for o in tables.goal_objects)
            return (most >= 1, treated, self.won)
        return tuple(most >= count for count in range(1, tables.goal_count + 1))

    @property
    def task(self) -> str:
        """The task sentence, without its full stop."""
        return self.game.task

    # Keeping and comparing states

    def snapshot(self) -> Snapshot:
        """The present state; cheap, and unchanged by later steps."""
        return Snapshot(self._tables, self._location, self._held, tuple(self._places), tuple(self._flags))

    def restore(self, snapshot: Snapshot) -> None:
        """Go to a state of the same game, taken from this engine or from another one."""
        if snapshot.tables is not self._tables:
            raise ValueError(
                f"snapshot of game {snapshot.tables.game.game_id!r} given to an engine of {self.game.game_id!r}.\n"
                "  Restore it in an engine made from the same Game object with the same numbering."
            )
        self._location = snapshot.location
        self._held = snapshot.held
        self._places = list(snapshot.places)
        self._flags = list(snapshot.flags)
        self._won = None

    def state_hash(self) -> str:
        """32 hex digits over the game and its present state, equal in every process for equal states."""
        state = hashlib.blake2b(self.game.content_hash.encode(), digest_size=16)
        state.update(f"/{self._location}/{self._held}/".encode() + bytes(self._flags))
        for place in self._places:
            state.update(place.digest)
        return state.hexdigest()

    # Reading the full state, for planners and exact footprints

    @property
    def location(self) -> str:
        """Id of the agent's location."""
        return self._tables.locations[self._location]

    @property
    def here(self) -> tuple[str, ...]:
        """Names of the receptacles at the agent's location, in id order."""
        return tuple(self._tables.receptacle_names[r] for r in self._tables.here[self._location])

    @property
    def held(self) -> str | None:
        """Name of the object in the hand. None: the hand is empty."""
        return self._tables.object_names[self._held] if self._held != NOBODY else None

    @property
    def object_names(self) -> tuple[str, ...]:
        """Names of all objects, in id order, parallel to `game.objects`."""
        return tuple(self._tables.object_names)

    @property
    def receptacle_names(self) -> tuple[str, ...]:
        """Names of all receptacles, in id order, parallel to `game.receptacles`."""
        return tuple(self._tables.receptacle_names)

    def location_of(self, receptacle: str) -> str:
        """Id of the location of a receptacle."""
        return self._tables.locations[self._tables.location_of[self._receptacle(receptacle)]]

    def contents(self, receptacle: str) -> tuple[str, ...]:
        """Names of the objects in a receptacle, seen or not, in id order."""
        place, slot = self._spot(receptacle)
        return tuple(self._tables.object_names[o] for o in place.contents[slot])

    def containers(self, name: str) -> tuple[str, ...]:
        """Names of all receptacles an object is in, in id order. Empty: held, or out of reach."""
        o = self._object(name)
        return tuple(
            receptacle
            for receptacle, at, slot in zip(
                self._tables.receptacle_names, self._tables.location_of, self._tables.slot_of, strict=True
            )
            if o in self._places[at].contents[slot]
        )

    def is_open(self, receptacle: str) -> bool:
        """Whether a door or drawer is open. False for receptacles without one."""
        place, slot = self._spot(receptacle)
        return place.opened[slot]

    def states(self, name: str) -> frozenset[str]:
        """Which of clean, hot, cool, sliced, toggled hold of an object."""
        flags = self._flags[self._object(name)]
        return frozenset(state for state, bit in FLAGS.items() if flags & bit)

    # Inside

    def _object(self, name: str) -> int:
        try:
            return self._tables.object_by_name[name]
        except KeyError:
            raise KeyError(f"game {self.game.game_id} has no object {name!r}") from None

    def _receptacle(self, name: str) -> int:
        try:
            return self._tables.receptacle_by_name[name]
        except KeyError:
            raise KeyError(f"game {self.game.game_id} has no receptacle {name!r}") from None

    def _spot(self, receptacle: str) -> tuple[Place, int]:
        index = self._receptacle(receptacle)
        return self._places[self._tables.location_of[index]], self._tables.slot_of[index]

    def _goal_holds(self) -> bool:
        tables = self._tables
        if tables.goal_needs_place:
            if self._held not in tables.goal_objects:
                return False
            lit = {o for o in tables.goal_lamps if self._flags[o] & TOGGLED}
            return any(not lit.isdisjoint(inside) for inside in self._places[self._location].contents)
        flag = tables.goal_flag
        for location, slot in tables.goal_receptacles:
            placed = tables.goal_objects.intersection(self._places[location].contents[slot])
            if flag:
                placed = frozenset(o for o in placed if self._flags[o] & flag)
            if len(placed) >= tables.goal_count:
                return True
        return False

    def _change(self, place: Place) -> None:
        self._places[place.location] = place
        self._won = None

    # The verbs. Each is called only where it is admissible.

    def _look(self, place: Place, _o: int, _slot: int) -> str:
        return place.look_text()

    def _inventory(self, _place: Place, _o: int, _slot: int) -> str:
        if self._held == NOBODY:
            return "You are not carrying anything."
        return f"You are carrying: a {self._tables.object_names[self._held]}."

    def _help(self, _place: Place, _o: int, _slot: int) -> str:
        return HELP

    def _open(self, place: Place, _o: int, slot: int) -> str:
        changed = place.with_door(slot, opened=True)
        self._change(changed)
        return f"You open the {self._name(place, slot)}. {changed.contents_text(slot)}"

    def _close(self, place: Place, _o: int, slot: int) -> str:
        self._change(place.with_door(slot, opened=False))
        return f"You close the {self._name(place, slot)}."

    def _take(self, place: Place, o: int, slot: int) -> str:
        self._change(place.without(o, slot))
        self._held = o
        return f"You pick up the {self._tables.object_names[o]} from the {self._name(place, slot)}."

    def _move(self, place: Place, o: int, slot: int) -> str:
        self._change(place.having(o, slot))
        self._held = NOBODY
        return f"You move the {self._tables.object_names[o]} to the {self._name(place, slot)}."

    def _examine_receptacle(self, place: Place, _o: int, slot: int) -> str:
        return place.contents_text(slot)

    def _examine_object(self, _place: Place, o: int, _slot: int) -> str:
        tables, name, flags = self._tables, self._tables.object_names[o], self._flags[o]
        if tables.vessel[o]:
            return f"This is a normal {name}. In it, you see {tables.inner_text(o)}."
        for bits, words in CONDITIONS:
            if flags & bits == bits:
                return f"This is a {words} {name}."
        if tables.toggleable[o] and flags & TOGGLED:
            return f"This {name} is on."
        if tables.sliceable[o] and flags & SLICED:
            return f"This is a sliced {name}."
        return f"There's nothing special about {name}."

    def _clean(self, place: Place, o: int, slot: int) -> str:
        return self._treat(place, o, slot, "clean", add=CLEAN)

    def _heat(self, place: Place, o: int, slot: int) -> str:
        return self._treat(place, o, slot, "heat", add=HOT, remove=COOL)

    def _cool(self, place: Place, o: int, slot: int) -> str:
        return self._treat(place, o, slot, "cool", add=COOL, remove=HOT)

    def _treat(self, place: Place, o: int, slot: int, verb: str, add: int, remove: int = 0) -> str:
        self._flags[o] = self._flags[o] & ~remove | add
        self._won = None
        return f"You {verb} the {self._tables.object_names[o]} using the {self._name(place, slot)}."

    def _use(self, _place: Place, o: int, _slot: int) -> str:
        self._flags[o] |= TOGGLED
        self._won = None
        return f"You turn on the {self._tables.object_names[o]}."

    def _slice(self, _place: Place, o: int, knife: int) -> str:
        self._flags[o] |= SLICED
        return f"You sliced the {self._tables.object_names[o]} with the {self._tables.object_names[knife]}."

    def _name(self, place: Place, slot: int) -> str:
        return self._tables.receptacle_names[self._tables.here[place.location][slot]]


DO: Final[dict[str, Callable[[Engine, Place, int, int], str]]] = {
    "look": Engine._look,
    "inventory": Engine._inventory,
    "help": Engine._help,
    "open": Engine._open,
    "close": Engine._close,
    "take": Engine._take,
    "move": Engine._move,
    "examine receptacle": Engine._examine_receptacle,
    "examine object": Engine._examine_object,
    "clean": Engine._clean,
    "heat": Engine._heat,
    "cool": Engine._cool,
    "use": Engine._use,
    "slice": Engine._slice,
}
"""Verb of an action -> what it does."""
