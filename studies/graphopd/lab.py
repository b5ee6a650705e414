"""The pieces of one arm: the student with plans, reinforcement learning with its teacher, the panel."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from arms import EVALUATE_EVERY, FIRST_GAME, GAMES_PER_SEED, GROUP_SIZE, PANEL, TASKS_PER_ROUND, VALIDATION, Arm
from privilege import ARMS as STUDENTS
from privilege import MAX_STEPS
from privilege import train as train_student

from tutelage.evaluation.run import EvaluationResult, evaluate
from tutelage.policies.local import LocalPolicy
from tutelage.policies.privileged import Plan
from tutelage.rendering.load import load_renderer
from tutelage.supervision.step_credit import step_weights
from tutelage.tasks.registry import load_tasks
from tutelage.training.rl import train_rl
from tutelage.training.rl_config import RLConfig
from tutelage.training.rl_update import DistillTerm
from tutelage.training.teacher_guide import GuideConfig, TeacherGuide
from tutelage.types import Task, stable_hash

STUDENT = "walk_lost"
"""How the student was made, of the arms of privilege.py: it follows a shortest plan, and plays without."""
PLAN = "shortest"
LOSS = "rkl_full"
"""The exact gradient of the reverse KL; ``k1_pg`` is its estimate from the sampled tokens."""
PLAYS = {"greedy": 0.0, "sampled": 0.4}


def student(seed: int, folder: Path) -> tuple[Path, dict[str, Any]]:
    """The imitation student of a seed, trained if it is not there, and the account of its data."""
    account = folder.with_name("student.json")
    if not account.is_file():
        told = train_student(f"{STUDENT}-{seed}", STUDENTS[STUDENT], seed, folder)
        account.write_text(json.dumps(told))
    made: dict[str, Any] = json.loads(account.read_text())
    return folder, made


def games(split: str, start: int, count: int) -> list[Task]:
    return load_tasks("household", split, start, count, size="small", max_steps=MAX_STEPS)


def reinforce(start: Path, out: Path, arm: Arm, coefficient: float, seed: int) -> dict[str, Any]:
    """Train one arm; returns its budgets, its learning curve and what was logged in every round."""
    config = RLConfig(
        num_rounds=arm.rounds,
        tasks_per_round=TASKS_PER_ROUND,
        group_size=GROUP_SIZE,
        distill_coefficient=coefficient,
        evaluate_every=EVALUATE_EVERY,
        num_threads=1,
        # The same for all arms of a seed: same games, same draws.
        seed=stable_hash("graphopd", seed) % 2**31,
    )
    guide = term = None
    if arm.step_weights is not None:
        guide = TeacherGuide(
            GuideConfig(step_weights=step_weights(arm.step_weights, **arm.settings), seed=config.seed),
            load_renderer(start),
            context=Plan(PLAN),
            temperature=config.temperature,
            context_identity={"plan": PLAN},
        )
        term = DistillTerm.of(LOSS)
    validation = games("validation", 0, VALIDATION)

    def curve(policy: LocalPolicy) -> Mapping[str, float]:
        return {
            play: evaluate(
                policy.sampling(temperature=one, seed=seed), validation, name=play, seed=seed, concurrency=128
            )[0].overall.success.estimate
            for play, one in PLAYS.items()
        }

    tasks = games("train", seed * GAMES_PER_SEED + FIRST_GAME, arm.rounds * TASKS_PER_ROUND)
    result = train_rl(start, tasks, config, out, guide=guide, distill=term, evaluate=curve)
    rounds = [json.loads(line)["values"] for line in (out / "metrics.jsonl").read_text().splitlines()]
    return {
        "curve": list(result.curve),
        "rounds": [{key: round(value, 6) for key, value in one.items()} for one in rounds],
        "budget": {
            "episodes": result.num_episodes,
            "env_steps": result.env_steps,
            "trained_tokens": result.trained_tokens,
            "teacher_tokens": result.teacher_tokens,
            "updates": result.num_updates,
            "training_seconds": result.seconds,
        },
    }


def measure_panel(model: Path, seed: int) -> dict[str, Any]:
    """Greedy and sampled play of the whole panel, the same games for every arm and seed."""
    panel = games("test", 0, PANEL)
    policy = LocalPolicy(model, seed=seed, num_threads=1)
    return {
        play: summary(
            evaluate(policy.sampling(temperature=one, seed=seed), panel, name=play, seed=seed, concurrency=128)[0]
        )
        for play, one in PLAYS.items()
    }


def summary(result: EvaluationResult) -> dict[str, Any]:
    """What is kept of an evaluation: counts by task type, behaviour, and one outcome per game."""
    total = result.overall
    return {
        "solved": total.num_solved,
        "total": total.num_tasks,
        "by_kind": {row.kind: [row.num_solved, row.num_tasks] for row in result.rows[:-1]},
        "mean_steps": round(total.mean_steps, 3),
        "no_effect_share": round(total.no_effect_share, 5),
        "outcomes": "".join("1" if result.outcomes[task] else "0" for task in sorted(result.outcomes)),
    }
