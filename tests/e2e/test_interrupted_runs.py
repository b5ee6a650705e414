"""Runs that are stopped or killed in the middle of every stage go on, and end as an unbroken run ends."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tutelage.pipeline.run import Event, run
from tutelage.recipe import load_recipe
from tutelage.rollout.summary import latest_attempts
from tutelage.run_dir import RunDir, hash_files
from tutelage.store import read_records

STOPS = (
    # stage, how far: within an episode batch, between verdicts, between updates (checkpoints are at 2 and 4), ...
    ("rollout:expert_first", 3),
    ("select:expert_first", 5),
    ("build:imitation", 4),
    ("train:imitation", 3),
    ("rollout:corrections", 4),
    ("train:corrected", 2),
    ("evaluate:imitation", 3),
    ("evaluate:corrected", 5),
    ("compare", 2),
    ("report", 1),
)


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    root = tmp_path_factory.mktemp("unbroken") / "run"
    return run(load_recipe("smoke/household_oec"), root).dir


def stop_at(stage: str, done: int, how: Callable[[], None]) -> Callable[[Event], None]:
    def listener(event: Event) -> None:
        if event.stage == stage and event.state == "progress" and event.done >= done:
            how()

    return listener


def results(directory: RunDir) -> dict[str, Any]:
    """Everything that a run is for, without times and without the attempts that were cut off."""
    recipe = directory.recipe()
    found: dict[str, Any] = {}
    for name in recipe.rollouts:
        played = latest_attempts(read_records(directory.trajectories_path(name), "trajectory"))
        found[f"commands of {name}"] = [(one.task_id, [step.action.text for step in one.steps]) for one in played]
        found[f"ledger of {name}"] = json.loads(directory.ledger_path(name).read_text())
        found[f"verdicts of {name}"] = len(read_records(directory.verdicts_path(name), "verdict"))
    for name in recipe.models:
        samples = read_records(directory.samples_path(name), "training_sample")
        found[f"tokens of {name}"] = [one.token_ids for one in samples]
        found[f"samples of {name}"] = json.loads(directory.sample_ledger_path(name).read_text())
        rows = [json.loads(line) for line in (directory.model_dir(name) / "metrics.jsonl").read_text().splitlines()]
        found[f"losses of {name}"] = [(row["update_index"], row["loss"]) for row in rows]
        found[f"weights of {name}"] = hash_files([directory.model_dir(name) / "model.safetensors"])
    for arm in recipe.evaluated:
        found[f"result of {arm}"] = json.loads(directory.result_path(arm).read_text())
    found["comparison"] = json.loads(directory.comparison_path.read_text())
    found["states"] = {
        key: one["state"] for key, one in json.loads(directory.summary_path.read_text())["stages"].items()
    }
    return found


def test_ctrl_c_in_every_stage(tmp_path: Path, unbroken: RunDir) -> None:
    recipe = load_recipe("smoke/household_oec")
    for stage, done in STOPS:
        with pytest.raises(KeyboardInterrupt):
            run(recipe, tmp_path, listener=stop_at(stage, done, lambda: os.kill(os.getpid(), signal.SIGINT)))
        record = RunDir(tmp_path).record(stage)
        assert record is not None
        assert record.state == "started", stage
    run(recipe, tmp_path)
    assert results(RunDir(tmp_path)) == results(unbroken)
    assert RunDir(tmp_path).record("train:imitation").goes == 2  # type: ignore[union-attr]


# The child only ever plays and trains on this one thread, so forking it is safe.
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_kill_in_every_stage(tmp_path: Path, unbroken: RunDir) -> None:
    recipe = load_recipe("smoke/household_oec")
    notes: list[str] = []
    for stage, done in STOPS:
        child = os.fork()
        if child == 0:
            try:
                run(recipe, tmp_path, listener=stop_at(stage, done, lambda: os.kill(os.getpid(), signal.SIGKILL)))
            finally:
                os._exit(1)
        assert os.waitpid(child, 0)[1] == signal.SIGKILL, stage
    run(recipe, tmp_path, listener=lambda event: notes.append(event.text) if event.state == "note" else None)
    assert results(RunDir(tmp_path)) == results(unbroken)
    assert len(notes) == 1
    assert notes[0].startswith("the last run here (process ")


def test_a_finished_run_does_nothing_again(tmp_path: Path, unbroken: RunDir) -> None:
    before = results(unbroken)
    events: list[Event] = []
    run(load_recipe("smoke/household_oec"), unbroken.root, listener=events.append)
    assert {event.state for event in events} == {"skipped"}
    assert len(events) == 18
    assert results(unbroken) == before


def test_a_changed_recipe_does_again_what_depends_on_it(tmp_path: Path) -> None:
    run(load_recipe("smoke/household_oec"), tmp_path)
    events: list[Event] = []
    changed = load_recipe(
        "smoke/household_oec", set=["models.corrected.train.learning_rate=2e-3", "report.title=Other"]
    )
    run(changed, tmp_path, force=True, listener=events.append)
    done = [event.stage for event in events if event.state == "done"]
    assert done == ["train:corrected", "evaluate:corrected", "compare", "report"]
    assert "<title>Other</title>" in RunDir(tmp_path).report_path.read_text()


def test_a_lost_file_is_made_again(tmp_path: Path) -> None:
    recipe = load_recipe("smoke/household_oec")
    directory = run(recipe, tmp_path).dir
    expected = results(directory)
    directory.samples_path("corrected").unlink()
    events: list[Event] = []
    run(recipe, tmp_path, listener=events.append)
    # The samples come out as they were, so that nothing after them is done again.
    assert [event.stage for event in events if event.state == "done"] == ["build:corrected"]
    assert results(directory) == expected
