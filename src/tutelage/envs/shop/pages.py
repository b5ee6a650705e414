"""Pages of the shop: what each shows, what can be clicked on it, and where that leads.

In: a place (which page, which search, which product, which options). Out: its text, and the places one click away. The
text is WebShop's text mode: visible strings joined by ` [SEP] `.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from tutelage.envs.shop.catalogue import Catalogue, Item

SEPARATOR: Final = " [SEP] "

BACK: Final = "Back to Search"
PREV: Final = "< Prev"
NEXT: Final = "Next >"
BUY: Final = "Buy Now"
INSTRUCTION: Final = "Instruction:"
SHOP_NAME: Final = "WebShop"
THANKS: Final = "Thank you for shopping with us!"
TABS: Final = ("Description", "Features", "Reviews", "Attributes")
"""Pages about a product; the last one only in shops that show attributes."""

SEARCH_TEMPLATE: Final = "search[...]"

_COMMAND = re.compile(r"\s*(search|click)\s*\[(.*)\]\s*", re.IGNORECASE | re.DOTALL)


class Place(NamedTuple):
    """Where the shopper is. Immutable, so that it is its own snapshot."""

    page: str = "search"
    """``search``, ``results``, ``item``, a tab in lower case, or ``done``."""
    query: str = ""
    number: int = 1
    """Of the results page, from 1. Kept on the pages behind it."""
    item_id: str = ""
    chosen: tuple[tuple[str, str], ...] = ()
    """Option groups with the value chosen, in the order in which they were first chosen."""


def parse_command(command: str) -> tuple[str, str]:
    """Verb and argument, both in lower case; two empty strings for what is no command.

    Example: ``click[Buy Now]`` is (click, buy now).
    """
    match = _COMMAND.fullmatch(command)
    return (match[1].lower(), match[2].strip().lower()) if match else ("", "")


@dataclass(frozen=True, slots=True)
class Site:
    """The shop as one shopper meets it."""

    catalogue: Catalogue
    instruction: str
    page_size: int = 10
    """Products on a results page."""
    strict_search: bool = True
    """Search only where the page has a search bar. False: everywhere, as in the original."""
    show_chosen: bool = False
    """Item pages end with the chosen options. False: nothing marks them, as in the original."""
    show_attributes: bool = False
    """Products have a page that lists their attributes."""

    def after(self, place: Place, command: str) -> Place:
        """Where a command leads; the same place if it cannot be done."""
        verb, argument = parse_command(command)
        if verb == "search" and argument and self._may_search(place):
            return Place("results", argument)
        return self.moves(place).get(argument, place) if verb == "click" else place

    def admissible(self, place: Place) -> tuple[str, ...]:
        """The search template if there is a search bar, then a click for all that can be clicked, in page order."""
        clicks = (f"click[{label}]" for label in self.moves(place))
        return ((SEARCH_TEMPLATE,) if self._may_search(place) else ()) + tuple(clicks)

    def moves(self, place: Place) -> dict[str, Place]:
        """Label in lower case -> where a click on it leads, in page order. `Search` itself cannot be clicked."""
        if place.page == "results":
            return self._moves_from_results(place)
        if place.page == "item":
            return self._moves_from_item(place)
        if place.page in ("search", "done"):
            return {}
        return {BACK.lower(): Place(), PREV.lower(): place._replace(page="item")}

    def _may_search(self, place: Place) -> bool:
        return place.page == "search" or (place.page != "done" and not self.strict_search)

    def _moves_from_results(self, place: Place) -> dict[str, Place]:
        moves = {BACK.lower(): Place()}
        if place.number > 1:
            moves[PREV.lower()] = place._replace(number=place.number - 1)
        moves[NEXT.lower()] = place._replace(number=place.number + 1)
        for item in self._listed(place):
            moves[item.item_id.lower()] = place._replace(page="item", item_id=item.item_id)
        return moves

    def _moves_from_item(self, place: Place) -> dict[str, Place]:
        results = Place("results", place.query, place.number)
        buttons = {BACK.lower(): Place(), PREV.lower(): results}
        moves = dict(buttons)
        chosen = dict(place.chosen)
        for name, values in self.catalogue[place.item_id].options:
            for value in values:
                moves[value] = place._replace(chosen=tuple((chosen | {name: value}).items()))
        # A value that reads like a button is that button, as in the original.
        return moves | buttons | {label.lower(): place._replace(page=label.lower()) for label in self._tabs()} | {
            BUY.lower(): place._replace(page="done")
        }  # fmt: skip

    def _tabs(self) -> tuple[str, ...]:
        return TABS if self.show_attributes else TABS[:-1]

    def _found(self, place: Place) -> tuple[str, ...]:
        return self.catalogue.search(place.query)

    def _listed(self, place: Place) -> list[Item]:
        """The products on a results page; none beyond the last page."""
        start = (place.number - 1) * self.page_size
        return [self.catalogue[item_id] for item_id in self._found(place)[start : start + self.page_size]]

    # Texts

    def text(self, place: Place, score: float = 0.0) -> str:
        """The page as text. `score` is that of the purchase, for the last page."""
        if place.page == "done":
            strings = [THANKS, "Your score (min 0.0, max 1.0)", str(score)]
        elif place.page == "search":
            strings = [SHOP_NAME, INSTRUCTION, self.instruction, "Search"]
        elif place.page == "results":
            strings = [INSTRUCTION, self.instruction, BACK, *self._results(place)]
        else:
            item = self.catalogue[place.item_id]
            shown = self._item(item, place) if place.page == "item" else _TABS[place.page](item)
            strings = [INSTRUCTION, self.instruction, BACK, PREV, *shown]
        return SEPARATOR.join(string.strip() for string in strings)

    def _results(self, place: Place) -> list[str]:
        strings = [f"Page {place.number} (Total results: {len(self._found(place))})"]
        strings += [PREV, NEXT] if place.number > 1 else [NEXT]
        for item in self._listed(place):
            strings += [item.item_id, item.title, item.price_tag]
        return strings

    def _item(self, item: Item, place: Place) -> list[str]:
        strings = []
        for name, values in item.options:
            strings += [name, *values]
        strings += [item.title, f"Price: {item.price_tag}", "Rating: N.A.", *self._tabs(), BUY]
        if self.show_chosen:
            strings += [f"Chosen: {name}={value}" for name, value in place.chosen]
        return strings


def _reviews(item: Item) -> list[str]:
    strings = []
    for review in item.reviews:
        strings += [f'"{review.title}"', review.score, review.body]
    return strings or ["No reviews."]


_TABS: Final[dict[str, Callable[[Item], list[str]]]] = {
    "description": lambda item: [item.description or "No description."],
    "features": lambda item: list(item.bullets) or ["No features."],
    "reviews": _reviews,
    "attributes": lambda item: list(item.attributes) or ["No attributes."],
}
"""Page about a product -> the strings on it."""
