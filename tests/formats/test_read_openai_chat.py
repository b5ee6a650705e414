"""Chat rows: arguments in three shapes, calls that are none, content that is null, and lines that are broken (D2, D5, C1)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tutelage.errors import ConfigError
from tutelage.formats.base import ReadOptions, ReadProblem
from tutelage.formats.flags import flag_supervision
from tutelage.formats.read_calls import arguments_of, wire_arguments
from tutelage.formats.read_openai_chat import read_openai_chat
from tutelage.store import RecordStore
from tutelage.types import Actor, LossComponent, ParsedCall, ParseOutcome, StopReason, Trajectory

ROWS = Path(__file__).parents[1] / "fixtures" / "formats" / "rows"
EXPERT = ReadOptions(actor=Actor.EXPERT)
USER = {"role": "user", "content": "go"}


def read_rows(tmp_path: Path, *rows: Any, options: ReadOptions = EXPERT) -> list[Any]:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return list(read_openai_chat(path, options))


def test_d2_each_line_is_read_or_named() -> None:
    got = list(read_openai_chat(ROWS / "mixed.jsonl", EXPERT))
    assert [one.trajectory_id if isinstance(one, Trajectory) else (one.line, one.reason) for one in got] == [
        "string",
        "object",
        "twice",
        "null-calls",
        "empty-calls",
        (6, "bad_call"),
        (7, "bad_call"),
        "surrogate",
        (9, "torn_line"),
    ]
    assert str(got[5]).endswith(
        "mixed.jsonl, line 6, byte 1339: bad_call: message 1: call {'id': 'c', 'type': 'function', 'function': "
        "{'arguments': '{}'}}: no name, expected a text"
    )
    assert [one.steps[0].action.call for one in got[:5]] == [
        ParsedCall(name="ls", arguments={"id": 1}),
        ParsedCall(name="ls", arguments={"id": "x"}),
        ParsedCall(name="ls", arguments={"id": "x"}),
        None,
        None,
    ]


def test_d2_null_stays_null_and_nothing_is_encoded_twice() -> None:
    first, second, third, fourth, fifth = list(read_openai_chat(ROWS / "mixed.jsonl", EXPERT))[:5]
    raw = [one.steps[0].action.raw for one in (first, second, third)]
    assert [one["tool_calls"][0]["function"]["arguments"] for one in raw] == ['{"id": 1}', '{"id": "x"}', '{"id": "x"}']
    assert raw[0]["content"] is None
    assert "content" not in raw[2]
    assert first.steps[0].action.text == ""
    assert fourth.steps[0].action.raw == {"role": "assistant", "content": "nothing", "train": False}
    assert fifth.steps[0].action.text == "nothing"
    assert fifth.steps[0].action.raw["reasoning_content"] == "hm"


def test_steps_and_observations(tmp_path: Path) -> None:
    system = {"role": "system", "content": "s"}
    calls = [
        {"id": str(i), "type": "function", "function": {"name": "f", "arguments": f'{{"i": {i}}}'}} for i in (1, 2)
    ]
    row = {
        "instance_id": "t",
        "resolved": False,
        "model": "m",
        "tools": json.dumps([{"type": "function", "function": {"name": "f"}}]),
        "messages": [
            system,
            USER,
            {"role": "assistant", "content": None, "tool_calls": calls},
            {"role": "tool", "tool_call_id": "2", "content": "two"},
            {"role": "tool", "tool_call_id": "1", "content": "one", "name": "f"},
            {"role": "assistant", "content": "done"},
            {"role": "user", "content": "thanks"},
        ],
    }
    (got,) = read_rows(tmp_path, row)
    assert [[(one.role, one.content) for one in step.observation.messages] for step in got.steps] == [
        [("system", "s"), ("user", "go")],
        [("tool", "two"), ("tool", "one")],
    ]
    assert got.steps[1].observation.messages[1].extra == {"tool_call_id": "1", "name": "f"}
    assert got.final_observation is not None
    assert got.final_observation.text == "thanks"
    assert (got.task_id, got.reward, got.stop_reason, got.env) == ("t", 0.0, StopReason.COMPLETED, "imported")
    assert got.steps[0].action.call == ParsedCall(name="f", arguments={"i": 1}), "the first of two; both are in raw"
    assert len(got.steps[0].action.raw["tool_calls"]) == 2
    assert got.info["tools"] == [{"type": "function", "function": {"name": "f"}}]
    assert got.info["row"] == {"instance_id": "t", "resolved": False, "model": "m"}


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([USER], "no_assistant"),
        ([USER, {"role": "robot", "content": "x"}], "bad_role"),
        ([USER, "text"], "bad_role"),
        ([USER, {"role": "assistant", "content": 3}], "bad_content"),
        ([{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}, {"role": "assistant", "content": "x"}], "not_text"),
        ([USER, {"role": "assistant", "content": "x", "tool_calls": "ls"}], "bad_call"),
        ([USER, {"role": "assistant", "content": "x", "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{}"}}]},
          {"role": "tool", "tool_call_id": "2", "content": ""}], "tool_ids"),
        ("text", "no_messages"),
    ],
)  # fmt: skip
def test_rows_that_are_refused(messages: Any, reason: str, tmp_path: Path) -> None:
    good = {"messages": [USER, {"role": "assistant", "content": "ok"}]}
    got = read_rows(tmp_path, {"messages": messages}, [1], {"text": "x"}, good)
    assert [one.reason for one in got[:3]] == [reason, "not_object", "no_messages"]
    assert (got[3].trajectory_id, got[3].steps[0].action.command) == ("rows-4", "ok")


def test_arguments_that_are_no_json_are_the_models_mistake(tmp_path: Path) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{'a': 1"}}
    (got,) = read_rows(tmp_path, {"messages": [USER, {"role": "assistant", "content": None, "tool_calls": [call]}]})
    assert (got.steps[0].action.parse, got.steps[0].action.command) == (ParseOutcome.MALFORMED, None)
    assert got.steps[0].action.raw["tool_calls"] == [call]


@pytest.mark.parametrize(
    ("came", "written"),
    [('{"a": 1}', '{"a": 1}'), ({"a": "é"}, '{"a": "é"}'), ('"{\\"a\\": 1}"', '{"a": 1}'), ("{'a'", "{'a'"), ("", "")],
)
def test_wire_arguments(came: Any, written: str) -> None:
    assert wire_arguments(came) == written


def test_calls_of_old_and_of_bare_shape_are_written_alike(tmp_path: Path) -> None:
    old = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}
    bare = {"role": "assistant", "content": "", "tool_calls": [{"id": "1", "name": "f", "arguments": {}}]}
    got = read_rows(tmp_path, {"messages": [USER, old]}, {"messages": [USER, bare]})
    function = {"name": "f", "arguments": "{}"}
    assert [one.steps[0].action.raw["tool_calls"] for one in got] == [
        [{"type": "function", "function": function}],
        [{"id": "1", "type": "function", "function": function}],
    ]


@pytest.mark.parametrize(
    ("came", "found"),
    [("", {}), ("{}", {}), ('"{}"', {}), ("[1]", None), ("1", None), ("nul", None), ({"a": 1}, {"a": 1}), ([1], None)],
)
def test_arguments_of(came: Any, found: Any) -> None:
    assert arguments_of(came) == found


def test_d5_text_that_utf8_cannot_say_is_replaced_and_marked(tmp_path: Path) -> None:
    got = list(read_openai_chat(ROWS / "mixed.jsonl", EXPERT))[7]
    assert got.steps[0].action.text == "a\ufffdb \ufffd|\ufffd \ufffd"
    assert got.info["replaced_characters"] == 4
    (raw,) = read_openai_chat(ROWS / "bytes.jsonl", EXPERT)
    assert isinstance(raw, Trajectory)
    assert raw.goal == "\ufffd\ufffd"
    store: RecordStore = RecordStore(tmp_path / "t.jsonl", "trajectory")
    store.append(got)
    store.append(raw)
    assert list(store) == [got, raw]


def test_flags_change_nothing_unless_told(tmp_path: Path) -> None:
    replies = [
        {"role": "assistant", "content": str(i)} | flags for i, flags in enumerate(({"weight": 0}, {}, {"weight": 0.5}))
    ]
    messages = [one for reply in replies for one in (USER, reply)]
    (got,) = read_rows(tmp_path, {"messages": messages})
    assert [step.actor for step in got.steps] == [Actor.EXPERT] * 3
    told = flag_supervision(got, "weight")
    assert told.step_mask == (False, True, True)
    assert told.step_weights == {LossComponent.SFT: (0.0, 1.0, 0.5)}
    assert flag_supervision(got, "train").step_mask == (True, True, True)


def test_a_named_author_is_believed_and_a_wrong_one_refused(tmp_path: Path) -> None:
    def row(*authors: Any) -> dict[str, Any]:
        replies = [{"role": "assistant", "content": "a", "tutelage_actor": author} for author in authors]
        return {"messages": [one for reply in replies for one in (USER, reply)]}

    (got,) = read_rows(tmp_path, row("student", "expert"), options=ReadOptions())
    assert ([step.actor for step in got.steps], got.switch_index) == ([Actor.STUDENT, Actor.EXPERT], 1)
    assert "tutelage_actor" not in (got.steps[0].action.raw or {})
    (refused,) = read_rows(tmp_path, row("teacher"), options=ReadOptions())
    assert isinstance(refused, ReadProblem)
    assert refused.reason == "bad_actor"
    with pytest.raises(ConfigError, match=r"rows.jsonl, line 1: the file does not say who acted"):
        read_rows(tmp_path, {"messages": [USER, {"role": "assistant", "content": "a"}]}, options=ReadOptions())


def test_a_switch_index_of_the_row_or_of_a_side_file(tmp_path: Path) -> None:
    messages = [one for text in "abc" for one in (USER, {"role": "assistant", "content": text})]
    (got,) = read_rows(tmp_path, {"messages": messages, "model_switch_idx": 1}, options=ReadOptions())
    assert [step.actor for step in got.steps] == [Actor.STUDENT, Actor.EXPERT, Actor.EXPERT]
    assert got.switch_rule == "imported"
    side = ReadOptions(switch_indices={"t": 2})
    (got,) = read_rows(tmp_path, {"instance_id": "t", "messages": messages}, options=side)
    assert got.switch_index == 2
    (refused,) = read_rows(tmp_path, {"messages": messages, "model_switch_idx": 4})
    assert refused.reason == "switch_index"


def test_surrogates_spelled_inside_arguments_are_replaced_in_the_call(tmp_path: Path) -> None:
    call = {"id": "1", "function": {"name": "f", "arguments": '{"a": "\\udc00"}'}}
    row = {
        "messages": [USER, {"role": "assistant", "content": None, "tool_calls": [call]}],
        "tools": '[{"x": "\\u0000"}]',
    }
    (got,) = read_rows(tmp_path, row)
    assert got.steps[0].action.call.arguments == {"a": "\ufffd"}
    assert got.steps[0].action.raw["tool_calls"][0]["function"]["arguments"] == '{"a": "\\udc00"}'
    assert got.info["tools"] == [{"x": "\ufffd"}]


def test_one_json_array_is_read_by_position(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    path.write_text(
        json.dumps([{"messages": [USER, {"role": "assistant", "content": "a"}]}, {"messages": []}], indent=2)
    )
    got = list(read_openai_chat(path, EXPERT))
    assert isinstance(got[0], Trajectory)
    assert (got[1].line, got[1].byte, got[1].reason) == (2, None, "no_assistant")  # type: ignore[union-attr]
