"""Train every arm on every seed; rows land in results/train.jsonl as they are made.

    python studies/graphopd/train.py --tune --workers 2               # the coefficient, on a seed of its own
    python studies/graphopd/train.py --seeds 5 --workers 2
    python studies/graphopd/summarize.py

Stopped at any moment and started again it goes on: finished arms are read from the rows, students and rounds from the
cache.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from arms import ARMS, TUNED, TUNING_ARMS, TUNING_SEED

HERE = Path(__file__).parent
ROWS = HERE / "results" / "train.jsonl"
CACHE = HERE.parents[1] / "runs" / "study-graphopd" / "train"

Job = tuple[int, str, float]
"""Seed, arm, coefficient."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--arms", nargs="+", default=list(ARMS), choices=list(ARMS), metavar="ARM")
    parser.add_argument("--tune", action="store_true", help="every coefficient for a few arms, on a seed of its own")
    parser.add_argument("--workers", type=int, default=2, help="arms side by side, one torch thread each")
    parser.add_argument("--job", nargs=3, metavar=("SEED", "ARM", "COEFFICIENT"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job:
        run_job((int(options.job[0]), options.job[1], float(options.job[2])))
        return
    if options.tune:
        wanted = [(TUNING_SEED, arm, one) for one in TUNED for arm in TUNING_ARMS] + [(TUNING_SEED, "grpo", 0.0)]
    else:
        seeds = range(options.first_seed, options.first_seed + options.seeds)
        wanted = [(seed, arm, ARMS[arm].coefficient) for seed in seeds for arm in options.arms]
    done = {(row["seed"], row["arm"], row["coefficient"]) for row in read_rows()}
    run_side_by_side([job for job in wanted if job not in done], options.workers)


def run_side_by_side(jobs: list[Job], num_workers: int) -> None:
    """Each job in a process of its own; one that fails is reported and the others go on."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}
    running: dict[Job, subprocess.Popen[bytes]] = {}
    failed = []
    waiting = list(jobs)
    while waiting or running:
        for job in list(waiting):
            # The first job of a seed makes its student; the others wait for it.
            alone = not student_folder(job[0]).is_dir() and any(one[0] == job[0] for one in running)
            if len(running) < num_workers and not alone:
                waiting.remove(job)
                command = [sys.executable, str(HERE / "train.py"), "--job", *map(str, job)]
                running[job] = subprocess.Popen(command, env=environment)
        for job, process in list(running.items()):
            if process.poll() is not None:
                del running[job]
                if process.returncode:
                    failed.append(job)
                    print(f"{job}: ended with code {process.returncode}", flush=True)
        time.sleep(0.5)
    if failed:
        raise SystemExit(f"{len(failed)} of {len(jobs)} jobs failed: {failed}")


def student_folder(seed: int) -> Path:
    return CACHE / f"seed{seed}" / "student"


def run_job(job: Job) -> None:
    """One arm of one seed: train, measure, write the row."""
    from lab import measure_panel, reinforce, student

    seed, name, coefficient = job
    began = time.perf_counter()
    start, imitation = student(seed, student_folder(seed))
    arm = ARMS[name]
    row: dict[str, Any] = {"seed": seed, "arm": name, "coefficient": coefficient}
    model = start
    if arm.rounds:
        model = CACHE / f"seed{seed}" / f"{name}-{coefficient:g}"
        row |= reinforce(start, model, arm, coefficient, seed)
    else:
        row["imitation"] = imitation
    row |= {"panel": measure_panel(model, seed), "seconds": round(time.perf_counter() - began, 1)}
    ROWS.parent.mkdir(exist_ok=True)
    with ROWS.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
    rates = ", ".join(f"{play} {one['solved']}/{one['total']}" for play, one in row["panel"].items())
    print(f"seed {seed} {name} {coefficient:g}: {rates}, {row['seconds']} s", flush=True)


def read_rows() -> list[dict[str, Any]]:
    return [json.loads(line) for line in ROWS.read_text().splitlines()] if ROWS.is_file() else []


if __name__ == "__main__":
    main()
