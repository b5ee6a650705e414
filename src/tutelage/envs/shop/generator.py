"""Generated catalogues: item i of a seed is the same in catalogues of any size.

A title is a brand, two or three of the item's attributes, and the noun of its kind: 4 to 8 words. The other attributes
stand in the first bullet. Prices are multiples of 2.5 dollars; one in ten is a range of at most 7.5 dollars.
"""

from __future__ import annotations

import random
from typing import Final

from tutelage.envs.shop.catalogue import Catalogue, Item, Review, priced
from tutelage.envs.shop.vocabulary import BRANDS, DEPARTMENTS, KINDS, REVIEW_TITLES, Department
from tutelage.errors import ConfigError
from tutelage.types import stable_hash

MAX_PRODUCTS: Final = 100_000

_NUM_GROUPS: Final = (0, 1, 1, 1, 2, 2, 2, 2, 3, 3)
"""Of option groups, in tenths."""


def generate_catalogue(num_products: int = 1000, seed: int = 0) -> Catalogue:
    """A catalogue of generated products. Raises ConfigError if the number is not between 1 and 100,000."""
    if not 1 <= num_products <= MAX_PRODUCTS:
        raise ConfigError(f"shop catalogue: num_products is {num_products}, expected 1 to {MAX_PRODUCTS}.")
    return Catalogue(generate_item(index, seed) for index in range(num_products))


def generate_item(index: int, seed: int = 0) -> Item:
    """The item with that index.

    Example: ``avelin waterproof slim fit jacket``, $37.5, color black | red, bullets ``casual, vintage``, ``made of wool``.
    """
    rng = random.Random(stable_hash("shop item", seed, index))
    kind = rng.choice(KINDS)
    words = DEPARTMENTS[kind.department]
    attributes = tuple(rng.sample(words.attributes, rng.randint(3, 6)))
    num_in_title = rng.choice((2, 2, 3))
    while len((title := " ".join((rng.choice(BRANDS), *attributes[:num_in_title], kind.noun))).split()) > 8:
        num_in_title -= 1
    item_id = f"B{index:05d}"
    low = 2.5 * rng.randint(2, 38)
    amounts = (low, low + 2.5 * rng.randint(1, 3)) if rng.random() < 0.1 else (low,)
    price, price_tag = priced(amounts, item_id, seed)
    return Item(
        item_id=item_id,
        title=title,
        price=price,
        price_tag=price_tag,
        query=kind.noun,
        category=kind.department,
        product_category=kind.path,
        description=f"for {rng.choice(words.uses)}",
        bullets=_bullets(attributes[num_in_title:], rng.choice(words.materials)),
        attributes=attributes,
        options=_options(rng, words),
        reviews=_reviews(rng, words),
    )


def title_attributes(item: Item) -> tuple[str, ...]:
    """The attributes of a generated item that its title names, in the order of the title."""
    return tuple(attribute for attribute in item.attributes if f" {attribute} " in item.title)


def _bullets(attributes: tuple[str, ...], material: str) -> tuple[str, ...]:
    """The attributes in one bullet, which is the one that search looks at."""
    return ((", ".join(attributes),) if attributes else ()) + (f"made of {material}",)


def _options(rng: random.Random, words: Department) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Groups in the order of the department, values in the order of their list."""
    names = rng.sample(tuple(words.options), rng.choice(_NUM_GROUPS))
    groups = []
    for name, values in words.options.items():
        if name in names:
            kept = set(rng.sample(values, rng.randint(2, min(4, len(values)))))
            groups.append((name, tuple(value for value in values if value in kept)))
    return tuple(groups)


def _reviews(rng: random.Random, words: Department) -> tuple[Review, ...]:
    scores = rng.choices(tuple(REVIEW_TITLES), k=rng.randint(0, 2))
    return tuple(
        Review(title=REVIEW_TITLES[score], score=f"{score}.0", body=f"bought for {rng.choice(words.uses)}")
        for score in scores
    )
