"""Tables and the loss curves of the study, from results/rows.jsonl.

python studies/smollm2/summarize.py
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from run import ROWS, read_rows

from tutelage.evaluation.compare import mcnemar_exact
from tutelage.evaluation.metrics import wilson

ARMS = {
    "start": "as it comes",
    "imitation": "imitation of N",
    "imitation_double": "imitation, more expert episodes",
    "corrected": "imitation and corrections",
}
TABLE = ROWS.with_name("table.md")
CURVES = ROWS.with_name("curves.png")


def main() -> None:
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in read_rows():
        rows[row["arm"]].append(row)
    lines = [
        "| model | seeds | games won % [95 %] | expert's commands right % | loss, nats a token | trained tokens | new expert steps in its data |",
        "|---|---|---|---|---|---|---|",
    ]
    for arm, name in ARMS.items():
        if not rows[arm]:
            continue
        outcomes = [won for row in rows[arm] for won in row["outcomes"].values()]
        interval = wilson(sum(outcomes), len(outcomes))
        trained = [row["train"]["trained_tokens"] for row in rows[arm] if row["train"]]
        lines.append(
            f"| {name} | {len(rows[arm])} | {100 * sum(outcomes) / len(outcomes):.1f} "
            f"[{100 * interval.low:.0f}, {100 * interval.high:.0f}] of {len(outcomes)} "
            f"| {100 * mean(row['commands_right'] for row in rows[arm]):.1f} | {mean(row['loss'] for row in rows[arm]):.3f} "
            f"| {f'{round(mean(trained)):,}' if trained else '-'} | {new_steps(rows[arm])} |"
        )
    lines += ["", "| B against A | games only A wins | only B | exact McNemar p |", "|---|---|---|---|"]
    for b, a in (("imitation_double", "imitation"), ("corrected", "imitation"), ("corrected", "imitation_double")):
        pairs = [
            (first["outcomes"][task], second["outcomes"][task])
            for first, second in zip(rows[a], rows[b], strict=True)
            for task in first["outcomes"]
        ]
        only_a, only_b = sum(x > y for x, y in pairs), sum(y > x for x, y in pairs)
        lines.append(f"| {ARMS[b]} against {ARMS[a]} | {only_a} | {only_b} | {mcnemar_exact(only_a, only_b):.2g} |")
    kinds = sorted({kind for arm in rows.values() for row in arm for kind in row["failures"]})
    lines += ["", f"| lost games, judged by rules | {' | '.join(kinds)} |", f"|---|{'---|' * len(kinds)}"]
    for arm, name in ARMS.items():
        counts = [str(sum(row["failures"].get(kind, 0) for row in rows[arm])) for kind in kinds]
        lines.append(f"| {name} | {' | '.join(counts)} |")
    lines += ["", "| seed | wall-clock minutes |", "|---|---|"]
    lines += [f"| {row['seed']} | {row['wall_seconds'] / 60:.0f} |" for row in rows["start"]]
    TABLE.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))
    draw(rows)


def new_steps(rows: list[dict[str, Any]]) -> str:
    """Expert steps of the last part of the data: the one that an arm has besides what its start has."""
    steps = [list(row["expert_steps"].values())[-1] for row in rows if row["expert_steps"]]
    return f"{round(mean(steps)):,}" if steps else "-"


def mean(values: Any) -> float:
    listed = list(values)
    return sum(listed) / len(listed)


def smooth(values: list[float], width: int = 11) -> list[float]:
    """Mean over the nearest updates; an update is two episodes only."""
    half = width // 2
    return [mean(values[max(0, i - half) : i + half + 1]) for i in range(len(values))]


def draw(rows: dict[str, list[dict[str, Any]]]) -> None:
    """Training loss of each arm of the first seed, the second stage after the first."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
    offset = len(rows["imitation"][0]["curve"]) if rows["imitation"] else 0
    for arm, color in (("imitation", "#555555"), ("imitation_double", "#0072b2"), ("corrected", "#d55e00")):
        if rows[arm]:
            curve = rows[arm][0]["curve"]
            start = 0 if arm == "imitation" else offset
            losses = smooth([point["loss"] for point in curve])
            axes.plot([start + point["update"] for point in curve], losses, color=color, label=ARMS[arm])
    axes.set(xlabel="update", ylabel="loss of its own data,\nnats a token, mean of 11 updates", yscale="log")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.savefig(CURVES, dpi=150)


if __name__ == "__main__":
    main()
