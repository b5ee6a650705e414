"""The words of the household game: phrases of its texts, and the names of its things.

Out: `PHRASES`, `entities()`. Nothing here decides what the game does; the tables say how its texts split into few
tokens, and which types may stand in for each other in a text (`group`) without making it wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["object", "receptacle"]

VESSELS: Final = ("bowl", "box", "cup", "mug", "pan", "plate", "pot")
"""Objects that tell what is in them when examined."""

OBJECT_GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "movable": (
        "alarmclock", "apple", "baseballbat", "basketball", "book", "boots", "bread", "candle", "cd", "cellphone",
        "cloth", "creditcard", "dishsponge", "egg", "footstool", "fork", "glassbottle", "handtowel", "kettle",
        "keychain", "ladle", "laptop", "lettuce", "newspaper", "papertowelroll", "pen", "pencil", "peppershaker",
        "pillow", "plunger", "potato", "remotecontrol", "saltshaker", "scrubbrush", "soapbar", "soapbottle", "spatula",
        "spoon", "spraybottle", "statue", "teddybear", "tennisracket", "tissuebox", "toiletpaper", "tomato", "towel",
        "vase", "watch", "wateringcan", "winebottle", *VESSELS,
    ),
    "knife": ("butterknife", "knife"),
    "lamp": ("desklamp", "floorlamp"),
    "fixed": ("houseplant", "sink", "television", "window"),
}  # fmt: skip
"""Group -> object types. Knives slice and lamps light, so they stay among themselves; fixed things are never taken."""

RECEPTACLE_GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "surface": (
        "armchair", "bathtubbasin", "bed", "cart", "coffeemachine", "coffeetable", "countertop", "desk", "diningtable",
        "dresser", "garbagecan", "handtowelholder", "laundryhamper", "ottoman", "shelf", "sidetable", "sofa",
        "stoveburner", "toaster", "toilet", "toiletpaperhanger", "towelholder", "tvstand",
    ),
    "door": ("cabinet", "drawer", "safe"),
    "clean": ("sinkbasin",),
    "heat": ("microwave",),
    "cool": ("fridge",),
}  # fmt: skip
"""Group -> receptacle types that behave alike: open or not, and what they do to an object."""

OBJECT_NUMBERS: Final = 8
"""Objects of one type are numbered from 1 to at most this; higher numbers are spelled in bytes."""

RECEPTACLE_NUMBERS: Final[Mapping[str, int]] = {"cabinet": 30, "drawer": 30, "shelf": 30, "stoveburner": 8}
"""The same for receptacles; types not named here have `OTHER_RECEPTACLE_NUMBERS`."""

OTHER_RECEPTACLE_NUMBERS: Final = 6

HELP_TEXT: Final = """\
Available commands:
  look:                             look around your current location
  inventory:                        check your current inventory
  go to (receptacle):               move to a receptacle
  open (receptacle):                open a receptacle
  close (receptacle):               close a receptacle
  take (object) from (receptacle):  take an object from a receptacle
  move (object) to (receptacle):  place an object in or on a receptacle
  examine (something):              examine a receptacle or an object
  use (object):                     use an object
  heat (object) with (receptacle):  heat an object using a receptacle
  clean (object) with (receptacle): clean an object using a receptacle
  cool (object) with (receptacle):  cool an object using a receptacle
  slice (object) with (object):     slice an object using a sharp object
"""

STATES: Final = (
    "hot and clean sliced", "cool and clean sliced", "clean sliced", "hot sliced", "cool sliced", "hot and clean",
    "cool and clean", "hot", "clean", "cold", "sliced", "normal",
)  # fmt: skip
"""What the game says of an examined object."""

PHRASES: Final = (
    # commands
    "go to ", "take ", " from ", "move ", "put ", " to ", " in/on ", "open ", "close ", "examine ", "use ", "clean ",
    "heat ", "cool ", "slice ", " with ", "look", "inventory", "help",
    # the intro
    "-= Welcome to TextWorld, ALFRED! =-\n\n", "You are in the middle of a room. Looking quickly around you, you see ",
    "\n\nYour task is to: ",
    # the task sentences
    "put a ", "put some ", "put a clean ", "put a hot ", "put a cool ", "put two ", "clean some ", "heat some ",
    "cool some ", "find two ", "look at ", "examine the ", " in ", " on ", " and put it in ", " and put them in ",
    " under the ", " with the ",
    # replies
    "You arrive at ", "On the ", "The ", ". On the ", ". The ", ", you see ", " is closed.",
    " is open. In it, you see ", "You open the ", "You close the ", "You pick up the ", " from the ", "You move the ",
    " to the ", "You clean the ", "You heat the ", "You cool the ", " using the ", "You turn on the ",
    "You sliced the ",
    "You are facing the ", ". Next to it, you see ", "You are carrying: ", "You are not carrying anything.",
    "There's nothing special about ", "This ", " is on.", ". In it, you see ", "Nothing happens.",
    HELP_TEXT, *(f"This is a {state} " for state in STATES),
    # lists
    "a ", ", a ", ", and a ", ", ", ", and ", "nothing", ".",
    # what most lists begin with, and empty ones, in one token
    "You are in the middle of a room. Looking quickly around you, you see a ",
    "You are in the middle of a room. Looking quickly around you, you see nothing.",
    ", you see a ", ", you see nothing.", " is open. In it, you see a ", " is open. In it, you see nothing.",
    ". Next to it, you see a ", ". Next to it, you see nothing.", ". In it, you see a ", ". In it, you see nothing.",
    "You are carrying: a ", ".\n\nYour task is to: ", ".\n\n",
)  # fmt: skip
"""Texts of one token each. Where several fit, the longest is taken."""


@dataclass(frozen=True, slots=True)
class Entity:
    """A thing with one token of its own: a type (`number` None) or one numbered thing."""

    kind: Kind
    type: str
    group: str
    """Types of one group and kind may stand in for each other."""
    number: int | None

    @property
    def text(self) -> str:
        return self.type if self.number is None else f"{self.type} {self.number}"


def highest_number(kind: Kind, type_name: str) -> int:
    """The highest number that has a token, for this type."""
    return OBJECT_NUMBERS if kind == "object" else RECEPTACLE_NUMBERS.get(type_name, OTHER_RECEPTACLE_NUMBERS)


def entities() -> list[Entity]:
    """All things with a token: every type bare, then with each of its numbers, in a fixed order."""
    found: list[Entity] = []
    groups: tuple[tuple[Kind, Mapping[str, tuple[str, ...]]], ...] = (
        ("object", OBJECT_GROUPS),
        ("receptacle", RECEPTACLE_GROUPS),
    )
    for kind, types_of in groups:
        for group, types in types_of.items():
            for name in types:
                numbers = (None, *range(1, highest_number(kind, name) + 1))
                found += [Entity(kind, name, group, number) for number in numbers]
    return found
