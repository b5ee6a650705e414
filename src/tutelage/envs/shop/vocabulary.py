"""The words of generated catalogues. Few, and shared by all products, so that a small student can know them all.

The lists are chosen so that the fuzzy matching of the score never takes one for another: no two attributes of a
department are more than 85 similar, no two option values are, and no value hides a colour (a test checks all pairs).
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Kind(NamedTuple):
    """A kind of product, e.g. boots, and where it stands in the catalogue."""

    department: str
    section: str
    noun: str

    @property
    def path(self) -> str:
        """Three levels, e.g. ``fashion › shoes › boots``."""
        return f"{self.department} › {self.section} › {self.noun}"


class Department(NamedTuple):
    """What the products of a department have in common."""

    sections: dict[str, tuple[str, ...]]
    """Section -> nouns of its kinds."""
    attributes: tuple[str, ...]
    options: dict[str, tuple[str, ...]]
    """Name of an option group -> all of its values."""
    materials: tuple[str, ...]
    uses: tuple[str, ...]


def _phrases(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(","))


DEPARTMENTS: Final = {
    "fashion": Department(
        sections={
            "tops": ("jacket", "shirt", "sweater"),
            "shoes": ("boots", "sneakers", "sandals"),
            "accessories": ("belt", "scarf", "backpack"),
        },
        attributes=_phrases(
            "waterproof, slim fit, machine washable, lightweight, hand made, quick drying, fleece lined, stretchy, "
            "wind resistant, casual, vintage, breathable"
        ),
        options={
            "color": _phrases("black, blue, brown, gray, green, pink, red, white"),
            "size": _phrases("small, medium, large"),
            "style": _phrases("classic, relaxed, formal, sporty"),
        },
        materials=_phrases("cotton, wool, leather, linen"),
        uses=_phrases("daily wear, long walks, cold days, the office"),
    ),
    "electronics": Department(
        sections={
            "audio": ("headphones", "speaker", "microphone"),
            "power": ("charger", "adapter", "battery"),
            "video": ("monitor", "projector", "camera"),
        },
        attributes=_phrases(
            "wireless, fast charging, noise cancelling, portable, long lasting, shock proof, high definition, "
            "low power, compact, rechargeable, voice controlled, multi device"
        ),
        options={
            "color": _phrases("black, blue, gray, red, silver, white"),
            "plug": _phrases("american, british, european"),
            "bundle": _phrases("basic, plus, deluxe"),
        },
        materials=_phrases("aluminum, plastic, rubber, glass"),
        uses=_phrases("travel, the desk, the living room, small studios"),
    ),
    "home": Department(
        sections={
            "furniture": ("chair", "desk", "bookshelf"),
            "lighting": ("lamp", "lantern", "chandelier"),
            "textiles": ("rug", "curtain", "blanket"),
        },
        attributes=_phrases(
            "easy clean, solid, space saving, hand woven, fade resistant, foldable, modern, rustic, soft, durable, "
            "child safe, pet friendly"
        ),
        options={
            "color": _phrases("beige, blue, brown, gray, green, white"),
            "size": _phrases("small, medium, large"),
            "finish": _phrases("matte, glossy, natural, antique"),
        },
        materials=_phrases("oak, bamboo, steel, cotton"),
        uses=_phrases("the living room, the bedroom, small flats, the garden"),
    ),
    "beauty": Department(
        sections={
            "hair": ("shampoo", "conditioner", "hairbrush"),
            "skin": ("lotion", "serum", "sunscreen"),
            "makeup": ("lipstick", "mascara", "eyeliner"),
        },
        attributes=_phrases(
            "cruelty free, fragrance free, oil free, vegan, hydrating, dermatologist tested, gentle, organic, "
            "anti aging, long wearing, travel ready, smudge proof"
        ),
        options={
            "scent": _phrases("rose, vanilla, citrus, mint, lavender"),
            "size": _phrases("mini, regular, jumbo"),
            "texture": _phrases("cream, gel, foam"),
        },
        materials=_phrases("aloe, shea butter, coconut, green tea"),
        uses=_phrases("dry skin, every day, sensitive skin, warm days"),
    ),
    "grocery": Department(
        sections={
            "drinks": ("tea", "coffee", "juice"),
            "snacks": ("crackers", "granola", "cookies"),
            "pantry": ("pasta", "rice", "syrup"),
        },
        attributes=_phrases(
            "gluten free, sugar free, low sodium, kosher, organic, high protein, dairy free, fair trade, artisan, "
            "whole grain, slow cooked, keto friendly"
        ),
        options={
            "flavor": _phrases("lemon, ginger, maple, cinnamon, berry"),
            "pack": _phrases("single, double, family"),
            "packaging": _phrases("bag, box, jar"),
        },
        materials=_phrases("oats, spices, herbs, grapes"),
        uses=_phrases("breakfast, parties, quick lunches, gifts"),
    ),
}
"""Department -> its words, in the order in which kinds are counted."""

KINDS: Final = tuple(
    Kind(department, section, noun)
    for department, words in DEPARTMENTS.items()
    for section, nouns in words.sections.items()
    for noun in nouns
)
"""All kinds of products: 45."""

PLURALS: Final = frozenset(("boots", "sneakers", "sandals", "headphones", "crackers", "cookies"))
"""Nouns that take no article; so do those of `MASSES`."""

MASSES: Final = frozenset(("tea", "coffee", "juice", "granola", "pasta", "rice", "syrup", "shampoo", "sunscreen"))

BRANDS: Final = _phrases(
    "avelin, borska, calvera, dunmore, eldria, fornax, gaveo, hestun, ilvane, jorvik, kestra, lumero, mirodan, nolvik, "
    "orbeza, pelmont, quivar, rosmel, sentiva, tarvos, ulmera, vontek, wexola, yarrond, zelphi, ambrel, brovia, corvane, "
    "delmira, estovan, fiorel, grendo"
)

REVIEW_TITLES: Final = {5: "very happy with it", 4: "good value", 3: "it is all right", 2: "not for me"}
"""Score of a review -> its title."""


def open_words() -> frozenset[str]:
    """The words that name goods and what they are like: all but the names of option groups and of departments."""
    named = [kind.noun for kind in KINDS] + list(BRANDS)
    for department in DEPARTMENTS.values():
        values = [value for group in department.options.values() for value in group]
        named += [*department.attributes, *department.materials, *department.uses, *values]
    return frozenset(word for phrase in named for word in phrase.lower().split())
