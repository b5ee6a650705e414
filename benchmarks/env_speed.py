"""Steps per second and memory of every environment, with 1, 16 and 256 live episodes.

    OMP_NUM_THREADS=1 python benchmarks/env_speed.py
    OMP_NUM_THREADS=1 python benchmarks/env_speed.py --env alfworld --alfworld-python /path/to/python

Each row is a process of its own. The scripted expert plays each task once, unmeasured; then all episodes are made and
reset, and its actions are acted in them in turns, one step each, until the time is over or all have ended, when new
episodes are made. `step` and `admissible` are timed. Environments that compute in this process are played on one thread, and
their time is CPU time; those that wait for processes of their own, by as many threads as episodes, at most 16, in real time.

Memory is the resident memory of the process and its children when all episodes stand in the middle, less that of the
process before it loaded the environment, so it holds the world (catalogue, passages), the code and the episodes.
Rows that were not measured anew are kept from the last run.
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from machine import machine

RESULTS = Path(__file__).parent / "results"
MAX_THREADS = 16


@dataclass(frozen=True, kw_only=True)
class Case:
    """What is measured: an environment under some options of its task set."""

    label: str
    env: str
    options: dict[str, Any] = field(default_factory=dict)
    num_tasks: int = 256
    """Different tasks; more live episodes go round them."""
    live: tuple[int, ...] = (1, 16, 256)
    note: str = ""


CASES = (
    Case(label="household, small", env="household", options={"size": "small"}),
    Case(label="household, real size", env="household", options={"size": "real"}),
    # A process of about 90 MB per episode.
    Case(label="alfworld, small", env="alfworld", num_tasks=2, live=(1, 16)),
    Case(label="shop, 1,000 products", env="shop"),
    Case(label="search, own corpus", env="search"),
    Case(label="repo", env="repo", num_tasks=4, live=(1, 16, 256)),
    Case(label="python", env="python", num_tasks=8),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--env", action="append", default=[], help="only this environment, may be given more than once")
    parser.add_argument("--seconds", type=float, default=3.0, help="of steps per row, about")
    parser.add_argument("--alfworld-python", help="a Python that has alfworld, where this one has not")
    parser.add_argument("--measure", help=argparse.SUPPRESS)  # One row, in the process that was started for it.
    arguments = parser.parse_args()
    if arguments.measure:
        case = json.loads(arguments.measure)
        print(json.dumps(measure(Case(**case["case"]), case["live"], arguments.seconds)))
        return
    rows = []
    for case in CASES:
        if arguments.env and case.env not in arguments.env:
            continue
        options = dict(case.options)
        if case.env == "alfworld" and arguments.alfworld_python:
            options["python"] = arguments.alfworld_python
        for live in case.live:
            rows.append(in_fresh_process(Case(**{**asdict(case), "options": options}), live, arguments.seconds))
            print(row_text(rows[-1]), flush=True)
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / "env_speed.json"
    stored = json.loads(path.read_text())["rows"] if path.exists() else []
    rows = merged(stored, rows)
    command = f"OMP_NUM_THREADS=1 python benchmarks/env_speed.py --seconds {arguments.seconds:g}"
    result = {"command": command, "machine": machine(), "rows": rows}
    path.write_text(json.dumps(result, indent=1) + "\n")
    (RESULTS / "env_speed.md").write_text(table(result))


def merged(stored: Iterable[dict[str, Any]], measured: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The latest row of each case and number of episodes, in the order of the cases."""
    found = {(row["label"], row["live"]): row for row in (*stored, *measured)}
    return [found[case.label, live] for case in CASES for live in case.live if (case.label, live) in found]


def in_fresh_process(case: Case, live: int, seconds: float) -> dict[str, Any]:
    """The row of a case, or the reason why there is none."""
    request = json.dumps({"case": asdict(case), "live": live})
    command = [sys.executable, __file__, "--measure", request, "--seconds", str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    row = {"label": case.label, "env": case.env, "live": live}
    if done.returncode:
        return {**row, "missing": (done.stderr.strip().splitlines() or ["no reason"])[-1]}
    return {**row, **json.loads(done.stdout.splitlines()[-1])}


# In the measured process


def measure(case: Case, live: int, seconds: float) -> dict[str, Any]:
    import psutil  # Its own memory belongs to the baseline.

    from tutelage.envs.registry import make_env
    from tutelage.tasks.registry import load_tasks

    process = psutil.Process()
    before = memory(process)
    tasks = load_tasks(case.env, "train", count=min(live, case.num_tasks), **case.options)
    scripts = [expert_actions(task) for task in tasks]
    gc.collect()
    num_steps = num_episodes = 0
    step_seconds = start_seconds = 0.0
    held: int | None = None
    inline = is_inline(tasks[0])
    clock = time.process_time if inline else time.perf_counter
    while not num_steps or step_seconds < seconds:
        began = clock()
        episodes = [(make_env(tasks[i % len(tasks)]), scripts[i % len(tasks)]) for i in range(live)]
        with ThreadPoolExecutor(min(live, MAX_THREADS)) as threads:
            work = map if inline else threads.map
            try:
                for _ in work(lambda one: one[0].reset(0), episodes):
                    pass
                start_seconds += clock() - began
                num_episodes += live
                half = max(len(script) for script in scripts) // 2
                for part in (slice(0, half), slice(half, None)):
                    jobs = [(env, script[part]) for env, script in episodes]
                    left = seconds - step_seconds
                    began = clock()
                    if inline:
                        num_steps += in_turns(jobs)
                    else:
                        num_steps += sum(threads.map(partial(act_until, began + left), jobs))
                    step_seconds += clock() - began
                    if held is None:
                        held = memory(process) - before
            finally:
                for env, _ in episodes:
                    env.close()
    return {
        "num_steps": num_steps,
        "num_tasks": len(tasks),
        "steps_per_second": num_steps / step_seconds,
        "start_ms": 1e3 * start_seconds / num_episodes,
        "memory_mb": (held or 0) / 2**20,
    }


def is_inline(task: Any) -> bool:
    from tutelage.envs.registry import make_env

    env = make_env(task)
    env.close()
    return env.inline


def expert_actions(task: Any) -> list[Any]:
    from tutelage.envs.registry import make_env
    from tutelage.policies.registry import USUAL, make_expert
    from tutelage.rollout.episode import run_episode
    from tutelage.rollout.switch import ExpertOnly
    from tutelage.types import Actor

    expert = make_expert(USUAL, env=task.env)
    played = run_episode(task, make_env(task), {Actor.EXPERT: expert}, ExpertOnly(), seed=0)
    return [step.action for step in played.steps]


def in_turns(episodes: Sequence[tuple[Any, Sequence[Any]]]) -> int:
    """One step of each episode in turn, as long as there are actions. Returns the number of steps."""
    num_steps = 0
    for index in range(max(len(script) for _, script in episodes)):
        for env, script in episodes:
            if index < len(script):
                env.step(script[index])
                env.admissible()
                num_steps += 1
    return num_steps


def act_until(deadline: float, job: tuple[Any, Sequence[Any]]) -> int:
    """The steps of one episode, until the clock says that it is enough; at least one."""
    env, script = job
    num_steps = 0
    for action in script:
        env.step(action)
        env.admissible()
        num_steps += 1
        if time.perf_counter() > deadline:
            break
    return num_steps


def memory(process: Any) -> int:
    """Resident bytes of a process and its children."""
    gc.collect()
    return sum(one.memory_info().rss for one in (process, *process.children(recursive=True)))


# Output


def row_text(row: dict[str, Any]) -> str:
    if "missing" in row:
        return f"| {row['label']} | {row['live']} | - | - | - | {row['missing']} |"
    speed = row["steps_per_second"]
    shown = f"{speed:,.0f}" if speed >= 100 else f"{speed:.1f}"
    start = row["start_ms"]
    took = f"{start:,.0f}" if start >= 100 else f"{start:.2g}"
    return f"| {row['label']} | {row['live']} | {shown} | {took} | {row['memory_mb']:,.0f} | |"


def table(result: dict[str, Any]) -> str:
    lines = [
        "# Environments: steps per second and memory",
        "",
        f"Command: `{result['command']}`  ",
        f"Machine: {result['machine']}",
        "",
        "The actions of the scripted expert, one step of each live episode in turn; a fresh process for each row. `start`",
        "is making and resetting one episode. Memory is above that of the process before it loaded the environment, children",
        "included, and holds the world, the code and all live episodes. household, shop and search compute on one thread (CPU time);",
        "alfworld, repo and python work in processes of their own, played by up to 16 threads (real time).",
        "",
        "| environment | live episodes | steps/s | start ms | memory MB |",
        "|---|---|---|---|---|",
        *(row_text(row).removesuffix(" |") for row in result["rows"]),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
