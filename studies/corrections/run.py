"""Run the study: every setting, every seed, every arm; rows land in results/rows.jsonl as they are made.

    python studies/corrections/run.py --parts main --seeds 5 --workers 2
    python studies/corrections/run.py --parts strength switch size temperature rounds start --seeds 3 --workers 2
    python studies/corrections/summarize.py

Stopped at any moment and started again it goes on: finished arms are read from the rows, models and draws from the cache.
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

from arms import SETTINGS

HERE = Path(__file__).parent
ROWS = HERE / "results" / "rows.jsonl"
CACHE = HERE.parents[1] / "runs" / "study-corrections"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--parts", nargs="+", default=["main"], help="main strength stronger switch size temperature rounds start"
    )
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2, help="chains side by side, one torch thread each")
    parser.add_argument("--chain", nargs=2, metavar=("SETTING", "SEED"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.chain:
        run_chain(options.chain[0], int(options.chain[1]))
        return
    wanted = [
        (name, seed)
        for seed in range(options.first_seed, options.first_seed + options.seeds)
        for name, setting in SETTINGS.items()
        if setting.part in options.parts
    ]
    run_side_by_side(wanted, options.workers)


def run_side_by_side(chains: list[tuple[str, int]], num_workers: int) -> None:
    """Each chain in a process of its own; one that fails is reported and the others go on."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}
    running: dict[tuple[str, int], subprocess.Popen[bytes]] = {}
    busy: set[str] = set()
    failed = []
    waiting = list(chains)
    while waiting or running:
        for chain in list(waiting):
            # Two chains on one student would train it twice; they take turns.
            lock = student_key(*chain)
            if len(running) < num_workers and lock not in busy:
                waiting.remove(chain)
                busy.add(lock)
                command = [sys.executable, str(HERE / "run.py"), "--chain", chain[0], str(chain[1])]
                running[chain] = subprocess.Popen(command, env=environment)
        for chain, process in list(running.items()):
            if process.poll() is not None:
                del running[chain]
                busy.discard(student_key(*chain))
                if process.returncode:
                    failed.append(chain)
                    print(f"{chain[0]} seed {chain[1]}: ended with code {process.returncode}", flush=True)
        time.sleep(0.5)
    if failed:
        raise SystemExit(f"{len(failed)} of {len(chains)} chains failed: {failed}")


def student_key(name: str, seed: int) -> str:
    one = SETTINGS[name]
    return f"{one.size} {one.num_episodes} {one.student_tokens} {seed}"


def run_chain(name: str, seed: int) -> None:
    """All arms of one setting and seed, in the order of the setting."""
    setting = SETTINGS[name]
    done = {row["arm"] for row in read_rows() if row["setting"] == name and row["seed"] == seed}
    missing = [arm for arm in setting.arms if arm not in done]
    if not missing:
        return
    # Only the chain's own process needs torch.
    from chain import Chain
    from lab import Lab

    chain = Chain(Lab(setting, seed, CACHE))
    for arm in missing:
        began = time.perf_counter()
        model, account = chain.arm(arm)
        row = {"setting": name, "part": setting.part, "seed": seed, "arm": arm, **account, **chain.lab.measure(model)}
        row["arm_seconds"] = round(time.perf_counter() - began, 1)
        ROWS.parent.mkdir(exist_ok=True)
        with ROWS.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        rates = f"greedy {row['greedy']['solved']}/{row['greedy']['total']}, sampled {row['sampled']['solved']}"
        print(f"{name} seed {seed} {arm}: {rates}, {row['arm_seconds']} s", flush=True)


def read_rows() -> list[dict[str, Any]]:
    return [json.loads(line) for line in ROWS.read_text().splitlines()] if ROWS.is_file() else []


if __name__ == "__main__":
    main()
