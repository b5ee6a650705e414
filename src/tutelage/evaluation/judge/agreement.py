"""A judge against labels: how often they agree, per class, and beyond chance.

Labels come from people, or from failures that were built on purpose. A trajectory that the judge left unscored is counted,
and is in no rate.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tutelage.errors import ConfigError, FormatError
from tutelage.evaluation.metrics import Interval, wilson
from tutelage.types import FailureCategory, Judgement


@dataclass(frozen=True, kw_only=True, slots=True)
class ClassAgreement:
    """One category."""

    category: FailureCategory
    num_labelled: int
    num_judged: int
    num_both: int

    @property
    def precision(self) -> float | None:
        """Of those that the judge put there, the share that belongs there. None: it put none there."""
        return self.num_both / self.num_judged if self.num_judged else None

    @property
    def recall(self) -> float | None:
        """Of those that belong there, the share that the judge put there. None: none does."""
        return self.num_both / self.num_labelled if self.num_labelled else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Agreement:
    """Judgements against labels."""

    num_labelled: int
    num_scored: int
    """Labelled and judged: what the rates are of."""
    num_unscored: int
    num_unjudged: int
    """Labelled, and the judge was never asked."""
    kappa: float | None
    """Cohen's. None: one class on both sides, or nothing to compare."""
    confusion: Mapping[FailureCategory, Mapping[FailureCategory, int]]
    """Label -> judged -> count; zeros are left out."""

    @property
    def num_agreed(self) -> int:
        return sum(row.get(label, 0) for label, row in self.confusion.items())

    @property
    def share(self) -> Interval:
        """Agreement with Wilson's 95 % interval."""
        return wilson(self.num_agreed, self.num_scored)

    @property
    def classes(self) -> tuple[ClassAgreement, ...]:
        """Those that occur, in the order of the taxonomy."""
        rows = []
        for category in FailureCategory:
            labelled = sum(self.confusion.get(category, {}).values())
            judged = sum(row.get(category, 0) for row in self.confusion.values())
            if labelled or judged:
                both = self.confusion.get(category, {}).get(category, 0)
                rows.append(ClassAgreement(category=category, num_labelled=labelled, num_judged=judged, num_both=both))
        return tuple(rows)

    def __str__(self) -> str:
        kappa = "-" if self.kappa is None else f"{self.kappa:.3f}"
        gone = f", {self.num_unscored} unscored" if self.num_unscored else ""
        gone += f", {self.num_unjudged} not judged" if self.num_unjudged else ""
        return (
            f"agreement {self.num_agreed} of {self.num_scored} ({self.share}), Cohen's kappa {kappa}; "
            f"{self.num_labelled} labels{gone}."
        )

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; what is not defined is null."""
        share = self.share
        return {
            "labelled": self.num_labelled,
            "scored": self.num_scored,
            "unscored": self.num_unscored,
            "not_judged": self.num_unjudged,
            "agreed": self.num_agreed,
            "share": None if math.isnan(share.estimate) else [share.estimate, share.low, share.high],
            "kappa": self.kappa,
            "classes": {
                row.category.value: {
                    "labelled": row.num_labelled,
                    "judged": row.num_judged,
                    "both": row.num_both,
                    "precision": row.precision,
                    "recall": row.recall,
                }
                for row in self.classes
            },
            "confusion": {
                label.value: {judged.value: number for judged, number in row.items()}
                for label, row in self.confusion.items()
            },
        }

    def class_rows(self) -> list[tuple[str, ...]]:
        """Category, labelled, judged, both, precision, recall, as text."""
        return [
            (
                row.category.value,
                str(row.num_labelled),
                str(row.num_judged),
                str(row.num_both),
                _rate(row.precision),
                _rate(row.recall),
            )
            for row in self.classes
        ]

    def confusion_rows(self) -> list[tuple[str, ...]]:
        """A head line, then a row per label: counts in the order of the classes, zeros as dots; columns by number."""
        classes = [row.category for row in self.classes]
        head = ("labelled \\ judged", *(str(number) for number, _ in enumerate(classes, start=1)))
        rows = [
            (
                f"{number} {label.value}",
                *(str(self.confusion.get(label, {}).get(judged, 0) or "·") for judged in classes),
            )
            for number, label in enumerate(classes, start=1)
        ]
        return [head, *rows]

    def to_markdown(self) -> str:
        """Both tables."""
        first = [("category", "labelled", "judged", "both", "precision", "recall"), *self.class_rows()]
        return f"{_markdown(first)}\n\n{_markdown(self.confusion_rows())}"


def agreement_of(judgements: Iterable[Judgement], labels: Mapping[str, FailureCategory]) -> Agreement:
    """Compare what one judge said with labels by trajectory id. Judgements without a label count nowhere."""
    confusion: dict[FailureCategory, dict[FailureCategory, int]] = {}
    judged: set[str] = set()
    num_unscored = 0
    for one in judgements:
        if one.trajectory_id not in labels:
            continue
        if one.trajectory_id in judged:
            raise ConfigError(
                f"agreement: two judgements of trajectory {one.trajectory_id}. Give those of one judge and one file."
            )
        judged.add(one.trajectory_id)
        if one.category is None:
            num_unscored += 1
            continue
        row = confusion.setdefault(labels[one.trajectory_id], {})
        row[one.category] = row.get(one.category, 0) + 1
    pairs = [(label, said) for label, row in confusion.items() for said, number in row.items() for _ in range(number)]
    return Agreement(
        num_labelled=len(labels),
        num_scored=len(pairs),
        num_unscored=num_unscored,
        num_unjudged=len(labels) - len(judged),
        kappa=cohen_kappa(pairs),
        confusion=confusion,
    )


def cohen_kappa(pairs: Sequence[tuple[object, object]]) -> float | None:
    """Agreement beyond chance of two raters (Cohen 1960): (p_o - p_e) / (1 - p_e).

    p_o is the observed agreement, p_e = sum over classes of the product of both raters' shares.

    Example: 20 yes-yes, 5 yes-no, 10 no-yes, 15 no-no give 0.4. None: no pair, or one class on both sides.
    """
    total = len(pairs)
    if not total:
        return None
    observed = sum(a == b for a, b in pairs) / total
    classes = {one for pair in pairs for one in pair}
    counts = [(sum(a == one for a, _ in pairs), sum(b == one for _, b in pairs)) for one in classes]
    expected = sum(a * b for a, b in counts) / total**2
    return None if len(classes) == 1 else (observed - expected) / (1.0 - expected)


def read_labels(path: str | Path) -> dict[str, FailureCategory]:
    """A labelled set: JSON lines with ``trajectory_id`` and ``category``; other keys are left alone.

    Raises `FormatError` with file and line for a line that is none, an unknown category, a trajectory that is there twice
    with different labels.
    """
    found: dict[str, FailureCategory] = {}
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            row = json.loads(line)
            identity, category = str(row["trajectory_id"]), str(row["category"])
        except (ValueError, KeyError, TypeError):
            raise FormatError(
                f"{where}: {line[:80]!r}, expected a JSON object with trajectory_id and category"
            ) from None
        if category not in list(FailureCategory):
            raise FormatError(f"{where}: {ConfigError.unknown('category', category, FailureCategory)}")
        if found.setdefault(identity, FailureCategory(category)) != category:
            raise FormatError(f"{where}: trajectory {identity} is labelled '{category}' and '{found[identity]}'")
    if not found:
        raise FormatError(f"{path}: holds no label, expected JSON lines with trajectory_id and category")
    return found


def _rate(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _markdown(rows: Sequence[Sequence[str]]) -> str:
    head, *rest = rows
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rest)])
