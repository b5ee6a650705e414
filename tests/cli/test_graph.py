"""The verb `graph`: a table, a record or a picture of any stored episode, and clear refusals."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest
from rich.console import Console

from tutelage.analysis.episode_graph import episode_graph
from tutelage.cli import graph as verb
from tutelage.cli.main import main
from tutelage.store import RecordStore
from tutelage.testing import make_trajectory
from tutelage.types import StopReason, Trajectory


def fridge(actors: str = "ess") -> Trajectory:
    return make_trajectory(
        actors,
        ["go to fridge 1", "open fridge 1", "dance"],
        [
            "You are in a room. You see a fridge 1.",
            "You arrive at fridge 1. The fridge 1 is closed.",
            "You open the fridge 1. The fridge 1 is open. In it, you see nothing.",
            "Nothing happens.",
        ],
        env="household",
        task_id="t0",
        goal="cool [an] egg",
        stop_reason=StopReason.MAX_STEPS,
        reward=0.0,
    )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "trajectories.jsonl"
    store: RecordStore = RecordStore(path, "trajectory")
    store.append(fridge())
    store.append(make_trajectory("s", ["look"], env="household", task_id="short"))
    store.append(make_trajectory("ss", task_id="other"))
    return path


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    assert main(["graph", *arguments]) == 0
    return capsys.readouterr().out


def test_a_table_of_every_step(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = said(capsys, str(file), "--weights", "degree").splitlines()
    assert shown[:3] == [
        "t0.test.s0.n0.a0",
        "cool [an] egg   max_steps, reward 0",
        "3 steps, 1 edges, density 0.333, 1 without an edge; the last writer of a key counts",
    ]
    assert [re.split(r"\s{2,}", line.strip()) for line in shown[3:7]] == [
        ["step", "actor", "command", "effect", "degree", "l_graph", "*", "read (step that wrote it: keys)", "written"],
        ["0", "expert", "go to fridge 1", "changed", "1", "+0.71", "-", "container_state:fridge 1, location:fridge 1"],
        ["1", "student", "open fridge 1", "changed", "1", "+0.71", "*", "0: container_state:fridge 1, location:fridge 1",
         "container_state:fridge 1, visible_at:fridge 1"],
        ["2", "student", "dance", "no_effect", "0", "−1.41", "-", "-"],
    ]  # fmt: skip
    assert shown[7] == "* chosen by degree without a teacher's divergence"


def test_a_narrow_terminal_has_the_keys_below_the_command() -> None:
    console = Console(width=70, record=True, highlight=False, file=io.StringIO())
    verb._print(console, episode_graph(fridge()), "graphopd")
    lines = [line.rstrip() for line in console.export_text().splitlines()]
    assert lines[3].split() == ["step", "actor", "command", "effect", "degree", "l_graph", "*"]
    assert max(map(len, lines[3:-1])) <= 70
    at = next(index for index, line in enumerate(lines) if line.startswith("   1"))
    assert lines[at].split() == ["1", "student", "open", "fridge", "1", "changed", "1", "+0.71", "*"]
    assert " ".join(" ".join(lines[at + 1 : at + 9]).split()).startswith(
        "read 0: container_state:fridge 1, location:fridge 1 wrote container_state:fridge 1, visible_at:fridge 1"
    )


def test_the_record_as_json(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = json.loads(said(capsys, str(file), "--id", "t0", "--writer", "any", "--json"))
    assert data == {
        "trajectory_id": "t0.test.s0.n0.a0",
        "num_steps": 3,
        "edges": [[0, 1, 2]],
        "writer_rule": "any",
    }


def test_keys_that_nobody_wrote_stand_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "trajectories.jsonl"
    replies = ["Room.", "Nothing happens.", "Nothing happens."]
    RecordStore(path, "trajectory").append(
        make_trajectory("ss", ["take egg 1 from table 1"] * 2, replies, env="household")
    )
    shown = said(capsys, str(path))
    assert "-: " in shown
    assert "note: no_edges" in shown


@pytest.mark.parametrize(("name", "start"), [("g.svg", "<svg "), ("g.html", "<!doctype html>")])
def test_a_picture(file: Path, name: str, start: str, capsys: pytest.CaptureFixture[str]) -> None:
    out = file.with_name(name)
    assert said(capsys, str(file), "--out", str(out)).splitlines()[-1] == f"picture  -> {out}"
    text = out.read_text(encoding="utf-8")
    assert text.startswith(start)
    assert "cool [an] egg" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--index", "1"], "1 steps, expected two or more"),
        (["--index", "2"], "environment 'counting' has no footprints"),
        (["--index", "3"], "there is no --index 3"),
        (["--id", "nobody"], "0 ids begin with 'nobody'"),
        (["--weights", "degre"], "Did you mean 'degree'"),
        (["--weights", "replay_impact"], "rest on a teacher or a replay"),
        (["--writer", "lats"], "Did you mean 'last'"),
        (["--out", "g.png"], "ends in .svg or .html"),
        (["--out", "/nowhere/g.svg"], "/nowhere/g.svg: cannot write"),
    ],
)
def test_what_cannot_be_drawn_is_explained(
    file: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["graph", str(file), *arguments]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.out == ""


def test_a_missing_file_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["graph", "/nowhere/trajectories.jsonl"]) == 2
    assert "/nowhere/trajectories.jsonl: no such file. Give" in capsys.readouterr().err
    assert main(["graph", "/nowhere", "graphopd"]) == 2
    assert "/nowhere: not a run directory" in capsys.readouterr().err
