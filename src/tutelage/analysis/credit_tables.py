"""The audit in words and numbers: which trajectories a table is about, its rows as JSON, as text and as Markdown.

tables = make_tables(scores, split_seed=0)     # all, successes, failures, and the two halves
print(plain_table(tables))
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from tutelage.analysis.credit import COMPONENTS, WITHOUT_LAST, CreditRow, CreditScores, Mask, credit_table
from tutelage.analysis.ranks import TIE_RULES, num_top
from tutelage.evaluation.metrics import Interval
from tutelage.types import stable_hash

ALL: Final = "all"
SUCCESSES: Final = "successes"
FAILURES: Final = "failures"
HALVES: Final = ("first half", "second half")

COMPONENT_LETTERS: Final = dict(zip(COMPONENTS, ("S", "G", "B", "closed"), strict=True))


@dataclass(frozen=True, kw_only=True, slots=True)
class CreditTable:
    """All signals over one set of trajectories."""

    name: str
    num_cases: int
    num_solved: int
    chance: float
    """Mean of k/N: what Hit@10% gives by chance under the rules `earlier` and `later`."""
    rows: tuple[CreditRow, ...]

    def row(self, signal: str) -> CreditRow:
        return next(row for row in self.rows if row.signal == signal)


def in_second_half(task_id: str, seed: int) -> bool:
    """Which half of the tasks one belongs to; trajectories of one task are always in the same half."""
    return stable_hash("half", seed, task_id) % 2 == 1


def make_tables(
    scores: CreditScores, *, split_seed: int | None = None, groups: Mapping[str, Mask] | None = None
) -> list[CreditTable]:
    """The tables of all, of the successes and of the failures; with `split_seed` also of the two halves of the tasks.

    groups: further sets of trajectories by name, each a mask [C] over `scores.cases`.
    """
    sets: dict[str, Mask] = {ALL: np.ones(len(scores.cases), dtype=bool)}
    sets |= {SUCCESSES: scores.solved, FAILURES: ~scores.solved}
    if split_seed is not None:
        second = np.array([in_second_half(case.task_id, split_seed) for case in scores.cases], dtype=bool)
        sets |= dict(zip(HALVES, (~second, second), strict=True))
    return [_table(name, scores, chosen) for name, chosen in (sets | dict(groups or {})).items()]


def _table(name: str, scores: CreditScores, chosen: Mask) -> CreditTable:
    cases = [case for case, wanted in zip(scores.cases, chosen, strict=True) if wanted]
    return CreditTable(
        name=name,
        num_cases=len(cases),
        num_solved=sum(case.impact.success for case in cases),
        chance=sum(num_top(case.num_steps) / case.num_steps for case in cases) / len(cases) if cases else math.nan,
        rows=tuple(credit_table(scores, chosen)),
    )


def to_json(table: CreditTable) -> dict[str, Any]:
    """Plain JSON values; NaN is written as null."""
    data: dict[str, Any] = without_nan(asdict(table))
    return data


def plain_table(tables: Sequence[CreditTable]) -> str:
    """The tables as text: for all with intervals, then successes and failures in one number each."""
    by_name = {table.name: table for table in tables}
    whole = by_name[ALL]
    lines = [["signal", "rho", "successes", "failures", "given position", "without last", *map(_hit_title, TIE_RULES)]]
    for row in whole.rows:
        solved, failed = (by_name[name].row(row.signal) for name in (SUCCESSES, FAILURES))
        lines.append(
            [
                row.signal,
                _with_interval(row.measures.get("rho")),
                _number(solved.measures.get("rho")),
                _number(failed.measures.get("rho")),
                _number(row.measures.get("partial")),
                _number(row.measures.get(f"rho{WITHOUT_LAST}")),
                *(_number(row.measures.get(f"hit_{ties}")) for ties in TIE_RULES),
            ]
        )
    text = in_columns(lines)
    return "\n".join([text[0], "-" * len(text[0]), *text[1:]])


def in_columns(lines: Sequence[Sequence[str]]) -> list[str]:
    """Lines of cells as text: the first column to the left, the others to the right."""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return [
        "  ".join(
            cell.ljust(width) if index == 0 else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]


def markdown_table(table: CreditTable) -> str:
    """One table with all its columns."""
    columns: dict[str, Callable[[CreditRow], str]] = {
        "signal": lambda row: f"`{row.signal}`",
        "rho": lambda row: _with_interval(row.measures.get("rho")),
        "pooled rho": lambda row: _plain(row.pooled_rho),
        "given position": lambda row: _with_interval(row.measures.get("partial")),
        "rho without last": lambda row: _number(row.measures.get(f"rho{WITHOUT_LAST}")),
    }
    for ties in TIE_RULES:
        measure = f"hit_{ties}"
        columns[_hit_title(ties)] = lambda row, measure=measure: _with_interval(row.measures.get(measure))  # type: ignore[misc]
    columns["hit tolerant without last"] = lambda row: _number(row.measures.get(f"hit_tolerant{WITHOUT_LAST}"))
    for component, letter in COMPONENT_LETTERS.items():
        measure = f"rho_{component}"
        if any(measure in row.measures for row in table.rows):
            columns[f"rho {letter}"] = lambda row, measure=measure: _number(row.measures.get(measure))  # type: ignore[misc]
    columns["constant"] = lambda row: str(row.num_constant)
    head = [
        f"### {table.name}: {table.num_cases} trajectories, {table.num_solved} solved; chance of Hit@10% {_plain(table.chance)}",
        "",
        f"| {' | '.join(columns)} |",
        f"|{'---|' * len(columns)}",
    ]
    body = [f"| {' | '.join(column(row) for column in columns.values())} |" for row in table.rows]
    return "\n".join([*head, *body, ""])


def _hit_title(ties: str) -> str:
    return f"Hit@10% {ties}"


def _with_interval(interval: Interval | None) -> str:
    if interval is None:
        return "-"
    return f"{_plain(interval.estimate)} [{_plain(interval.low)}, {_plain(interval.high)}]"


def _number(interval: Interval | None) -> str:
    return "-" if interval is None else _plain(interval.estimate)


def _plain(value: float) -> str:
    """Two decimals; a value that rounds to zero has no sign."""
    return "-" if math.isnan(value) else f"{round(value, 2) + 0.0:.2f}"


def without_nan(value: Any) -> Any:
    """Plain data with null in place of NaN, which JSON does not have; tuples become lists."""
    if isinstance(value, dict):
        return {key: without_nan(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [without_nan(one) for one in value]
    return None if isinstance(value, float) and math.isnan(value) else value
