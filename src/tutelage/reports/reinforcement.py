"""The part of the page on models that learn by reinforcement: curves, time, teachers, two dependency graphs.

In: the files of a run. Out: plain values for the template; nothing for a run without such models.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any, Final, NamedTuple

from tutelage.analysis.episode_graph import DEFAULT_WEIGHTS, Way, episode_graph, structural_way
from tutelage.errors import ConfigError
from tutelage.evaluation.metrics import is_solved
from tutelage.reports.data import RunFiles
from tutelage.reports.figures import line_chart, stroke
from tutelage.reports.graph_figure import graph_figure
from tutelage.reports.words import markup, number, percent, thousands
from tutelage.supervision.footprints import has_footprints
from tutelage.supervision.step_credit import step_weights
from tutelage.types import Trajectory

Series = dict[str, list[tuple[float, float]]]
"""Model -> (round, value)."""

WORK: Final = ("time/rollout_seconds", "time/score_seconds", "time/update_seconds")
"""The parts of a round; measuring for the learning curve stands beside it."""


class Panel(NamedTuple):
    """One small chart, a line per model."""

    title: str
    metric: str
    note: str
    factor: float = 1.0


CURVE_PANELS: Final = (
    Panel("Validation tasks solved, greedy, %", "evaluate/greedy", "The policy before each round, and the last one.", 100),
    Panel("Validation tasks solved, sampled, %", "evaluate/sampled", "The same at the student's temperature.", 100),
)  # fmt: skip
ROUND_PANELS: Final = (
    Panel("Own episodes solved, %", "rollout/success", "Of the episodes that a round learns from.", 100),
    Panel("Entropy, nats per token", "policy/entropy", "Of the student at its own tokens."),
    Panel("Gap, nats per token", "distill/gap", "Log-probability, the teacher's minus the student's."),
    Panel("Divergence, nats per token", "distill/divergence", "Of teacher and student, mean over scored steps."),
    Panel("Steps taught, %", "distill/taught_share", "Of the steps that the teacher scored.", 100),
    Panel("Dependency graph: nodes", "graph/num_nodes", "Steps of an episode."),
    Panel("Dependency graph: edges", "graph/num_edges", "Pairs of a step and a later one that used it."),
    Panel("Dependency graph: density", "graph/density", "Edges over pairs of steps."),
)


def reinforcement(run: RunFiles) -> dict[str, Any] | None:
    """What the section shows. None: no model of the run has learnt by reinforcement yet."""
    rows = {name: run.metrics[name] for name in run.reinforced if name in run.metrics}
    if not rows:
        return None
    curves = {name: run.training[name].get("curve", []) for name in rows if name in run.training}
    panels = [_panel(panel, rows, _points_of_curves(panel, curves)) for panel in CURVE_PANELS]
    panels += [_panel(panel, rows, _points_of_rounds(panel, rows)) for panel in ROUND_PANELS]
    return {
        "key": [{"name": name, "line": _key_line(index)} for index, name in enumerate(rows)],
        "panels": [panel for panel in panels if panel["chart"]],
        "progress": [_progress(name, curves.get(name, []), rows[name]) for name in rows],
        "times": [_times(name, rows[name]) for name in rows],
        "graph_share": _graph_share(rows),
        "proofs": [
            {"name": name, "text": text} for name in rows if (text := run.stage(f"train:{name}").get("summary", {}).get("proof"))
        ],
        "graphs": _graphs(run),
    }  # fmt: skip


def own_budgets(run: RunFiles) -> dict[str, Any] | None:
    """What the models that learn by reinforcement were given. None: there are none."""
    rows = []
    for name in run.reinforced:
        summary = run.stage(f"train:{name}").get("summary")
        if not summary:
            continue
        columns = ("num_episodes", "env_steps", "updates", "trained_tokens", "teacher_tokens")
        started = run.recipe["models"][name].get("start", "")
        seconds = number(summary.get("training_seconds"))
        rows.append({"name": name, "values": [started, *(thousands(summary.get(key)) for key in columns), seconds]})
    if not rows:
        return None
    return {
        "columns": ["started from", "own episodes", "environment steps", "updates", "trained tokens seen", "teacher tokens", "seconds"],
        "rows": rows,
        "caption": "Learning by reinforcement plays its own episodes and has no data that was collected before. Teacher tokens "
        "are those that a teacher read.",
    }  # fmt: skip


def _points_of_curves(panel: Panel, curves: Mapping[str, Sequence[Mapping[str, float]]]) -> Series:
    return {
        name: [(float(point["round"]), panel.factor * point[panel.metric]) for point in points if panel.metric in point]
        for name, points in curves.items()
    }


def _points_of_rounds(panel: Panel, rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> Series:
    return {
        name: [
            (float(row["round_index"]), panel.factor * row["values"][panel.metric])
            for row in own
            if panel.metric in row["values"]
        ]
        for name, own in rows.items()
    }


def _panel(panel: Panel, names: Iterable[str], series: Series) -> dict[str, Any]:
    """All models are in all charts, so that each keeps its colour."""
    chart = line_chart(
        {name: series.get(name, []) for name in names}, x_label="round", y_label="", width=400, height=190, legend=False
    )
    return {"title": panel.title, "note": panel.note, "chart": markup(chart)}


def _key_line(index: int) -> Any:
    return markup(
        '<svg viewBox="0 0 24 10" width="24" height="10" xmlns="http://www.w3.org/2000/svg">'
        f'<line x1="0" x2="24" y1="5" y2="5" {stroke(index)} stroke-width="3"/></svg>'
    )


def _progress(name: str, curve: Sequence[Mapping[str, float]], rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """First and last value of what matters most."""

    def both(values: list[float], show: Callable[[float], str]) -> str:
        return f"{show(values[0])} → {show(values[-1])}" if values else "–"

    def of(metric: str) -> list[float]:
        return [row["values"][metric] for row in rows if metric in row["values"]]

    return {
        "name": name,
        "values": [
            len(rows),
            both([point["evaluate/greedy"] for point in curve if "evaluate/greedy" in point], percent),
            both([point["evaluate/sampled"] for point in curve if "evaluate/sampled" in point], percent),
            both(of("rollout/success"), percent),
            both(of("rollout/ineffective_share"), percent),
            both(of("policy/entropy"), lambda value: f"{value:.3f}"),
        ],
    }


# Time


def _times(name: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Mean seconds of a round and of its parts, with their shares."""
    work = _mean_work(rows)

    def part(seconds: float | None, digits: int = 0) -> str:
        if seconds is None:
            return "–"
        return f"{_seconds(seconds)} ({percent(seconds / work if work else math.nan, digits)})"

    playing, scoring, updating = (_mean(rows, metric) for metric in WORK)
    whole = _mean(rows, "time/round_seconds")
    return {
        "name": name,
        "values": [
            _seconds(work),
            part(playing),
            part(scoring),
            part(_graph_seconds(rows), 2),
            part(_mean(rows, "time/impact_seconds") or None, 1),
            part(updating),
            "–" if whole is None else _seconds(max(0.0, whole - work)),
        ],
    }


def _graph_share(rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """The sentence on what building the graphs costs. Empty: nobody built any."""
    shares = {
        name: seconds / work
        for name, own in rows.items()
        if (seconds := _graph_seconds(own)) is not None and (work := _mean_work(own))
    }
    if not shares:
        return ""
    told = ", ".join(f"{percent(share, 2)} in {name}" for name, share in shares.items())
    return f"From footprints to the chosen steps, the graphs took this share of a round: {told}."


def _graph_seconds(rows: Sequence[Mapping[str, Any]]) -> float | None:
    """Mean over the rounds that built graphs."""
    return _mean([row for row in rows if "graph/num_nodes" in row["values"]], "time/graph_seconds")


def _mean_work(rows: Sequence[Mapping[str, Any]]) -> float:
    return sum(_mean(rows, metric) or 0.0 for metric in WORK)


def _mean(rows: Sequence[Mapping[str, Any]], metric: str) -> float | None:
    values = [row["values"][metric] for row in rows if metric in row["values"]]
    return fmean(values) if values else None


def _seconds(value: float) -> str:
    return f"{value:.2f} s" if value >= 0.1 or value == 0 else f"{1000 * value:.1f} ms"


# Dependency graphs


def _graphs(run: RunFiles) -> dict[str, Any] | None:
    """A success and a failure of the last model that learnt by reinforcement and was evaluated."""
    for name in reversed(run.reinforced):
        played = [
            one
            for one in run.trajectories("evaluations", name)
            if one.reward is not None and len(one.steps) > 1 and has_footprints(one.env)
        ]
        if not played:
            continue
        weights, way = _way(run.recipe["models"][name])
        chosen = [_middle([one for one in played if is_solved(one) is solved]) for solved in (True, False)]
        return {
            "model": name,
            "weights": weights,
            "figures": [_graph(one, way) for one in chosen if one is not None],
        }
    return None


def _way(model: Mapping[str, Any]) -> tuple[str, Way]:
    """The step weights whose structure is drawn: the model's own, or the default where these have no graph."""
    section = (model["rl"].get("teacher") or {}).get("step_weights") or {"name": DEFAULT_WEIGHTS}
    try:
        options = {key: value for key, value in section.items() if key != "name"}
        return section["name"], structural_way(step_weights(section["name"], **options))
    except ConfigError:
        return DEFAULT_WEIGHTS, structural_way(DEFAULT_WEIGHTS)


def _middle(trajectories: Sequence[Trajectory]) -> Trajectory | None:
    """One of middle length, so that it is no exception."""
    ordered = sorted(trajectories, key=lambda one: (len(one.steps), one.trajectory_id))
    return ordered[(len(ordered) - 1) // 2] if ordered else None


def _graph(trajectory: Trajectory, way: Way) -> dict[str, Any]:
    episode = episode_graph(trajectory, way)
    graph = episode.graph
    return {
        "goal": trajectory.goal or trajectory.task_id,
        "tags": [
            "solved" if is_solved(trajectory) else trajectory.stop_reason.value,
            f"{graph.num_steps} steps",
            f"{len(graph.edges)} edges",
            f"density {graph.density:.3f}",
        ],
        "figure": markup(graph_figure(episode)),
    }
