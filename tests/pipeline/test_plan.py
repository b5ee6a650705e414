"""The order of stages, what they need, and how a data mix is drawn."""

from __future__ import annotations

from pathlib import Path

import pytest

from tutelage.errors import ConfigError, StoreError
from tutelage.pipeline.plan import plan
from tutelage.pipeline.samples import choose
from tutelage.pipeline.stage import Stage, Tell, do_stage, is_done
from tutelage.recipe import DataSection, load_recipe
from tutelage.run_dir import RunDir
from tutelage.store import RecordStore
from tutelage.testing.trajectories import make_trajectory
from tutelage.types import Verdict


def test_the_order_of_the_main_recipe(tmp_path: Path) -> None:
    stages = plan(load_recipe("household_oec"), RunDir(tmp_path))
    assert list(stages) == [
        "rollout:expert_first",
        "select:expert_first",
        "build:imitation",
        "train:imitation",
        "rollout:expert_second",
        "select:expert_second",
        "build:imitation_double",
        "train:imitation_double",
        "rollout:corrections",
        "select:corrections",
        "build:corrected",
        "train:corrected",
        "evaluate:imitation",
        "evaluate:imitation_double",
        "evaluate:corrected",
        "compare",
        "report",
    ]
    assert stages["rollout:expert_first"].needs == ()
    assert stages["rollout:corrections"].needs == ("train:imitation",)
    assert stages["build:corrected"].needs == ("select:expert_first", "select:corrections", "train:imitation")
    assert stages["train:corrected"].needs == ("build:corrected", "train:imitation")
    assert stages["evaluate:corrected"].needs == ("train:corrected",)


def inputs_that_differ(tmp_path: Path, *overrides: str) -> list[str]:
    """Stages whose own settings an override changes."""
    run = RunDir(tmp_path)
    before, after = plan(load_recipe("household_oec"), run), plan(load_recipe("household_oec", set=overrides), run)
    return [name for name in before if before[name].settings != after[name].settings]


@pytest.mark.parametrize(
    ("override", "changed"),
    [
        ("workers=4", []),
        ("description=Other", []),
        ("rollouts.corrections.concurrency=3", []),
        ("train.checkpoint_every=7", []),
        ("report.title=Other", ["report"]),
        ("models.corrected.mask=all_steps", ["build:corrected"]),
        ("models.corrected.train.learning_rate=3e-3", ["train:corrected"]),
        ("rollouts.corrections.switch.high=14", ["rollout:corrections"]),
        ("evaluate.temperature=0.4", ["evaluate:imitation", "evaluate:imitation_double", "evaluate:corrected"]),
        ("select.no_repetition.scope=all", ["select:expert_first", "select:expert_second", "select:corrections"]),
    ],
)
def test_an_override_changes_the_stages_it_is_about(tmp_path: Path, override: str, changed: list[str]) -> None:
    assert inputs_that_differ(tmp_path, override) == changed


def stage(tmp_path: Path, settings: int, log: list[str], *, resumes: bool = True, fails: bool = False) -> Stage:
    def act(tell: Tell) -> dict[str, int]:
        path = tmp_path / "out"
        log.append("went on" if path.exists() else "began")
        path.write_text("half")
        if fails:
            raise RuntimeError
        path.write_text("whole")
        return {"figure": settings}

    return Stage(
        kind="build", name="x", needs=(), settings=settings, outputs=(tmp_path / "out",), resumes=resumes, act=act
    )


def quiet(done: int, total: int | None = None, text: str = "") -> None:
    pass


def test_a_stage_is_done_once(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    log: list[str] = []
    record = do_stage(stage(tmp_path, 1, log), run, quiet)
    assert (record.state, record.summary, record.goes) == ("done", {"figure": 1}, 1)
    assert do_stage(stage(tmp_path, 1, log), run, quiet) == record
    assert log == ["began"]
    assert not is_done(stage(tmp_path, 2, log), run)
    do_stage(stage(tmp_path, 2, log), run, quiet)
    do_stage(stage(tmp_path, 2, log), run, quiet, again=True)
    assert log == ["began", "began", "began"]


@pytest.mark.parametrize(
    ("resumes", "settings", "second"),
    [(True, 1, "went on"), (False, 1, "began"), (True, 2, "began")],
)
def test_a_broken_stage(tmp_path: Path, resumes: bool, settings: int, second: str) -> None:
    run = RunDir(tmp_path)
    log: list[str] = []
    with pytest.raises(RuntimeError):
        do_stage(stage(tmp_path, 1, log, fails=True), run, quiet)
    assert run.record("build:x").state == "started"  # type: ignore[union-attr]
    record = do_stage(stage(tmp_path, settings, log, resumes=resumes), run, quiet)
    assert log == ["began", second]
    assert record.goes == (2 if second == "went on" else 1)
    assert (tmp_path / "out").read_text() == "whole"


def test_a_stage_waits_for_what_it_needs(tmp_path: Path) -> None:
    one = Stage(kind="build", name="x", needs=("select:y",), settings=1, outputs=(), resumes=False, act=lambda tell: {})
    with pytest.raises(StoreError, match=r"build:x needs select:y, which is not finished\. Run: tutelage select .* y"):
        do_stage(one, RunDir(tmp_path), quiet)


@pytest.fixture
def collected(tmp_path: Path) -> RunDir:
    """Six trajectories of 1 to 6 expert steps; the first was dropped."""
    run = RunDir(tmp_path)
    for number in range(1, 7):
        one = make_trajectory("e" * number, trajectory_id=f"t{number}", task_id=f"task{number}")
        RecordStore(run.trajectories_path("expert_second"), "trajectory").append(one)
        keep = number > 1
        verdict = Verdict(trajectory_id=f"t{number}", keep=keep, filter="all", reason="kept" if keep else "x")
        RecordStore(run.verdicts_path("expert_second"), "verdict").append(verdict)
    return run


def test_a_mix_takes_kept_trajectories_in_a_seeded_order(collected: RunDir) -> None:
    recipe = load_recipe("household_oec")

    def taken(**options: object) -> list[str]:
        part = DataSection(source="expert_second", **options)  # type: ignore[arg-type]
        return [one.trajectory_id for one in choose(recipe, "imitation_double", part, collected)]

    everything = taken()
    assert sorted(everything) == ["t2", "t3", "t4", "t5", "t6"]
    assert taken(count=3) == everything[:3]
    lengths = [int(name[1:]) for name in taken(expert_steps=9)]
    assert abs(sum(lengths) - 9) <= 3
    assert taken(expert_steps="expert_second") == everything
    with pytest.raises(ConfigError, match="count 6, but only 5 trajectories were kept"):
        taken(count=6)
    with pytest.raises(ConfigError, match="5 trajectories make 20, expected 21"):
        taken(expert_steps=21)
