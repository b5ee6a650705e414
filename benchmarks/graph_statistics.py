"""What the dependency graphs of each environment look like: episodes of the expert, and random ones.

    OMP_NUM_THREADS=1 python benchmarks/graph_statistics.py
    OMP_NUM_THREADS=1 python benchmarks/graph_statistics.py --env shop --episodes 24

Footprints are read from the texts. The random player is the one that warms up students of the environment, and where it has
none, one that draws from the actions of the expert in the other tasks; one reply in ten is malformed; at most 25 steps. Figures
are means over episodes, as a run logs them (`supervision.graph_statistics`). Rows that were not measured anew are kept.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from machine import machine
from tutelage.analysis.episode_graph import structural_way
from tutelage.envs.registry import find_environment, load_place, make_env
from tutelage.evaluation.env_check.play import MALFORMED, Player, Recording, Seen, of_policy, play
from tutelage.policies.base import PartialTrajectory
from tutelage.policies.random_players import RandomPlayer, any_admissible
from tutelage.policies.registry import USUAL, make_expert
from tutelage.supervision.aptitude import step_aptitude
from tutelage.supervision.dependency_graph import build_graph
from tutelage.supervision.footprints import footprints_of
from tutelage.supervision.graph_statistics import graph_statistics, round_statistics
from tutelage.supervision.step_credit import choose_steps
from tutelage.tasks.registry import load_tasks
from tutelage.types import Action, Task, stable_hash

RESULTS = Path(__file__).parent / "results"
RANDOM_STEPS = 25
EXPERT_STEPS = 100
COLUMNS = {
    "graph/num_nodes": "steps",
    "graph/num_edges": "edges",
    "graph/density": "density",
    "graph/num_isolated": "without an edge",
    "graph/keys_per_edge": "keys per edge",
    "graph/max_stationary": "largest weight",
}


@dataclass(frozen=True)
class Case:
    """Where episodes are played."""

    label: str
    env: str
    options: dict[str, Any] = field(default_factory=dict)
    max_episodes: int = 1000
    """Where a step takes long."""


# alfworld says what household says, so its graphs are the same.
CASES = (
    Case("household, small", "household", {"size": "small"}),
    Case("household, real size", "household", {"size": "real"}),
    Case("shop", "shop"),
    Case("search", "search"),
    Case("repo", "repo", max_episodes=8),
    Case("python", "python"),
)


def rows_of(case: Case, num_episodes: int) -> list[dict[str, Any]]:
    tasks = load_tasks(case.env, "train", count=min(num_episodes, case.max_episodes), **case.options)
    expert = of_policy(make_expert(USUAL, env=case.env))
    played = [episode("expert", expert, task, EXPERT_STEPS) for task in tasks]
    rows = [row_of(case, "expert", played)]
    drawn = []
    for task in tasks:
        others = [action for one in played if one.task is not task for action in one.actions]
        drawn.append(episode("random", at_random(case.env, others), task, RANDOM_STEPS))
    rows.append(row_of(case, "random", drawn))
    return rows


def episode(name: str, player: Player, task: Task, cap: int) -> Recording:
    return play(name, player, make_env(task), task, cap=cap)


def at_random(env_name: str, pool: Sequence[Action]) -> Player:
    """The environment's random player, one reply in ten malformed. pool: what is drawn from where it names none."""
    spec = find_environment(env_name)
    player: RandomPlayer = load_place(spec.random_player) if spec.random_player else any_admissible

    def choose(so_far: PartialTrajectory, now: Seen) -> Action:
        rng = random.Random(stable_hash("graph statistics", so_far.task.task_id, len(so_far.steps)))
        if rng.random() < 0.1:
            return MALFORMED
        if now.admissible is None and spec.random_player is None:
            return rng.choice(pool)
        return Action.of(player(so_far, now.admissible, rng))

    return choose


def row_of(case: Case, player: str, played: Sequence[Recording]) -> dict[str, Any]:
    config, mask = structural_way("graphopd")
    figures = []
    for one in played:
        graph = build_graph(footprints_of(one.trajectory()))
        aptitude = step_aptitude(graph, None, config)
        same = [1] * graph.num_steps
        chosen = choose_steps(aptitude, [True] * graph.num_steps, same, mask)
        figures.append(graph_statistics(graph, aptitude, chosen, same))
    means = round_statistics(figures)
    return {
        "label": case.label,
        "player": player,
        "num_episodes": len(played),
        "reward": fmean(one.reward or 0.0 for one in played),
        **{name: means.get(name) for name in COLUMNS},
    }


def table(result: dict[str, Any]) -> str:
    lines = [
        "# Dependency graphs by environment",
        "",
        f"Command: `{result['command']}`  ",
        f"Machine: {result['machine']}",
        "",
        "Means over episodes on generated tasks; footprints from texts, the last writer of a key counts. Density: edges over",
        "pairs of steps. Largest weight: of one step in the random walk. alfworld has the graphs of household.",
        "",
        f"| environment | player | episodes | reward | {' | '.join(COLUMNS.values())} |",
        "|" + "---|" * (4 + len(COLUMNS)),
    ]
    for row in result["rows"]:
        figures = [format_figure(name, row[name]) for name in COLUMNS]
        lines.append(
            f"| {row['label']} | {row['player']} | {row['num_episodes']} | {row['reward']:.2f} | {' | '.join(figures)} |"
        )
    return "\n".join(lines) + "\n"


def format_figure(name: str, value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}" if name in ("graph/density", "graph/max_stationary") else f"{value:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--env", action="append", default=[], help="only this environment, may be given more than once")
    parser.add_argument("--episodes", type=int, default=24, help="of each player in each environment")
    arguments = parser.parse_args()
    measured = []
    for case in CASES:
        if not arguments.env or case.env in arguments.env:
            measured += rows_of(case, arguments.episodes)
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / "graph_statistics.json"
    stored = json.loads(path.read_text())["rows"] if path.exists() else []
    found = {(row["label"], row["player"]): row for row in (*stored, *measured)}
    order = [(case.label, player) for case in CASES for player in ("expert", "random")]
    result = {
        "command": f"OMP_NUM_THREADS=1 python benchmarks/graph_statistics.py --episodes {arguments.episodes}",
        "machine": machine(),
        "rows": [found[key] for key in order if key in found],
    }
    path.write_text(json.dumps(result, indent=1) + "\n")
    text = table(result)
    (RESULTS / "graph_statistics.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
