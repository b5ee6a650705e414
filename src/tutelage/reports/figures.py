"""Small charts as inline SVG, so that a report is one file that opens anywhere.

Colours come from CSS variables of the page (`--series-1` ... `--series-6`, `--ink`, `--grid`), so that charts follow
its light and dark themes. All functions return an SVG element as text.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

NUM_COLOURS = 6


@dataclass(frozen=True, kw_only=True, slots=True)
class IntervalPoint:
    """One estimate with its interval, both as shares of 1."""

    label: str
    estimate: float
    low: float
    high: float


def colour(index: int) -> str:
    return f"var(--series-{index % NUM_COLOURS + 1})"


def stroke(index: int) -> str:
    """Attributes of the line of a series; dashed once the colours are used up."""
    dashes = ("", "7 3", "2 3")[index // NUM_COLOURS % 3]
    return f'stroke="{colour(index)}"' + f' stroke-dasharray="{dashes}"' * bool(dashes)


def interval_chart(groups: Mapping[str, Sequence[IntervalPoint]], *, width: int = 760) -> str:
    """Dots with intervals on a 0 to 100 % axis: per group a heading and one row per point."""
    left, right, row, gap, top = 170, 50, 20, 12, 24
    span = width - left - right
    height = top + sum((1 + len(points)) * row + gap for points in groups.values()) + 8
    parts = [open_svg(width, height)]
    for percent in (0, 25, 50, 75, 100):
        x = left + span * percent / 100
        parts.append(f'<line x1="{x}" x2="{x}" y1="{top - 6}" y2="{height - 8}" class="grid"/>')
        parts.append(f'<text x="{x}" y="{top - 10}" class="tick" text-anchor="middle">{percent} %</text>')
    y = float(top)
    for group, points in groups.items():
        parts.append(f'<text x="0" y="{y + row * 0.7}" class="group">{escape(group)}</text>')
        y += row
        for index, point in enumerate(points):
            middle = y + row * (index + 0.5)
            parts.append(
                f'<text x="{left - 8}" y="{middle + 4}" class="tick" text-anchor="end">{escape(point.label)}</text>'
            )
            if math.isnan(point.estimate):
                parts.append(f'<text x="{left + 4}" y="{middle + 4}" class="tick">no data</text>')
                continue
            low, mid, high = (left + span * value for value in (point.low, point.estimate, point.high))
            parts.append(
                f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{middle}" y2="{middle}" stroke="{colour(index)}" '
                'stroke-width="3" stroke-linecap="round" opacity="0.45"/>'
                f'<circle cx="{mid:.1f}" cy="{middle}" r="4.5" fill="{colour(index)}"/>'
                f'<text x="{high + 7:.1f}" y="{middle + 4}" class="tick">{100 * point.estimate:.0f}</text>'
            )
        y += len(points) * row + gap
    return "".join([*parts, "</svg>"])


def line_chart(
    series: Mapping[str, Sequence[tuple[float, float]]],
    *,
    x_label: str,
    y_label: str,
    bands: Mapping[str, Sequence[tuple[float, float, float]]] | None = None,
    width: int = 760,
    height: int = 260,
    legend: bool = True,
) -> str:
    """Lines over a common axis that contains 0, with optional bands of (x, low, high). Not finite points are left out.

    legend: False where several charts of the same series share one.
    """
    left, right, top, bottom = 52, max(150, 44 + 7 * max(map(len, series), default=0)) if legend else 14, 12, 36
    kept = {
        name: [(x, y) for x, y in points if math.isfinite(x) and math.isfinite(y)] for name, points in series.items()
    }
    edges = [(x, y) for points in kept.values() for x, y in points]
    edges += [(x, y) for points in (bands or {}).values() for x, low, high in points for y in (low, high)]
    if not edges:
        return ""
    height = max(height, top + 18 * len(series) + bottom) if legend else height
    x_low, x_high = min(x for x, _ in edges), max(x for x, _ in edges)
    marks = _axis(min(y for _, y in edges), max(y for _, y in edges))
    span = marks[-1] - marks[0]

    def at(x: float, y: float) -> str:
        share = (x - x_low) / (x_high - x_low) if x_high > x_low else 0.5
        return (
            f"{left + (width - left - right) * share:.1f},{top + (height - top - bottom) * (marks[-1] - y) / span:.1f}"
        )

    parts = [open_svg(width, height)]
    for value in marks:
        y = top + (height - top - bottom) * (marks[-1] - value) / span
        parts.append(f'<line x1="{left}" x2="{width - right}" y1="{y}" y2="{y}" class="grid"/>')
        parts.append(f'<text x="{left - 6}" y="{y + 4}" class="tick" text-anchor="end">{value:.3g}</text>')
    for value in _x_marks(x_low, x_high):
        x = left + (width - left - right) * ((value - x_low) / (x_high - x_low) if x_high > x_low else 0.5)
        parts.append(f'<text x="{x:g}" y="{height - bottom + 16}" class="tick" text-anchor="middle">{value:.4g}</text>')
    middle = left + (width - left - right) / 2
    parts.append(f'<text x="{middle}" y="{height - 4}" class="tick" text-anchor="middle">{escape(x_label)}</text>')
    parts.append(f'<text x="{left}" y="{top - 2}" class="tick">{escape(y_label)}</text>')
    for index, name in enumerate(series):
        band = (bands or {}).get(name, ())
        if band:
            edge = [at(x, low) for x, low, _ in band] + [at(x, high) for x, _, high in reversed(band)]
            parts.append(f'<polygon points="{" ".join(edge)}" fill="{colour(index)}" opacity="0.15"/>')
        parts.append(_line(index, [at(x, y) for x, y in kept[name]]))
        if legend:
            y = top + 10 + 18 * index
            parts.append(
                f'<line x1="{width - right + 12}" x2="{width - right + 30}" y1="{y}" y2="{y}" {stroke(index)} '
                'stroke-width="3"/>'
            )
            parts.append(f'<text x="{width - right + 36}" y="{y + 4}" class="tick">{escape(name)}</text>')
    return "".join([*parts, "</svg>"])


def _line(index: int, places: Sequence[str]) -> str:
    """The line of a series through places such as ``52.0,12.0``; a dot if there is one only."""
    if len(places) == 1:
        x, y = places[0].split(",")
        return f'<circle cx="{x}" cy="{y}" r="3" fill="{colour(index)}"/>'
    return f'<polyline points="{" ".join(places)}" fill="none" {stroke(index)} stroke-width="1.8"/>' if places else ""


def _axis(low: float, high: float) -> list[float]:
    """Marks at equal distances, from 0 or below to the highest value or above.

    Example: ``_axis(1, 7)`` is 0 2 4 6 8; ``_axis(-0.5, 0.2)`` is -0.6 -0.4 -0.2 0 0.2
    """
    if low >= 0:
        top = _round_up(high)
        return [top * part / 4 for part in range(5)]
    high = max(high, 0.0)
    step = _round_up((high - low) / 4)
    return [step * part for part in range(math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9) + 1)]


def _x_marks(low: float, high: float) -> list[float]:
    """Where the horizontal axis is labelled: multiples of 1, 2 or 5 times a power of ten, whole ones on an axis of counts.

    Example: ``_x_marks(0, 12)`` is 0 2 4 6 8 10 12; ``_x_marks(5, 299)`` is 50 100 150 200 250
    """
    if high == low:
        return [low]
    least = 1.0 if low == round(low) and high == round(high) else 0.0
    power = 10.0 ** math.floor(math.log10((high - low) / 6))
    step = max(least, next(one * power for one in (1, 2, 5, 10) if one * power >= (high - low) / 6 * (1 - 1e-9)))
    return [step * part for part in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def bar_chart(bars: Mapping[str, Mapping[str, float]], *, y_label: str, width: int = 760, height: int = 200) -> str:
    """Grouped bars: category -> series -> value >= 0. All categories carry the same series in the same order."""
    left, right, top, bottom = 46, 150, 14, 30
    names = list(next(iter(bars.values()), {}))
    y_high = _round_up(max((value for group in bars.values() for value in group.values()), default=0.0))
    slot = (width - left - right) / max(1, len(bars))
    parts = [open_svg(width, height)]
    for part in range(5):
        y = top + (height - top - bottom) * (1 - part / 4)
        parts.append(f'<line x1="{left}" x2="{width - right}" y1="{y}" y2="{y}" class="grid"/>')
        parts.append(f'<text x="{left - 6}" y="{y + 4}" class="tick" text-anchor="end">{y_high * part / 4:.3g}</text>')
    for place, (category, group) in enumerate(bars.items()):
        each = slot * 0.8 / max(1, len(names))
        for index, name in enumerate(names):
            tall = (height - top - bottom) * group[name] / y_high
            x = left + slot * (place + 0.1) + each * index
            parts.append(
                f'<rect x="{x:.1f}" y="{height - bottom - tall:.1f}" width="{max(each - 1, 1):.1f}" '
                f'height="{tall:.1f}" fill="{colour(index)}"><title>{escape(f"{category}, {name}: {group[name]:g}")}</title></rect>'
            )
        x = left + slot * (place + 0.5)
        parts.append(
            f'<text x="{x:.1f}" y="{height - bottom + 16}" class="tick" text-anchor="middle">{escape(category)}</text>'
        )
    parts.append(f'<text x="{left}" y="{top - 3}" class="tick">{escape(y_label)}</text>')
    for index, name in enumerate(names):
        y = top + 10 + 18 * index
        parts.append(f'<rect x="{width - right + 14}" y="{y - 6}" width="12" height="12" fill="{colour(index)}"/>')
        parts.append(f'<text x="{width - right + 32}" y="{y + 4}" class="tick">{escape(name)}</text>')
    return "".join([*parts, "</svg>"])


def open_svg(width: int, height: float) -> str:
    """The opening tag of a chart."""
    return f'<svg viewBox="0 0 {width} {height:g}" width="{width}" height="{height:g}" role="img" xmlns="http://www.w3.org/2000/svg">'


def _round_up(value: float) -> float:
    """The next of 1, 1.5, 2, 3, 4, 5, 8, 10 times a power of ten, so that axis labels stay short. 0 gives 1."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 1.5, 2, 3, 4, 5, 8, 10) if step * power >= value * (1 - 1e-9))
