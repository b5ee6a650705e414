"""What a shopper is asked to buy, and how it is put into words.

A goal names a target product, but any product that satisfies it scores the same. Price bounds follow the original: the
larger of two random ones among the next four multiples of ten dollars above the target's price.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

from tutelage.envs.shop.catalogue import Catalogue, Item
from tutelage.envs.shop.generator import title_attributes
from tutelage.envs.shop.vocabulary import MASSES, PLURALS
from tutelage.errors import ConfigError
from tutelage.types import stable_hash

NO_BOUND: Final = 1_000_000.0
"""Price bound of a goal whose target is too dear to have one."""

MAX_ATTRIBUTES: Final = 3
MAX_VARIANTS: Final = 8
"""Goals made of one product."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Goal:
    """What is to be bought."""

    item_id: str
    """The target: its kind and title say what type of product is wanted."""
    instruction: str
    """What the shopper is told."""
    attributes: tuple[str, ...]
    options: tuple[str, ...]
    """Values only; the score does not ask under which name one was chosen."""
    price_upper: float
    """Dollars."""

    def to_json(self) -> dict[str, Any]:
        return {
            "item_id": self.item_id,
            "instruction": self.instruction,
            "attributes": list(self.attributes),
            "options": list(self.options),
            "price_upper": self.price_upper,
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Goal:
        """The goal of task settings. `options` is a list of values or a map of names to values.

        Raises ConfigError where something is missing.
        """
        try:
            return cls(
                item_id=str(values["item_id"]),
                instruction=str(values["instruction"]),
                attributes=tuple(values["attributes"]),
                options=option_values(values["options"]),
                price_upper=float(values["price_upper"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigError(
                f"shop task settings: goal {values!r} ({type(error).__name__}: {error}).\n"
                "  Expected item_id, instruction, attributes, options (list or map), price_upper."
            ) from None


def option_values(options: Mapping[str, str] | Sequence[str] | None) -> tuple[str, ...]:
    """The values of goal options given as a map (synthetic goals) or as a list (those of people)."""
    return tuple(options.values() if isinstance(options, Mapping) else options or ())


def price_bound(price: float, rng: random.Random) -> float | None:
    """The larger of two of the next four multiples of 10 above a price; None if fewer than two lie below 1,000.

    Example: 37.5 gives 50, 60 or 70.
    """
    first = math.floor(price / 10) + 1
    bounds = [10.0 * tens for tens in range(max(first, 1), min(first + 4, 100))]
    return max(rng.sample(bounds, 2)) if len(bounds) >= 2 else None


def with_price(instruction: str, bound: float | None) -> str:
    return instruction if bound is None else f"{instruction}, and price lower than {bound:.2f} dollars"


def with_options(instruction: str, options: Mapping[str, str]) -> str:
    """Example: ``buy a soft rug with color: red, and size: large``"""
    return instruction + (" with " if options else "") + ", and ".join(f"{k}: {v}" for k, v in options.items())


def make_goal(
    item: Item, instruction: str, attributes: Sequence[str], options: Mapping[str, str], rng: random.Random
) -> Goal:
    """A goal that asks for these options of an item, with a price bound."""
    bound = price_bound(item.price, rng)
    return Goal(
        item_id=item.item_id,
        instruction=with_price(with_options(instruction, options), bound),
        attributes=tuple(attributes),
        options=tuple(options.values()),
        price_upper=NO_BOUND if bound is None else bound,
    )


def goals_of_item(item: Item, ask: str, seed: int) -> list[Goal]:
    """Up to eight different goals whose target is a generated item: one to three attributes and a value of each group.

    ask: ``title`` asks for attributes that the title names, ``any`` for at least one that only the bullets name.

    Example: ``buy a waterproof slim fit jacket with color: red, and price lower than 50.00 dollars``
    """
    subsets, num_choices = _subsets(item, ask), num_option_choices(item)
    rng = random.Random(stable_hash("shop goals", seed, ask, item.item_id))
    goals = []
    for number in rng.sample(range(len(subsets) * num_choices), num_goals_of_item(item, ask)):
        attributes = subsets[number // num_choices]
        instruction = f"buy {_article(attributes[0], item.query)}{' '.join(attributes)} {item.query}"
        goals.append(make_goal(item, instruction, attributes, nth_choice(item, number % num_choices), rng))
    return goals


def num_goals_of_item(item: Item, ask: str) -> int:
    """How many `goals_of_item` gives."""
    return min(MAX_VARIANTS, len(_subsets(item, ask)) * num_option_choices(item))


def _subsets(item: Item, ask: str) -> list[tuple[str, ...]]:
    """Attributes that may be asked for together, in the order in which the item has them."""
    shown = title_attributes(item)
    return [
        subset
        for size in range(1, MAX_ATTRIBUTES + 1)
        for subset in combinations(shown if ask == "title" else item.attributes, size)
        if ask == "title" or not set(subset) <= set(shown)
    ]


def num_option_choices(item: Item) -> int:
    """Ways to choose one value of each option group; 1 without groups."""
    return math.prod(len(values) for _, values in item.options)


def nth_choice(item: Item, number: int) -> dict[str, str]:
    """One value of each option group, counted like digits: the last group changes first."""
    chosen = {}
    for name, values in reversed(item.options):
        number, digit = divmod(number, len(values))
        chosen[name] = values[digit]
    return dict(reversed(chosen.items()))


def target_of(goal: Goal, catalogue: Catalogue) -> Item:
    """Raises ConfigError if the catalogue lacks the target."""
    if goal.item_id not in catalogue:
        raise ConfigError(
            f"shop task settings: target {goal.item_id!r} is not among the {len(catalogue)} products.\n"
            "  Load the tasks again with the settings (num_products, seed, root) that the catalogue is made of."
        )
    return catalogue[goal.item_id]


def _article(first_word: str, noun: str) -> str:
    if noun in PLURALS or noun in MASSES:
        return ""
    return "an " if first_word[0] in "aeiou" else "a "
