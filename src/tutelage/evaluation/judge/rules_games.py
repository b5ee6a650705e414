"""Rules for the household and the shop: what was moved or bought, against the words of the goal."""

from __future__ import annotations

import re
from typing import Final

from tutelage.envs.shop.pages import BUY, parse_command
from tutelage.envs.shop.reading import Visit, read_page, replies_of
from tutelage.envs.shop.words import words_of
from tutelage.evaluation.judge.evidence import Evidence
from tutelage.evaluation.judge.findings import Finding, Rule
from tutelage.policies.experts.shop_wish import price_of, read_wish
from tutelage.types import FailureCategory

_PLACED: Final = re.compile(r"You (?:move|put) the (?P<object>[\w ]+?) \d+ (?:to|in/on) the (?P<place>[\w ]+?) \d+\.")
_TAKEN: Final = re.compile(r"You pick up the (?P<object>[\w ]+?) \d+ from the")
_TREATED: Final = re.compile(r"You (?P<verb>heat|cool|clean) the (?P<object>[\w ]+?) \d+ using the")
_WORD_OF: Final = {"hot": "heat", "heat": "heat", "cool": "cool", "cold": "cool", "clean": "clean"}


def moved_wrong_thing(evidence: Evidence) -> Finding | None:
    """What it picked up is never named in the goal, or what it put down went to places that are not."""
    goal = _goal(evidence)
    taken = _found(evidence, _TAKEN)
    if taken and not any(_named(match["object"], goal) for _, match in taken):
        steps = [step for step, _ in taken]
        names = ", ".join(sorted({match["object"] for _, match in taken}))
        return Finding(
            FailureCategory.IDENTIFIED_INCORRECT_FILE,
            f"it picked up {names}, which the goal does not name",
            (steps[0], steps[-1]),
        )
    placed = [(step, match) for step, match in _found(evidence, _PLACED) if _named(match["object"], goal)]
    if placed and not any(_named(match["place"], goal) for _, match in placed):
        step, match = placed[-1]
        return Finding(
            FailureCategory.IDENTIFIED_INCORRECT_FILE,
            f"it put the {match['object']} to the {match['place']}, which the goal does not name",
            (placed[0][0], step),
        )
    return None


def left_out_a_condition(evidence: Evidence) -> Finding | None:
    """The right object is at the right kind of place, but it was never heated, cooled or cleaned as asked, or is one of
    two."""
    goal = _goal(evidence)
    placed = [
        (step, match)
        for step, match in _found(evidence, _PLACED)
        if _named(match["object"], goal) and _named(match["place"], goal)
    ]
    if not placed:
        return None
    span = (placed[0][0], placed[-1][0])
    wanted = next((verb for word, verb in _WORD_OF.items() if word in goal.split()), None)
    treated = {(match["verb"], match["object"]) for _, match in _found(evidence, _TREATED)}
    if wanted is not None and (wanted, placed[-1][1]["object"]) not in treated:
        return Finding(FailureCategory.MISSED_EDGE_CASE, f"the object was put there, but nothing did '{wanted}'", span)
    if "two" in goal.split() and len({_whole(match) for _, match in placed}) < 2:
        return Finding(FailureCategory.MISSED_EDGE_CASE, "one of two objects was put there", span)
    return None


def bought_wrong_product(evidence: Evidence) -> Finding | None:
    """The product that was bought lacks words of the instruction on every page of it that was seen."""
    bought = _purchase(evidence)
    if bought is None:
        return None
    wish = read_wish(bought.instruction)
    missing = wish.words - bought.words
    if wish.is_free or not missing:
        return None
    return Finding(
        FailureCategory.IDENTIFIED_INCORRECT_FILE,
        f"nothing that was seen of the product says {', '.join(sorted(missing))}",
        (bought.opened, evidence.last),
    )


def bought_against_a_condition(evidence: Evidence) -> Finding | None:
    """An option that the instruction names was not chosen, or the price is above its bound."""
    bought = _purchase(evidence)
    if bought is None:
        return None
    wish = read_wish(bought.instruction)
    span = (bought.opened, evidence.last)
    if wish.is_free:
        return None
    if price_of(bought.price) > wish.price_upper:
        return Finding(
            FailureCategory.MISSED_EDGE_CASE, f"price {bought.price}, asked was below {wish.price_upper:g}", span
        )
    chosen = set(bought.chosen.values())
    open_options = [f"{name}: {value}" for name, value in wish.options.items() if value not in chosen]
    if open_options:
        return Finding(FailureCategory.MISSED_EDGE_CASE, f"not chosen: {', '.join(open_options)}", span)
    return None


def bought_in_vain(evidence: Evidence) -> Finding | None:
    """All that the pages told fits, and the purchase still did not count in full."""
    bought = _purchase(evidence)
    if bought is None or read_wish(bought.instruction).is_free:
        return None
    return Finding(
        FailureCategory.WRONG_SOLUTION, "the product fits as far as its pages tell", (bought.opened, evidence.last)
    )


class _Purchase:
    """What was bought: the pages of the product, and what was chosen."""

    def __init__(self, instruction: str) -> None:
        self.instruction = instruction
        self.words: set[str] = set()
        self.price = ""
        self.chosen: dict[str, str] = {}
        self.opened = 0


def _purchase(evidence: Evidence) -> _Purchase | None:
    steps, final = evidence.trajectory.steps, evidence.final_reply
    if not steps or read_page(final).kind != "done":
        return None
    first = read_page(steps[0].observation.text)
    visit, seen = Visit(page=first), _Purchase(first.instruction)
    item_id = ""
    for index, (command, reply) in enumerate(replies_of(steps, final)):
        if parse_command(command or "") == ("click", BUY.lower()):
            seen.chosen = dict(visit.chosen)
        visit.step(command, reply)
        if visit.item_id != item_id:
            item_id, seen.words, seen.opened = visit.item_id or item_id, set(), index
        page = visit.page
        if page.kind == "item":
            seen.words |= set(words_of(page.title))
            seen.price = page.price
        elif page.kind == "tab":
            seen.words |= set(words_of(" ".join(page.strings)))
    return seen


def _found(evidence: Evidence, pattern: re.Pattern[str]) -> list[tuple[int, re.Match[str]]]:
    return [(index, match) for index, reply in enumerate(evidence.replies) if (match := pattern.search(reply))]


def _goal(evidence: Evidence) -> str:
    return re.sub(r"[^a-z0-9 ]", " ", evidence.trajectory.goal.lower())


def _named(name: str, goal: str) -> bool:
    return re.search(rf"\b{re.escape(name.lower())}s?\b", goal) is not None


def _whole(match: re.Match[str]) -> str:
    return match[0].split(" to the ")[0]


HOUSEHOLD_RULES: Final[tuple[Rule, ...]] = (moved_wrong_thing, left_out_a_condition)
SHOP_RULES: Final[tuple[Rule, ...]] = (bought_wrong_product, bought_against_a_condition, bought_in_vain)
