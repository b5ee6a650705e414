"""results/rows.jsonl -> results/tables.md, results/main.svg, results/map.svg.

    python studies/corrections/summarize.py

Intervals are percentiles of a bootstrap that draws seeds and games anew, both at once: every seed is measured on the same
games, so seeds and games are crossed. McNemar's p pools the discordant games of all seeds.
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
from arms import SETTINGS

from tutelage.evaluation.compare import crossed_bootstrap, mcnemar_exact

RESULTS = Path(__file__).parent / "results"
PLAYS = ("greedy", "sampled")

LABELS = {
    "imitation": "imitation, N",
    "more_training": "imitation, N, trained on",
    "double": "imitation, 2N",
    "corrections": "N + N corrections",
    "self_rollouts": "N + N own successes",
    "corrections_filter_all": "corrections, filter over all steps",
    "corrections_no_filter": "corrections, no repetition filter",
    "corrections_no_mask": "corrections, no author mask",
    "double_equal_steps": "imitation, N + as many expert steps as the corrections",
    "corrections_equal_steps": "N + corrections with the expert steps of N more imitations",
    "corrections_equal_tokens": "N + corrections with the trained tokens of N more imitations",
    "three_rounds": "three rounds of N/3 corrections",
    "scratch_double": "imitation, 2N, from the warm-up",
    "scratch_corrections": "N + N corrections, from the warm-up",
}

CONTRASTS = (
    ("equal trajectories", "corrections", "double"),
    ("equal expert steps (fewer imitations)", "corrections", "double_equal_steps"),
    ("equal expert steps (more corrections)", "corrections_equal_steps", "double"),
    ("equal trained tokens (more corrections)", "corrections_equal_tokens", "double"),
    ("against N alone, trained on", "corrections", "more_training"),
    ("against own successes", "corrections", "self_rollouts"),
    ("author mask", "corrections", "corrections_no_mask"),
    ("repetition filter: expert's part against none", "corrections", "corrections_no_filter"),
    ("repetition filter: expert's part against all steps", "corrections", "corrections_filter_all"),
    ("three rounds against one", "three_rounds", "corrections"),
    ("from the warm-up", "scratch_corrections", "scratch_double"),
)


def main() -> None:
    rows = [json.loads(line) for line in (RESULTS / "rows.jsonl").read_text().splitlines()]
    by_setting: dict[str, dict[str, dict[int, dict[str, Any]]]] = {}
    for row in rows:
        by_setting.setdefault(row["setting"], {}).setdefault(row["arm"], {})[row["seed"]] = row
    order = [name for name in SETTINGS if name in by_setting]
    parts = [
        "# Corrections against imitation: tables",
        "",
        "Made by `python studies/corrections/summarize.py` from `rows.jsonl`.",
        "",
    ]
    for name in order:
        parts += [f"## {name}", "", *arm_table(by_setting[name]), "", *contrast_table(by_setting[name]), ""]
    parts += ["## The map", "", *map_table({name: by_setting[name] for name in order}), ""]
    parts += real_games_section()
    (RESULTS / "tables.md").write_text("\n".join(parts), encoding="utf-8")
    if "main/n500" in by_setting:
        draw_main(by_setting["main/n500"])
    draw_map({name: by_setting[name] for name in order})
    print(f"{len(rows)} rows, {len(order)} settings -> {RESULTS / 'tables.md'}")


def outcomes(by_seed: dict[int, dict[str, Any]], play: str, seeds: Sequence[int]) -> np.ndarray[Any, Any]:
    """[S, G] 1 where a game was won."""
    return np.array([[int(mark) for mark in by_seed[seed][play]["outcomes"]] for seed in seeds])


def percent(values: np.ndarray[Any, Any]) -> tuple[float, float, float]:
    """Mean of [S, G] and the ends of its interval, in percent."""
    found = crossed_bootstrap(values)
    return 100 * found.estimate, 100 * found.low, 100 * found.high


def arm_table(arms: dict[str, dict[int, dict[str, Any]]]) -> list[str]:
    lines = [
        "| arm | seeds | trajectories | expert steps | tokens with loss | greedy % | sampled % | no effect %, greedy / sampled | loops %, greedy / sampled |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for arm in [one for one in LABELS if one in arms]:
        by_seed = arms[arm]
        seeds = sorted(by_seed)
        cells = [f"{mean(by_seed, key):.0f}" for key in ("trajectories", "expert_steps", "tokens_with_loss_in_data")]
        for play in PLAYS:
            estimate, low, high = percent(outcomes(by_seed, play, seeds))
            cells.append(f"{estimate:.1f} [{low:.1f}, {high:.1f}]")
        for key in ("no_effect_share", "loop_share"):
            cells.append(" / ".join(f"{100 * np.mean([by_seed[s][play][key] for s in seeds]):.1f}" for play in PLAYS))
        lines.append(f"| {LABELS[arm]} | {len(seeds)} | " + " | ".join(cells) + " |")
    return lines


def mean(by_seed: dict[int, dict[str, Any]], key: str) -> float:
    return float(np.mean([row[key] for row in by_seed.values()]))


def contrast(arms: dict[str, dict[int, dict[str, Any]]], a: str, b: str, play: str) -> dict[str, Any] | None:
    """Arm a minus arm b over the seeds that both have."""
    if a not in arms or b not in arms or not (seeds := sorted(arms[a].keys() & arms[b].keys())):
        return None
    left, right = outcomes(arms[a], play, seeds), outcomes(arms[b], play, seeds)
    difference = left - right
    estimate, low, high = percent(difference)
    return {
        "difference": estimate,
        "low": low,
        "high": high,
        "relative": 100 * (left.mean() / right.mean() - 1) if right.mean() else float("nan"),
        "p": mcnemar_exact(int((difference < 0).sum()), int((difference > 0).sum())),
        "seeds_ahead": int((difference.mean(axis=1) > 0).sum()),
        "seeds": len(seeds),
    }


def contrast_table(arms: dict[str, dict[int, dict[str, Any]]]) -> list[str]:
    lines = [
        "| contrast | A - B | play | points | 95 % | relative | McNemar p | seeds with A ahead |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for label, a, b in CONTRASTS:
        for play in PLAYS:
            found = contrast(arms, a, b, play)
            if found is not None:
                lines.append(
                    f"| {label} | {a} - {b} | {play} | {found['difference']:+.1f} | {found['low']:+.1f} to {found['high']:+.1f} | "
                    f"{found['relative']:+.1f} % | {p_value(found['p'])} | {found['seeds_ahead']} of {found['seeds']} |"
                )
    return lines if len(lines) > 2 else []


def p_value(value: float) -> str:
    return "< 0.0001" if value < 1e-4 else f"{value:.4f}"


def map_table(settings: dict[str, dict[str, dict[int, dict[str, Any]]]]) -> list[str]:
    lines = [
        "| setting | seeds | imitation N, greedy / sampled % | corrections - 2N, greedy | sampled | corrections - equal expert steps, greedy | sampled | prefixes with an error % | student / expert steps |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, arms in settings.items():
        if "corrections" not in arms:
            continue
        seeds = sorted(arms["imitation"])
        start = " / ".join(f"{100 * outcomes(arms['imitation'], play, seeds).mean():.0f}" for play in PLAYS)
        cells = []
        for other in ("double", "double_equal_steps"):
            for play in PLAYS:
                found = contrast(arms, "corrections", other, play)
                cells.append(
                    "" if found is None else f"{found['difference']:+.1f} [{found['low']:+.1f}, {found['high']:+.1f}]"
                )
        collections = [row["collection"] for row in arms["corrections"].values()]
        errors = 100 * np.mean([one["share_with_error_in_prefix"] for one in collections])
        steps = [np.mean([one[key] for one in collections]) for key in ("mean_student_steps", "mean_expert_steps")]
        lines.append(
            f"| {name} | {len(seeds)} | {start} | "
            + " | ".join(cells)
            + f" | {errors:.0f} | {steps[0]:.1f} / {steps[1]:.1f} |"
        )
    return lines


def real_games_section() -> list[str]:
    """Students trained on small generated games, on the real ones."""
    path = RESULTS / "real_games.jsonl"
    if not path.is_file():
        return []
    arms: dict[str, dict[int, dict[str, Any]]] = {}
    for row in map(json.loads, path.read_text().splitlines()):
        arms.setdefault(row["arm"], {})[row["seed"]] = row
    lines = ["## Real games", "", "| arm | seeds | games | greedy % | sampled % |", "|---|---|---|---|---|"]
    for arm, by_seed in arms.items():
        seeds = sorted(by_seed)
        cells = []
        for play in PLAYS:
            if play not in by_seed[seeds[0]]:
                cells.append("")
                continue
            estimate, low, high = percent(outcomes(by_seed, play, seeds))
            cells.append(f"{estimate:.1f} [{low:.1f}, {high:.1f}]")
        label = LABELS.get(arm, arm)
        lines.append(f"| {label} | {len(seeds)} | {by_seed[seeds[0]]['greedy']['total']} | {cells[0]} | {cells[1]} |")
    return [*lines, "", *contrast_table(arms), ""]


def draw_main(arms: dict[str, dict[int, dict[str, Any]]]) -> None:
    """Success of every arm of the main setting, greedy and sampled, one small dot per seed."""
    shown = [arm for arm in LABELS if arm in arms]
    figure, axes = plt.subplots(1, 2, figsize=(11, 0.42 * len(shown) + 1.3), sharey=True)
    for axis, play in zip(axes, PLAYS, strict=True):
        for place, arm in enumerate(reversed(shown)):
            seeds = sorted(arms[arm])
            won = outcomes(arms[arm], play, seeds)
            estimate, low, high = percent(won)
            colour = "#2f8f5b" if "correct" in arm else "#2f6db0"
            axis.plot([low, high], [place, place], color=colour, linewidth=3, alpha=0.35, solid_capstyle="round")
            axis.scatter(100 * won.mean(axis=1), [place] * len(seeds), color=colour, s=9, alpha=0.6)
            axis.scatter([estimate], [place], color=colour, s=42, zorder=3)
        axis.set_title(f"{play} play")
        axis.set_xlabel("games won, %")
        axis.grid(axis="x", alpha=0.3)
    axes[0].set_yticks(range(len(shown)), [LABELS[arm] for arm in reversed(shown)])
    figure.tight_layout()
    figure.savefig(RESULTS / "main.svg")
    plt.close(figure)


def draw_map(settings: dict[str, dict[str, dict[int, dict[str, Any]]]]) -> None:
    """Corrections minus 2N imitation, one row per setting, weakest student first."""
    rows = []
    for name, arms in settings.items():
        found = [contrast(arms, "corrections", "double", play) for play in PLAYS]
        if found[0] is not None:
            seeds = sorted(arms["imitation"])
            rows.append((100 * outcomes(arms["imitation"], "greedy", seeds).mean(), name, len(seeds), found))
    rows.sort(key=lambda row: -row[0])
    figure, axes = plt.subplots(1, 2, figsize=(11, 0.36 * len(rows) + 1.2), sharey=True)
    for axis, play_index, play in zip(axes, range(2), PLAYS, strict=True):
        for place, (_, _, _, found) in enumerate(rows):
            one = found[play_index]
            assert one is not None
            axis.plot([one["low"], one["high"]], [place] * 2, color="#2f8f5b", linewidth=3, alpha=0.35)
            axis.scatter([one["difference"]], [place], color="#2f8f5b", s=36, zorder=3)
        axis.axvline(0, color="#666", linewidth=0.8)
        axis.set_xlabel("corrections minus imitation on 2N, points")
        axis.set_title(f"{play} play")
        axis.grid(axis="x", alpha=0.3)
    labels = [f"{name}: student {strength:.0f} %, {seeds} seed{'s' * (seeds > 1)}" for strength, name, seeds, _ in rows]
    axes[0].set_yticks(range(len(rows)), labels, fontsize=8)
    figure.tight_layout()
    figure.savefig(RESULTS / "map.svg")
    plt.close(figure)


if __name__ == "__main__":
    main()
