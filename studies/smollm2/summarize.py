"""Tables and the loss curves of the study, from results/rows.jsonl.

python studies/smollm2/summarize.py
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

from run import ROWS, read_rows

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
        "| model | seeds | games won % [95 %] | expert's commands right % | loss, nats a token | trained tokens |",
        "|---|---|---|---|---|---|",
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
            f"| {f'{round(mean(trained)):,}' if trained else '-'} |"
        )
    lines += ["", "| seed | wall-clock minutes |", "|---|---|"]
    lines += [f"| {row['seed']} | {row['wall_seconds'] / 60:.0f} |" for row in rows["start"]]
    TABLE.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))
    draw(rows)


def mean(values: Any) -> float:
    listed = list(values)
    return sum(listed) / len(listed)


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
            axes.plot(
                [start + point["update"] for point in curve], [point["loss"] for point in curve], color=color, label=ARMS[arm]
            )
    axes.set(xlabel="update", ylabel="loss of its own data, nats a token", yscale="log")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.savefig(CURVES, dpi=150)


if __name__ == "__main__":
    main()
