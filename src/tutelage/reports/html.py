"""A run directory in, one self-contained HTML page out: what each stage bought, with the evidence.

The page needs no network and no script; charts are inline SVG, both themes come from CSS.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2

from tutelage.evaluation.compare import Comparison
from tutelage.evaluation.metrics import Interval, SuccessRow, is_solved
from tutelage.evaluation.run import EvaluationResult, compare
from tutelage.reports.audit_section import audits
from tutelage.reports.data import RunFiles, read_run
from tutelage.reports.endpoint_section import endpoint_rows
from tutelage.reports.figures import IntervalPoint, bar_chart, interval_chart, line_chart
from tutelage.reports.judge_section import judgements
from tutelage.reports.reinforcement import own_budgets, reinforcement
from tutelage.reports.words import markup, number, p_value, percent, signed_points, thousands
from tutelage.store import write_atomic
from tutelage.supervision.effects import ineffective_steps
from tutelage.types import Actor, Trajectory

SWITCH_BUCKETS: tuple[tuple[int, int], ...] = ((0, 0), (1, 5), (6, 10), (11, 15), (16, 20), (21, 25), (26, 30))
"""Groups of drawn switch steps, both ends included; later draws stand in one more group."""

FEW_STEPS = 10
"""Where no later step was drawn, each step is a group of its own."""


def write_report(run_dir: str | Path) -> Path:
    """Write `report.html` into a run directory, from its files alone, and return the path."""
    run = read_run(Path(run_dir))
    path = run.root / "report.html"
    write_atomic(path, render_report(run).encode("utf-8", "replace"))
    return path


def render_report(run: RunFiles) -> str:
    """The page as text."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("tutelage.reports"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    template = environment.get_template("report.html.j2")
    return template.render(
        title=(run.recipe.get("report") or {}).get("title") or run.recipe.get("name", "tutelage run"),
        subtitle=run.recipe.get("description") or "",
        headline=_headline(run),
        success=_success(run),
        comparisons=[_comparison(one) for one in _comparisons(run)],
        behaviour=[_behaviour(name, result) for name, result in run.results.items()],
        budgets=[table for table in (_budgets(run), own_budgets(run)) if table is not None],
        collections=_collections(run),
        switches=list(_switches(run)),
        curves=_curves(run),
        reinforcement=reinforcement(run),
        audits=audits(run),
        judgements=judgements(run),
        endpoints=endpoint_rows(run.root),
        examples=list(_examples(run)),
        provenance=_provenance(run),
    )


# Success


def _headline(run: RunFiles) -> list[str]:
    """One sentence per arm that is compared with the baseline, in plain words; the largest difference first."""
    baseline = (run.recipe.get("evaluate") or {}).get("baseline")
    sentences = []
    for one in sorted(_comparisons(run), key=lambda one: -abs(one.difference.estimate)):
        if one.name_a != baseline:
            continue
        a, b = run.results[one.name_a].overall, run.results[one.name_b].overall
        sentences.append(
            f"{one.name_b} solves {percent(b.success.estimate)} of {b.num_tasks} unseen tasks, {one.name_a} "
            f"{percent(a.success.estimate)}: {signed_points(one.difference.estimate)} points, 95 % interval "
            f"{signed_points(one.difference.low)} to {signed_points(one.difference.high)}, {verdict_of(one)}."
        )
    return sentences


def verdict_of(one: Comparison) -> str:
    """Whether a paired comparison tells anything, in words."""
    if one.p_value < 0.05:
        return f"more than chance would give (exact McNemar p {p_value(one.p_value, '= ')})"
    return f"no more than chance may give (exact McNemar p {p_value(one.p_value, '= ')})"


def _comparisons(run: RunFiles) -> list[Comparison]:
    baseline = (run.recipe.get("evaluate") or {}).get("baseline")
    if baseline not in run.results:
        return []
    return [compare(run.results[baseline], result) for name, result in run.results.items() if name != baseline]


def _success(run: RunFiles) -> dict[str, Any] | None:
    if not run.results:
        return None
    by_arm = {arm: {row.kind: row for row in result.rows} for arm, result in run.results.items()}
    kinds = [*sorted({kind for rows in by_arm.values() for kind in rows if kind != "all"}), "all"]
    panel = (run.recipe.get("evaluate") or {}).get("tasks") or {}
    temperature = (run.recipe.get("evaluate") or {}).get("temperature", 0.0)
    play = "greedy play" if not temperature else f"sampled at temperature {temperature:g}"
    return {
        "arms": list(by_arm),
        "rows": [
            {"kind": kind.replace("_", " "), "cells": [_success_cell(rows.get(kind)) for rows in by_arm.values()]}
            for kind in kinds
        ],
        "chart": markup(
            interval_chart(
                {
                    kind.replace("_", " "): [_success_point(arm, rows.get(kind)) for arm, rows in by_arm.items()]
                    for kind in ["all", *kinds[:-1]]
                }
            )
        ),
        "caption": f"The whole {panel.get('split', '')} panel, the same for every student, {play}.",
    }


def _success_cell(row: SuccessRow | None) -> dict[str, str]:
    if row is None or not row.num_tasks:
        return {"share": "–", "interval": ""}
    return {
        "share": f"{percent(row.success.estimate)} ({row.num_solved}/{row.num_tasks})",
        "interval": f"{percent(row.success.low)} to {percent(row.success.high)}",
    }


def _success_point(arm: str, row: SuccessRow | None) -> IntervalPoint:
    share = row.success if row is not None else Interval(estimate=math.nan, low=0.0, high=1.0)
    return IntervalPoint(label=arm, estimate=share.estimate, low=share.low, high=share.high)


def _comparison(one: Comparison) -> dict[str, Any]:
    return {
        "name": f"{one.name_b} against {one.name_a}",
        "pairs": one.num_pairs,
        "only_a": one.only_a,
        "only_b": one.only_b,
        "difference": signed_points(one.difference.estimate),
        "interval": f"{signed_points(one.difference.low)} to {signed_points(one.difference.high)}",
        "p": p_value(one.p_value),
    }


def _behaviour(name: str, result: EvaluationResult) -> dict[str, Any]:
    row = result.overall
    return {
        "name": name,
        "no_effect": percent(row.no_effect_share),
        "loops": percent(row.loop_share),
        "steps": number(row.mean_steps),
        "steps_solved": number(row.mean_steps_solved),
        "stops": ", ".join(f"{reason} {count}" for reason, count in result.stop_reasons.items()),
    }


# Data


def _budgets(run: RunFiles) -> dict[str, Any] | None:
    """What each model was trained on, read from the sample ledgers and the training metrics."""
    rows = []
    for name, ledger in run.sample_ledgers.items():
        sources = ledger.get("sources", {})
        trained = run.stage(f"train:{name}").get("summary", {})
        rows.append(
            {
                "name": name,
                "values": [
                    " + ".join(f"{source['trajectories']} {label}" for label, source in sources.items()),
                    sum(source["trajectories"] for source in sources.values()),
                    sum(source["student_steps"] for source in sources.values()),
                    sum(source["expert_steps"] for source in sources.values()),
                    thousands(sum(ledger["trained_tokens"].values())),
                    trained.get("updates", "–"),
                    thousands(trained.get("trained_tokens")),
                    number(run.stage(f"train:{name}").get("seconds", math.nan)),
                ],
            }
        )
    if not rows:
        return None
    return {
        "columns": [
            "data",
            "trajectories",
            "student steps",
            "expert steps",
            "trained tokens in the data",
            "updates",
            "trained tokens seen",
            "seconds",
        ],
        "rows": rows,
        "caption": "Equal numbers of trajectories are not equal budgets: a corrected episode holds fewer expert steps "
        "than an imitated one. Updates and tokens seen are of this training alone, without those of the student it started from.",
    }


def _collections(run: RunFiles) -> list[dict[str, Any]]:
    rows = []
    for name, ledger in run.ledgers.items():
        dropped = run.dropped(name)
        kept = [one for one in run.trajectories("rollouts", name) if one.trajectory_id not in dropped]
        reasons = ", ".join(f"{reason} {count}" for reason, count in ledger["dropped"].items()) or "none"
        rows.append(
            {
                "name": name,
                "drawn": ledger["drawn"],
                "kept": ledger["kept"],
                "dropped": reasons,
                "student_steps": sum(one.num_student_steps for one in kept),
                "expert_steps": sum(one.num_expert_steps for one in kept),
                "seconds": number(run.stage(f"rollout:{name}").get("seconds", math.nan)),
            }
        )
    return rows


def _switches(run: RunFiles) -> Iterable[dict[str, Any]]:
    for name, section in (run.recipe.get("rollouts") or {}).items():
        trajectories = [one for one in run.trajectories("rollouts", name) if one.drawn_switch is not None]
        if not trajectories or section["switch"]["name"] in ("expert_only", "never"):
            continue
        dropped = run.dropped(name)
        bars: dict[str, dict[str, float]] = {}
        for low, high in _switch_buckets(trajectories):
            inside = [one for one in trajectories if one.drawn_switch is not None and low <= one.drawn_switch <= high]
            if not inside and high == 10**9:
                continue
            label = str(low) if low == high else (f"{low}+" if high == 10**9 else f"{low}–{high}")
            bars[label] = {
                "drawn": len(inside),
                "reached": sum(one.switch_index is not None for one in inside),
                "kept": sum(one.trajectory_id not in dropped for one in inside),
            }
        reached = sum(group["reached"] for group in bars.values())
        wrong = sum(_has_error_before_switch(one) for one in trajectories)
        yield {
            "name": name,
            "caption": "Step drawn for the handover. "
            f"The expert took over in {reached:.0f} of {len(trajectories)} episodes; the others ended before. In {wrong} of them the student had made a command without effect by then.",
            "chart": markup(bar_chart(bars, y_label="episodes")),
        }


def _switch_buckets(trajectories: Sequence[Trajectory]) -> list[tuple[int, int]]:
    largest = max((one.drawn_switch for one in trajectories if one.drawn_switch is not None), default=0)
    if largest <= FEW_STEPS:
        return [(step, step) for step in range(largest + 1)]
    return [*SWITCH_BUCKETS, (SWITCH_BUCKETS[-1][1] + 1, 10**9)]


def _has_error_before_switch(trajectory: Trajectory) -> bool:
    switch = trajectory.switch_index
    if switch is None:
        return False
    return any(ineffective_steps(trajectory)[:switch])


def _curves(run: RunFiles) -> dict[str, Any] | None:
    series: dict[str, Sequence[tuple[float, float]]] = {}
    for name, rows in run.metrics.items():
        points = [(float(row["update_index"]), float(row["loss"])) for row in rows if "loss" in row]
        if points:
            series[name] = _smoothed(points)
    if not series:
        return None
    chart = line_chart(series, x_label="update", y_label="loss, nats per trained token")
    return {"caption": "Loss over updates, smoothed over 2 % of the run.", "chart": markup(chart)}


def _smoothed(points: Sequence[tuple[float, float]], num_kept: int = 200) -> list[tuple[float, float]]:
    """Running means, at most `num_kept` of them."""
    window = max(1, len(points) // 50)
    stride = max(1, len(points) // num_kept)
    kept = []
    for end in range(window, len(points) + 1, stride):
        part = points[end - window : end]
        kept.append((part[-1][0], sum(y for _, y in part) / window))
    return kept


# Episodes


def _examples(run: RunFiles, per_source: int = 2) -> Iterable[dict[str, Any]]:
    """Corrected episodes first (who acted, what is trained), then failures of the last arm."""
    for name, section in (run.recipe.get("rollouts") or {}).items():
        if section["switch"]["name"] in ("expert_only", "never"):
            continue
        dropped = run.dropped(name)
        kept = [one for one in run.trajectories("rollouts", name) if one.trajectory_id not in dropped]
        mixed = [one for one in kept if one.num_student_steps and one.num_expert_steps]
        telling = sorted(mixed, key=lambda one: (not _has_error_before_switch(one), len(one.steps), one.trajectory_id))
        for one in telling[:per_source]:
            yield _example(one, name, trained=Actor.EXPERT)
    if run.results:
        arm = list(run.results)[-1]
        played = run.trajectories("evaluations", arm)
        failed = sorted(
            (one for one in played if one.reward is not None and not is_solved(one)), key=lambda one: one.trajectory_id
        )
        solved = sorted((one for one in played if is_solved(one)), key=lambda one: (-len(one.steps), one.trajectory_id))
        for one in [*failed[:per_source], *solved[:1]]:
            yield _example(one, f"evaluation of {arm}", trained=None)


def _example(trajectory: Trajectory, source: str, trained: Actor | None) -> dict[str, Any]:
    replies = [step.observation.text for step in trajectory.steps[1:]]
    replies.append(trajectory.final_observation.text if trajectory.final_observation else "(no reply)")
    tags = [
        source,
        f"{len(trajectory.steps)} steps",
        "solved" if is_solved(trajectory) else trajectory.stop_reason.value,
    ]
    if trajectory.switch_index is not None and trajectory.num_student_steps:
        tags.append(f"expert took over at step {trajectory.switch_index}")
    return {
        "summary": trajectory.goal or trajectory.task_id,
        "tags": tags,
        "opening": trajectory.steps[0].observation.text if trajectory.steps else "",
        "steps": [
            {
                "actor": step.actor.value,
                "command": step.action.command if step.action.command is not None else step.action.text or "(empty)",
                "trained": step.actor is trained,
                "reply": reply,
                "no_effect": ineffective,
            }
            for step, reply, ineffective in zip(trajectory.steps, replies, ineffective_steps(trajectory), strict=True)
        ],
    }


def _provenance(run: RunFiles) -> dict[str, Any]:
    summary = run.summary
    facts: list[tuple[str, str]] = [("recipe", str(run.recipe.get("name"))), ("seed", str(run.recipe.get("seed")))]
    facts += [(name, str(value)) for name, value in _flat("", summary.get("versions", {}))]
    facts += [(name, str(value)) for name, value in _flat("", summary.get("machine", {}))]
    seconds = sum(float(stage.get("seconds") or 0.0) for stage in summary.get("stages", {}).values())
    facts.append(("work", f"{seconds:.0f} s over all stages, some of them side by side"))
    return {
        "sentence": "Every figure on this page is computed from the files of the run directory; "
        "`tutelage report` remakes it.",
        "facts": facts,
        "recipe": run.recipe_text,
    }


def _flat(prefix: str, value: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    for key, one in value.items():
        if isinstance(one, Mapping):
            yield from _flat(f"{prefix}{key}.", one)
        else:
            yield f"{prefix}{key}", one
