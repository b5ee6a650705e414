"""Python tasks: ids and settings, splits that share nothing, and files that are for evaluation alone."""

from __future__ import annotations

import json

import pytest

from tutelage.envs.python.env import PythonEnv
from tutelage.envs.python.templates import LEVELS
from tutelage.errors import ConfigError, FormatError
from tutelage.tasks.base import check_disjoint, manifest_line
from tutelage.tasks.python import PythonTasks
from tutelage.tasks.registry import load_tasks
from tutelage.types import Split

pytestmark = pytest.mark.usefixtures("python_sandbox")


def test_a_generated_task():
    [task] = load_tasks("python", "train", 2, 1)
    assert (task.task_id, task.env, task.kind, task.split) == (
        "py-stories-train-000002",
        "python",
        "stories",
        Split.TRAIN,
    )
    assert task.goal.startswith("Ben has 74 stamps.")
    settings = dict(task.settings)
    assert len(settings.pop("content_hash")) == 64
    assert settings == {
        "source": "generated",
        "level": "stories",
        "problem_seed": 2,
        "share": "train",
        "max_steps": 16,
    }


def test_levels_take_turns_and_a_range_is_a_part_of_the_whole():
    tasks = PythonTasks().load("test", 0, 10)
    assert [task.kind for task in tasks] == [*LEVELS, *LEVELS]
    assert PythonTasks().load("test", 3, 4) == tasks[3:7]
    assert len(PythonTasks().load("train")) == 120


def test_splits_share_nothing():
    check_disjoint(*(PythonTasks().load(split, 0, 300) for split in Split))


def test_options_reach_the_settings():
    limits = {"seconds": 3}
    [task] = PythonTasks(persist=True, max_steps=4, limits=limits, sandbox="bubblewrap").load("train", 0, 1)
    assert {name: task.settings[name] for name in ("persist", "max_steps", "limits", "sandbox")} == {
        "persist": True,
        "max_steps": 4,
        "limits": {"seconds": 3},
        "sandbox": "bubblewrap",
    }
    json.dumps(dict(task.settings))


def test_the_real_files(tir):
    tasks = PythonTasks("aime", path=tir / "aime24.jsonl").load("test")
    assert len(tasks) == 30
    assert tasks[0].task_id == "py-aime24-aime24-0"
    assert tasks[0].goal == "aime problem aime24-0"
    env = PythonEnv(tasks[0])
    assert env.reset(0).text.startswith("Every morning Aya goes for a $9$-kilometer-long walk")
    assert len(PythonTasks("aime", path=tir / "aime24.jsonl").load("test", 28, 10)) == 2


@pytest.fixture
def gpqa(tmp_path):
    row = {"Record ID": "rec1", "Question": "A secret question?", "Correct Answer": "one"}
    row |= {f"Incorrect Answer {number}": f"no {number}" for number in (1, 2, 3)}
    path = tmp_path / "gpqa.jsonl"
    path.write_text(json.dumps(row))
    return path


def test_questions_of_an_evaluation_stand_in_no_task_and_no_manifest(gpqa):
    [task] = PythonTasks("gpqa", path=gpqa, shuffle_seed=3).load("test")
    assert "secret" not in repr(task)
    assert "secret" not in manifest_line(task)
    assert task.settings["shuffle_seed"] == 3
    assert len(task.settings["file_hash"]) == 64


def test_a_version_is_recorded_and_lcb_needs_one(gpqa):
    [task] = PythonTasks("gpqa", path=gpqa, version="diamond").load("test")
    assert task.settings["version"] == "diamond"
    with pytest.raises(ConfigError, match="without version"):
        PythonTasks("lcb", path=gpqa)


@pytest.mark.parametrize("split", ["train", "validation"])
def test_evaluation_files_are_never_trained_on(gpqa, split):
    with pytest.raises(ConfigError, match="never trained on"):
        PythonTasks("gpqa", path=gpqa).load(split)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"source": "aim"}, "Did you mean 'aime'"),
        ({"levels": ["sum"]}, "Did you mean 'sums'"),
        ({"levels": []}, "0 levels"),
        ({"source": "aime"}, "Give a path"),
        ({"path": "x.jsonl"}, "none with that"),
        ({"max_steps": 0}, "max_steps 0"),
        ({"limits": {"memory": 3}}, "Did you mean 'memory_mb'"),
        ({"sandbox": "docker"}, "unknown 'docker'"),
    ],
)
def test_what_cannot_be_asked_for(options, message):
    with pytest.raises(ConfigError, match=message):
        PythonTasks(**options)


def test_ranges_are_checked():
    with pytest.raises(ConfigError, match="start -1"):
        PythonTasks().load("train", -1, 1)
    with pytest.raises(FormatError, match="no such file"):
        PythonTasks("aime", path="/no/such/file.jsonl").load("test")
