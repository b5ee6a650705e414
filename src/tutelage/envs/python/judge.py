"""Whether an answer is right.

  integer   the same whole number; ``1,234``, ``+7``, ``007``, ``$7$`` and ``7.0`` are whole numbers
  aime      the same, and from 0 to 999
  math      equal as math-verify sees it (extra `math`); whole numbers are compared exactly, without it
  choice    the same letter
  program   all hidden tests pass in the sandbox

An answer out of which nothing can be read (`NO_ANSWER`) is wrong; nothing is guessed in its place.
"""

from __future__ import annotations

import enum
import re
from decimal import Decimal, InvalidOperation
from typing import Final

from tutelage.envs.action_formats import last_boxed
from tutelage.envs.python.math_judge import math_equal
from tutelage.envs.python.problems import Problem
from tutelage.envs.python.program_tests import passes_all, source_in
from tutelage.envs.sandbox import PythonRunner

LONGEST_NUMBER: Final = 2_000
"""Characters of an answer that is read as a number."""

_LAYOUT: Final = re.compile(r"\\[,;!]|\$")
_NUMBER: Final = re.compile(r"[+-]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d*)?")
_LETTER: Final = re.compile(r"\(?\s*([A-Za-z])\s*[).:]?")
_WRAPPED: Final = re.compile(r"\\(?:text|textbf|mathrm|mathbf)\{(.*)\}", re.DOTALL)


class Judgement(enum.StrEnum):
    """What became of an answer."""

    RIGHT = "right"
    WRONG = "wrong"
    NO_ANSWER = "no_answer"


def judge(problem: Problem, answer: str, runner: PythonRunner) -> Judgement:
    """Compare an answer. Raises MissingExtra where math-verify is needed and absent, EnvError if the sandbox failed."""
    boxed = last_boxed(answer)
    content = answer if boxed is None or problem.judge == "program" else boxed
    if problem.judge == "program":
        source = source_in(content)
        if not source.strip():
            return Judgement.NO_ANSWER
        return _verdict(passes_all(source, problem.tests, runner))
    if problem.judge == "choice":
        letter = letter_in(content)
        return Judgement.NO_ANSWER if letter is None else _verdict(letter == problem.answer)
    number = whole_number_in(content)
    if problem.judge == "math":
        if number is not None and (key := whole_number_in(problem.answer)) is not None:
            return _verdict(number == key)
        equal = math_equal(problem.answer, content)
        return Judgement.NO_ANSWER if equal is None else _verdict(equal)
    if number is None or (problem.judge == "aime" and not 0 <= number <= 999):
        return Judgement.NO_ANSWER
    return _verdict(number == int(problem.answer))


def whole_number_in(text: str) -> int | None:
    """The whole number that a text is. None: it is something else.

    Example: ``" $1{,}234.0$. "`` -> 1234; ``"12 apples"``, ``"12.5"`` and ``"1,2"`` -> None
    """
    if len(text) > LONGEST_NUMBER:
        return None
    plain = _LAYOUT.sub("", text.replace("{,}", ",")).strip().removesuffix(".")
    if not plain.isascii() or not _NUMBER.fullmatch(plain):
        return None
    try:
        value = Decimal(plain.replace(",", ""))
    except InvalidOperation:
        return None
    return int(value) if value == value.to_integral_value() else None


def letter_in(text: str) -> str | None:
    """The letter that a text is, in upper case. Example: ``(b)``, ``B.`` and ``\\text{B}`` -> ``B``"""
    text = text.strip().strip("$").strip()
    wrapped = _WRAPPED.fullmatch(text)
    found = _LETTER.fullmatch(wrapped[1].strip() if wrapped else text)
    return found[1].upper() if found else None


def _verdict(right: bool) -> Judgement:
    return Judgement.RIGHT if right else Judgement.WRONG
