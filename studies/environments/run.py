"""Train a tiny student by imitation and by corrections in each environment; rows land in results/rows.jsonl.

    python studies/environments/run.py --seeds 2 --workers 2
    python studies/environments/summarize.py

Each environment is one recipe, run as it stands but for its seed. Stopped at any moment and started again it goes on.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import tutelage as t
from tutelage.evaluation.metrics import is_solved
from tutelage.rollout.summary import latest_attempts
from tutelage.run_dir import RunDir
from tutelage.store import read_records

HERE = Path(__file__).parent
ROWS = HERE / "results" / "rows.jsonl"
RUNS = HERE.parents[1] / "runs" / "study-environments"
ENVIRONMENTS = ("household", "search", "shop", "python")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", nargs="+", default=list(ENVIRONMENTS), choices=ENVIRONMENTS, metavar="ENV")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--workers", type=int, default=2, help="stages side by side, one torch thread each")
    options = parser.parse_args()
    done = {(row["env"], row["seed"]) for row in read_rows()}
    for seed in range(options.seeds):
        for env in options.env:
            if (env, seed) not in done:
                write_rows(env, seed, options.workers)


def write_rows(env: str, seed: int, workers: int) -> None:
    recipe = t.load_recipe(f"{env}_oec", set={"seed": seed})
    out = RUNS / f"{env}-seed{seed}"
    t.run(recipe, out, workers=workers)
    run = RunDir(out)
    stages: dict[str, Any] = json.loads((out / "run.json").read_text())["stages"]
    rows = []
    for arm in recipe.evaluated:
        played = latest_attempts(read_records(run.evaluation_trajectories_path(arm), "trajectory"))
        rows.append(
            {
                "env": env,
                "seed": seed,
                "arm": arm,
                "outcomes": {one.task_id: int(is_solved(one)) for one in sorted(played, key=lambda one: one.task_id)},
                "mean_steps": sum(len(one.steps) for one in played) / len(played),
                "stop_reasons": {
                    reason: sum(one.stop_reason.value == reason for one in played)
                    for reason in sorted({one.stop_reason.value for one in played})
                },
                "train": stages[f"train:{arm}"]["summary"],
                "seconds": round(sum(stage["seconds"] for stage in stages.values()), 1),
            }
        )
    ROWS.parent.mkdir(exist_ok=True)
    with ROWS.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    rates = ", ".join(f"{row['arm']} {sum(row['outcomes'].values())}/{len(row['outcomes'])}" for row in rows)
    print(f"{env} seed {seed}: {rates}", flush=True)


def read_rows() -> list[dict[str, Any]]:
    return [json.loads(line) for line in ROWS.read_text().splitlines()] if ROWS.is_file() else []


if __name__ == "__main__":
    main()
