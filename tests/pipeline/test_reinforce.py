"""Models that learn by reinforcement, as stages of a run: teachers, proof, plans in the data, kills, refusals."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tutelage.errors import ConfigError, TeacherError
from tutelage.pipeline.run import Event, Run, run
from tutelage.recipe import Recipe, load_recipe
from tutelage.run_dir import RunDir, hash_files, read_json
from tutelage.store import read_records

NAME = "smoke/household_graphopd"
TEACHER = "models.graphopd.rl.teacher"


def recipe(**changes: object) -> Recipe:
    """The smoke recipe with one round; `__` in a key stands for a dot."""
    smaller: dict[str, object] = {
        "rl.num_rounds": 1,
        "rl.evaluate_every": 0,
        "evaluate.tasks.count": 2,
        "train.budget": 1,
    }
    return load_recipe(NAME, set={**smaller, **{key.replace("__", "."): value for key, value in changes.items()}})


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run(load_recipe(NAME), tmp_path_factory.mktemp("rl") / "run")


def values(directory: RunDir, model: str) -> list[dict[str, float]]:
    rows = (directory.model_dir(model) / "metrics.jsonl").read_text().splitlines()
    return [json.loads(row)["values"] for row in rows]


def test_a_part_of_the_imitation_is_told_the_plan(done: Run) -> None:
    ledger = read_json(done.dir.sample_ledger_path("imitation"))
    plans = ledger["sources"]["plans"]
    assert plans["privileged"] == "plan"
    assert plans["untold"] == 0
    samples = list(read_records(done.dir.samples_path("imitation"), "training_sample"))
    told = [one for one in samples if one.trajectory_id.endswith("+privileged")]
    assert len(told) == plans["trajectories"]
    assert len(samples) - len(told) == ledger["sources"]["expert"]["trajectories"]
    steps = [step for one in read_records(done.dir.trajectories_path("plans"), "trajectory") for step in one.steps]
    assert {step.policy_version for step in steps if step.actor == "expert"} == {"household_planner-1"}


def test_both_arms_play_the_same_games(done: Run) -> None:
    grpo, guided = values(done.dir, "grpo"), values(done.dir, "graphopd")
    # The first round comes before any difference in the weights.
    for key in ("rollout/success", "rollout/steps", "rollout/policy_tokens", "pg/first_ratio"):
        assert grpo[0][key] == guided[0][key]
    assert "distill/loss" not in grpo[0]
    assert guided[0]["distill/taught_steps"] > 0
    assert hash_files([done.dir.model_dir("grpo")]) != hash_files([done.dir.model_dir("graphopd")])


def test_the_account_of_a_stage(done: Run) -> None:
    record = done.dir.record("train:graphopd")
    assert record is not None
    assert record.summary["num_episodes"] == 8
    assert record.summary["updates"] == 4
    assert record.summary["teacher_tokens"] > record.summary["trained_tokens"]
    curve = read_json(done.dir.model_dir("graphopd") / "training.json")["result"]["curve"]
    assert [point["round"] for point in curve] == [0, 1, 2]
    assert set(curve[0]) == {"round", "evaluate/greedy", "evaluate/sampled"}


def test_the_episodes_of_the_evaluation_are_audited(done: Run) -> None:
    for arm in ("imitation", "graphopd"):
        found = read_json(done.dir.audit_dir(arm) / "audit.json")
        assert found["counts"]["trajectories"] == 4
        assert [table["name"] for table in found["tables"]] == ["all", "successes", "failures"]
        record = done.dir.record(f"audit:{arm}")
        assert record is not None
        assert record.summary["kept"] == found["counts"]["kept"]
    page = done.report_path.read_text()
    assert "<h2>Is credit per step right?</h2>" in page
    assert page.count('<img alt="Rank correlation and hits of every signal" src="data:image/svg+xml;base64,') == 2


def test_another_model_of_the_recipe_teaches(tmp_path: Path) -> None:
    made = recipe(
        models__graphopd__rl__teacher={"source": "model", "model": "grpo", "step_weights": {"name": "uniform"}},
        evaluate__models=["graphopd"],
        evaluate__baseline=None,
        audit=None,
    )
    directory = run(made, tmp_path).dir
    assert values(directory, "graphopd")[0]["distill/taught_share"] == 1.0
    assert directory.record("train:grpo") is not None


def test_a_context_that_makes_no_better_policy_does_not_teach(tmp_path: Path) -> None:
    """After one update on plans the tiny student wins nothing on four short games, with or without them."""
    made = recipe(models__graphopd__rl__teacher__prove={"split": "validation", "start": 10, "count": 4})
    with pytest.raises(
        TeacherError, match=r"no better policy than the plain one: privileged \(plan\).*NOT shown to be"
    ):
        run(made, tmp_path)
    assert RunDir(tmp_path).record("train:grpo") is not None


def stop_in(stage: str, done: int, how: Callable[[], None]) -> Callable[[Event], None]:
    def listener(event: Event) -> None:
        if event.stage == stage and event.state == "progress" and event.done >= done:
            how()

    return listener


# The child only ever plays and trains on this one thread, so forking it is safe.
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_killed_between_rounds_it_ends_as_an_unbroken_run(tmp_path: Path, done: Run) -> None:
    made = load_recipe(NAME)
    for stage in ("train:grpo", "train:graphopd"):
        child = os.fork()
        if child == 0:
            try:
                run(made, tmp_path, listener=stop_in(stage, 1, lambda: os.kill(os.getpid(), signal.SIGKILL)))
            finally:
                os._exit(1)
        assert os.waitpid(child, 0)[1] == signal.SIGKILL
    with pytest.raises(KeyboardInterrupt):
        run(made, tmp_path, listener=stop_in("train:graphopd", 2, lambda: os.kill(os.getpid(), signal.SIGINT)))
    again = run(made, tmp_path).dir
    for model in ("grpo", "graphopd"):
        weights = [one.model_dir(model) / "model.safetensors" for one in (again, done.dir)]
        assert weights[0].read_bytes() == weights[1].read_bytes()
        rows = [
            [{key: value for key, value in row.items() if not key.startswith("time/")} for row in values(one, model)]
            for one in (again, done.dir)
        ]
        assert rows[0] == rows[1]
    record = again.record("train:graphopd")
    assert record is not None
    assert record.goes == 3


def test_a_changed_teacher_trains_its_model_anew(tmp_path: Path) -> None:
    run(recipe(), tmp_path)
    events: list[Event] = []
    changed = recipe(models__graphopd__rl__teacher__step_weights={"name": "graphopd", "alpha": 0.2})
    run(changed, tmp_path, force=True, listener=events.append)
    done = [event.stage for event in events if event.state == "done"]
    assert done == ["train:graphopd", "evaluate:graphopd", "audit:graphopd", "compare", "report"]


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("models.grpo.data", ["expert"], "give data (rollouts to imitate) or rl"),
        ("models.grpo.rl.tasks", {"split": "test", "count": 4}, "models.grpo.rl.tasks and evaluate.tasks share tasks"),
        ("models.grpo.rl.validation", {"split": "train", "count": 30}, "models.grpo.rl.validation and models.grpo.rl.tasks"),
        ("models.grpo.train", {"lerning_rate": 1}, "unknown key 'models.grpo.train.lerning_rate'. Did you mean"),
        ("models.grpo.train", {"group_size": 1}, "group_size is 1, expected at least 2"),
        ("models.grpo.rl.tsaks", 1, "unknown key 'models.grpo.rl.tsaks'. Did you mean 'models.grpo.rl.tasks'?"),
        ("rl.clip_low", 0, "clip_low is 0"),
        ("audit.arms", ["graphop"], "audit.arms: no 'graphop' in this recipe. Did you mean 'graphopd'?"),
        ("audit.arms", [], "audit.arms: list should have at least 1 item"),
        ("audit.signals", ["degre"], "audit.signals: unknown 'degre'. Did you mean 'degree'?"),
        (f"{TEACHER}.step_weights.name", "grapopd", "step_weights: step_weights: unknown 'grapopd'. Did you mean 'graphopd'?"),
        (f"{TEACHER}.step_weights", {"name": "graphopd", "alpah": 1}, "Did you mean 'alpha'?"),
        (f"{TEACHER}.step_weights", {"name": "graphopd", "alpha": 2}, "alpha is 2"),
        (f"{TEACHER}.divergence.name", "kl", "divergence: unknown 'kl'"),
        (f"{TEACHER}.loss", {"name": "jsd", "beta": 1}, "loss, option: unknown 'beta'"),
        (f"{TEACHER}.context.name", "plna", "context: unknown 'plna'. Did you mean 'plan'?"),
        (f"{TEACHER}.context", None, "source 'privileged' needs a context"),
        (f"{TEACHER}", {"source": "model"}, "source 'model' needs a model to be named"),
        (f"{TEACHER}", {"source": "model", "model": "grop"}, "no 'grop' in this recipe. Did you mean 'grpo'?"),
        ("models.imitation.data.1.privileged.source", "best", "privileged"),
        ("rollouts.plans.expert.name", "household_planer", "Did you mean 'household_planner'?"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_explained(key: str, value: Any, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_recipe(NAME, set={key: value})
    assert message in str(caught.value)
    assert "household_graphopd.yaml" in str(caught.value)
