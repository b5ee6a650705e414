"""What a rule gives back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tutelage.evaluation.judge.evidence import Evidence, Span
from tutelage.types import FailureCategory


@dataclass(frozen=True, slots=True)
class Finding:
    """A category, what it rests on in words, and the steps that show it."""

    category: FailureCategory
    explanation: str
    span: Span | None = None


Rule = Callable[[Evidence], Finding | None]
"""Looks at one failed trajectory. None: it has nothing to say."""
