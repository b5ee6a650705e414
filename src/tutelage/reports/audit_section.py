"""The part of the page on the replay audit: the signals that a reader knows by name, and the picture with all of them.

In: the audit folders of a run. Out: plain values for the template; nothing for a run without an audit.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any, Final

from tutelage.analysis.credit_tables import ALL, FAILURES, SUCCESSES
from tutelage.reports.data import RunFiles

SHOWN: Final = {
    "l_graph": "random walk on the graph (the published signal)",
    "degree": "degree",
    "out_degree": "out-degree",
    "graph_impact_needs": "impact told by a graph of needs (preset graph_audited)",
    "graph_impact_causal": "the same, from the engine's facts",
    "position": "later steps first",
    "random": "random",
}
"""Signal -> its name in the table."""


def audits(run: RunFiles) -> list[dict[str, Any]]:
    """One entry per audited arm, in the order of the recipe."""
    arms = (run.recipe.get("audit") or {}).get("arms") or []
    return [_entry(run, arm) for arm in arms if (run.root / "audits" / arm / "audit.json").is_file()]


def _entry(run: RunFiles, arm: str) -> dict[str, Any]:
    folder = run.root / "audits" / arm
    data = json.loads((folder / "audit.json").read_bytes())
    counts = data["counts"]
    gone = ", ".join(f"{number} {reason}" for reason, number in {**counts["rejected"], **counts["left_out"]}.items())
    tables = {table["name"]: {row["signal"]: row["measures"] for row in table["rows"]} for table in data["tables"]}
    rows = [
        {"label": label, "values": _values(tables, signal)}
        for signal, label in SHOWN.items()
        if signal in tables.get(ALL, {})
    ]
    picture = folder / "audit.svg"
    # As an image: the picture brings a style sheet of its own, which must not reach the page.
    encoded = base64.b64encode(picture.read_bytes()).decode() if picture.is_file() else ""
    return {
        "arm": arm,
        "counts": f"{counts['kept']} of {counts['trajectories']} episodes count"
        + (f" ({gone.replace('_', ' ')} left out)" if gone else "")
        + f"; {counts['env_steps']:,} environment steps were acted.".replace(",", " "),
        "rows": rows,
        "picture": f"data:image/svg+xml;base64,{encoded}",
    }


def _values(tables: Mapping[str, Mapping[str, Mapping[str, Any]]], signal: str) -> list[str]:
    rho, hit = (tables[ALL][signal].get(measure) for measure in ("rho", "hit_earlier"))
    parts = [tables.get(name, {}).get(signal, {}).get("rho") for name in (SUCCESSES, FAILURES)]
    return [_number(rho), _range(rho), *map(_number, parts), _number(hit), _range(hit)]


def _number(interval: Mapping[str, float | None] | None) -> str:
    return "–" if interval is None else _decimals(interval["estimate"])


def _range(interval: Mapping[str, float | None] | None) -> str:
    return "–" if interval is None else f"{_decimals(interval['low'])} to {_decimals(interval['high'])}"


def _decimals(value: float | None) -> str:
    """Two decimals; nothing for what is not defined, and no minus before 0.00."""
    if value is None:
        return "–"
    text = f"{value:.2f}"
    return text.removeprefix("-") if float(text) == 0.0 else text.replace("-", "−")
