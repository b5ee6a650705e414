"""What the page says of a replay audit, from hand-made files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tutelage.reports.audit_section import audits
from tutelage.reports.data import read_run


def interval(estimate: float | None, low: float | None = None, high: float | None = None) -> dict[str, float | None]:
    return {"estimate": estimate, "low": low, "high": high}


def run_folder(root: Path, tables: list[dict[str, Any]], **counts: Any) -> Path:
    told = {"trajectories": 4, "kept": 3, "rejected": {}, "left_out": {"constant_impact": 1}, "env_steps": 12345}
    (root / "recipe.yaml").write_text("name: x\naudit: {arms: [late, missing]}\n")
    folder = root / "audits" / "late"
    folder.mkdir(parents=True)
    (folder / "audit.json").write_text(json.dumps({"counts": {**told, **counts}, "tables": tables}))
    return root


def test_rows_of_known_signals_in_a_fixed_order(tmp_path: Path) -> None:
    def table(name: str, rho: float) -> dict[str, Any]:
        rows = [
            {"signal": "random", "measures": {"rho": interval(-0.001, -0.05, 0.05), "hit_earlier": interval(None)}},
            {"signal": "something_else", "measures": {"rho": interval(0.3)}},
            {"signal": "degree", "measures": {"rho": interval(rho, 0.4, 0.6), "hit_earlier": interval(0.25, 0.2, 0.3)}},
        ]
        return {"name": name, "rows": rows}

    root = run_folder(tmp_path, [table("all", 0.5), table("successes", 0.75), table("failures", -0.25)])
    (root / "audits" / "late" / "audit.svg").write_text("<svg/>")
    [entry] = audits(read_run(root))
    assert entry["arm"] == "late"
    assert entry["counts"] == "3 of 4 episodes count (1 constant impact left out); 12 345 environment steps were acted."
    assert entry["picture"] == "data:image/svg+xml;base64,PHN2Zy8+"
    assert entry["rows"] == [
        {"label": "degree", "values": ["0.50", "0.40 to 0.60", "0.75", "−0.25", "0.25", "0.20 to 0.30"]},
        {"label": "random", "values": ["0.00", "−0.05 to 0.05", "0.00", "0.00", "–", "– to –"]},
    ]


def test_an_audit_with_nothing_to_compare_says_so(tmp_path: Path) -> None:
    [entry] = audits(read_run(run_folder(tmp_path, [], kept=0, left_out={"short": 4})))
    assert entry["rows"] == []
    assert entry["counts"].startswith("0 of 4 episodes count (4 short left out)")


def test_a_run_without_an_audit(tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text("name: x\n")
    assert audits(read_run(tmp_path)) == []
