"""Numbers as a page prints them. NaN and None are a dash: nothing is known."""

from __future__ import annotations

import math
from typing import Any

from markupsafe import Markup


def percent(share: float, digits: int = 1) -> str:
    """Example: ``percent(0.4567)`` is ``45.7 %``"""
    return "–" if math.isnan(share) else f"{100 * share:.{digits}f} %"


def signed_points(difference: float) -> str:
    """A difference of shares, with its sign. Example: ``signed_points(-0.04)`` is ``−4.0``"""
    return f"{100 * difference:+.1f}".replace("-", "−")


def p_value(value: float, equals: str = "") -> str:
    """Example: ``p_value(0.03, "= ")`` is ``= 0.030``"""
    return "< 0.001" if value < 0.001 else f"{equals}{value:.3f}"


def number(value: float | None) -> str:
    """With one decimal."""
    return "–" if value is None or math.isnan(value) else f"{value:.1f}"


def thousands(value: Any) -> str:
    """Example: ``thousands(12345)`` is ``12 345``; what is no whole number is a dash."""
    return f"{value:,}".replace(",", " ") if isinstance(value, int) else "–"


def markup(svg: str) -> Markup:
    """A chart for a template, which puts it into the page as it is."""
    return Markup(svg)
