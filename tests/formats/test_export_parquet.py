"""Report D1: arguments of other types in other rows, tools in one row, calls in one row; Parquet gives them back as they were."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tutelage.formats.export import export
from tutelage.formats.row_files import read_rows
from tutelage.supervision.step_masks import all_steps
from tutelage.testing.trajectories import make_trajectory
from tutelage.types import Action, Message, Observation, Trajectory

parquet = pytest.importorskip("pyarrow.parquet")

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get",
            "parameters": {
                "type": "object",
                "properties": {"id": {"anyOf": [{"type": "integer"}, {"type": "string"}], "default": None}},
            },
        },
    }
]


def calling(arguments: str, task_id: str, **fields: Any) -> Trajectory:
    call = {"id": "c", "type": "function", "function": {"name": "get", "arguments": arguments}}
    action = Action(text="", command="get", raw={"role": "assistant", "content": None, "tool_calls": [call]})
    given = make_trajectory("ee", [action, "done"], task_id=task_id, **fields)
    answer = Observation(messages=(Message(role="tool", content="42", extra={"tool_call_id": "c"}),))
    return replace(given, steps=(given.steps[0], replace(given.steps[1], observation=answer)))


def the_rows() -> list[Trajectory]:
    return [
        calling('{"id": 1}', "a", info={"tools": TOOLS}),
        calling('{"id": "x", "deep": {"k": [null]}}', "b"),
        make_trajectory("e", task_id="c"),
    ]


def test_d1_parquet_round_trip(tmp_path: Path) -> None:
    """D1 (verifiers#547, axolotl#2909): Arrow unifies the structs of all rows and invents nulls."""
    export("parquet", the_rows(), tmp_path / "rows.parquet", supervise=all_steps)
    rows = read_rows(tmp_path / "rows.parquet", kind="parquet")
    calls = [one["tool_calls"] for row in rows for one in row["messages"]]
    assert [found and found[0]["function"]["arguments"] for found in calls] == [
        None, '{"id": 1}', None, None, None, '{"id": "x", "deep": {"k": [null]}}', None, None, None, None,
    ]  # fmt: skip
    assert [row["tools"] and json.loads(row["tools"]) for row in rows] == [TOOLS, None, None]
    assert rows[0]["messages"][1]["content"] is None
    assert rows[0]["messages"][2] == {
        "role": "tool", "content": "42", "name": None, "tool_calls": None, "tool_call_id": "c",
        "reasoning_content": None, "train": False,
    }  # fmt: skip


def test_d1_files_with_and_without_calls_concatenate(tmp_path: Path) -> None:
    """D1: a column of only null gets a type that fits no other file."""
    pyarrow = pytest.importorskip("pyarrow")
    export("parquet", the_rows()[:1], tmp_path / "a.parquet", supervise=all_steps)
    export("parquet", the_rows()[2:], tmp_path / "b.parquet", supervise=all_steps)
    tables = [parquet.read_table(tmp_path / name) for name in ("a.parquet", "b.parquet")]
    assert tables[0].schema == tables[1].schema
    assert pyarrow.concat_tables(tables).num_rows == 2


@pytest.mark.filterwarnings("ignore")
def test_d1_through_datasets(tmp_path: Path) -> None:
    """D1: the library that trainers load files with."""
    datasets = pytest.importorskip("datasets")
    export("parquet", the_rows(), tmp_path / "rows.parquet", supervise=all_steps)
    found = datasets.Dataset(parquet.read_table(tmp_path / "rows.parquet")).to_list()
    assert found == read_rows(tmp_path / "rows.parquet", kind="parquet")


def test_d2_arguments_are_never_encoded_twice(tmp_path: Path) -> None:
    """D2 (oumi#2599): a string stays the string it is, an object becomes one, null content stays null."""
    given = calling('{"id":1}', "a")
    raw = dict(given.steps[0].action.raw or {})
    raw["tool_calls"] = [{"id": "c", "type": "function", "function": {"name": "get", "arguments": {"id": 1}}}]
    as_object = replace(given.steps[0], action=replace(given.steps[0].action, raw=raw))
    for steps, written in ((given.steps, '{"id":1}'), ((as_object, given.steps[1]), '{"id": 1}')):
        out = tmp_path / f"{len(written)}.jsonl"
        export("openai", [replace(given, steps=steps)], out, supervise=all_steps)
        [row] = read_rows(out, kind="jsonl")
        assert row["messages"][1]["tool_calls"][0]["function"]["arguments"] == written
        assert row["messages"][1]["content"] is None
        assert "tool_calls" not in row["messages"][3]
