"""The problems that are generated: sentences with slots, and the calculations that solve them.

A template is read in both directions: the generator fills its slots, the scripted expert finds them in a text. Words
come from a small closed list (`vocabulary`), so that a small word-level student can learn all of it; all numbers are whole
and at least 0.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

NAMES: Final = ("Ann", "Ben", "Cara", "Dan", "Eva", "Finn", "Gina", "Hugo")
THINGS: Final = ("apples", "books", "cards", "coins", "eggs", "pens", "shells", "stamps")
BOXES: Final = ("bags", "baskets", "boxes", "jars")

WORD_SLOTS: Final[Mapping[str, Sequence[str]]] = {"name": NAMES, "other": NAMES, "thing": THINGS, "box": BOXES}
"""Slot -> words. `name` and `other` differ in one problem."""

SLOT: Final = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class Template:
    """One kind of problem.

    Example: text ``What is {a} + {b}?``, steps ``("{a} + {b}",)``, ranges a and b from 10 to 99.
    In later steps ``{r1}`` is the result of the first step, ``{r2}`` of the second. The last result is the answer.
    """

    level: str
    text: str
    steps: tuple[str, ...]
    ranges: Mapping[str, tuple[int, int]]
    """Number slot -> smallest and largest value."""

    @cached_property
    def word_slots(self) -> tuple[str, ...]:
        found = dict.fromkeys(SLOT.findall(self.text))
        return tuple(slot for slot in found if slot in WORD_SLOTS)

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        seen: set[str] = set()

        def group(match: re.Match[str]) -> str:
            slot = match[1]
            if slot in seen:
                return f"(?P={slot})"
            seen.add(slot)
            return f"(?P<{slot}>{'|'.join(WORD_SLOTS[slot]) if slot in WORD_SLOTS else '[0-9]+'})"

        parts = re.split(r"(\{\w+\})", self.text)
        return re.compile("".join(group(m) if (m := SLOT.fullmatch(part)) else re.escape(part) for part in parts))

    def fill(self, slots: Mapping[str, str]) -> str:
        """The problem in words."""
        return self.text.format_map(dict(slots))

    def match(self, text: str) -> dict[str, str] | None:
        """The slots of a problem of this kind. None: it is of another kind."""
        found = self._pattern.fullmatch(text.strip())
        return found.groupdict() if found else None

    def expression(self, step: int, slots: Mapping[str, str], results: Sequence[int]) -> str:
        """What the step calculates, given the results of the steps before. Example: ``84 % 9``"""
        known = dict(slots) | {f"r{index + 1}": str(result) for index, result in enumerate(results)}
        return self.steps[step].format_map(known)

    def solve(self, slots: Mapping[str, str]) -> list[int]:
        """The result of every step. Raises ZeroDivisionError where a step divides by 0."""
        results: list[int] = []
        for step in range(len(self.steps)):
            results.append(calculate(self.expression(step, slots, results)))
        return results


TWO_DIGITS: Final = (10, 99)
SMALL: Final = (2, 9)
DOZENS: Final = (2, 30)
THREE_DIGITS: Final = (100, 999)

TEMPLATES: Final = (
    Template("sums", "What is {a} + {b}?", ("{a} + {b}",), {"a": TWO_DIGITS, "b": TWO_DIGITS}),
    Template("sums", "What is {a} - {b}?", ("{a} - {b}",), {"a": TWO_DIGITS, "b": TWO_DIGITS}),
    Template("sums", "What is {a} * {b}?", ("{a} * {b}",), {"a": TWO_DIGITS, "b": TWO_DIGITS}),
    Template(
        "expressions",
        "What is ({a} + {b}) * {c}?",
        ("({a} + {b}) * {c}",),
        {"a": TWO_DIGITS, "b": TWO_DIGITS, "c": SMALL},
    ),
    Template(
        "expressions",
        "What is {a} * {b} - {c}?",
        ("{a} * {b} - {c}",),
        {"a": TWO_DIGITS, "b": DOZENS, "c": TWO_DIGITS},
    ),
    Template(
        "expressions",
        "What is {a} * {b} + {c} * {d}?",
        ("{a} * {b} + {c} * {d}",),
        {"a": TWO_DIGITS, "b": SMALL, "c": TWO_DIGITS, "d": SMALL},
    ),
    Template(
        "expressions",
        "What is the remainder of {a} divided by {b}?",
        ("{a} % {b}",),
        {"a": THREE_DIGITS, "b": DOZENS},
    ),
    Template(
        "stories",
        "{name} has {a} {thing}. {other} gives {name} {b} more {thing}. How many {thing} does {name} have now?",
        ("{a} + {b}",),
        {"a": TWO_DIGITS, "b": TWO_DIGITS},
    ),
    Template(
        "stories",
        "{name} has {a} {thing}. {name} gives {b} {thing} to {other}. How many {thing} does {name} have now?",
        ("{a} - {b}",),
        {"a": TWO_DIGITS, "b": TWO_DIGITS},
    ),
    Template(
        "stories",
        "There are {a} {box} with {b} {thing} in each. How many {thing} are there?",
        ("{a} * {b}",),
        {"a": DOZENS, "b": TWO_DIGITS},
    ),
    Template(
        "stories",
        "{name} has {a} {thing} and fills {box} with {b} {thing} each. How many {thing} are left over?",
        ("{a} % {b}",),
        {"a": THREE_DIGITS, "b": DOZENS},
    ),
    Template(
        "stories",
        "{name} has {a} {box} with {b} {thing} in each and {c} more {thing}. How many {thing} does {name} have?",
        ("{a} * {b} + {c}",),
        {"a": DOZENS, "b": TWO_DIGITS, "c": TWO_DIGITS},
    ),
    Template(
        "chains",
        "Let x be {a} * {b}. What is x plus the remainder of x divided by {c}?",
        ("{a} * {b}", "{r1} + {r1} % {c}"),
        {"a": TWO_DIGITS, "b": DOZENS, "c": DOZENS},
    ),
    Template(
        "chains",
        "{name} has {a} {box} with {b} {thing} in each. {other} has {c} {thing} more than {name}. "
        "How many {thing} do they have together?",
        ("{a} * {b}", "{r1} + {r1} + {c}"),
        {"a": DOZENS, "b": TWO_DIGITS, "c": TWO_DIGITS},
    ),
    Template(
        "chains",
        "{name} has {a} {thing} and finds {b} more. {name} then fills {box} with {c} {thing} each. "
        "How many {thing} are left over?",
        ("{a} + {b}", "{r1} % {c}"),
        {"a": THREE_DIGITS, "b": TWO_DIGITS, "c": DOZENS},
    ),
    Template(
        "chains",
        "There are {a} {box} with {b} {thing} in each. {name} takes {c} {thing} from each of the {box}. "
        "How many {thing} does {name} not take?",
        ("{b} - {c}", "{r1} * {a}"),
        {"a": DOZENS, "b": TWO_DIGITS, "c": SMALL},
    ),
    Template(
        "long_chains",
        "Let x be {a} * {b}. Let y be the remainder of x divided by {c}. What is x * y + {d}?",
        ("{a} * {b}", "{r1} % {c}", "{r1} * {r2} + {d}"),
        {"a": TWO_DIGITS, "b": SMALL, "c": DOZENS, "d": TWO_DIGITS},
    ),
    Template(
        "long_chains",
        "{name} has {a} {box} with {b} {thing} in each. {name} gives {c} {thing} to {other} and makes piles of {d} "
        "{thing} from the rest. How many full piles are there?",
        ("{a} * {b}", "{r1} - {c}", "{r2} // {d}"),
        {"a": DOZENS, "b": TWO_DIGITS, "c": TWO_DIGITS, "d": SMALL},
    ),
)

LEVELS: Final = tuple(dict.fromkeys(template.level for template in TEMPLATES))
"""From easy to hard. The expert solves the first three with one call, chains with two and long chains with three."""

_OPERATORS: Final[Mapping[type[ast.operator], Callable[[int, int], int]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def calculate(expression: str) -> int:
    """The value of a whole-number expression of + - * // % and parentheses. Example: ``calculate("7 % 4 * 2") == 6``"""

    def value(node: ast.expr) -> int:
        if isinstance(node, ast.Constant) and isinstance(node.value, int):
            return node.value
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -value(node.operand)
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            return _OPERATORS[type(node.op)](value(node.left), value(node.right))
        raise ValueError(f"{expression!r} holds more than whole numbers and + - * // %")

    return value(ast.parse(expression, mode="eval").body)


def match_template(text: str) -> tuple[Template, dict[str, str]] | None:
    """The template that a problem was made of, with its slots. None: it is no generated problem."""
    for template in TEMPLATES:
        slots = template.match(text)
        if slots is not None:
            return template, slots
    return None


def vocabulary() -> tuple[str, ...]:
    """Every word and sign of generated problems, numbers aside; sorted."""
    found = {word for words in WORD_SLOTS.values() for word in words}
    for template in TEMPLATES:
        found.update(re.findall(r"[A-Za-z]+|[^\w\s]", SLOT.sub(" ", template.text)))
    return tuple(sorted(found))


def open_words() -> frozenset[str]:
    """The words that name people and things, in lower case: any other would do as well."""
    return frozenset(word.lower() for words in (NAMES, THINGS, BOXES) for word in words)
