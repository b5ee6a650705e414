from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tutelage.errors import ConfigError, FormatError
from tutelage.tasks.adapters import GymnasiumTasks, HttpTasks, OpenEnvTasks, VerifiersTasks, read_rows
from tutelage.tasks.base import check_disjoint, manifest_hash
from tutelage.tasks.registry import load_tasks, make_task_set
from tutelage.types import Split

URL = "http://127.0.0.1:8000"
FIELDS: dict[str, Any] = {"action_field": "command", "observation_field": "text"}


def test_a_numbered_task_in_full() -> None:
    task = HttpTasks(url=URL, max_steps=9, goal="find it", footprints="my.world:footprints").load("validation", 2, 1)[0]
    assert (task.task_id, task.env, task.goal, task.seed, task.split) == (
        "http-validation-000002",
        "http",
        "find it",
        7,
        Split.VALIDATION,
    )
    assert {key: value for key, value in task.settings.items() if key != "content_hash"} == {
        "url": URL,
        "timeout": 60.0,
        "retries": 2,
        "score": "sum",
        "max_steps": 9,
        "footprints": "my.world:footprints",
        "task": {"id": "http-validation-000002", "split": "validation", "index": 2},
    }
    assert json.loads(json.dumps(task.settings)) == task.settings


@pytest.mark.parametrize(
    "tasks",
    [
        GymnasiumTasks(id="X-v0"),
        HttpTasks(url=URL),
        OpenEnvTasks(url=URL, **FIELDS),
    ],
)
def test_numbered_splits_share_nothing(tasks: Any) -> None:
    panels = [tasks.load(split, count=30) for split in ("train", "validation", "test")]
    check_disjoint(*panels)
    assert len({task.seed for panel in panels for task in panel}) == 90
    assert tasks.load("train", start=4, count=2) == panels[0][4:6]
    assert len(tasks.load("train")) == 100


def test_where_the_server_is_does_not_change_the_panel() -> None:
    panels = [HttpTasks(url=url).load("test", count=3) for url in (URL, "https://elsewhere.example")]
    assert manifest_hash(panels[0]) == manifest_hash(panels[1])


def test_another_environment_is_another_panel() -> None:
    hashes = {
        load_tasks("gymnasium", "test", count=1, **options)[0].settings["content_hash"]
        for options in ({"id": "X-v0"}, {"id": "Y-v0"}, {"id": "X-v0", "kwargs": {"size": 3}}, {"make": "m:f"})
    }
    assert len(hashes) == 4


def test_tasks_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text(
        '{"id": "a", "goal": "go", "kind": "easy", "seed": 5, "task": {"level": 1}}\n\n{}\n{"split": "test", "task": "x"}\n'
    )
    train = load_tasks("openenv", "train", url=URL, tasks=str(path), goal="any", **FIELDS)
    assert [(one.task_id, one.goal, one.kind, one.seed, one.settings.get("task")) for one in train] == [
        ("a", "go", "easy", 5, {"level": 1}),
        ("openenv-mine-000003", "any", "", 3, None),
    ]
    test = load_tasks("http", "test", url=URL, tasks=str(path))
    assert [(one.task_id, one.settings["task"]) for one in test] == [("http-mine-000004", "x")]
    with pytest.raises(FormatError, match="no task of split 'validation'"):
        load_tasks("http", "validation", url=URL, tasks=str(path))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 1: no JSON"),
        ("[]", "line 1: a list, expected an object"),
        ('{"goall": "x"}', "line 1: unknown key 'goall'"),
        ('{"seed": "1"}', "line 1: seed is '1', expected a int"),
        ('{"split": "trian"}', "line 1: split is 'trian'"),
        ('{"id": "a"}\n{"id": "a"}', "the id 'a' stands twice"),
    ],
)
def test_a_broken_file_is_refused_with_its_line(line: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text(line)
    with pytest.raises(FormatError, match=message):
        load_tasks("http", "train", url=URL, tasks=str(path))


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"cannot be read \(No such file"):
        load_tasks("http", "train", url=URL, tasks=str(tmp_path / "none.jsonl"))


@settings(max_examples=40)
@given(
    rows=st.lists(
        st.fixed_dictionaries(
            {},
            optional={
                "split": st.sampled_from(["train", "validation", "test"]),
                "seed": st.integers(0, 2**63),
                "goal": st.text(),
                "kind": st.text(),
                "task": st.recursive(st.none() | st.integers() | st.text(), lambda inner: st.lists(inner)),
            },
        ),
        max_size=5,
    )
)
def test_what_a_file_says_is_what_is_read(rows: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    read = read_rows(path, "http")
    assert [
        {key: value for key, value in row.items() if key in given} for row, given in zip(read, rows, strict=True)
    ] == rows
    assert len({row["id"] for row in read}) == len(rows)


@pytest.mark.parametrize(
    ("env", "options", "message"),
    [
        ("gymnasium", {}, "give either 'id'"),
        ("gymnasium", {"id": "X-v0", "make": "m:f"}, "give either 'id'"),
        ("gymnasium", {"id": "X-v0", "max_steps": 0}, "max_steps is 0"),
        ("openenv", {"url": URL}, "give either 'act' or 'action_field'"),
        ("openenv", {"url": URL, **FIELDS, "timeout": 0}, "timeout is 0"),
        ("http", {"url": URL, "retries": -1}, "retries -1"),
        ("http", {"url": URL, "port": 8}, "http tasks: option: unknown 'port'"),
        ("verifiers", {"taskset": "x", "split_config": {"dev": {}}}, "tasks: split: unknown 'dev'"),
    ],
)
def test_options_that_do_not_hold_are_refused(env: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_task_set(env, **options)


@pytest.mark.parametrize("tasks", [HttpTasks(url=URL), VerifiersTasks(taskset="x")])
@pytest.mark.parametrize(("start", "count"), [(-1, 1), (0, 0)])
def test_a_range_that_is_none_is_refused(tasks: Any, start: int, count: int) -> None:
    with pytest.raises(ConfigError, match=f"start {start} and count {count}"):
        tasks.load("train", start, count)


def test_an_environment_of_the_users_own_may_play_through_an_adapter() -> None:
    assert HttpTasks(url=URL, env_name="my_world").load("train", count=1)[0].env == "my_world"
