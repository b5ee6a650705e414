"""What a problem is, and what makes its answer right."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any, Literal

Judge = Literal["integer", "aime", "math", "choice", "program"]
"""How an answer is compared; see `judge`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HiddenTest:
    """One test of a program."""

    given: str
    """Standard input; for a function, its arguments as JSON, one a line."""
    expected: str
    """Standard output; for a function, its result as JSON."""
    function: str | None = None
    """Name of the function (or of the method of a class `Solution`). None: a program that reads and prints."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """A problem with its answer. The answer and the tests never reach the policy or the sandbox of its code."""

    text: str
    answer: str
    """What is right: a number, an expression in LaTeX, a letter; empty for a program."""
    judge: Judge
    kind: str
    """Task kind, for tables."""
    tests: tuple[HiddenTest, ...] = ()

    @property
    def content_hash(self) -> str:
        """SHA-256 of everything, 64 hex digits."""
        parts: list[Any] = [self.text, self.answer, self.judge]
        parts += [[test.given, test.expected, test.function] for test in self.tests]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
