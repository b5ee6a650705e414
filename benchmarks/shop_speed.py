"""Speed and memory of the shop: steps per second, search time, and what 1, 16 and 256 live shops cost.

    python benchmarks/shop_speed.py

Steps: the expert's commands of test tasks, recorded first and then played in fresh shops, round after round; each step
fetches the page and the admissible commands. `all searches new` forgets every search before it is made again, so that
none is answered from those kept; `as in a rollout` keeps them. Memory: resident memory of a process of its own per
number of shops, all live at a product's page, over that of the process before the catalogue was made.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from machine import machine
from tutelage.envs.shop.catalogue import Catalogue
from tutelage.envs.shop.env import ShopEnv, catalogue_of
from tutelage.policies.base import PartialTrajectory
from tutelage.policies.experts.shop import ShopExpert
from tutelage.tasks.shop import ShopTasks
from tutelage.types import Action, Actor, Step, Task

RESULTS = Path(__file__).parent / "results"
LIVE = (1, 16, 256)


def expert_commands(task: Task) -> tuple[float, list[Action]]:
    env, expert = ShopEnv(task), ShopExpert()
    observation, steps = env.reset(0), []
    while True:
        so_far = PartialTrajectory(
            trajectory_id=task.task_id, task=task, steps=tuple(steps), observation=observation, seed=0
        )
        action = expert.act(so_far)
        result = env.step(action)
        steps.append(Step(observation=observation, action=action, actor=Actor.EXPERT))
        observation = result.observation
        if result.terminated or result.truncated:
            return env.reward(), [step.action for step in steps]


def play(tasks: list[Task], actions: list[list[Action]], before: Callable[[], None]) -> float:
    """Steps per second over all tasks, construction and reset included."""
    began = time.perf_counter()
    for task, commands in zip(tasks, actions, strict=True):
        before()
        env = ShopEnv(task)
        env.reset(0)
        for action in commands:
            env.step(action)
            env.admissible()
        env.close()
    return sum(map(len, actions)) / (time.perf_counter() - began)


def search_ms(catalogue: Catalogue, queries: list[str]) -> list[float]:
    """Milliseconds of each search, none answered from those kept."""
    taken = []
    for query in queries:
        catalogue.forget_searches()
        began = time.perf_counter()
        catalogue.search(query)
        taken.append((time.perf_counter() - began) * 1e3)
    return taken


def resident_mb() -> float:
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def hold(num_live: int, num_products: int) -> dict[str, float]:
    """Memory of that many live shops, in this process."""
    import bm25s  # noqa: F401  the package itself is no part of a catalogue
    import thefuzz.fuzz  # noqa: F401

    empty = resident_mb()
    tasks = ShopTasks(num_products=num_products).load("train", 0, num_live)
    # The first search makes the index, which belongs to the catalogue.
    catalogue_of(tasks[0].settings).search("rug")
    made = resident_mb()
    envs = [ShopEnv(task) for task in tasks]
    for env in envs:
        env.reset(0)
        env.step(Action.of(f"search[{env.goal.instruction}]"))
        env.step(Action.of(env.admissible()[2]))
    return {"live": len(envs), "catalogue_mb": made - empty, "shops_mb": resident_mb() - made}


def measure(num_products: int, num_tasks: int, rounds: int) -> dict:
    tasks = ShopTasks(num_products=num_products).load("test", 0, num_tasks)
    scores, actions = zip(*map(expert_commands, tasks), strict=True)
    catalogue = catalogue_of(tasks[0].settings)
    fresh = [play(tasks, list(actions), catalogue.forget_searches) for _ in range(rounds)]
    kept = [play(tasks, list(actions), lambda: None) for _ in range(rounds)]
    queries = [commands[0].command[len("search[") : -1] for commands in actions]
    taken = sorted(search_ms(catalogue, queries))
    began = time.perf_counter()
    for task in tasks:
        expert_commands(task)
    expert = sum(map(len, actions)) / (time.perf_counter() - began)
    return {
        "num_products": num_products,
        "num_tasks": num_tasks,
        "num_steps": sum(map(len, actions)),
        "expert_mean_score": statistics.mean(scores),
        "expert_success": sum(score == 1.0 for score in scores) / len(scores),
        "expert_mean_steps": sum(map(len, actions)) / len(tasks),
        "steps_per_second": {"fresh": statistics.median(fresh), "kept": statistics.median(kept), "expert": expert},
        "search_ms": {"median": statistics.median(taken), "p95": taken[int(0.95 * len(taken))]},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--num-products", type=int, default=1000)
    parser.add_argument("--num-tasks", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--hold", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.hold:
        print(json.dumps(hold(arguments.hold, arguments.num_products)))
        return

    result = measure(arguments.num_products, arguments.num_tasks, arguments.rounds)
    result["memory"] = [
        json.loads(
            subprocess.run(
                [sys.executable, __file__, "--hold", str(live), "--num-products", str(arguments.num_products)],
                capture_output=True, text=True, check=True,
            ).stdout
        )
        for live in LIVE
    ]  # fmt: skip
    result["machine"] = machine("bm25s", "thefuzz")
    text = table(result)
    print(text)
    RESULTS.mkdir(exist_ok=True)
    name = "shop_speed" if arguments.num_products == 1000 else f"shop_speed_{arguments.num_products}"
    (RESULTS / f"{name}.md").write_text(text)


def table(result: dict) -> str:
    speed, search = result["steps_per_second"], result["search_ms"]
    size = "" if result["num_products"] == 1000 else f" --num-products {result['num_products']}"
    rows = [
        "# Shop: steps per second, search, memory",
        "",
        f"Command: `python benchmarks/shop_speed.py{size}`  ",
        f"Machine: {result['machine']}  ",
        f"{result['num_products']:,} products, {result['num_tasks']} test tasks, {result['num_steps']} steps of the expert "
        f"(mean score {result['expert_mean_score']:.3f}, {result['expert_success']:.1%} with score 1.0, "
        f"{result['expert_mean_steps']:.2f} steps). Each step fetches page and admissible commands; making, starting and "
        "closing the shops is within the time.",
        "",
        "| | steps/s |",
        "|---|---|",
        f"| all searches new | {speed['fresh']:,.0f} |",
        f"| as in a rollout, searches kept | {speed['kept']:,.0f} |",
        f"| with the expert deciding | {speed['expert']:,.0f} |",
        "",
        f"Search: {search['median']:.3f} ms median, {search['p95']:.3f} ms at the 95th percentile.",
        "",
        "| live shops | catalogue with its index, MB | all shops on top, MB |",
        "|---|---|---|",
        *(f"| {row['live']} | {row['catalogue_mb']:.1f} | {row['shops_mb']:.1f} |" for row in result["memory"]),
    ]
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    main()
