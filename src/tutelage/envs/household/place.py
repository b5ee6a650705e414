"""One spot of the room: what stands there, what is in it, and which commands it allows.

In: the fixed tables of a game (`tables.Tables`) and the facts of one location. Out: texts and menus of commands.
A `Place` is a value: acting on it gives a new one. All facts that decide the local commands change only where the
agent stands, so the places of untouched locations are shared by every engine on the same game, with their texts
and menus, and a snapshot of a game is little more than a tuple of places.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left, insort
from typing import TYPE_CHECKING, Final

from tutelage.envs.household.names import join_list, list_text

if TYPE_CHECKING:
    from tutelage.envs.household.tables import Tables

NOBODY: Final = -1
"""In place of an object index: the hand is empty."""

Action = tuple[str, int, int]
"""What a command does: (verb, object index, second index), where unused indices are 0. The second index is a
receptacle's slot at the place, or for `slice` the knife's object index."""

OPEN_ALL: Final[tuple[tuple[str, Action], ...]] = (
    ("help", ("help", 0, 0)),
    ("inventory", ("inventory", 0, 0)),
    ("look", ("look", 0, 0)),
)
"""Commands that are admissible everywhere."""


class Menu:
    """The admissible commands at one place with one thing (or nothing) in the hand."""

    __slots__ = ("_commands", "_travel", "actions")

    def __init__(self, actions: dict[str, Action], travel: tuple[str, ...]) -> None:
        self.actions = actions
        """Command -> action, without the `go to` commands, which the tables hold."""
        self._travel = travel
        self._commands: tuple[str, ...] | None = None

    @property
    def commands(self) -> tuple[str, ...]:
        """All commands including `go to`, sorted as text."""
        if self._commands is None:
            local = sorted(self.actions)
            cut = bisect_left(local, "go to")
            self._commands = (*local[:cut], *self._travel, *local[cut:])
        return self._commands


class Place:
    """The facts at one location. Receptacles are counted by slot: their position in id order at the location."""

    __slots__ = ("_digest", "_facing", "_menus", "_texts", "at", "contents", "left", "location", "opened", "tables")

    def __init__(
        self,
        tables: Tables,
        location: int,
        opened: tuple[bool, ...],
        contents: tuple[tuple[int, ...], ...],
        left: tuple[tuple[int, ...], ...],
        at: tuple[int, ...],
    ) -> None:
        self.tables = tables
        self.location = location
        self.opened = opened
        """Per slot."""
        self.contents = contents
        """Per slot: the objects in it, in id order."""
        self.left = left
        """Per slot: objects taken from it and not put back, in id order."""
        self.at = at
        """Objects that count as being at this location, in id order. Held or moved objects may still be listed
        elsewhere, and an object that was in two receptacles may be at several locations."""
        self._texts: list[str | None] = [None] * len(opened)
        self._facing: str | None = None
        self._menus: dict[int, Menu] = {}
        self._digest: bytes | None = None

    # What the player reads

    def contents_text(self, slot: int) -> str:
        """The sentence about one receptacle: `On the desk 1, you see a cd 2, and a cd 1.`"""
        text = self._texts[slot]
        if text is None:
            tables = self.tables
            receptacle = tables.here[self.location][slot]
            name = tables.receptacle_names[receptacle]
            seen = list_text([tables.object_names[o] for o in self.contents[slot]])
            if not tables.openable[receptacle]:
                text = f"On the {name}, you see {seen}."
            elif self.opened[slot]:
                text = f"The {name} is open. In it, you see {seen}."
            else:
                text = f"The {name} is closed."
            self._texts[slot] = text
        return text

    def look_text(self) -> str:
        """The answer to `look`."""
        if self._facing is None:
            names = self.tables.object_names
            receptacles = self.tables.here[self.location]
            if receptacles:
                facing = join_list([self.tables.receptacle_names[r] for r in receptacles])
                # One entry for each receptacle here that the object was taken from, so one may be listed twice.
                beside = [o for slot in self.left for o in slot if o in self.at]
                seen = list_text([names[o] for o in sorted(beside)])
                self._facing = f"You are facing the {facing}. Next to it, you see {seen}."
            else:
                self._facing = "You are in the middle of a room. Looking quickly around you, you see nothing."
        return self._facing

    # What the player may do

    def menu(self, held: int) -> Menu:
        """The commands allowed here with object `held` in the hand, or `NOBODY`."""
        menu = self._menus.get(held)
        if menu is None:
            menu = self._menus[held] = Menu(self._actions(held), self.tables.travel(self.location))
        return menu

    def _actions(self, held: int) -> dict[str, Action]:
        tables = self.tables
        objects = tables.object_names
        actions = dict(OPEN_ALL)
        hand = objects[held] if held != NOBODY else ""
        for slot, receptacle in enumerate(tables.here[self.location]):
            name = tables.receptacle_names[receptacle]
            inside = self.contents[slot]
            actions[f"examine {name}"] = ("examine receptacle", 0, slot)
            if tables.openable[receptacle]:
                if self.opened[slot]:
                    actions[f"close {name}"] = ("close", 0, slot)
                else:
                    actions[f"open {name}"] = ("open", 0, slot)
            if self.opened[slot] or not tables.openable[receptacle]:
                if not hand:
                    for o in inside:
                        if tables.pickupable[o]:
                            actions[f"take {objects[o]} from {name}"] = ("take", o, slot)
                elif tables.fits(held, receptacle):
                    actions[f"move {hand} to {name}"] = ("move", held, slot)
            # Appliances work with the door shut, and lamps are in reach even inside something closed.
            if hand:
                verb = tables.treatment(held, receptacle)
                if verb:
                    actions[f"{verb} {hand} with {name}"] = (verb, held, slot)
            for o in inside:
                if tables.toggleable[o]:
                    actions[f"use {objects[o]}"] = ("use", o, slot)
        if hand:
            actions[f"examine {hand}"] = ("examine object", held, 0)
            if tables.knife[held]:
                for o in self.at:
                    if tables.sliceable[o]:
                        actions[f"slice {objects[o]} with {hand}"] = ("slice", o, held)
        return actions

    # What acting makes of it

    def with_door(self, slot: int, opened: bool) -> Place:
        doors = (*self.opened[:slot], opened, *self.opened[slot + 1 :])
        return Place(self.tables, self.location, doors, self.contents, self.left, self.at)

    def without(self, o: int, slot: int) -> Place:
        """After taking object `o` from a receptacle here."""
        return Place(
            self.tables, self.location, self.opened,
            _replace(self.contents, slot, _remove(self.contents[slot], o)),
            _replace(self.left, slot, _insert(self.left[slot], o)),
            _remove(self.at, o),
        )  # fmt: skip

    def having(self, o: int, slot: int) -> Place:
        """After moving object `o` into a receptacle here."""
        return Place(
            self.tables, self.location, self.opened,
            _replace(self.contents, slot, _insert(self.contents[slot], o)),
            _replace(self.left, slot, _remove(self.left[slot], o)),
            _insert(self.at, o),
        )  # fmt: skip

    @property
    def facts(self) -> tuple[object, ...]:
        """Everything that may differ between two places of one location."""
        return (self.opened, self.contents, self.left, self.at)

    @property
    def digest(self) -> bytes:
        """A short hash of the facts, equal in every process."""
        if self._digest is None:
            self._digest = hashlib.blake2b(repr(self.facts).encode(), digest_size=16).digest()
        return self._digest


def _replace(slots: tuple[tuple[int, ...], ...], slot: int, value: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    return (*slots[:slot], value, *slots[slot + 1 :])


def _remove(items: tuple[int, ...], item: int) -> tuple[int, ...]:
    return tuple([i for i in items if i != item])


def _insert(items: tuple[int, ...], item: int) -> tuple[int, ...]:
    if item in items:
        return items
    ordered = list(items)
    insort(ordered, item)
    return tuple(ordered)
