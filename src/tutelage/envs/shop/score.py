"""The score of a purchase, as WebShop computes it, with own word lists for nouns and colours.

    score = r_type * (matched attributes + matched options + price ok) / (attributes + options + 1)

Example (2 attributes of which 1 matched, 1 option matched, price ok, r_type 1): 3 / 4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from tutelage.envs.shop.catalogue import Item
from tutelage.envs.shop.goals import Goal
from tutelage.envs.shop.words import nouns_of, plain_color
from tutelage.errors import MissingExtra

SIMILAR: Final = 85
"""Two phrases match if their token-set similarity (thefuzz, 0 to 100) is above this."""

UNKNOWN_TITLE: Final = 0.2
"""Title score where the goal's title has no nouns."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Score:
    """A score and its parts."""

    num_attributes: int
    """Attributes of the goal that the product has."""
    num_options: int
    """Options of the goal that were chosen."""
    price_ok: bool
    title_score: float
    """Share of the nouns of the goal's title that the product's title has, in [0, 1]."""
    r_type: float
    """Whether it is the right type of product: 1, 0.5, 0.1 or 0."""
    num_wanted: int
    """Attributes and options of the goal, and 1 for the price."""

    @property
    def fraction(self) -> float:
        """Share of what was wanted that was got, whatever the type."""
        return (self.num_attributes + self.num_options + self.price_ok) / self.num_wanted

    @property
    def value(self) -> float:
        """In [0, 1]."""
        return self.r_type * self.fraction


def score_purchase(goal: Goal, target: Item, item: Item, chosen: Iterable[str]) -> Score:
    """What buying an item with the chosen option values is worth for a goal whose target is `target`.

    Raises MissingExtra without thefuzz.
    """
    title = title_score(target.title, item.title)
    return Score(
        num_attributes=count_attributes(goal.attributes, item),
        num_options=count_options(goal.options, chosen),
        price_ok=item.price <= goal.price_upper,
        title_score=title,
        r_type=type_reward(title, same_query=target.query == item.query, num_levels=shared_levels(target, item)),
        num_wanted=len(goal.attributes) + len(goal.options) + 1,
    )


def title_score(wanted: str, got: str) -> float:
    """Shared nouns over the nouns of the wanted title, repeated ones counted there.

    Example: wanted ``leather boots for the garden``, got ``rubber boots``: 1 of leather, boots, garden, so 1/3.
    """
    nouns = nouns_of(wanted)
    return len(set(nouns) & set(nouns_of(got))) / len(nouns) if nouns else UNKNOWN_TITLE


def shared_levels(one: Item, other: Item) -> int:
    """Number of category levels that both have, at whatever depth."""
    levels = [{part.strip() for part in item.product_category.split("›")} for item in (one, other)]
    return len(levels[0] & levels[1])


def type_reward(title: float, *, same_query: bool, num_levels: int) -> float:
    """1 for the same type of product, else 0.5; titles that share next to nothing, or nothing, override both.

    Example: title score .05 is 0.1, also with the same query.
    """
    if title == 0.0:
        return 0.0
    if title < 0.1:
        return 0.1
    return 1.0 if same_query or num_levels >= 2 or title > 0.2 else 0.5


def count_attributes(wanted: Iterable[str], item: Item) -> int:
    """Wanted attributes that are similar to one of the item's, or stand in its title, bullets or description."""
    texts = (item.title.lower(), " ".join(item.bullets).lower(), item.description.lower())
    return sum(
        any(is_similar(have, want) for have in item.attributes) or any(want in text for text in texts)
        for want in wanted
    )


def count_options(wanted: Iterable[str], chosen: Iterable[str]) -> int:
    """Wanted option values that are similar to a chosen one, colours reduced to plain ones."""
    have = [plain_color(value) for value in chosen]
    return sum(any(is_similar(value, plain_color(want)) for value in have) for want in wanted)


@lru_cache(maxsize=16384)
def is_similar(one: str, other: str) -> bool:
    return _ratio()(one, other) > SIMILAR


@lru_cache(maxsize=1)
def _ratio() -> Callable[[str, str], int]:
    try:
        from thefuzz import fuzz
    except ImportError:
        raise MissingExtra("the shop's score", "shop") from None
    ratio: Callable[[str, str], int] = fuzz.token_set_ratio
    return ratio
