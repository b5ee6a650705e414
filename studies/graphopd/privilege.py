"""Which privileged context makes a tiny student that was told more a better policy, without hurting the one that was not?

    OMP_NUM_THREADS=1 python studies/graphopd/privilege.py --cache CACHE [--arms own walk] [--seeds 0]

Every arm trains the student of the package on the same 500 expert episodes, 1.8 M tokens in all, and, but for `plain`, on
as many episodes with a plan before them. Each row is one arm and seed; rows that are there are not made again.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tutelage.evaluation.compare import mcnemar_exact
from tutelage.evaluation.metrics import wilson
from tutelage.evaluation.run import evaluate, result_of
from tutelage.policies.base import Policy
from tutelage.policies.experts.household import HouseholdExpert
from tutelage.policies.experts.household_planner import PlannerPolicy
from tutelage.policies.local import LocalPolicy
from tutelage.policies.privileged import Plan, PrivilegedPolicy, with_privileged_context
from tutelage.rendering.load import load_renderer
from tutelage.rollout.runner import make_jobs, run_rollouts
from tutelage.rollout.switch import ExpertOnly, SwitchRule, UniformStep
from tutelage.students import student_path
from tutelage.supervision.samples import build_all_samples
from tutelage.supervision.step_masks import STEP_MASKS
from tutelage.tasks.registry import load_tasks
from tutelage.training.augment import ObjectRenaming
from tutelage.training.config import SFTConfig
from tutelage.training.sft import train_sft
from tutelage.types import Actor, Task, Trajectory, stable_hash

START = student_path("builtin:household_tiny")
NUM_EPISODES = 500
TOKENS = 1_800_000
PANEL = 204
MAX_STEPS = 40
GAMES_PER_SEED = 20_000
RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Arm:
    """How the episodes with a plan are made."""

    source: str
    """Of the plan: ``expert`` or ``shortest``."""
    player: str
    """Who plays the informed episodes: the text-only ``expert``, or the ``planner`` that knows the state."""
    lost_steps: int = 0
    """An untrained student plays up to so many steps first; only what comes after is trained."""
    plain_lost_steps: int = 0
    """The same for the episodes without a plan."""
    share: float = 1.0
    """Episodes with a plan for each without."""


ARMS = {
    "plain": None,
    "own": Arm("expert", "expert"),
    "hint": Arm("shortest", "expert"),
    "walk": Arm("shortest", "planner"),
    "own_lost": Arm("expert", "expert", lost_steps=10),
    "walk_lost": Arm("shortest", "planner", lost_steps=10),
    "walk_lost_third": Arm("shortest", "planner", lost_steps=10, share=0.5),
    "plain_lost": Arm("expert", "expert", plain_lost_steps=10, share=0.0),
    "both_lost": Arm("shortest", "planner", lost_steps=10, plain_lost_steps=10),
}


def games(seed: int, split: str = "train", count: int = NUM_EPISODES) -> list[Task]:
    start = seed * GAMES_PER_SEED if split == "train" else 0
    return load_tasks("household", split, start, count, size="small", max_steps=MAX_STEPS)


def collect(tasks: Sequence[Task], player: str, lost_steps: int, seed: int) -> list[Trajectory]:
    """Won episodes of a player, from the start or from where an untrained student left them."""
    expert: Policy = HouseholdExpert(search="list") if player == "expert" else PlannerPolicy()
    policies: dict[Actor, Policy] = {Actor.EXPERT: expert}
    rule: SwitchRule = ExpertOnly()
    if lost_steps:
        policies[Actor.STUDENT] = LocalPolicy(START, temperature=1.0, seed=seed, num_threads=1)
        rule = UniformStep(0, lost_steps)
    played = run_rollouts(make_jobs(tasks, seed=seed), policies=policies, rule=rule, concurrency=128).trajectories
    return [one for one in played if one.terminated and one.reward == 1.0 and one.num_expert_steps]


def train(name: str, arm: Arm | None, seed: int, out: Path) -> dict[str, Any]:
    renderer = load_renderer(START)
    tasks = games(seed)
    plain, _ = build_all_samples(
        collect(tasks, "expert", arm.plain_lost_steps if arm else 0, seed), STEP_MASKS["expert_steps"], renderer
    )
    informed = []
    if arm is not None and arm.share:
        plan = Plan(arm.source, expert=HouseholdExpert(search="list") if arm.source == "expert" else None)
        texts = {task.task_id: plan.text(task) for task in tasks}
        told = tasks[: int(len(tasks) * arm.share)]
        episodes = [
            with_privileged_context(one, text)
            for one in collect(told, arm.player, arm.lost_steps, seed)
            for text in [texts[one.task_id]]
            if text is not None
        ]
        informed, _ = build_all_samples(episodes, STEP_MASKS["expert_steps"], renderer)
    config = SFTConfig(
        budget=TOKENS, budget_unit="total_tokens", batch_size=8, learning_rate=2e-3,
        seed=stable_hash(seed, name) % 2**31, num_threads=1,
    )  # fmt: skip
    result = train_sft(START, [*plain, *informed], config, out, augmentation=ObjectRenaming(START))
    sizes = [sum(len(sample.token_ids) for sample in part) for part in (plain, informed)]
    return {
        "episodes": [len(plain), len(informed)],
        "tokens_in_data": sizes,
        "tokens_seen": [round(result.total_tokens * size / sum(sizes)) for size in sizes],
        "seconds": round(result.seconds, 1),
    }


def measure(model: Path, arm: Arm | None, seed: int) -> dict[str, Any]:
    """Outcomes on the unseen games: plain, informed, and informed from where the plain student stood."""
    panel = games(0, "test", PANEL)
    plan = None if arm is None or not arm.share else Plan(
        arm.source, expert=HouseholdExpert(search="list") if arm.source == "expert" else None  # type: ignore[arg-type]
    )  # fmt: skip
    row: dict[str, Any] = {}
    for play, temperature in (("greedy", 0.0), ("sampled", 0.4)):
        plain = LocalPolicy(model, temperature=temperature, seed=seed, num_threads=1)
        row[f"plain_{play}"] = outcomes(evaluate(plain, panel, name=play, seed=seed, concurrency=128)[0].outcomes)
        if plan is None:
            continue
        told = PrivilegedPolicy(LocalPolicy(model, temperature=temperature, seed=seed, num_threads=1), plan)
        row[f"told_{play}"] = outcomes(evaluate(told, panel, name=play, seed=seed, concurrency=128)[0].outcomes)
        if play == "sampled":
            played = run_rollouts(
                make_jobs(panel, seed=seed), policies={Actor.STUDENT: plain, Actor.EXPERT: told},
                rule=UniformStep(0, 20), concurrency=128,
            ).trajectories  # fmt: skip
            row["takes_over"] = outcomes(result_of(played, name="takes_over").outcomes)
    return row


def outcomes(by_task: Any) -> str:
    return "".join("1" if by_task[task] else "0" for task in sorted(by_task))


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Shares of the panel with 95 % intervals; p: told against plain, sampled, exact McNemar."""
    head = (
        "arm",
        "seeds",
        "plain greedy",
        "plain T .4",
        "told greedy",
        "told T .4",
        "takes over T .4",
        "p",
        "plain tokens",
    )
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for name in ARMS:
        mine = [row for row in rows if row["arm"] == name]
        if not mine:
            continue
        cells = [name, str(len(mine))]
        for key in ("plain_greedy", "plain_sampled", "told_greedy", "told_sampled", "takes_over"):
            joined = "".join(row.get(key, "") for row in mine)
            share = wilson(joined.count("1"), len(joined))
            cells.append(f"{share.estimate:.1%} [{share.low:.1%}, {share.high:.1%}]" if joined else "")
        pairs = [
            pair
            for row in mine
            if "told_sampled" in row
            for pair in zip(row["plain_sampled"], row["told_sampled"], strict=True)
        ]
        p = mcnemar_exact(pairs.count(("1", "0")), pairs.count(("0", "1")))
        cells += [f"{p:.1e}" if pairs else "", f"{sum(row['tokens_seen'][0] for row in mine) / len(mine):,.0f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


COLUMNS = """
All figures are shares of 204 unseen games that were won, with Wilson's 95 % interval.

- plain: the student as it will act; told: the same weights with the plan before the first observation.
- takes over: plain for 0 to 20 steps (uniform), then told. The told student meets states that the plain one made, as a teacher does.
- p: told from the start against plain, both sampled, exact McNemar. plain tokens: tokens seen without a plan, of 1.8 M.
- own, own_lost: the plan is what the text-only expert does, and it plays. hint: the expert plays, the plan is a shortest one.
  walk, walk_lost: the planner plays, the plan is a shortest one. lost: before it does, an untrained student makes 0 to 10 steps,
  which are not trained. third: a third of the episodes have a plan, else half.

For comparison, the same student without any plan in its data, on the same games: about 30 % (`studies/corrections`, five seeds).
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", type=Path, required=True, help="folder for trained students")
    parser.add_argument("--arms", nargs="+", default=list(ARMS), choices=list(ARMS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    options = parser.parse_args()
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / "privilege.jsonl"
    for seed in options.seeds:
        for name in options.arms:
            rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
            if any(row["arm"] == name and row["seed"] == seed for row in rows):
                continue
            model = options.cache / f"{name}-seed{seed}"
            row = {
                "arm": name,
                "seed": seed,
                **train(name, ARMS[name], seed, model),
                **measure(model, ARMS[name], seed),
            }
            with path.open("a") as file:
                file.write(json.dumps(row) + "\n")
            write_table(path)
    write_table(path)


def write_table(path: Path) -> None:
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    (RESULTS / "privilege.md").write_text(f"{__doc__}\n{COLUMNS}\n{table(rows)}")
    print(table(rows), flush=True)


if __name__ == "__main__":
    main()
