"""The loop as a whole, on a few short games: agreement of playing and learning, resume, groups, guidance, refusals."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from tutelage.envs.base import StepResult
from tutelage.envs.household.env import HouseholdEnv
from tutelage.errors import ConfigError, EnvError, StoreError, TeacherError, TrainingError
from tutelage.policies.privileged import Plan, Skills
from tutelage.rendering.load import load_renderer
from tutelage.store import read_records
from tutelage.students import student_path
from tutelage.supervision.step_credit import step_weights
from tutelage.tasks.registry import load_tasks
from tutelage.training.rl import plan_round, train_rl
from tutelage.training.rl_config import RLConfig, RLResult, RoundMetrics
from tutelage.training.rl_round import Play
from tutelage.training.rl_update import DistillTerm
from tutelage.training.teacher_guide import GuideConfig, TeacherGuide
from tutelage.types import Action, Task

START = student_path("builtin:household_tiny")
SMALL: dict[str, Any] = {
    "num_rounds": 2, "tasks_per_round": 2, "group_size": 3, "updates_per_round": 2, "learning_rate": 2e-3, "num_threads": 1,
}  # fmt: skip


def games(count: int = 3) -> list[Task]:
    return load_tasks("household", "train", 0, count, size="small", max_steps=8)


def teacher(way: str = "graphopd", *, context: Any = None, **options: Any) -> TeacherGuide:
    config = GuideConfig(step_weights=step_weights(way), **options)
    return TeacherGuide(config, load_renderer(START), context=context or Plan("shortest"))


def learn(out: Path, rows: list[RoundMetrics] | None = None, **options: Any) -> RLResult:
    settings = {**SMALL, **{key: options.pop(key) for key in list(options) if key in RLConfig.__dataclass_fields__}}
    on_round = options.pop("on_round", (rows if rows is not None else []).append)
    return train_rl(START, options.pop("tasks", games()), RLConfig(**settings), out, on_round=on_round, **options)


def weights(out: Path) -> bytes:
    return (out / "model.safetensors").read_bytes()


def figures(out: Path) -> list[dict[str, float]]:
    """Metrics of every round, without what a clock measured."""
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in row["values"].items() if not key.startswith("time/")} for row in rows]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training without a teacher."""
    out = tmp_path_factory.mktemp("rl") / "plain"
    learn(out)
    return out


@pytest.fixture(scope="module")
def guided(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One with a teacher at the steps that graph and divergence choose."""
    out = tmp_path_factory.mktemp("rl") / "guided"
    learn(out, distill_coefficient=0.1, guide=teacher(), distill=DistillTerm.of("k1_pg"))
    return out


def test_playing_and_learning_agree_in_every_round(plain: Path) -> None:
    """The first ratio is 1 after updates too, so the policy plays with the weights that are trained."""
    assert [row["pg/first_ratio"] for row in figures(plain)] == pytest.approx([1.0, 1.0], abs=1e-4)
    before, after = load_file(START / "model.safetensors"), load_file(plain / "model.safetensors")
    assert any((before[name].float() - after[name].float()).abs().max() > 1e-4 for name in before)


def test_the_account_of_a_training(plain: Path) -> None:
    summary = json.loads((plain / "training.json").read_text())["result"]
    rows = figures(plain)
    assert summary["num_episodes"] == 12
    assert summary["num_updates"] == 4
    assert summary["env_steps"] == sum(round(row["rollout/steps"] * 6) for row in rows)
    assert summary["trained_tokens"] == sum(row["rollout/policy_tokens"] for row in rows)
    assert summary["teacher_tokens"] == 0
    assert not (plain / "rounds").exists()


def test_a_coefficient_of_0_is_grpo_bit_for_bit(plain: Path, tmp_path: Path) -> None:
    learn(tmp_path / "out", guide=teacher(), distill=DistillTerm.of("k1_pg"))
    assert weights(tmp_path / "out") == weights(plain)


def test_a_teacher_changes_what_is_learnt(plain: Path, guided: Path) -> None:
    assert weights(guided) != weights(plain)
    row = figures(guided)[0]
    assert 0 < row["distill/taught_share"] < 1
    assert row["distill/masked_tokens"] == 0
    assert row["teacher/failed_steps"] == 0
    assert row["graph/num_nodes"] == pytest.approx(row["rollout/steps"])


class Stop(Exception):
    """Ends a training from within, as a killed process would."""


@pytest.mark.parametrize("refresh", ["fixed", "every_n", "ema"])
def test_a_training_that_was_cut_off_ends_as_an_unbroken_one(tmp_path: Path, refresh: Any) -> None:
    options: dict[str, Any] = {"distill_coefficient": 0.1, "distill": DistillTerm.of("k1_pg"), "num_rounds": 3}
    follow: dict[str, Any] = {"refresh": refresh, "every_n": 1, "tau": 0.5}
    learn(tmp_path / "whole", guide=teacher(**follow), **options)

    def stop(row: RoundMetrics) -> None:
        if row.round_index == 1:
            raise Stop

    with pytest.raises(Stop):
        learn(tmp_path / "cut", guide=teacher(**follow), on_round=stop, **options)
    rows: list[RoundMetrics] = []
    learn(tmp_path / "cut", rows, guide=teacher(**follow), **options)
    assert [row.round_index for row in rows] == [2]
    assert weights(tmp_path / "cut") == weights(tmp_path / "whole")
    assert figures(tmp_path / "cut") == figures(tmp_path / "whole")


class CutOff(HouseholdEnv):
    """Ends the whole training with the fourth game that it starts."""

    started = 0

    def reset(self, seed: int) -> Any:
        CutOff.started += 1
        if CutOff.started == 4:
            raise KeyboardInterrupt
        return super().reset(seed)


def test_episodes_of_a_round_that_was_cut_off_are_not_played_again(plain: Path, tmp_path: Path) -> None:
    CutOff.started = 0
    with pytest.raises(KeyboardInterrupt):
        learn(tmp_path / "out", play=Play(make_env=CutOff), concurrency=1)
    played = list(read_records(tmp_path / ".out.training" / "rounds" / "00000.jsonl", "trajectory"))
    assert [one.stop_reason.value for one in played][:3] == ["max_steps"] * 3
    counted = CutOff.started
    learn(tmp_path / "out", play=Play(make_env=CutOff), concurrency=1)
    assert CutOff.started - counted == 9
    # One game at a time instead of all at once: the same draws, but other sums of floats.
    assert [row["rollout/steps"] for row in figures(tmp_path / "out")] == [
        row["rollout/steps"] for row in figures(plain)
    ]


def test_a_finished_training_is_not_done_again(plain: Path) -> None:
    rows: list[RoundMetrics] = []
    result = learn(plain, rows)
    assert rows == []
    assert result.num_episodes == 12


def test_another_config_is_refused(plain: Path) -> None:
    with pytest.raises(StoreError, match=r"config\.learning_rate \(0\.002, now 0\.001\)"):
        learn(plain, learning_rate=1e-3)


class Broken(HouseholdEnv):
    """The machinery fails on one task, always."""

    fails: Sequence[str] = ()

    def step(self, action: Action) -> StepResult:
        if self.task.task_id in Broken.fails:
            raise EnvError("out of order", task_id=self.task.task_id)
        return super().step(action)


def test_unscored_episodes_are_counted_and_not_learnt_from(tmp_path: Path) -> None:
    Broken.fails = [games()[0].task_id]
    result = learn(tmp_path / "out", num_rounds=1, play=Play(make_env=Broken))
    row = figures(tmp_path / "out")[0]
    assert result.num_episodes == 3
    assert row["groups/unscored_episodes"] == 3
    assert row["groups/num"] == 2


def test_a_round_without_any_score_is_an_error_that_tells_where_to_look(tmp_path: Path) -> None:
    Broken.fails = [task.task_id for task in games()]
    with pytest.raises(TrainingError, match=r"round 0: none of 6 episodes was scored.*00000\.jsonl"):
        learn(tmp_path / "out", play=Play(make_env=Broken))


def test_a_learning_curve_has_a_point_before_and_one_after(tmp_path: Path) -> None:
    seen: list[float] = []

    def measure(policy: Any) -> Mapping[str, float]:
        seen.append(policy.temperature)
        return {"length": float(len(seen))}

    result = learn(tmp_path / "out", evaluate=measure, evaluate_every=1)
    assert result.curve == (
        {"round": 0, "evaluate/length": 1.0},
        {"round": 1, "evaluate/length": 2.0},
        {"round": 2, "evaluate/length": 3.0},
    )


def test_episodes_are_kept_on_request(tmp_path: Path) -> None:
    learn(tmp_path / "out", keep_trajectories=True)
    kept = sorted((tmp_path / "out" / "rounds").iterdir())
    assert [path.name for path in kept] == ["00000.jsonl", "00001.jsonl"]
    played = list(read_records(kept[0], "trajectory"))
    assert len(played) == 6
    assert {step.policy_version for one in played for step in one.steps} == {"household_tiny@round-0"}


# Teachers


def test_a_teacher_that_is_the_student_has_nothing_to_say(tmp_path: Path) -> None:
    guide = TeacherGuide(GuideConfig(step_weights=step_weights("uniform")), load_renderer(START), teacher=START)
    learn(tmp_path / "out", num_rounds=1, distill_coefficient=1.0, guide=guide, distill=DistillTerm.of("rkl_full"))
    row = figures(tmp_path / "out")[0]
    assert row["distill/gap"] == pytest.approx(0.0, abs=1e-5)
    assert row["distill/divergence"] == pytest.approx(0.0, abs=1e-5)
    assert row["distill/taught_share"] == 1.0


@pytest.mark.parametrize("loss", ["k1_direct", "k3", "rkl_full", "fkl_full", "jsd", "rkl_topk", "fkl_topk"])
def test_every_way_of_distilling_learns(tmp_path: Path, plain: Path, loss: str) -> None:
    learn(tmp_path / "out", num_rounds=1, distill_coefficient=1.0, guide=teacher(), distill=DistillTerm.of(loss))
    assert figures(tmp_path / "out")[0]["distill/loss"] != 0.0


@pytest.mark.parametrize("divergence", ["full_kl", "topk_kl", "k3", "abs_gap", "k1"])
def test_every_divergence_serves(tmp_path: Path, divergence: str) -> None:
    guide = teacher("divergence_only", divergence=divergence)
    learn(tmp_path / "out", num_rounds=1, distill_coefficient=1.0, guide=guide, distill=DistillTerm.of("k1_pg"))
    assert 0 < figures(tmp_path / "out")[0]["distill/taught_share"] < 1


@pytest.mark.parametrize("way", ["replay_impact", "random_matched", "position_late", "soft_pruning"])
def test_other_ways_of_choosing_steps(tmp_path: Path, way: str) -> None:
    learn(
        tmp_path / "out", num_rounds=1, distill_coefficient=1.0, guide=teacher(way), distill=DistillTerm.of("k1_pg")
    )  # fmt: skip
    assert figures(tmp_path / "out")[0]["distill/taught_steps"] > 0


def test_episodes_of_which_the_teacher_is_told_nothing_are_not_taught(tmp_path: Path) -> None:
    """Only one of the two kinds of task has advice; the other's steps leave the distill stream and are counted."""
    tasks = games(2)
    advice = Skills({tasks[0].kind: "go to fridge 1"})
    guide = teacher("uniform", context=advice)
    learn(
        tmp_path / "out", tasks=tasks, num_rounds=1, distill_coefficient=1.0, guide=guide,
        distill=DistillTerm.of("k1_pg"),
    )  # fmt: skip
    row = figures(tmp_path / "out")[0]
    assert tasks[0].kind != tasks[1].kind
    assert row["teacher/failed_steps"] == 24
    assert row["teacher/scored_steps"] == 24
    assert row["distill/tokens"] < row["rollout/policy_tokens"]


def test_a_teacher_that_is_told_nothing_at_all_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TeacherError, match="it scored no step of 6 episodes"):
        learn(
            tmp_path / "out", num_rounds=1, distill_coefficient=1.0, guide=teacher(context=Skills({})),
            distill=DistillTerm.of("k1_pg"),
        )  # fmt: skip


# Refusals and arithmetic of the plan


def test_a_coefficient_without_a_teacher_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"distill_coefficient is 0\.1, but no teacher is given"):
        learn(tmp_path / "out", distill_coefficient=0.1)


def test_no_tasks(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no tasks to play"):
        learn(tmp_path / "out", tasks=[])


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"group_size": 1}, "group_size is 1, expected at least 2"),
        ({"std": "populaton"}, "Did you mean 'population'"),
        ({"dual_clip": 0.5}, "dual_clip is 0.5, expected more than 1"),
        ({"pg_coefficient": 0.0}, "both 0; nothing would be learnt"),
        ({"temperature": 0.0}, "temperature is 0.0, expected more than 0"),
        ({"distill_normaliser": "tokens"}, "distill_normaliser"),
    ],
)
def test_impossible_settings(setting: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        RLConfig(**setting)
    assert message in str(caught.value)


def test_samples_of_a_round_are_dealt_out() -> None:
    config = RLConfig(updates_per_round=2, epochs_per_round=2)
    plan = plan_round(5, config, round_index=0)
    assert [len(update) for update in plan] == [3, 2, 3, 2]
    for first in (0, 2):
        assert sorted(use.sample_index for update in plan[first : first + 2] for use in update) == [0, 1, 2, 3, 4]
    assert plan == plan_round(5, config, round_index=0)
    assert plan != plan_round(5, config, round_index=1)
    assert [len(update) for update in plan_round(1, config, 0)] == [1, 1]
