"""What a check of an environment found: one result per check, and all of them as text or JSON."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any


class Outcome(enum.StrEnum):
    """What became of a check."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    """It could not be made, or the environment does not offer what it is about."""


class Fault(Exception):
    """What a check raises where the environment is wrong."""

    def __init__(self, where: str, *, got: object, expected: str, remedy: str) -> None:
        super().__init__(f"{where}: {got}, expected {expected}")
        self.where = where
        self.got = str(got)
        self.expected = expected
        self.remedy = remedy


class Skip(Exception):
    """What a check raises where there is nothing to check; the message is the reason."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """A fault as the user reads it."""

    where: str
    got: str
    expected: str
    remedy: str
    """What to do."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckResult:
    """One check."""

    check: str
    outcome: Outcome
    found: str
    """What was measured, or why the check was skipped, in one line."""
    problem: Problem | None = None
    """Of a failed check."""

    def __str__(self) -> str:
        mark = {Outcome.PASSED: "ok", Outcome.FAILED: "FAIL", Outcome.SKIPPED: "skip"}[self.outcome]
        line = f"{mark:<5} {self.check:<11} {self.found}"
        if self.problem is None:
            return line
        what = {"got": self.problem.got, "expected": self.problem.expected, "to do": self.problem.remedy}
        return "\n".join([line, *(f"      {key + ':':<10}{_indented(text)}" for key, text in what.items())])


def _indented(text: str) -> str:
    return text.replace("\n", "\n" + " " * 16)


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckReport:
    """All checks of one environment.

    Example: ``assert check_env("household").passed``
    """

    env: str
    results: tuple[CheckResult, ...]
    seconds: float

    @property
    def passed(self) -> bool:
        """No check failed. Skipped ones count for nothing."""
        return not self.failed

    @property
    def failed(self) -> tuple[str, ...]:
        """Names of the checks that failed."""
        return self._named(Outcome.FAILED)

    @property
    def skipped(self) -> tuple[str, ...]:
        """Names of the checks that could not be made."""
        return self._named(Outcome.SKIPPED)

    def summary(self) -> str:
        """One line, e.g. ``household is sound: 17 checks passed, 1 skipped, 3.2 s``."""
        passed = len(self._named(Outcome.PASSED))
        parts = [f"{passed} checks passed"]
        parts += [f"{len(self.failed)} failed ({', '.join(self.failed)})"] if self.failed else []
        parts += [f"{len(self.skipped)} skipped"] if self.skipped else []
        return f"{self.env} {'is sound' if self.passed else 'is not sound'}: {', '.join(parts)}, {self.seconds:.1f} s"

    def __str__(self) -> str:
        return "\n".join([*map(str, self.results), self.summary()])

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "env": self.env,
            "passed": self.passed,
            "seconds": round(self.seconds, 3),
            "checks": [
                {
                    **asdict(result),
                    "outcome": result.outcome.value,
                    "problem": result.problem and asdict(result.problem),
                }
                for result in self.results
            ],
        }

    def _named(self, outcome: Outcome) -> tuple[str, ...]:
        return tuple(result.check for result in self.results if result.outcome is outcome)


def short(value: object, limit: int = 160) -> str:
    """A value for a message, on one line and not too long."""
    text = value if isinstance(value, str) else repr(value)
    text = text.replace("\n", "\\n")
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def listed(names: Iterable[object], limit: int = 5) -> str:
    """The first of many names. Example: ``a, b, c and 4 more``"""
    every = [str(name) for name in names]
    more = f" and {len(every) - limit} more" if len(every) > limit else ""
    return ", ".join(every[:limit]) + more
