"""The table at the end of a run, from the files of the run directory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tutelage.analysis.credit_tables import in_columns, without_nan
from tutelage.evaluation.metrics import SuccessRow
from tutelage.evaluation.run import EvaluationResult
from tutelage.recipe import Recipe
from tutelage.run_dir import RunDir, StageRecord, read_json


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One column of the table: what was put in and what came out."""

    name: str
    rows: tuple[SuccessRow, ...]
    """Success by task kind, then ``all``."""
    trajectories: int | None
    """In the training data, over the model's whole line of ancestors. None: not trained here."""
    expert_steps: int | None
    """Expert steps in those trajectories, each trajectory counted once."""
    trained_tokens: int | None
    """Tokens that gradients came from, over all updates of the whole line."""
    own_episodes: int | None = None
    """Scored episodes of its own that the line learnt from by reinforcement. None: there was no reinforcement."""
    teacher_tokens: int | None = None
    """Tokens that a teacher scored in them. None: as above."""

    @property
    def overall(self) -> SuccessRow:
        return self.rows[-1]

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; NaN is written as null."""
        data: dict[str, Any] = without_nan(asdict(self))
        return data


def arms(run: RunDir, recipe: Recipe) -> list[Arm]:
    """The arms that were evaluated so far, in the recipe's order."""
    found = []
    for name in recipe.evaluated:
        if not run.result_path(name).is_file():
            continue
        result = EvaluationResult.from_json(read_json(run.result_path(name)))
        line = ancestors(recipe, name)
        trained = [record for one in line if (record := run.record(f"train:{one}")) is not None]
        found.append(
            Arm(
                name=name,
                rows=result.rows,
                trajectories=_data(run, line, "trajectories"),
                expert_steps=_data(run, line, "expert_steps"),
                trained_tokens=sum(one.summary.get("trained_tokens", 0) for one in trained) if trained else None,
                own_episodes=_of_reinforcement(trained, "num_episodes"),
                teacher_tokens=_of_reinforcement(trained, "teacher_tokens"),
            )
        )
    return found


def ancestors(recipe: Recipe, model: str) -> list[str]:
    """A model and the models of the recipe that it started from, newest first."""
    line = []
    while model in recipe.models:
        line.append(model)
        model = recipe.models[model].start
    return line


def _data(run: RunDir, line: Sequence[str], field: str) -> int | None:
    """What the models of a line were trained on; of a source that several took from, the largest part."""
    if not line:
        return None
    largest: dict[str, int] = {}
    for model in line:
        if not run.sample_ledger_path(model).is_file():
            continue
        for source, counts in read_json(run.sample_ledger_path(model))["sources"].items():
            largest[source] = max(largest.get(source, 0), counts[field])
    return sum(largest.values())


def _of_reinforcement(trained: Sequence[StageRecord], figure: str) -> int | None:
    """The sum over the trainings of a line that were reinforcement; only these have the figure."""
    found = [record.summary[figure] for record in trained if figure in record.summary]
    return sum(found) if found else None


def plain_table(columns: Sequence[Arm]) -> str:
    """The arms side by side as plain text; success as ``57 % [45, 68]`` with Wilson's 95 % interval."""
    if not columns:
        return "Nothing was evaluated yet."
    kinds = list(dict.fromkeys(row.kind for arm in columns for row in arm.rows if row.kind != "all"))
    by_arm = [{row.kind: row for row in arm.rows} for arm in columns]
    lines = [["success"] + [arm.name for arm in columns]]
    for kind in [*kinds, "all"]:
        counts = next(rows[kind].num_tasks for rows in by_arm if kind in rows)
        label = "all" if kind == "all" else kind.replace("_", " ")
        lines.append([f"{label} ({counts})"] + [_success(rows.get(kind)) for rows in by_arm])
    lines.append(["mean steps"] + [_number(arm.overall.mean_steps) for arm in columns])
    lines.append(["commands without effect"] + [_percent(arm.overall.no_effect_share) for arm in columns])
    lines.append(["episodes with a loop"] + [_percent(arm.overall.loop_share) for arm in columns])
    lines.append(["trajectories learnt from"] + [_count(arm.trajectories) for arm in columns])
    lines.append(["expert steps used"] + [_count(arm.expert_steps) for arm in columns])
    if any(arm.own_episodes is not None for arm in columns):
        lines.append(["own episodes learnt from"] + [_count(arm.own_episodes) for arm in columns])
    lines.append(["trained tokens"] + [_count(arm.trained_tokens) for arm in columns])
    if any(arm.teacher_tokens for arm in columns):
        lines.append(["tokens read by a teacher"] + [_count(arm.teacher_tokens) for arm in columns])
    text = in_columns(lines)
    rule = "-" * len(text[0])
    end_of_success = len(kinds) + 2
    return "\n".join(
        [text[0], rule, *text[1 : end_of_success - 1], text[end_of_success - 1], rule, *text[end_of_success:]]
    )


def _success(row: SuccessRow | None) -> str:
    if row is None or row.num_tasks == 0:
        return "-"
    interval = row.success
    return f"{100 * interval.estimate:.0f} % [{100 * interval.low:.0f}, {100 * interval.high:.0f}]"


def _percent(value: float) -> str:
    return "-" if math.isnan(value) else f"{100 * value:.1f} %"


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.1f}"


def _count(value: int | None) -> str:
    return "-" if value is None else f"{value:,}".replace(",", " ")
