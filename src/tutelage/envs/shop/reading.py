"""Reading the shop's pages back: what a policy or an extractor knows from the texts alone.

In: texts of pages and the commands given on them. Out: a `Page` per text; a `Visit` that follows search, product and
chosen options over an episode, whoever acted, and counts only what the next page confirms.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tutelage.envs.shop.pages import (
    BACK,
    BUY,
    INSTRUCTION,
    NEXT,
    PREV,
    SEPARATOR,
    SHOP_NAME,
    TABS,
    THANKS,
    parse_command,
)
from tutelage.envs.shop.vocabulary import DEPARTMENTS
from tutelage.types import Step

_USUAL_NAMES = (
    "capacity, color name, configuration, edition, fit, fit type, flavor name, frame color, grip type, hand orientation, "
    "item length, item package quantity, item shape, length, lens color, material, material type, model, number of items, "
    "pattern, pattern name, power, scent name, shape, size name, special size, special size type, strength, style name, "
    "team name, unit count, width"
)

GROUP_NAMES: Final = frozenset(_USUAL_NAMES.split(", ")).union(*(words.options for words in DEPARTMENTS.values()))
"""Names of option groups that are known as such. In text mode a group's name looks like one of its values."""

_COUNT = re.compile(r"Page (\d+) \(Total results: (\d+)\)")


class Listed(NamedTuple):
    """A product on a results page."""

    item_id: str
    """Lower case."""
    title: str
    price: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """A page as read from its text."""

    kind: str
    """``search``, ``results``, ``item``, ``tab``, ``done``, or ``other`` for what is no page."""
    instruction: str = ""
    number: int = 0
    """Of a results page, from 1."""
    total: int = 0
    """Products found, on all results pages together."""
    listed: tuple[Listed, ...] = ()
    options: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Groups of an item page; one whose name is not in `GROUP_NAMES` is read as values of the group before it."""
    title: str = ""
    price: str = ""
    strings: tuple[str, ...] = ()
    """What a tab shows."""

    def group_of(self, value: str) -> str | None:
        """The option group that a click on the value would set; the last one that has it, as in the shop."""
        return next((name for name, values in reversed(self.options) if value in values), None)


def read_page(text: str) -> Page:
    """The page whose text this is. Never raises."""
    strings = text.strip().split(SEPARATOR)
    if strings[0] == SHOP_NAME and len(strings) > 2:
        return Page(kind="search", instruction=strings[2])
    if strings[0] == THANKS:
        return Page(kind="done")
    if strings[0] != INSTRUCTION or len(strings) < 4 or strings[2] != BACK:
        return Page(kind="other")
    instruction, rest = strings[1], strings[3:]
    if count := _COUNT.fullmatch(rest[0]):
        listed = [string for string in rest[1:] if string not in (PREV, NEXT)]
        return Page(
            kind="results",
            instruction=instruction,
            number=int(count[1]),
            total=int(count[2]),
            listed=tuple(
                Listed(item_id.lower(), title, price)
                for item_id, title, price in zip(listed[::3], listed[1::3], listed[2::3], strict=False)
            ),
        )
    prices = [index for index, string in enumerate(rest) if string.startswith("Price: ")]
    if BUY in rest and prices and prices[-1] >= 2:
        at = prices[-1]
        return Page(
            kind="item",
            instruction=instruction,
            options=_groups(rest[1 : at - 1]),
            title=rest[at - 1],
            price=rest[at].removeprefix("Price: "),
        )
    return Page(kind="tab", instruction=instruction, strings=tuple(rest[1:]))


def _groups(strings: Iterable[str]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Example: color, red, blue, size, small is (color, (red, blue)), (size, (small,))."""
    groups: list[tuple[str, list[str]]] = []
    for string in strings:
        if not groups or string in GROUP_NAMES:
            groups.append((string, []))
        else:
            groups[-1][1].append(string)
    return tuple((name, tuple(values)) for name, values in groups)


@dataclass(slots=True)
class Visit:
    """Where an episode stands, followed step by step.

    Example: after ``search[red mug]``, ``click[b1]``, ``click[red]`` the query is ``red mug``, the item ``b1``, and chosen
    is ``{"color": "red"}``.
    """

    page: Page
    """The newest page; a reply that is none leaves the page before it."""
    query: str = ""
    """Of the results behind the present page; empty before the first search and after `Back to Search`."""
    item_id: str = ""
    """The product of the present page, lower case; empty where there is none."""
    chosen: dict[str, str] = field(default_factory=dict)
    """Option group -> value, of the present product."""

    def step(self, command: str | None, reply: str) -> bool:
        """Follow one command to the page it led to. Returns whether that page confirms that something was done."""
        before, after = self.page, read_page(reply)
        if after.kind != "other":
            self.page = after
        if command is None or after.kind == "other":
            return False
        verb, argument = parse_command(command)
        if verb == "search":
            return self._searched(argument, before, after)
        return verb == "click" and self._clicked(argument, before, after)

    def _searched(self, query: str, before: Page, after: Page) -> bool:
        # Where the page has no search bar and search is strict, the same page comes back.
        done = after.kind == "results" and bool(query) and (before.kind == "search" or after != before)
        if done:
            self.query, self.item_id, self.chosen = query, "", {}
        return done

    def _clicked(self, label: str, before: Page, after: Page) -> bool:
        if label == BACK.lower() and after.kind == "search" and before.kind != "search":
            self.query, self.item_id, self.chosen = "", "", {}
            return True
        if before.kind == "results":
            if label in (PREV.lower(), NEXT.lower()):
                return after.kind == "results" and after.number != before.number
            if after.kind == "item" and any(label == listed.item_id for listed in before.listed):
                self.item_id, self.chosen = label, {}
                return True
            return False
        if before.kind == "tab":
            return label == PREV.lower() and after.kind == "item"
        if before.kind == "item" and label == PREV.lower() and after.kind == "results":
            self.item_id, self.chosen = "", {}
            return True
        return before.kind == "item" and self._clicked_on_item(label, before, after)

    def _clicked_on_item(self, label: str, before: Page, after: Page) -> bool:
        if label == BUY.lower():
            return after.kind == "done"
        if label in (tab.lower() for tab in TABS):
            return after.kind == "tab"
        group = before.group_of(label)
        if group is None or after.kind != "item" or self.chosen.get(group) == label:
            return False
        self.chosen = self.chosen | {group: label}
        return True


def replies_of(steps: Iterable[Step], final: str) -> list[tuple[str | None, str]]:
    """Each step's command with the text that answered it; `final` answers the last one."""
    steps = list(steps)
    texts = [step.observation.text for step in steps[1:]] + [final]
    return [(step.action.command, text) for step, text in zip(steps, texts, strict=False)]
