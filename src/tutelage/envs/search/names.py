"""Names of the synthetic corpus. Each is two words, and a split takes its own pairs of the words that all splits share.

So a name of the test split never stands in a training text, while its two words do: a student with one token per word
can say it by copying. Which split a name belongs to hangs on the name alone.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from tutelage.types import Split, stable_hash


def words(text: str) -> tuple[str, ...]:
    """The words of a list that is written as a text."""
    return tuple(text.split())


PARTS: Final[dict[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "person": (
        words(
            "Ada Alban Amos Anna Asta Basil Bela Berta Bruno Cato Clara Conrad Cora Dario Delia Dora Edgar Edith Elias "
            "Elsa Emil Enzo Ester Fabian Fanny Felix Flora Frida Georg Gerda Gilda Greta Gustav Hanna Hector Helga Hugo "
            "Ida Igor Irma Ivo Jonas Judith Julius Karla Kaspar Laszlo Lena Leo Livia Lorenz Magda Marius Marta Max Mila "
            "Nadia Nils Olga Oscar Paula Petra Quentin Rosa"
        ),
        words(
            "Abel Adler Almeida Bakos Barlow Becker Bergman Borg Brandt Calder Castell Cermak Dahl Delgado Dorn Draper "
            "Eklund Engel Falk Farkas Fisk Forster Galli Gerber Grimm Haas Hakala Holm Horvat Ibsen Jansen Jarvis Kell "
            "Keller Kovac Krall Lang Larkin Lind Lund Maier Marek Moretti Nagy Nash Novak Oberg Orsini Palmer Pavel "
            "Quist Radek Rossi Ruiz Sanders Stahl Sorel Takacs Tolan Ulman Vance Vogel Weiss Zeman"
        ),
    ),
    "film": (
        words(
            "Silent Golden Broken Hidden Crimson Distant Frozen Burning Empty Endless Fallen Gentle Hollow Iron Lonely "
            "Midnight Paper Quiet Restless Scarlet Secret Shining Sleeping Stolen Strange Sudden Velvet Wandering Wild "
            "Winter Bitter Borrowed Crooked Electric Faithful Final Forgotten Invisible Painted Savage"
        ),
        words(
            "Harbor Garden Mirror Lantern Orchard Voyage Carnival Shadow Promise Letter Horizon Thunder Melody Kingdom "
            "Stranger Waltz Compass Fortune Island Journey Crown Desert Dream Echo Feather Fever Flame Ghost Hotel Knife "
            "Labyrinth Meadow Ocean Parade Signal Sparrow Summer Tiger Tower Whisper"
        ),
    ),
    "book": (
        words(
            "Notes Letters Songs Tales Poems Lessons Stories Essays Memories Dreams Pages Sketches Fables Legends Secrets "
            "Diaries Hymns Riddles Portraits Maps"
        ),
        words(
            "Abroad Afterwards Alone Apart Ashore Below Beyond Downstream Elsewhere Forever Homeward Inland Nearby Northward "
            "Onward Outdoors Overhead Overseas Reversed Sideways Southward Together Tomorrow Underground Unfinished Unsent "
            "Upstream Westward Within Yesterday"
        ),
    ),
    "company": (
        words(
            "Acorn Alpha Anvil Arrow Atlas Beacon Bison Cobalt Comet Copper Delta Eagle Falcon Granite Helix Indigo Jaguar "
            "Lotus Magnet Nova Onyx Orbit Phoenix Quartz Raven Saturn Topaz Union Vector Zenith"
        ),
        words(
            "Airways Bank Brewery Cement Chemicals Electronics Foods Foundry Glass Instruments Insurance Logistics Lumber "
            "Mills Mining Motors Optics Pharma Press Railways Robotics Shipping Software Steel Textiles Timber Tools Toys "
            "Watches Works"
        ),
    ),
    "town": (
        words(
            "Amber Ash Birch Black Bright Cedar Clear Cold Elder Elm Fair Fern Grand Gray Hazel High Ivy Linden Little "
            "Long Maple Mill Moss Oak Old Pine Red Rose Sand Silver"
        ),
        words(
            "Bay Bluff Bridge Brook Canyon Chapel Cliff Corner Creek Crossing Dale Falls Ferry Field Ford Forest Gate Glen "
            "Grove Haven Heath Hill Junction Lake Landing Point Ridge Springs Vale Wells"
        ),
    ),
    "country": (
        words("East Great Lower Middle New North Outer South Upper West"),
        words(
            "Aldoria Belmark Corvania Drovia Estavia Galdora Hestria Ilvania Jorvia Kestoria Lomera Morvania Nordavia "
            "Ostrea Pelonia Rumalia Sarovia Tavaria Urlandia Zemblia"
        ),
    ),
}
"""Type of entity -> first and second words."""

TYPES: Final = tuple(PARTS)

_SPLITS: Final = (Split.TRAIN, Split.TRAIN, Split.TRAIN, Split.VALIDATION, Split.TEST)


def split_of(name: str) -> Split:
    """The split that a name belongs to: three in five train, one validation, one test."""
    return _SPLITS[stable_hash("search name", name) % len(_SPLITS)]


@lru_cache(maxsize=len(PARTS) * len(Split))
def names(entity_type: str, split: Split) -> tuple[str, ...]:
    """All names of a type that belong to a split, in the order of their words."""
    first, second = PARTS[entity_type]
    return tuple(name for name in (f"{one} {two}" for one in first for two in second) if split_of(name) is split)


def open_words() -> frozenset[str]:
    """The words that names are made of, in lower case."""
    return frozenset(word.lower() for parts in PARTS.values() for part in parts for word in part)
