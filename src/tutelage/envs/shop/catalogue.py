"""The products of a shop: one read-only record, shared by every episode of a process.

In: items, from the generator or from files. Out: items by id, search, a content hash. A catalogue never changes, so any
number of episodes, in any number of threads, may hold the same one.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from typing import Final

from tutelage.envs.shop.search import SearchIndex
from tutelage.types import stable_hash

MAX_RESULTS: Final = 50
"""Most products that a search finds."""

NO_PRICE: Final = 100.0
"""Price of an item whose record gives none, in dollars."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Review:
    """What a buyer wrote."""

    title: str
    score: str
    body: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """One product."""

    item_id: str
    """Upper case, e.g. ``B00042``."""
    title: str
    price: float
    """What it costs, in dollars: drawn once from the range where the record gives one."""
    price_tag: str
    """As shown: ``$12.5`` or ``$5.0 to $9.0``."""
    query: str
    """The search under which the product was collected, lower case."""
    category: str
    """Department, e.g. ``fashion``."""
    product_category: str
    """Levels joined by ``›``, e.g. ``fashion › shoes › boots``."""
    description: str = ""
    bullets: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()
    """What holds of it; not shown as a list unless the shop is told to."""
    options: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Option groups: name and values, lower case."""
    reviews: tuple[Review, ...] = ()

    @property
    def indexed_text(self) -> str:
        """What search looks at: title, description, first bullet, options."""
        options = (f"{name} {' '.join(values)}" for name, values in self.options)
        return " ".join((self.title, self.description, *self.bullets[:1], *options))


_FIELDS: Final = tuple(field.name for field in fields(Item) if field.name != "reviews")


class Catalogue:
    """Items by id and by search.

    Raises ValueError if two items have one id.
    """

    def __init__(self, items: Iterable[Item]) -> None:
        self.items = tuple(sorted(items, key=lambda item: item.item_id))
        """In the order of their ids, which is the order of equal search results."""
        self._index_of = {item.item_id: index for index, item in enumerate(self.items)}
        if len(self._index_of) != len(self.items):
            raise ValueError(f"catalogue: {len(self.items)} items have {len(self._index_of)} ids, expected one each")
        # A task is played many times, and its searches repeat.
        self._found = lru_cache(maxsize=1024)(self._search)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, item_id: str) -> Item:
        return self.items[self._index_of[item_id]]

    def __contains__(self, item_id: object) -> bool:
        return item_id in self._index_of

    def search(self, query: str) -> tuple[str, ...]:
        """Ids of at most 50 products, best first, equally good ones in the order of their ids."""
        return self._found(query)

    def forget_searches(self) -> None:
        """Drop the searches that are kept for being asked again; for measuring."""
        self._found.cache_clear()

    def _search(self, query: str) -> tuple[str, ...]:
        return tuple(self.items[index].item_id for index in self._index.top(query, MAX_RESULTS))

    @cached_property
    def _index(self) -> SearchIndex:
        return SearchIndex([item.indexed_text for item in self.items])

    @cached_property
    def content_hash(self) -> str:
        """SHA-256 over all items, 64 hex digits."""
        digest = hashlib.sha256()
        for item in self.items:
            values = [getattr(item, name) for name in _FIELDS]
            reviews = [[review.title, review.score, review.body] for review in item.reviews]
            digest.update(json.dumps([*values, reviews]).encode() + b"\n")
        return digest.hexdigest()


def priced(amounts: tuple[float, ...], item_id: str, seed: int) -> tuple[float, str]:
    """Price and price tag of the amounts that a record gives: none, one, or the ends of a range.

    A range draws from a generator of the item's own, so that no order of loading changes a price.

    Example: ``priced((12.5,), "B1", 0) == (12.5, "$12.5")``, ``priced((), "B1", 0) == (100.0, "$100.0")``
    """
    if len(amounts) < 2:
        price = amounts[0] if amounts else NO_PRICE
        return price, f"${price}"
    low, high = amounts[:2]
    price = random.Random(stable_hash("shop price", seed, item_id)).uniform(low, high)
    return price, f"${low} to ${high}"
