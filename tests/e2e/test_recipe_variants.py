"""Every smoke recipe runs, and so does each variation that a recipe promises as one override."""

from __future__ import annotations

from pathlib import Path

import pytest

from tutelage.pipeline.run import Run, run
from tutelage.pipeline.table import arms
from tutelage.recipe import load_recipe
from tutelage.recipe_file import recipe_names
from tutelage.run_dir import read_json

SMALLER = {
    "student.start": "builtin:household_tiny",
    "evaluate.tasks.count": 2,
    "models.imitation_double": None,
    "rollouts.expert_second": None,
    "evaluate.models": ["imitation", "corrected"],
    "evaluate.baseline": "imitation",
    "train.budget": 1,
}


def finished(out: Path, **overrides: object) -> Run:
    changes = {key.replace("__", "."): value for key, value in overrides.items()}
    return run(load_recipe("smoke/household_oec", set={**SMALLER, **changes}), out)


@pytest.mark.parametrize("name", [name for name in recipe_names() if name.startswith("smoke/")])
def test_a_smoke_recipe_runs(name: str, tmp_path: Path) -> None:
    done = run(load_recipe(name, set=["workers=1"]), tmp_path)
    assert done.unfinished() == []
    assert done.report_path.is_file()


def test_no_author_mask_trains_the_students_steps_too(tmp_path: Path) -> None:
    masked = finished(tmp_path / "masked")
    unmasked = finished(tmp_path / "unmasked", models__corrected__mask="all_steps", select__no_repetition=False)
    assert set(read_json(masked.dir.sample_ledger_path("corrected"))["trained_tokens"]) == {"e"}
    assert set(read_json(unmasked.dir.sample_ledger_path("corrected"))["trained_tokens"]) == {"e", "s"}
    assert read_json(unmasked.dir.ledger_path("corrections"))["filters"] == ["solved", "has_expert_steps"]


def test_a_student_that_plays_alone(tmp_path: Path) -> None:
    done = finished(
        tmp_path,
        rollouts__corrections__switch={"name": "never"},
        select__solved=False,
        models__corrected__data=["expert_first", {"source": "corrections", "mask": "student_steps"}],
    )
    ledger = read_json(done.dir.sample_ledger_path("corrected"))
    assert ledger["sources"]["corrections"]["expert_steps"] == 0
    assert set(ledger["trained_tokens"]) == {"e", "s"}


def test_mixed_play_with_labels(tmp_path: Path) -> None:
    done = finished(
        tmp_path,
        rollouts__corrections__switch={"name": "mix", "beta": 0.5},
        select__solved=False,
        models__corrected__data=["expert_first", {"source": "corrections", "mask": "expert_labels"}],
    )
    assert read_json(done.dir.sample_ledger_path("corrected"))["num_forks"] > 0


def test_a_shortened_context(tmp_path: Path) -> None:
    done = finished(
        tmp_path,
        student__context={"name": "last_observations", "n": 2},
        models__imitation__layout="per_step",
        models__corrected__layout="per_step",
        train__budget_unit="updates",
    )
    ledger = read_json(done.dir.sample_ledger_path("imitation"))
    assert ledger["num_samples"] == ledger["sources"]["expert_first"]["expert_steps"] == 89


def test_equal_expert_steps(tmp_path: Path) -> None:
    done = finished(
        tmp_path,
        rollouts__expert_second={
            "switch": {"name": "expert_only"},
            "tasks": {"split": "train", "start": 20, "count": 12},
        },
        models__imitation_double={
            "start": "imitation",
            "data": ["expert_first", {"source": "expert_second", "expert_steps": "corrections"}],
        },
        models__corrected__data=["expert_first", "corrections"],
        evaluate__models=["imitation", "imitation_double", "corrected"],
    )
    wanted = read_json(done.dir.sample_ledger_path("corrected"))["sources"]["corrections"]["expert_steps"]
    got = read_json(done.dir.sample_ledger_path("imitation_double"))["sources"]["expert_second"]["expert_steps"]
    assert abs(got - wanted) <= 10  # Half of the longest episode.


def test_the_expert_and_the_start_are_measured_too(tmp_path: Path) -> None:
    done = finished(tmp_path, evaluate__models=["expert", "start", "imitation"], evaluate__baseline="expert")
    rows = {arm.name: arm for arm in arms(done.dir, done.recipe)}
    assert list(rows) == ["expert", "start", "imitation"]
    assert rows["expert"].overall.num_solved == 2
    assert rows["start"].trained_tokens is None
    assert rows["imitation"].trajectories == 8
