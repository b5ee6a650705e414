"""The pieces of one chain: collect, train, evaluate. Everything lands in a cache folder, so that an interrupted chain
goes on where it was, and arms that share data or a student share the work.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from arms import Setting

from tutelage.evaluation.metrics import count_no_effect_commands
from tutelage.evaluation.run import EvaluationResult, evaluate
from tutelage.policies.experts.household import HouseholdExpert
from tutelage.policies.local import LocalPolicy
from tutelage.rendering.load import load_renderer
from tutelage.rollout.runner import make_jobs, run_rollouts
from tutelage.rollout.switch import ExpertOnly, SwitchRule
from tutelage.selection.filters import Filter, HasExpertSteps, NoRepetition, Solved
from tutelage.selection.ledger import select
from tutelage.store import RecordStore
from tutelage.supervision.samples import build_all_samples
from tutelage.supervision.step_masks import STEP_MASKS
from tutelage.tasks.registry import load_tasks
from tutelage.training.augment import ObjectRenaming
from tutelage.training.config import SFTConfig
from tutelage.training.sft import train_sft
from tutelage.types import Actor, Trajectory, stable_hash

START = "builtin:household_tiny"
LEARNING_RATE = 2e-3
ARM_LEARNING_RATE = 1e-3
BATCH_SIZE = 8
GAMES_PER_SEED = 20_000
"""Seed s plays train games from s * GAMES_PER_SEED on, so that seeds share no game."""
DRAW_FACTOR = 1.7
"""Corrections are drawn for so many times the wanted number of games, since some episodes end before the switch."""


@dataclass(frozen=True)
class Data:
    """A part of a training set: trajectories and whose steps are trained."""

    trajectories: tuple[Trajectory, ...]
    mask: str = "expert_steps"

    @property
    def num_expert_steps(self) -> int:
        return sum(one.num_expert_steps for one in self.trajectories)

    @property
    def num_student_steps(self) -> int:
        return sum(one.num_student_steps for one in self.trajectories)


class Lab:
    """One setting and one seed."""

    def __init__(self, setting: Setting, seed: int, cache: Path) -> None:
        self.setting = setting
        self.seed = seed
        self.cache = cache
        # A student depends only on these, so parts of the study that differ elsewhere share it.
        world = f"{setting.size}-{setting.max_steps}"
        student = f"n{setting.num_episodes}-{setting.student_tokens}" + f"-corrected{setting.rounds_before}" * bool(
            setting.rounds_before
        )
        self.shared = cache / world / student / f"seed{seed}"
        self.own = self.shared / f"arms-{setting.arm_tokens}"
        self.expert = HouseholdExpert(search="list" if setting.size == "small" else "auto")

    # Data

    def tasks(self, start: int, count: int) -> list[Any]:
        return load_tasks(
            "household", "train", self.seed * GAMES_PER_SEED + start, count,
            size=self.setting.size, max_steps=self.setting.max_steps,
        )  # fmt: skip

    def imitation(self, start: int, count: int) -> Data:
        """Expert episodes of games start, start + 1, ...: the first `count` that pass the filters."""
        jobs = make_jobs(self.tasks(start, count), seed=self.seed)
        played = run_rollouts(jobs, policies={Actor.EXPERT: self.expert}, rule=ExpertOnly()).trajectories
        kept = select(played, filters("trained", author=Actor.EXPERT)).kept
        if len(kept) < count:
            raise SystemExit(f"{self.setting.name}: the expert won only {len(kept)} of {count} games")
        return Data(tuple(kept))

    def draw(self, model: Path, rule: SwitchRule, start: int, count: int, name: str) -> list[Trajectory]:
        """Episodes of the student under a switch rule, unfiltered, in the order of the games."""
        path = self.shared / "draws" / f"{name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        store = RecordStore(path, "trajectory")
        jobs = make_jobs(self.tasks(start, count), seed=self.seed)
        policy = LocalPolicy(model, temperature=self.setting.temperature, seed=self.seed, num_threads=1)
        policies = {Actor.STUDENT: policy, Actor.EXPERT: self.expert}
        return list(run_rollouts(jobs, policies=policies, rule=rule, store=store, concurrency=128).trajectories)

    # Training

    def train(self, start: Path, parts: Sequence[Data], tokens: int, out: Path, learning_rate: float) -> dict[str, Any]:
        """Train on the mix; returns the account of what was learnt from."""
        renderer = load_renderer(start)
        samples = []
        for part in parts:
            made, _ = build_all_samples(part.trajectories, STEP_MASKS[part.mask], renderer)
            samples += made
        config = SFTConfig(
            budget=tokens,
            budget_unit="total_tokens",
            batch_size=BATCH_SIZE,
            learning_rate=learning_rate,
            seed=stable_hash(self.seed, out.name) % 2**31,
            num_threads=1,
        )
        result = train_sft(start, samples, config, out, augmentation=ObjectRenaming(start))
        return {
            "trajectories": sum(len(part.trajectories) for part in parts),
            "expert_steps": sum(part.num_expert_steps for part in parts),
            "student_steps": sum(part.num_student_steps for part in parts),
            "tokens_with_loss_in_data": sum(sample.num_trained_tokens for sample in samples),
            "tokens_in_data": sum(len(sample.token_ids) for sample in samples),
            "updates": result.num_updates,
            "total_tokens_seen": result.total_tokens,
            "trained_tokens_seen": result.trained_tokens,
            "seconds": round(result.seconds, 1),
        }

    # Measuring

    def measure(self, model: Path) -> dict[str, Any]:
        """Greedy and sampled play of the whole panel, the same games for every arm and seed."""
        panel = load_tasks(
            "household", "test", 0, self.setting.panel, size=self.setting.size, max_steps=self.setting.max_steps
        )
        return {
            play: summary(
                evaluate(
                    LocalPolicy(model, temperature=temperature, seed=self.seed, num_threads=1),
                    panel, name=play, seed=self.seed, concurrency=128,
                )[0]
            )
            for play, temperature in (("greedy", 0.0), ("sampled", 0.4))
        }  # fmt: skip


def filters(scope: str | None, *, author: Actor) -> list[Filter]:
    """The filters of one arm. scope: whose repetitions count, ``all`` or ``trained`` (the author's); None: nobody's."""
    chosen: list[Filter] = [Solved()]
    if author is Actor.EXPERT:
        chosen.append(HasExpertSteps())
    if scope is not None:
        chosen.append(NoRepetition(scope=scope, trained=author))
    return chosen


def take(trajectories: Iterable[Trajectory], count: int, scope: str | None, what: str) -> tuple[Data, dict[str, Any]]:
    """The first `count` kept ones, in the order of the games, with the account of what was dropped on the way."""
    trajectories = list(trajectories)
    author = Actor.EXPERT if what == "corrections" else Actor.STUDENT
    selection = select(trajectories, filters(scope, author=author))
    if len(selection.kept) < count:
        raise SystemExit(f"only {len(selection.kept)} of {len(trajectories)} {what} kept, {count} wanted")
    kept = selection.kept[:count]
    data = Data(tuple(kept), mask="expert_steps" if what == "corrections" else "student_steps")
    return data, {"drawn": len(trajectories), "kept": len(selection.kept), "used": count, **prefix_account(kept)}


def prefix_account(kept: Sequence[Trajectory]) -> dict[str, float]:
    """What the students did before the expert took over."""
    prefixes = [one for one in kept if one.num_student_steps]
    errors = [count_no_effect_commands(one, Actor.STUDENT) for one in prefixes]
    return {
        "mean_student_steps": sum(one.num_student_steps for one in kept) / max(1, len(kept)),
        "mean_expert_steps": sum(one.num_expert_steps for one in kept) / max(1, len(kept)),
        "share_with_error_in_prefix": sum(error > 0 for error in errors) / max(1, len(kept)),
        "errors_per_prefix": sum(errors) / max(1, len(kept)),
    }


def summary(result: EvaluationResult) -> dict[str, Any]:
    """What is kept of an evaluation: counts by task type, behaviour, and one outcome per game."""
    total = result.overall
    return {
        "solved": total.num_solved,
        "total": total.num_tasks,
        "unscored": total.num_unscored,
        "by_kind": {row.kind: [row.num_solved, row.num_tasks] for row in result.rows[:-1]},
        "mean_steps": round(total.mean_steps, 3),
        "no_effect_share": round(total.no_effect_share, 5),
        "loop_share": round(total.loop_share, 5),
        "outcomes": "".join("1" if result.outcomes[task] else "0" for task in sorted(result.outcomes)),
    }
