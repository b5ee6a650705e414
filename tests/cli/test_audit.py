"""The verb `audit`: what it writes and prints, and what it says of input that it cannot use."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import pytest

from tutelage.cli.main import main
from tutelage.envs.household.generator import generate_game
from tutelage.envs.household.writer import write_game
from tutelage.envs.registry import make_env
from tutelage.policies.experts.household import HouseholdExpert
from tutelage.policies.scripted import RandomPolicy
from tutelage.rollout.episode import Limits, run_episode
from tutelage.rollout.switch import AtStep
from tutelage.store import RecordStore
from tutelage.supervision.aptitude import step_aptitude
from tutelage.supervision.dependency_graph import build_graph
from tutelage.supervision.footprints import footprints_of
from tutelage.tasks.household import HouseholdTasks
from tutelage.tasks.registry import load_tasks
from tutelage.types import Actor, Task, Trajectory


def played(task: Task, num_random: int, max_steps: int = 25) -> Trajectory:
    """Some random steps, then the expert: a failure where it has no time left."""
    env = make_env(task)
    policies = {
        Actor.STUDENT: RandomPolicy(lambda so_far: env.admissible() or (), seed=1),
        Actor.EXPERT: HouseholdExpert(),
    }
    return run_episode(task, env, policies, AtStep(num_random), Limits(max_steps=max_steps), seed=0)


def write(path: Path, trajectories: list[Trajectory]) -> Path:
    store = RecordStore(path, "trajectory")
    for one in trajectories:
        store.append(one)
    return path


@pytest.fixture(scope="module")
def trajectories() -> list[Trajectory]:
    tasks = load_tasks("household", "train", 0, 12, max_steps=25)
    return [played(task, 4 if index % 2 else 20) for index, task in enumerate(tasks)]


@pytest.fixture(scope="module")
def stored(trajectories: list[Trajectory], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("audit") / "trajectories.jsonl", trajectories)


def test_files_and_table(
    stored: Path, trajectories: list[Trajectory], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main(["audit", str(stored), "--out", str(out), "--split-half", "3"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].split()[:4] == ["signal", "rho", "successes", "failures"]
    assert printed[-1] == f"-> {out}"
    assert printed[-2].startswith(f"{len(trajectories)} trajectories, 12 kept (none left out); ")

    rows = [json.loads(line) for line in (out / "rows.jsonl").read_text().splitlines()]
    assert len(rows) == len(trajectories)
    by_id = {one.trajectory_id: one for one in trajectories}
    for row in rows:
        assert row["solved"] == (by_id[row["trajectory_id"]].reward == 1.0)
        assert len(row["S"]) == len(row["G"]) == len(row["B"]) == row["num_steps"]
        assert set(row["scores"]["l_graph"]) == {"rho", "partial", "hit_earlier", "hit_tolerant", "hit_later"}
        assert row["closed"] is None

    data = json.loads((out / "audit.json").read_text())
    assert [table["name"] for table in data["tables"]] == ["all", "successes", "failures", "first half", "second half"]
    assert data["counts"]["kept"] == 12
    assert data["settings"] == {"intervention": "omit", "seed": 0, "split_half": 3, "max_steps": 25}
    whole, *_, first, second = data["tables"]
    assert first["num_cases"] + second["num_cases"] == whole["num_cases"] == 12
    rho = {row["signal"]: row["measures"]["rho"]["estimate"] for row in whole["rows"]}
    # The graph that says what a command needs foretells its replay; random says nothing.
    assert rho["graph_impact_needs"] > 0.7 > 0.2 > abs(rho["random"])
    mean = sum(row["scores"]["degree"]["rho"] for row in rows) / 12
    assert rho["degree"] == pytest.approx(mean, abs=1e-4)

    markdown = (out / "tables.md").read_text()
    assert "### second half: " in markdown
    assert "| `graph_impact_causal` | " in markdown
    assert ElementTree.fromstring((out / "audit.svg").read_text()).tag.endswith("svg")


def test_workers_change_nothing(stored: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from tutelage.analysis import credit_audit

    records = list(RecordStore(stored, "trajectory")) * 2
    # More than one chunk, so that processes are started.
    many = [replace(one, trajectory_id=f"{index}/{one.trajectory_id}") for index, one in enumerate(records)]
    assert len(many) > credit_audit.CHUNK
    path = write(tmp_path / "many.jsonl", many)
    common = ["audit", str(path), "--signals", "degree, position", "--max-steps", "25", "--out"]
    assert main([*common, str(tmp_path / "one")]) == 0
    assert main([*common, str(tmp_path / "two"), "--workers", "2"]) == 0
    for name in ("rows.jsonl", "audit.svg"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    capsys.readouterr()


def test_json_and_noop(stored: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["audit", str(stored), "--signals", "position", "--count", "3", "--intervention", "noop", "--json"]
    assert main([*arguments, "--out", str(tmp_path)]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["settings"]["intervention"] == "noop"
    assert [row["signal"] for row in data["tables"][0]["rows"]] == ["position", "random"]
    assert data["counts"]["trajectories"] == 3


def test_divergence_of_a_teacher(
    stored: Path, trajectories: list[Trajectory], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "aptitudes.jsonl"
    store = RecordStore(path, "step_aptitude")
    for one in trajectories[:8]:
        divergence = [0.1 * (index % 7) for index in range(len(one.steps))]
        store.append(step_aptitude(build_graph(footprints_of(one)), divergence))
    common = ["audit", str(stored), "--signals", "divergence,aptitude", "--divergence", str(path), "--json"]
    assert main([*common, "--out", str(tmp_path / "out")]) == 0
    rows = json.loads(capsys.readouterr().out)["tables"][0]["rows"]
    assert [(row["signal"], row["num_cases"]) for row in rows] == [("divergence", 8), ("aptitude", 8), ("random", 12)]


def test_closed_loop_with_a_student(stored: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    short = [played(task, 2, max_steps=6) for task in load_tasks("household", "train", 0, 3, max_steps=6)]
    path, out = write(tmp_path / "short.jsonl", short), tmp_path / "out"
    common = ["audit", str(path), "--signals", "position", "--out", str(out), "--closed-loop", "1"]
    assert main([*common, "--model", "builtin:household_tiny"]) == 0
    rows = [json.loads(line) for line in (out / "rows.jsonl").read_text().splitlines()]
    assert [len(row["closed"]) for row in rows if row["closed"] is not None] == [6]
    assert len((out / "continuations.jsonl").read_text().splitlines()) == 2
    assert json.loads((out / "audit.json").read_text())["counts"]["closed_loop"] == 1
    capsys.readouterr()


def test_real_games_come_from_their_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    games = tmp_path / "games"
    for seed in range(3):
        write_game(generate_game(seed), games / "valid_seen" / f"game-{seed}" / "trial")
    tasks = HouseholdTasks(source="folder", root=games).load("validation")
    path = write(tmp_path / "real.jsonl", [played(task, 3, max_steps=50) for task in tasks])
    common = ["audit", str(path), "--signals", "degree", "--out", str(tmp_path / "out")]
    assert main(common) == 2
    assert "not a generated household game" in capsys.readouterr().err
    assert main([*common, "--games", str(games)]) == 0
    assert "3 trajectories, 3 kept" in capsys.readouterr().out
    assert main([*common, "--games", str(tmp_path / "nowhere")]) == 2
    assert "nowhere" in capsys.readouterr().err


def test_records_that_do_not_replay_are_counted(
    trajectories: list[Trajectory], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = replace(trajectories[0], trajectory_id="wrong", reward=0.5)
    path = write(tmp_path / "mixed.jsonl", [*trajectories[1:4], replace(wrong, sample_index=9)])
    assert main(["audit", str(path), "--signals", "degree", "--out", str(tmp_path)]) == 0
    assert "4 trajectories, 3 kept (1 total reward);" in capsys.readouterr().out
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert rows[-1]["rejected"] == "total_reward"
    assert "got 1.0, the record says 0.5" in rows[-1]["detail"] or "got 0.0, the record says 0.5" in rows[-1]["detail"]
    only = write(tmp_path / "only.jsonl", [wrong])
    assert main(["audit", str(only), "--signals", "degree", "--out", str(tmp_path)]) == 2
    assert "nothing to compare; of 1 trajectories: 1 total_reward" in capsys.readouterr().err


def test_bad_input_is_explained(stored: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty = tmp_path / "empty.jsonl"
    empty.write_text('{"schema_version":1,"kind":"trajectory"}\n')
    other = write(tmp_path / "other.jsonl", [replace(next(iter(RecordStore(stored, "trajectory"))), env="shop")])
    for arguments, message in (
        ([str(empty)], "holds no trajectory"),
        ([str(other)], "environment 'shop'; the audit replays household episodes"),
        ([str(stored), "--signals", "degre"], "Did you mean 'degree'?"),
        ([str(stored), "--signals", ","], "no signal named"),
        ([str(stored), "--intervention", "skip"], "unknown 'skip'"),
        ([str(stored), "--closed-loop", "2"], "--closed-loop needs --model"),
        ([str(stored), "--divergence", str(tmp_path / "none.jsonl")], "no such file"),
        ([str(tmp_path / "missing.jsonl")], "missing.jsonl"),
    ):
        assert main(["audit", *arguments, "--out", str(tmp_path / "out")]) == 2, arguments
        assert message in capsys.readouterr().err, arguments
