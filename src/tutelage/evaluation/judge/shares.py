"""Judgements of one judge on one file as a table: how often each category, with intervals, split by how episodes ended and
by who acted last.

Shares are of the scored judgements; unscored ones are counted by reason and are in no share.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from tutelage.evaluation.judge.base import unscored_counts
from tutelage.evaluation.metrics import Interval, wilson
from tutelage.types import Actor, FailureCategory, Judgement, Trajectory, UnscoredReason


def _last_actor(trajectory: Trajectory) -> Actor | None:
    return trajectory.steps[-1].actor if trajectory.steps else None


SPLITS: Final[Mapping[str, Callable[[Trajectory], bool]]] = MappingProxyType(
    {
        "all": lambda one: True,
        "completed": lambda one: one.terminated,
        "not completed": lambda one: not one.terminated,
        "student last": lambda one: _last_actor(one) is Actor.STUDENT,
        "expert last": lambda one: _last_actor(one) is Actor.EXPERT,
    }
)
"""Column -> which failures it counts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Shares:
    """The table of one judge on one source."""

    source: str
    judge: str
    num_judged: int
    """Scored and unscored."""
    unscored: Mapping[UnscoredReason, int]
    num_cached: int
    num_repaired: int
    totals: Mapping[str, int]
    """Column of `SPLITS` -> scored failures in it; empty columns are left out."""
    counts: Mapping[FailureCategory, Mapping[str, int]]
    """Category -> column -> count; the categories in the order of the taxonomy, those that do not occur left out."""

    @property
    def num_scored(self) -> int:
        return self.num_judged - sum(self.unscored.values())

    def share(self, category: FailureCategory, column: str = "all") -> Interval:
        """With Wilson's 95 % interval."""
        return wilson(self.counts.get(category, {}).get(column, 0), self.totals.get(column, 0))

    def share_unscored(self, reason: UnscoredReason) -> Interval:
        """Of all that were judged."""
        return wilson(self.unscored.get(reason, 0), self.num_judged)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "source": self.source,
            "judge": self.judge,
            "judged": self.num_judged,
            "scored": self.num_scored,
            "unscored": {reason.value: number for reason, number in self.unscored.items()},
            "cached": self.num_cached,
            "repaired": self.num_repaired,
            "totals": dict(self.totals),
            "categories": {
                category.value: {
                    column: {"count": counts.get(column, 0), "share": _plain(self.share(category, column))}
                    for column in self.totals
                }
                for category, counts in self.counts.items()
            },
        }

    def rows(self) -> list[tuple[str, ...]]:
        """A head line, then a row per category: count, share and interval of all; count and share of each split."""
        columns = [column for column in self.totals if column != "all"]
        head = ("category", "failures", "share", "95 %", *columns)
        found = [head]
        for category, counts in self.counts.items():
            share = self.share(category)
            cells = [f"{counts.get(column, 0)} ({_percent(self.share(category, column))})" for column in columns]
            found.append(
                (
                    category.value,
                    str(counts.get("all", 0)),
                    _percent(share),
                    f"{100 * share.low:.0f} to {100 * share.high:.0f} %",
                    *cells,
                )
            )
        totals = [str(self.totals[column]) for column in columns]
        found.append(("all", str(self.num_scored), "", "", *totals))
        return found

    def note(self) -> str:
        """What is in no share, in words; empty if nothing is."""
        parts = [
            f"{number} unscored: {reason.value} ({_percent(self.share_unscored(reason))})"
            for reason, number in self.unscored.items()
        ]
        parts += [f"{self.num_cached} cached"] if self.num_cached else []
        parts += [f"{self.num_repaired} repaired"] if self.num_repaired else []
        return ", ".join(parts)


def shares_of(judgements: Iterable[Judgement], trajectories: Iterable[Trajectory]) -> Shares:
    """The table of judgements by one judge on one source. Each trajectory must be among `trajectories`."""
    judged = list(judgements)
    by_id = {one.trajectory_id: one for one in trajectories}
    scored = [(one.category, by_id[one.trajectory_id]) for one in judged if one.category is not None]
    totals = {column: sum(belongs(one) for _, one in scored) for column, belongs in SPLITS.items()}
    counts = {
        category: {
            column: sum(said is category and belongs(one) for said, one in scored)
            for column, belongs in SPLITS.items()
            if totals[column]
        }
        for category in FailureCategory
        if any(said is category for said, _ in scored)
    }
    return Shares(
        source=judged[0].source if judged else "",
        judge=judged[0].judge if judged else "",
        num_judged=len(judged),
        unscored=unscored_counts(judged),
        num_cached=sum(one.cached for one in judged),
        num_repaired=sum(one.repaired for one in judged),
        totals={column: number for column, number in totals.items() if number or column == "all"},
        counts=counts,
    )


def plain_table(rows: Sequence[Sequence[str]]) -> str:
    """Columns side by side: the first to the left, the others to the right."""
    widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        ).rstrip()
        for row in rows
    )


def _percent(share: Interval) -> str:
    return "-" if math.isnan(share.estimate) else f"{100 * share.estimate:.0f} %"


def _plain(share: Interval) -> list[float] | None:
    return None if math.isnan(share.estimate) else [share.estimate, share.low, share.high]
