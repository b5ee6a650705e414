"""The shop's expert: a scripted policy that buys what is asked for, from any page another policy left behind.

In: the texts of the trajectory so far. Out: one command. It never sees the catalogue. It searches the goal's words, opens
the product whose title has them at a price that is allowed, checks on the Features page what the title does not say,
chooses the options, and buys. What fails a check is not opened again.

Instructions of people name no options by group. For them it opens the best result that may be bought, chooses the
options whose words the instruction has, and buys.
"""

from __future__ import annotations

from functools import cached_property
from typing import Final

from tutelage.envs.shop.pages import BACK, BUY, NEXT, PREV
from tutelage.envs.shop.reading import Listed, Page, Visit, read_page, replies_of
from tutelage.envs.shop.words import words_of
from tutelage.policies.base import PartialTrajectory, SingleActPolicy
from tutelage.policies.experts.shop_wish import Wish, price_of, read_wish
from tutelage.types import Action

MAX_PAGES: Final = 5
"""Results pages of one search that are looked at."""

COMPARED: Final = 3
"""Products of a results page that compete for being opened next."""

FEATURES: Final = "features"


class ShopExpert(SingleActPolicy):
    """Shops from the texts of the pages, from any of them.

    Same texts, same command; nothing is remembered between calls.
    """

    def __init__(self) -> None:
        self.name = "shop_expert"
        self.version = "shop_expert-1"

    def act(self, so_far: PartialTrajectory) -> Action:
        return Action.of(_Decision(_Belief(so_far)).command())


class _Belief:
    """What the texts have told."""

    def __init__(self, so_far: PartialTrajectory) -> None:
        first = (so_far.steps[0].observation if so_far.steps else so_far.observation).text
        self.visit = Visit(page=read_page(first))
        self.results: dict[str, dict[int, Page]] = {}
        """Query -> its results pages seen, by number."""
        self.items: dict[str, Page] = {}
        """Product -> its page."""
        self.known_words: dict[str, set[str]] = {}
        """Product -> words of its title and Features page; words of both only once the latter was seen."""
        self.checked: set[str] = set()
        """Products whose Features page was seen."""
        self._note("")
        for command, reply in replies_of(so_far.steps, so_far.observation.text):
            self.visit.step(command, reply)
            self._note(command or "")
        self.wish = read_wish(self.visit.page.instruction or read_page(first).instruction)

    def _note(self, command: str) -> None:
        visit = self.visit
        page = visit.page
        if page.kind == "results":
            self.results.setdefault(visit.query, {})[page.number] = page
        elif page.kind == "item":
            self.items[visit.item_id] = page
            self.known_words.setdefault(visit.item_id, set()).update(words_of(page.title))
        elif page.kind == "tab":
            self.known_words.setdefault(visit.item_id, set()).update(words_of(" ".join(page.strings)))
            if command.lower().replace(" ", "") == f"click[{FEATURES}]":
                self.checked.add(visit.item_id)

    def refused(self, item_id: str) -> bool:
        """Whether an opened product is known not to be what is wanted."""
        page = self.items.get(item_id)
        if page is None:
            return False
        if price_of(page.price) > self.wish.price_upper or self.wish.lacks_option(page):
            return True
        return not self.wish.is_free and item_id in self.checked and bool(self.missing(item_id))

    def missing(self, item_id: str) -> frozenset[str]:
        """Wanted words that no page about a product had."""
        return self.wish.words - self.known_words.get(item_id, set())


class _Decision:
    """One decision on one belief. Reads, never changes it."""

    def __init__(self, belief: _Belief) -> None:
        self.belief = belief
        self.wish: Wish = belief.wish
        self.page = belief.visit.page

    def command(self) -> str:
        if self.page.kind == "results":
            return self._on_results()
        if self.page.kind == "item":
            return self._on_item()
        if self.page.kind == "tab":
            return _click(PREV)
        return f"search[{self._query()}]"

    # Searching

    @cached_property
    def _open_queries(self) -> list[str]:
        """Queries of the expert's own that may still lead to something, in order."""
        return [query for query in self.wish.queries if self._leads_on(query)]

    def _query(self) -> str:
        return (self._open_queries or self.wish.queries)[0]

    def _leads_on(self, query: str) -> bool:
        pages = self.belief.results.get(query)
        return pages is None or self._best(query) is not None or self._next_page(query) is not None

    def _best(self, query: str) -> tuple[int, Listed] | None:
        """The results page and product of a query that is to be opened.

        Three at a time are compared, in the order of the results: one whose title has all words, else the first.
        """
        ranked = [
            (number, rank // COMPARED, self._num_missing(listed) > 0, rank, listed)
            for number, page in sorted(self.belief.results.get(query, {}).items())
            for rank, listed in enumerate(page.listed)
            if self._may_be(listed)
        ]
        if not ranked:
            return None
        first = min(ranked)
        return first[0], first[-1]

    def _may_be(self, listed: Listed) -> bool:
        if price_of(listed.price) > self.wish.price_upper or self.belief.refused(listed.item_id):
            return False
        return self.wish.is_free or self.wish.kind in words_of(listed.title)

    def _num_missing(self, listed: Listed) -> int:
        return len(self.wish.words - set(words_of(listed.title)))

    def _next_page(self, query: str) -> int | None:
        """Number of the first results page of a query that was not seen. None: there is no more to see."""
        pages = self.belief.results[query]
        first_unseen = next(number for number in range(1, len(pages) + 2) if number not in pages)
        if first_unseen > MAX_PAGES:
            return None
        # Pages are full but for the last one, so the longest tells their size.
        size = max(len(page.listed) for page in pages.values())
        total = max(page.total for page in pages.values())
        return first_unseen if (first_unseen - 1) * size < total else None

    def _on_results(self) -> str:
        query = self.belief.visit.query
        best = self._best(query)
        is_own = query in self.wish.queries
        if best is not None and (is_own or self._num_missing(best[1]) == 0):
            return self._turn_to(best[0]) or _click(best[1].item_id)
        unseen = self._next_page(query) if is_own else None
        if unseen is not None:
            return self._turn_to(unseen) or _click(NEXT)
        if self._open_queries or not self.page.listed:
            return _click(BACK)
        # Nothing fits: the least bad.
        settled = min(
            self.page.listed, key=lambda one: (price_of(one.price) > self.wish.price_upper, self._num_missing(one))
        )
        return _click(settled.item_id)

    def _turn_to(self, number: int) -> str | None:
        if number == self.page.number:
            return None
        return _click(NEXT if number > self.page.number else PREV)

    # On the page of a product

    def _on_item(self) -> str:
        belief, wish = self.belief, self.wish
        item_id = belief.visit.item_id
        if belief.refused(item_id) and self._elsewhere:
            return _click(PREV)
        if not wish.is_free and belief.missing(item_id):
            if wish.kind in belief.known_words[item_id] and item_id not in belief.checked:
                return _click(FEATURES)
            if self._elsewhere:
                return _click(PREV)
        for group, value in wish.choices(self.page).items():
            if belief.visit.chosen.get(group) != value:
                return _click(value)
        return _click(BUY)

    @cached_property
    def _elsewhere(self) -> bool:
        """Whether there is anything left to look for."""
        return bool(self._open_queries) or self._best(self.belief.visit.query) is not None


def _click(label: str) -> str:
    return f"click[{label.lower()}]"
