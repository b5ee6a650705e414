"""results/train.jsonl -> results/train.md, results/curves.svg, results/signals.svg.

    python studies/graphopd/summarize.py

Intervals are percentiles of a bootstrap over seeds and games at once; p is McNemar's over the discordant games of all
seeds, corrected (Holm) for the number of arms that are compared with the primary one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from arms import ALPHA_SWEEP, ARMS, PRIMARY, TUNED, TUNING_SEED

from tutelage.evaluation.compare import crossed_bootstrap, holm, mcnemar_exact

RESULTS = Path(__file__).parent / "results"
PLAYS = ("greedy", "sampled")
CURVES = ("grpo", "uniform", "graphopd", "random_matched", "position_early")
"""Arms whose curves are drawn."""
SIGNALS = (
    ("policy/entropy", "entropy, nats per token"),
    ("graph/num_nodes", "graph nodes"),
    ("graph/num_edges", "graph edges"),
    ("graph/density", "graph density"),
    ("distill/divergence", "divergence of teacher and student, nats"),
    ("rollout/ineffective_share", "steps without effect, share"),
)

Rows = dict[str, dict[int, dict[str, Any]]]
"""Arm -> seed -> row."""


def main() -> None:
    rows = [json.loads(line) for line in (RESULTS / "train.jsonl").read_text().splitlines()]
    tuning = [row for row in rows if row["seed"] == TUNING_SEED]
    arms: Rows = {}
    for row in rows:
        if row["seed"] != TUNING_SEED and row["coefficient"] == ARMS[row["arm"]].coefficient:
            arms.setdefault(row["arm"], {})[row["seed"]] = row
    arms = {name: arms[name] for name in ARMS if name in arms}
    parts = ["# Training with and without a teacher: tables", "", "Made by `python studies/graphopd/summarize.py`.", ""]
    if arms:
        parts += ["## Arms", "", *arm_table(arms), ""]
        if PRIMARY in arms:
            parts += [f"## {ARMS[PRIMARY].label} against the others", "", *contrast_table(arms), ""]
        parts += ["## Alpha", "", *alpha_table(arms), ""]
        parts += ["## Cost", "", *cost_table(arms), ""]
        draw_curves(arms)
        draw_signals(arms)
    if tuning:
        parts += ["## The coefficient, on a seed of its own", "", *tuning_table(tuning), ""]
    (RESULTS / "train.md").write_text("\n".join(parts), encoding="utf-8")
    print(f"{len(rows)} rows, {len(arms)} arms -> {RESULTS / 'train.md'}")


def outcomes(by_seed: dict[int, dict[str, Any]], play: str, seeds: Sequence[int]) -> np.ndarray[Any, Any]:
    """[S, G] 1 where a game was won."""
    return np.array([[int(mark) for mark in by_seed[seed]["panel"][play]["outcomes"]] for seed in seeds])


def percent(values: np.ndarray[Any, Any], sign: str = "") -> str:
    found = crossed_bootstrap(values)
    return f"{100 * found.estimate:{sign}.1f} [{100 * found.low:{sign}.1f}, {100 * found.high:{sign}.1f}]"


def arm_table(arms: Rows) -> list[str]:
    lines = [
        "| arm | seeds | greedy % | sampled % | no effect %, sampled | mean steps, sampled | taught share % | mean position taught | entropy, last round |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, by_seed in arms.items():
        seeds = sorted(by_seed)
        cells = [percent(outcomes(by_seed, play, seeds)) for play in PLAYS]
        sampled = [by_seed[seed]["panel"]["sampled"] for seed in seeds]
        cells += [f"{100 * np.mean([one['no_effect_share'] for one in sampled]):.1f}"]
        cells += [f"{np.mean([one['mean_steps'] for one in sampled]):.1f}"]
        for key, scale in (("distill/taught_share", 100), ("mask/mean_position", 1)):
            values = [one[key] for seed in seeds for one in by_seed[seed].get("rounds", []) if key in one]
            cells.append(f"{scale * np.mean(values):.2f}" if values else "")
        last = [by_seed[seed]["rounds"][-1]["policy/entropy"] for seed in seeds if by_seed[seed].get("rounds")]
        cells.append(f"{np.mean(last):.3f}" if last else "")
        lines.append(f"| {ARMS[name].label} | {len(seeds)} | " + " | ".join(cells) + " |")
    return lines


def contrast_table(arms: Rows) -> list[str]:
    lines = ["| other arm | play | points ahead | seeds ahead | p | p, Holm |", "|---|---|---|---|---|---|"]
    for play in PLAYS:
        found = []
        for name, by_seed in arms.items():
            seeds = sorted(by_seed.keys() & arms[PRIMARY].keys())
            if name == PRIMARY or not seeds:
                continue
            ahead = outcomes(arms[PRIMARY], play, seeds) - outcomes(by_seed, play, seeds)
            p = mcnemar_exact(int((ahead < 0).sum()), int((ahead > 0).sum()))
            found.append((name, percent(ahead, "+"), int((ahead.mean(axis=1) > 0).sum()), len(seeds), p))
        for (name, points, wins, seeds_both, p), corrected in zip(found, holm([one[4] for one in found]), strict=True):
            lines.append(
                f"| {ARMS[name].label} | {play} | {points} | {wins} of {seeds_both} | {p_value(p)} | {p_value(corrected)} |"
            )
    return lines


def p_value(value: float) -> str:
    return "< 0.0001" if value < 1e-4 else f"{value:.4f}"


def alpha_table(arms: Rows) -> list[str]:
    lines = ["| alpha (weight of the divergence) | seeds | greedy % | sampled % |", "|---|---|---|---|"]
    for alpha, name in ALPHA_SWEEP.items():
        if name in arms:
            seeds = sorted(arms[name])
            cells = " | ".join(percent(outcomes(arms[name], play, seeds)) for play in PLAYS)
            lines.append(f"| {alpha:g} | {len(seeds)} | {cells} |")
    return lines


def cost_table(arms: Rows) -> list[str]:
    lines = [
        "| arm | episodes | env steps | trained tokens | tokens the teacher read | seconds a round | graph building, % of it |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, by_seed in arms.items():
        if "budget" not in next(iter(by_seed.values())):
            continue
        budgets = [row["budget"] for row in by_seed.values()]
        cells = [
            f"{np.mean([one[key] for one in budgets]):,.0f}"
            for key in ("episodes", "env_steps", "trained_tokens", "teacher_tokens")
        ]
        rounds = [one for row in by_seed.values() for one in row["rounds"]]
        # Measuring for the learning curve is no part of a round's work.
        worked = [
            one["time/rollout_seconds"] + one["time/score_seconds"] + one["time/update_seconds"] for one in rounds
        ]
        graph = [one.get("time/graph_seconds", 0.0) for one in rounds]
        cells += [f"{np.mean(worked):.1f}", f"{100 * sum(graph) / sum(worked):.2f}" if sum(graph) else ""]
        lines.append(f"| {ARMS[name].label} | " + " | ".join(cells) + " |")
    return lines


def tuning_table(rows: Sequence[dict[str, Any]]) -> list[str]:
    lines = [
        f"Seed {TUNING_SEED}, which is in no other table; success on the validation games, mean of greedy and sampled play.",
        "",
        "| arm | " + " | ".join(f"{one:g}" for one in (0.0, *TUNED)) + " |",
        "|---" * (len(TUNED) + 2) + "|",
    ]
    for name in ("grpo", "uniform", "graphopd"):
        cells = []
        for coefficient in (0.0, *TUNED):
            found = [row for row in rows if row["arm"] == name and row["coefficient"] == coefficient]
            if not found:
                cells.append("")
                continue
            last = found[0]["curve"][-1]
            cells.append(f"{50 * (last['evaluate/greedy'] + last['evaluate/sampled']):.1f}")
        lines.append(f"| {ARMS[name].label} | " + " | ".join(cells) + " |")
    return lines


def draw_curves(arms: Rows) -> None:
    """Success on the validation games over rounds, mean over seeds with the range of a standard error."""
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.4), sharey=True)
    for axis, play in zip(axes, PLAYS, strict=True):
        for index, name in enumerate(one for one in CURVES if one in arms):
            curves = [row["curve"] for row in arms[name].values()]
            x = [point["round"] for point in curves[0]]
            draw_band(
                axis, x, [[100 * p[f"evaluate/{play}"] for p in one] for one in curves], told(arms, name), f"C{index}"
            )
        axis.set_xlabel("rounds")
        axis.set_title(f"{play} play")
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("validation games won, %")
    axes[1].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(RESULTS / "curves.svg")
    plt.close(figure)


def draw_signals(arms: Rows) -> None:
    """What was logged in every round."""
    figure, axes = plt.subplots(2, 3, figsize=(12, 6))
    for axis, (key, label) in zip(axes.flat, SIGNALS, strict=True):
        for index, name in enumerate(one for one in CURVES if one in arms):
            series = [[one.get(key, np.nan) for one in row["rounds"]] for row in arms[name].values()]
            if not np.isnan(series).all():
                draw_band(axis, list(range(len(series[0]))), series, told(arms, name), f"C{index}")
        axis.set_title(label, fontsize=9)
        axis.grid(alpha=0.3)
    axes[1][1].set_xlabel("rounds")
    axes[0][0].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(RESULTS / "signals.svg")
    plt.close(figure)


def told(arms: Rows, name: str) -> str:
    """The arm and how many seeds stand behind its line."""
    return f"{ARMS[name].label} ({len(arms[name])} seed{'s' * (len(arms[name]) > 1)})"


def draw_band(axis: Any, x: Sequence[float], series: Sequence[Sequence[float]], label: str, colour: str) -> None:
    values = np.array(series, dtype=float)
    mean = values.mean(axis=0)
    axis.plot(x, mean, label=label, color=colour, linewidth=1.8)
    if len(values) > 1:
        error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
        axis.fill_between(x, mean - error, mean + error, color=colour, alpha=0.15, linewidth=0)


if __name__ == "__main__":
    main()
