"""Parquet: structs and texts of JSON, and the nulls that Arrow puts where a row had no key (D1)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tutelage.formats.base import ReadOptions, ReadProblem
from tutelage.formats.read_parquet import nullable_arguments, plain, read_parquet
from tutelage.types import Actor, ParsedCall, Trajectory

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

EXPERT = ReadOptions(actor=Actor.EXPERT)
USER = {"role": "user", "content": "go"}
SCHEMA = {
    "type": "object",
    "properties": {"id": {"type": ["integer", "null"], "default": None}, "b": {"type": "string"}},
}
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": SCHEMA}}]


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    return path


def read(path: Path) -> list[Any]:
    return list(read_parquet(path, EXPERT))


def reply(arguments: Any) -> dict[str, Any]:
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": arguments}}],
    }


def test_messages_as_text_are_told_by_their_type(tmp_path: Path) -> None:
    """Rows with id 1 and id "x", which no one column of structs could hold."""
    rows = [
        {
            "messages": json.dumps([USER, reply({"id": value})]),
            "tools": json.dumps(TOOLS),
            "instance_id": f"t-{value}",
            "resolved": resolved,
            "model": None,
            "traj_id": f"run.{value}",
        }
        for value, resolved in ((1, True), ("x", False))
    ]
    first, second = read(write(tmp_path / "a.parquet", rows))
    assert [one.steps[0].action.call for one in (first, second)] == [
        ParsedCall(name="f", arguments={"id": 1}),
        ParsedCall(name="f", arguments={"id": "x"}),
    ]
    assert [(one.trajectory_id, one.task_id, one.reward) for one in (first, second)] == [
        ("run.1", "t-1", 1.0),
        ("run.x", "t-x", 0.0),
    ]
    assert first.info["tools"] == TOOLS, "the default of null inside the schema stays"
    assert first.info["row"] == {"instance_id": "t-1", "resolved": True, "traj_id": "run.1"}


def test_nulls_of_other_rows_go_where_null_means_absent(tmp_path: Path) -> None:
    rows = [
        {"messages": [USER, reply('{"id": 1}'), {"role": "tool", "tool_call_id": "1", "content": "ok"}], "tools": None},
        {"messages": [USER, {"role": "assistant", "content": "plain", "weight": 0}], "tools": json.dumps(TOOLS)},
    ]
    first, second = read(write(tmp_path / "a.parquet", rows))
    assert first.steps[0].action.raw == {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"id": 1}'}}],
    }
    assert first.steps[0].observation.messages[0].extra == {}
    assert first.final_observation.messages[0].extra == {"tool_call_id": "1"}
    assert second.steps[0].action.raw == {"role": "assistant", "content": "plain", "weight": 0}
    assert "tools" not in first.info


def test_a_null_argument_stays_only_where_its_schema_allows_it(tmp_path: Path) -> None:
    """Structs: `c` is of the other row; `id` may be null, `b` may not."""
    rows = [
        {"messages": [USER, reply({"id": None, "b": None, "c": 1})], "tools": json.dumps(TOOLS)},
        {"messages": [USER, reply({"id": 2, "b": "x", "c": None})], "tools": json.dumps(TOOLS)},
    ]
    first, second = read(write(tmp_path / "a.parquet", rows))
    assert first.steps[0].action.call.arguments == {"id": None, "c": 1}
    assert second.steps[0].action.call.arguments == {"id": 2, "b": "x"}


def test_tool_structs_lose_the_nulls_of_their_frame_only(tmp_path: Path) -> None:
    tools = [{"type": "function", "strict": None, "function": {"name": "f", "description": None, "parameters": SCHEMA}}]
    (got,) = read(
        write(tmp_path / "a.parquet", [{"messages": [USER, {"role": "assistant", "content": "a"}], "tools": tools}])
    )
    (tool,) = got.info["tools"]
    assert set(tool) == {"type", "function"}
    assert set(tool["function"]) == {"name", "parameters"}
    # What Arrow did to the schema is not ours to guess.
    assert tool["function"]["parameters"]["properties"]["id"]["default"] is None


def test_nullable_arguments() -> None:
    assert nullable_arguments(TOOLS) == {("f", "id")}
    assert nullable_arguments(
        [{"name": "g", "parameters": {"properties": {"x": {"nullable": True}, "y": {"type": "null"}}}}]
    ) == {
        ("g", "x"),
        ("g", "y"),
    }
    assert nullable_arguments([{"function": None}, {"function": {"parameters": {"properties": 3}}}]) == frozenset()


def test_conversations_too(tmp_path: Path) -> None:
    turns = [{"from": "human", "value": "a", "loss": None}, {"from": "gpt", "value": "b", "loss": True}]
    (got,) = read(write(tmp_path / "a.parquet", [{"conversations": turns, "system": "s"}]))
    assert got.steps[0].observation.text == "s\na"
    assert got.steps[0].action.raw == {"role": "assistant", "content": "b", "loss": True}


def test_files_that_are_none(tmp_path: Path) -> None:
    good = write(tmp_path / "a.parquet", [{"messages": json.dumps([USER, {"role": "assistant", "content": "a"}])}] * 3)
    (tmp_path / "cut.parquet").write_bytes(good.read_bytes()[:-20])
    (tmp_path / "no.parquet").write_bytes(b"PAR1 and no more")
    (tmp_path / "zero.parquet").write_bytes(b"")
    for name in ("cut", "no", "zero"):
        (got,) = read(tmp_path / f"{name}.parquet")
        assert isinstance(got, ReadProblem)
        assert (got.reason, got.byte) == ("not_parquet", 0)
    (none,) = read(write(tmp_path / "b.parquet", [{"text": "x"}]))
    assert (none.line, none.reason, none.detail) == (
        1,
        "no_messages",
        "columns text: expected 'messages' or 'conversations'",
    )
    (wrong,) = read(write(tmp_path / "c.parquet", [{"messages": "[{"}]))
    assert (wrong.reason, wrong.detail) == (
        "bad_json",
        "column 'messages': the JSON ends after 2 bytes in the middle of a value",
    )
    assert all(isinstance(one, Trajectory) for one in read(good))


def test_plain() -> None:
    assert plain({"a": b"\xff", "b": [("k", 1), ("l", None)], "c": (1, 2), 3: 1.5}) == {
        "a": "\udcff",
        "b": {"k": 1, "l": None},
        "c": [1, 2],
        "3": 1.5,
    }
