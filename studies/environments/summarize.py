"""rows.jsonl -> table.md: success per environment and arm, and corrections against imitation of twice the episodes.

python studies/environments/summarize.py
"""

from __future__ import annotations

import numpy as np
from run import ENVIRONMENTS, HERE, read_rows

from tutelage.evaluation.compare import crossed_bootstrap
from tutelage.evaluation.metrics import Interval

ARMS = ("imitation", "imitation_double", "corrected")


def main() -> None:
    rows = {(row["env"], row["seed"], row["arm"]): row for row in read_rows()}
    lines = [
        "| environment | seeds | tasks | imitation | imitation of twice the episodes | corrected | corrected - twice |",
        "|---|---|---|---|---|---|---|",
    ]
    for env in ENVIRONMENTS:
        seeds = sorted({seed for name, seed, _ in rows if name == env})
        if not seeds:
            continue
        solved = {
            arm: np.array([list(rows[env, seed, arm]["outcomes"].values()) for seed in seeds], dtype=float)
            for arm in ARMS
        }
        cells = [per_cent(crossed_bootstrap(solved[arm])) for arm in ARMS]
        difference = crossed_bootstrap(solved["corrected"] - solved["imitation_double"])
        tasks = solved["corrected"].shape[1]
        lines.append(f"| {env} | {len(seeds)} | {tasks} | {' | '.join(cells)} | {points(difference)} |")
    page = "\n".join(lines) + "\n"
    (HERE / "results" / "table.md").write_text(page, encoding="utf-8")
    print(page)


def per_cent(one: Interval) -> str:
    return f"{100 * one.estimate:.1f} % [{100 * one.low:.1f}, {100 * one.high:.1f}]"


def points(one: Interval) -> str:
    return f"{100 * one.estimate:+.1f} [{100 * one.low:+.1f}, {100 * one.high:+.1f}]"


if __name__ == "__main__":
    main()
