"""The students of the main setting, and the expert, on real ALFWorld games: a world none of them was trained on.

    python studies/corrections/real_games.py --games FOLDER --seeds 5

Reads the models that run.py left in its cache, writes results/real_games.jsonl, one row per arm and seed; goes on where it
stopped. FOLDER holds split/task/trial folders; the split valid_unseen is played.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from arms import SETTINGS
from chain import Chain
from lab import Lab, summary
from run import CACHE, HERE

from tutelage.evaluation.run import evaluate
from tutelage.policies.experts.household import HouseholdExpert
from tutelage.policies.local import LocalPolicy
from tutelage.tasks.household import HouseholdTasks
from tutelage.types import Actor

ROWS = HERE / "results" / "real_games.jsonl"
ARMS = ("imitation", "double", "corrections")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    tasks = HouseholdTasks(source="folder", root=options.games, max_steps=50).load("test")
    done = (
        {(row["arm"], row["seed"]) for row in map(json.loads, ROWS.read_text().splitlines())}
        if ROWS.is_file()
        else set()
    )
    if ("expert", 0) not in done:
        result, _ = evaluate(HouseholdExpert(), tasks, role=Actor.EXPERT)
        write({"arm": "expert", "seed": 0, "greedy": summary(result)})
    for seed in range(options.seeds):
        for arm in ARMS:
            if (arm, seed) in done:
                continue
            model, _ = Chain(Lab(SETTINGS["main/n500"], seed, CACHE)).arm(arm)
            row = {"arm": arm, "seed": seed}
            for play, temperature in (("greedy", 0.0), ("sampled", 0.4)):
                policy = LocalPolicy(model, temperature=temperature, seed=seed, num_threads=1)
                row[play] = summary(evaluate(policy, tasks, name=play, seed=seed, concurrency=128)[0])
            write(row)


def write(row: dict[str, object]) -> None:
    with ROWS.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
    rates = {play: f"{row[play]['solved']}/{row[play]['total']}" for play in ("greedy", "sampled") if play in row}  # type: ignore[index]
    print(f"{row['arm']} seed {row['seed']}: {rates}", flush=True)


if __name__ == "__main__":
    main()
