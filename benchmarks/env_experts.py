"""How often the expert of each environment solves unseen generated tasks, alone and after random steps of somebody else.

    OMP_NUM_THREADS=1 python benchmarks/env_experts.py [--env shop]

Household's expert has its own benchmark (household_expert.py). Writes benchmarks/results/env_experts.md.
"""

from __future__ import annotations

import argparse
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tutelage as t
from machine import machine
from tutelage.envs.registry import make_env
from tutelage.policies.base import PartialTrajectory, SingleActPolicy
from tutelage.policies.random_players import random_player_of
from tutelage.types import Action, stable_hash

RESULTS = Path(__file__).parent / "results" / "env_experts.md"


@dataclass(frozen=True)
class Case:
    """One line of the table."""

    env: str
    count: int
    options: dict[str, Any] = field(default_factory=dict)
    random_steps: int = 0


CASES = (
    Case("shop", 400),
    Case("shop", 400, {"page_size": 3}),
    Case("shop", 400, {"goals": "any"}),
    Case("shop", 400, {"max_steps": 25}, random_steps=8),
    Case("search", 400),
    Case("search", 400, {"size": "large"}),
    Case("search", 400, {"hops": [2], "max_steps": 5}, random_steps=1),
    Case("python", 150),
    Case("python", 150, {"max_steps": 8}, random_steps=1),
    Case("repo", 15),
)


class RandomPolicy(SingleActPolicy):
    """The random player of an environment, as a policy."""

    name = "random"
    version = "random-1"

    def act(self, so_far: PartialTrajectory) -> Action:
        env = make_env(so_far.task)
        try:
            env.reset(so_far.task.seed)
            for step in so_far.steps:
                env.step(step.action)
            player = random_player_of(so_far.task.env, env)
            rng = random.Random(stable_hash("stray", so_far.seed, len(so_far.steps)))
            return Action.of(player(so_far, env.admissible(), rng))
        finally:
            env.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", nargs="+", help="only these")
    wanted = parser.parse_args().env
    lines = []
    for case in CASES:
        if not wanted or case.env in wanted:
            lines.append(row(case))
            print(lines[-1], flush=True)
    if not wanted:
        head = (
            "# Experts on unseen generated tasks\n\nCommand: `OMP_NUM_THREADS=1 python benchmarks/env_experts.py`  \n"
            f"{machine()}\n\nTasks of the test split. Episodes that the random steps ended are left out and counted.\n\n"
            "| environment | options | random steps before | ended by them | solved | mean steps of the expert |\n"
            "|---|---|---|---|---|---|\n"
        )
        RESULTS.write_text(head + "\n".join(lines) + "\n", encoding="utf-8")


def row(case: Case) -> str:
    tasks = t.load_tasks(case.env, "test", count=case.count, **case.options)
    rule = t.make_rule("at_step", k=case.random_steps) if case.random_steps else t.make_rule("expert_only")
    policies = {t.Actor.STUDENT: RandomPolicy(), t.Actor.EXPERT: t.make_expert("scripted", env=case.env)}
    played = t.run_rollouts(t.make_jobs(tasks), policies=policies, rule=rule, concurrency=4).trajectories
    reached = [one for one in played if one.num_expert_steps]
    solved = sum(one.reward == 1.0 for one in reached)
    steps = sum(one.num_expert_steps for one in reached) / len(reached)
    options = ", ".join(f"{key} {value}" for key, value in case.options.items()) or "-"
    return (
        f"| {case.env} | {options} | {case.random_steps or '-'} | {len(played) - len(reached)} | "
        f"{solved} of {len(reached)} | {steps:.1f} |"
    )


if __name__ == "__main__":
    main()
