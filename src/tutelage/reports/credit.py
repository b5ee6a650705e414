"""The audit as a picture: one SVG file that stands alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

from tutelage.analysis.credit import RANDOM, CreditRow
from tutelage.analysis.credit_tables import ALL, FAILURES, SUCCESSES, CreditTable
from tutelage.evaluation.metrics import Interval

STYLE: Final = (
    "<style>svg{background:#fbfaf7}text{font:12px system-ui,sans-serif;fill:#22242a}.tick{fill:#666b76}"
    ".title{font-weight:600;font-size:13px}.grid{stroke:#e3e1da}.zero{stroke:#666b76}"
    ".mark{stroke:#b3362c;stroke-dasharray:4 3}.note{fill:#b3362c}</style>"
)
SERIES: Final = {ALL: "#22242a", SUCCESSES: "#2f8f5b", FAILURES: "#c2611f"}
"""Set of trajectories -> its colour."""

PUBLISHED: Final[Mapping[str, float]] = {"rho": 0.58, "hit_earlier": 0.48}
"""The published figures of the graph signal (another model and world); a dashed line each."""

PANELS: Final = (
    ("rho", "Spearman's rho of signal and measured impact", -0.6, 1.0),
    ("hit_earlier", "Hit@10%, ties to the earlier step", 0.0, 1.0),
)
LABELS, SPAN, GAP, ROW, TOP = 190, 330, 40, 22, 62


def credit_chart(tables: Sequence[CreditTable]) -> str:
    """Every signal on one line, the best rho on top; a bar is the 95 % interval."""
    by_name = {table.name: table for table in tables if table.name in SERIES}
    rows = sorted(by_name[ALL].rows, key=lambda row: -_estimate(row, "rho"))
    width = LABELS + len(PANELS) * (SPAN + GAP)
    height = TOP + ROW * len(rows) + 30
    parts = [
        f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        f'xmlns="http://www.w3.org/2000/svg">{STYLE}',
        *_legend(),
    ]
    for index, row in enumerate(rows):
        y = TOP + ROW * (index + 0.5)
        parts.append(f'<text x="{LABELS - 12}" y="{y + 4:g}" text-anchor="end">{escape(row.signal)}</text>')
    for number, (measure, title, low, high) in enumerate(PANELS):
        left = LABELS + number * (SPAN + GAP)
        parts += _frame(left, title, low, high, height, PUBLISHED[measure])
        for index, row in enumerate(rows):
            for place, (name, colour) in enumerate(SERIES.items()):
                if name in by_name and (found := by_name[name].row(row.signal).measures.get(measure)) is not None:
                    y = TOP + ROW * (index + 0.5) + 5 * (place - 1)
                    parts.append(_dot(found, left, y, low, high, colour))
    return "".join([*parts, "</svg>\n"])


def _legend() -> list[str]:
    parts = []
    for place, (name, colour) in enumerate(SERIES.items()):
        x = LABELS + 110 * place
        parts.append(f'<circle cx="{x + 5}" cy="14" r="4" fill="{colour}"/><text x="{x + 14}" y="18">{name}</text>')
    x = LABELS + 110 * len(SERIES)
    parts.append(f'<line x1="{x}" x2="{x + 22}" y1="14" y2="14" class="mark"/>')
    parts.append(f'<text x="{x + 28}" y="18" class="note">published for the graph signal</text>')
    return parts


def _frame(left: int, title: str, low: float, high: float, height: float, published: float) -> list[str]:
    parts = [f'<text x="{left}" y="{TOP - 24}" class="title">{escape(title)}</text>']
    ticks = [value / 10 for value in range(-10, 11, 2) if low <= value / 10 <= high]
    for value in ticks:
        x = _x(value, left, low, high)
        kind = "zero" if value == 0 else "grid"
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 4}" y2="{height - 24}" class="{kind}"/>')
        parts.append(f'<text x="{x:.1f}" y="{TOP - 8}" class="tick" text-anchor="middle">{value:g}</text>')
    x = _x(published, left, low, high)
    parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 4}" y2="{height - 24}" class="mark"/>')
    parts.append(f'<text x="{x:.1f}" y="{height - 10}" class="note" text-anchor="middle">{published:g}</text>')
    return parts


def _dot(found: Interval, left: int, y: float, low: float, high: float, colour: str) -> str:
    start, middle, end = (_x(value, left, low, high) for value in (found.low, found.estimate, found.high))
    return (
        f'<line x1="{start:.1f}" x2="{end:.1f}" y1="{y:g}" y2="{y:g}" stroke="{colour}" stroke-width="2.5" '
        f'stroke-linecap="round" opacity="0.4"/><circle cx="{middle:.1f}" cy="{y:g}" r="3" fill="{colour}"/>'
    )


def _x(value: float, left: float, low: float, high: float) -> float:
    """Place of a value on the axis; what lies outside is put on its edge."""
    return left + SPAN * (min(high, max(low, value)) - low) / (high - low)


def _estimate(row: CreditRow, measure: str) -> float:
    """For sorting: a signal that has no value comes last, before `random`."""
    if row.signal == RANDOM:
        return -3.0
    found = row.measures.get(measure)
    return -2.0 if found is None else found.estimate
