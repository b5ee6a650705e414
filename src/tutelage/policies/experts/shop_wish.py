"""What an instruction of the shop asks for, read from its words: the shop expert's idea of its goal."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from tutelage.envs.shop.reading import Page
from tutelage.envs.shop.words import words_of

NO_BOUND: Final = float("inf")

_PRICE = re.compile(r",? and price lower than ([\d.]+) dollars\.?$")
_OPTIONS = re.compile(r" with ([^:,]+: .+)$")
_AMOUNT = re.compile(r"\d+(?:\.\d+)?")
_OPENING = re.compile(
    r"^(?:buy|find me|find|get me|get|show me|i want|i need|i would like|i'm looking for|i am looking for|looking for)\b"
)
_FILLERS: Final = frozenset(words_of("a an the some of for to in on at and or with by that is are me my i it"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Wish:
    """An instruction taken apart.

    Example: ``buy a slim fit jacket with color: red, and price lower than 40.00 dollars`` has the words slim, fit, jacket,
    the option color: red, the bound 40.
    """

    phrase: str
    """What is wanted, without options and price."""
    words: frozenset[str]
    """Of the phrase."""
    options: dict[str, str]
    """Group -> value."""
    price_upper: float
    """Dollars; infinite without a bound."""
    is_free: bool
    """The instruction is not of the generated form, so that titles need not have its words."""

    @property
    def queries(self) -> tuple[str, ...]:
        """What to search for, in turn: the phrase with the option values, the phrase."""
        values = " ".join(self.options.values())
        return (f"{self.phrase} {values}", self.phrase) if values else (self.phrase,)

    @property
    def kind(self) -> str:
        """The last word of the phrase, which says what sort of thing is wanted."""
        return (words_of(self.phrase) or [""])[-1]

    def lacks_option(self, page: Page) -> bool:
        """Whether an item page lacks a value that is asked for."""
        groups = dict(page.options)
        return any(value not in groups.get(name, ()) for name, value in self.options.items())

    def choices(self, page: Page) -> dict[str, str]:
        """Group -> value to be chosen on an item page: as asked for, or the longest one that a free instruction has."""
        chosen = {}
        for name, values in page.options:
            if self.options.get(name) in values:
                chosen[name] = self.options[name]
            elif self.is_free:
                named = [value for value in values if words_of(value) and set(words_of(value)) <= self.words]
                chosen |= {name: max(named, key=len)} if named else {}
        return chosen


def read_wish(instruction: str) -> Wish:
    """The wish of an instruction. Never raises; what cannot be taken apart is a free one."""
    text = instruction.strip().lower()
    bound = _PRICE.search(text)
    text = _PRICE.sub("", text)
    asked = _OPTIONS.search(text)
    options = dict(part.split(": ", 1) for part in asked[1].split(", and ") if ": " in part) if asked else {}
    text = _OPTIONS.sub("", text) if options else text
    opening = _OPENING.match(text)
    phrase = text[opening.end() :] if opening else text
    phrase = re.sub(r"^ (?:an?|some) ", " ", phrase).strip()
    words = frozenset(words_of(phrase)) - _FILLERS
    return Wish(
        phrase=phrase,
        words=words,
        options=options,
        price_upper=float(bound[1]) if bound else NO_BOUND,
        is_free=not text.startswith("buy "),
    )


def price_of(tag: str) -> float:
    """The most that a price tag may stand for. Example: ``$5.0 to $9.0`` is 9.0; no amount is 0."""
    return max((float(amount) for amount in _AMOUNT.findall(tag.replace(",", ""))), default=0.0)
