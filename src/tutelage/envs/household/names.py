"""How ids become the names a player sees, and how a list of names is written.

In: ids such as `sink_bar__minus_01_..._bar_sinkbasin`. Out: `sinkbasin 1`.

Example: of three apples the first id in text order gets the highest number.
  apple_bar__minus_01 -> apple 3     apple_bar__plus_00 -> apple 2     apple_bar__plus_02 -> apple 1
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence

SEPARATOR = "_bar_"


def base_name(entity_id: str) -> str:
    """The name without its number: the part before the first `_bar_`, plus `basin` for basins."""
    base = entity_id.split(SEPARATOR, 1)[0]
    return base + "basin" if "basin" in entity_id else base


def display_names(entity_ids: Iterable[str], renumber: int | None = None) -> dict[str, str]:
    """Id -> name for all things of one game together, since a base name is numbered once over all of them.

    Ids are taken in text order and numbers fall from the count to 1. An id without `_bar_` has no number.
    renumber: a seed that permutes the numbers within each base name; None gives the original's numbers.
    """
    ids = sorted(set(entity_ids))
    counts = Counter(base_name(i) for i in ids if SEPARATOR in i)
    numbers = {base: list(range(1, count + 1)) for base, count in counts.items()}
    if renumber is not None:
        rng = random.Random(renumber)
        for base in sorted(numbers):
            rng.shuffle(numbers[base])
    return {i: f"{base_name(i)} {numbers[base_name(i)].pop()}" if SEPARATOR in i else i for i in ids}


def join_list(items: Sequence[str]) -> str:
    """`nothing`, `x`, `x, and y`, `x, y, and z`."""
    if not items:
        return "nothing"
    if len(items) == 1:
        return items[0]
    return ", ".join(items[:-1]) + ", and " + items[-1]


def list_text(names: Sequence[str]) -> str:
    """The same with the article, which is always `a`: `a apple 2, and a egg 1`."""
    return join_list([f"a {name}" for name in names])
