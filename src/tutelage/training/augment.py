"""Augmentations: other token ids for the same sample, of the same length, drawn anew at each use.

In: the ids of one whole sample. Out: ids that say the same about other things, so that a student must read which thing
is where instead of remembering it. The loss mask, weights and spans of the sample stay as they are.
"""

from __future__ import annotations

import json
from collections.abc import Container
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from tutelage.errors import ConfigError, FormatError

ENTITIES_FILE: Final = "entities.json"
"""Beside a student's weights: which ids are things, of which type and number."""

BARE: Final = 0
"""Column of the bare type in a table of ids; column n is the type with number n."""


class Augmentation(Protocol):
    def __call__(self, token_ids: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        """New ids [T] for the ids [T] of one sample."""
        ...


class _Renaming:
    """Types of the listed kinds change places within their group, consistently over one sample; or get new numbers."""

    def __init__(self, model_dir: str | Path, *, rename: Container[str], renumber: Container[str]) -> None:
        rows, where = read_entities(model_dir), Path(model_dir) / ENTITIES_FILE
        self._size = 1 + max((row["id"] for row in rows), default=0)
        self._rename, self._renumber = rename, renumber
        self._groups: list[_Group] = []
        for key in dict.fromkeys((row["kind"], row["group"]) for row in rows):
            group = _Group(key[0], [row for row in rows if (row["kind"], row["group"]) == key], where)
            if group.kind in rename or group.kind in renumber:
                self._groups.append(group)

    def __call__(self, token_ids: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        size = max(self._size, int(token_ids.max(initial=0)) + 1)
        present = np.zeros(size, dtype=bool)
        present[token_ids] = True
        table = np.arange(size)
        for group in self._groups:
            rename, renumber = group.kind in self._rename, group.kind in self._renumber
            group.draw(table, present, rng, rename=rename, renumber=renumber)
        return table[token_ids]


class ObjectRenaming(_Renaming):
    """Renames types and numbers consistently over one sample; every thing keeps its own, unequal name.

    Types change places within their group (`entities.json`), where the texts, and what a planner that knows no more
    than the texts would do, stay right. Names in bytes (an unknown type, a number above the vocabulary's) stay.

    objects: object types change places: all that can be carried; knives and lamps only among themselves.
    receptacles: receptacle types change places: open ones among themselves, those with doors among themselves.
    object_numbers, receptacle_numbers: the numbers of a type become others that rise in the same order, so that the
    game's lists still count down, but with gaps.

    Example, objects only, apple -> mug and mug -> book:
      put a apple in fridge ... apple 2, and a mug 1   ->   put a mug in fridge ... mug 2, and a book 1
    """

    def __init__(
        self,
        model_dir: str | Path,
        *,
        objects: bool = True,
        receptacles: bool = False,
        object_numbers: bool = False,
        receptacle_numbers: bool = False,
    ) -> None:
        """Reads `entities.json` of a model folder: ConfigError if it is not there, FormatError if it is broken."""
        rename = [kind for kind, on in (("object", objects), ("receptacle", receptacles)) if on]
        renumber = [kind for kind, on in (("object", object_numbers), ("receptacle", receptacle_numbers)) if on]
        super().__init__(model_dir, rename=rename, renumber=renumber)


class Renaming(_Renaming):
    """Whatever the student's vocabulary has of that kind changes places: objects of the household game, open words.

    Example, mug -> lamp and red -> oak:   search[red mug]   ->   search[oak lamp]
    """

    def __init__(self, model_dir: str | Path) -> None:
        """Reads `entities.json` of a model folder: ConfigError if it is not there, FormatError if it is broken."""
        super().__init__(model_dir, rename=["object", "word"], renumber=[])


class _Group:
    """Types of one kind that may stand in for each other: ids [types, 1 + highest number], -1 where no token is."""

    def __init__(self, kind: str, rows: list[dict[str, Any]], where: Path) -> None:
        self.kind = kind
        types = list(dict.fromkeys(row["type"] for row in rows))
        highest = max(row["number"] or 0 for row in rows)
        self.ids = np.full((len(types), 1 + highest), -1)
        for row in rows:
            self.ids[types.index(row["type"]), row["number"] or BARE] = row["id"]
        self.highest = (self.ids >= 0).sum(axis=1) - 1
        """[types] Highest number of each type."""
        for name, line, top in zip(types, self.ids, self.highest, strict=True):
            if (line[: top + 1] < 0).any():
                raise FormatError(
                    f"{where}: {kind} type {name!r} has no row for each of its bare form and the numbers 1 to {top}. "
                    "Make the student folder again."
                )

    def draw(
        self,
        table: NDArray[np.int64],
        present: NDArray[np.bool_],
        rng: np.random.Generator,
        *,
        rename: bool,
        renumber: bool,
    ) -> None:
        """Write new ids for the ids of this group that are present into `table`. No two get the same."""
        here = present[self.ids] & (self.ids >= 0)
        needed = np.where(here, np.arange(here.shape[1]), 0).max(axis=1)
        occurring = np.flatnonzero(here.any(axis=1))
        free = list(rng.permutation(len(self.ids))) if rename else []
        # The types with the highest numbers choose first: at the turn of each, some type of its range is still free.
        for old in sorted(occurring, key=lambda index: -needed[index]):
            new = old
            if rename:
                new = next(index for index in free if self.highest[index] >= needed[old])
                free.remove(new)
            numbers = np.flatnonzero(here[old])
            targets = numbers
            if renumber:
                counted = numbers[numbers != BARE]
                drawn = np.sort(rng.choice(self.highest[new], size=len(counted), replace=False) + 1)
                targets = np.concatenate([numbers[numbers == BARE], drawn])
            table[self.ids[old, numbers]] = self.ids[new, targets]


def read_entities(model_dir: str | Path) -> list[dict[str, Any]]:
    """The rows of a model folder's `entities.json`: id, kind, type, number (None for a bare type), group."""
    path = Path(model_dir) / ENTITIES_FILE
    if not path.is_file():
        raise ConfigError(
            f"{path}: not found, expected the table of things that renaming needs. Only students made by "
            "`tutelage student new` have one; switch the renaming off for other models."
        )
    try:
        rows: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
        for row in rows:
            row["id"], row["kind"], row["type"], row["number"], row["group"]
    except (ValueError, KeyError, TypeError) as error:
        raise FormatError(f"{path}: {error!r}, expected a list of rows with id, kind, type, number, group.") from error
    return rows
