"""What isolation costs: start-up of a sandboxed command, calls of the Python tool per second, episodes per second.

    python benchmarks/sandbox_speed.py

Times are medians of wall-clock time, so run it on an idle machine, or as root before everything else:

    chrt --rr 1 python benchmarks/sandbox_speed.py

`plain` is the same command without a sandbox, `calls, 8 threads` are calls per second of one runner that 8 threads share,
episodes are the expert's on generated problems of all levels, one after the other.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from machine import machine
from tutelage.envs.python.env import PythonEnv
from tutelage.envs.sandbox import PythonRunner, make_sandbox
from tutelage.errors import ConfigError
from tutelage.policies.experts.python import PythonExpert
from tutelage.rollout.episode import run_episode
from tutelage.rollout.switch import ExpertOnly
from tutelage.tasks.python import PythonTasks
from tutelage.types import Actor

RESULTS = Path(__file__).parent / "results"
KINDS = ("bubblewrap", "unshare", "rlimit")
STARTS = 40
CALLS = 400
EPISODES = 150


def median_ms(act: Callable[[], object], number: int) -> float:
    act()
    times = []
    for _ in range(number):
        began = time.perf_counter()
        act()
        times.append(time.perf_counter() - began)
    return 1000 * statistics.median(times)


def measure(kind: str) -> dict[str, float]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sandbox = make_sandbox(kind, allow_unsafe=True)
    runner = PythonRunner(sandbox)
    began = time.perf_counter()
    runner.run(["print(1)"])
    first_call = 1000 * (time.perf_counter() - began)
    row = {
        "command, ms": median_ms(lambda: sandbox.run(["/bin/true"]), STARTS),
        "interpreter, ms": median_ms(lambda: sandbox.run([sandbox.python, "-I", "-S", "-c", ""]), STARTS),
        "first call, ms": first_call,
        "call, ms": median_ms(lambda: runner.run(["print(6 * 7)"]), CALLS if sandbox.isolated else STARTS),
    }
    number = CALLS if sandbox.isolated else STARTS
    with ThreadPoolExecutor(8) as pool:
        began = time.perf_counter()
        list(pool.map(lambda _: runner.run(["print(6 * 7)"]), range(number)))
        row["calls a second, 8 threads"] = number / (time.perf_counter() - began)
    runner.close()
    return row


def plain() -> dict[str, float]:
    python = make_sandbox("rlimit", allow_unsafe=True).python
    return {
        "command, ms": median_ms(lambda: subprocess.run(["/bin/true"], check=True), STARTS),
        "interpreter, ms": median_ms(lambda: subprocess.run([python, "-I", "-S", "-c", ""], check=True), STARTS),
    }


def episodes() -> dict[str, float]:
    tasks = PythonTasks().load("test", 0, EPISODES)
    expert = PythonExpert()
    began = time.perf_counter()
    played = [run_episode(task, PythonEnv(task), {Actor.EXPERT: expert}, ExpertOnly(), seed=0) for task in tasks]
    seconds = time.perf_counter() - began
    return {
        "episodes a second": len(played) / seconds,
        "steps a second": sum(len(one.steps) for one in played) / seconds,
        "solved": statistics.mean(one.reward or 0.0 for one in played),
    }


def main() -> None:
    warnings.simplefilter("ignore")
    rows = {"plain": plain()}
    for kind in KINDS:
        try:
            rows[kind] = measure(kind)
        except ConfigError as error:
            print(f"{kind} left out: {error}")
    result = {"machine": machine(), "kinds": rows, "episodes": episodes()}
    columns = list(dict.fromkeys(name for row in rows.values() for name in row))
    lines = [
        "# Sandbox speed",
        "",
        f"`python benchmarks/sandbox_speed.py`, {machine()}.",
        "",
        f"| kind | {' | '.join(columns)} |",
        f"|---|{'---|' * len(columns)}",
    ]
    for kind, row in rows.items():
        lines.append(f"| {kind} | {' | '.join(f'{row[name]:.1f}' if name in row else '-' for name in columns)} |")
    lines += [
        "",
        "Expert on generated problems: "
        + ", ".join(f"{name} {value:.3g}" for name, value in result["episodes"].items()),
    ]
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "sandbox_speed.json").write_text(json.dumps(result, indent=2) + "\n")
    (RESULTS / "sandbox_speed.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
