"""The files of one audit: rows, tables, picture, summary.

<out>/
  rows.jsonl      one line per trajectory: impact per step, every signal's scores, or why it was rejected or left out
  tables.md       the tables with all columns
  audit.svg       the picture
  audit.json      counts and tables as data
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from tutelage.analysis.credit import CreditCase, CreditScores
from tutelage.analysis.credit_audit import AuditResult
from tutelage.analysis.credit_tables import CreditTable, markdown_table, to_json
from tutelage.analysis.ranks import TIE_RULES
from tutelage.reports.credit import credit_chart
from tutelage.store import write_atomic

ROW_MEASURES: Final = ("rho", "partial", *(f"hit_{ties}" for ties in TIE_RULES))
"""Measures that stand in the rows, per signal."""


@dataclass(frozen=True, kw_only=True)
class Audit:
    """Everything that an audit found."""

    title: str
    command: str
    """What makes it again, for the head of the tables."""
    result: AuditResult
    scores: CreditScores
    tables: Sequence[CreditTable]
    settings: Mapping[str, Any]
    """What else decided the numbers: intervention, seeds, sources."""

    @property
    def counts(self) -> dict[str, Any]:
        """Where every trajectory went."""
        return {
            "trajectories": len(self.result.cases) + len(self.result.rejections),
            "rejected": self.result.rejected,
            "left_out": dict(self.scores.left_out),
            "kept": len(self.scores.cases),
            "env_steps": self.result.num_env_steps,
            "closed_loop": sum(case.closed_loop is not None for case in self.scores.cases),
        }


def write_audit(out: Path, audit: Audit) -> None:
    """Write the four files into a folder, which is made if it is not there."""
    out.mkdir(parents=True, exist_ok=True)
    rows = b"".join(orjson.dumps(row) + b"\n" for row in audit_rows(audit))
    data = {
        "title": audit.title,
        "settings": dict(audit.settings),
        "counts": audit.counts,
        "seconds": round(audit.result.seconds, 1),
        "tables": [to_json(table) for table in audit.tables],
    }
    write_atomic(out / "rows.jsonl", rows)
    write_atomic(out / "tables.md", audit_markdown(audit).encode())
    write_atomic(out / "audit.svg", credit_chart(audit.tables).encode())
    write_atomic(out / "audit.json", orjson.dumps(data, option=orjson.OPT_INDENT_2) + b"\n")


def audit_markdown(audit: Audit) -> str:
    """All tables, with what they are made of on top."""
    head = [
        f"# {audit.title}",
        "",
        f"Made by `{audit.command}`. {count_line(audit)}",
        "",
        "Brackets are 95 % intervals: bootstrap over trajectories, for `random` the spread of its draws. The chance level of "
        "Hit@10% stands in each heading; that of the tolerant rule is higher, see the row `random`. "
        "S, G, B: success drop, progress drop, share of later commands that become invalid. `constant`: trajectories in "
        "which the signal tells no step from another.",
        "",
    ]
    return "\n".join([*head, *(markdown_table(table) for table in audit.tables)])


def count_line(audit: Audit) -> str:
    """Where the trajectories went, in one sentence."""
    counts = audit.counts
    gone = {**counts["rejected"], **counts["left_out"]}
    reasons = ", ".join(f"{number} {reason.replace('_', ' ')}" for reason, number in gone.items()) or "none left out"
    return (
        f"{counts['trajectories']} trajectories, {counts['kept']} kept ({reasons}); {counts['env_steps']} environment steps, "
        f"{audit.result.seconds:.0f} s."
    )


def audit_rows(audit: Audit) -> Iterator[dict[str, Any]]:
    """One mapping per trajectory, cases first, in their order."""
    kept = {case.trajectory_id: index for index, case in enumerate(audit.scores.cases)}
    for case in audit.result.cases:
        row = _case_row(case)
        if (index := kept.get(case.trajectory_id)) is None:
            row["left_out"] = case.left_out
        else:
            row["scores"] = _scores(audit.scores, index)
        yield row
    for one in audit.result.rejections:
        yield {"trajectory_id": one.trajectory_id, "rejected": one.reason, "detail": one.detail}


def _case_row(case: CreditCase) -> dict[str, Any]:
    impact = case.impact
    return {
        "trajectory_id": case.trajectory_id,
        "task_id": case.task_id,
        "kind": case.kind,
        "solved": impact.success,
        "num_steps": case.num_steps,
        "S": _rounded(impact.success_drop),
        "G": _rounded(impact.progress_drop),
        "B": _rounded(impact.invalid_share),
        "closed": _rounded(case.closed_loop),
        "env_steps": impact.num_env_steps,
    }


def _scores(scores: CreditScores, index: int) -> dict[str, dict[str, float]]:
    return {
        signal: {
            measure: round(float(value), 4)
            for measure in ROW_MEASURES
            if not math.isnan(value := scores.values[measure][index, column])
        }
        for column, signal in enumerate(scores.signals)
        if signal in scores.cases[index].signals
    }


def _rounded(values: Sequence[float] | None) -> list[float] | None:
    return None if values is None else [round(value, 4) for value in values]
