"""ShareGPT: turns that alternate, calls as JSON, tools as a text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tutelage.formats.base import ReadOptions, ReadProblem, Refused
from tutelage.formats.read_sharegpt import messages_of_turns, read_sharegpt
from tutelage.types import Actor, ParsedCall, Trajectory

ROWS = Path(__file__).parents[1] / "fixtures" / "formats" / "rows"


def turn(author: str, value: Any) -> dict[str, Any]:
    return {"from": author, "value": value}


def test_rows_are_read_or_named() -> None:
    good, twice, call = read_sharegpt(ROWS / "sharegpt.json", ReadOptions(actor=Actor.EXPERT))
    assert isinstance(good, Trajectory)
    assert [(one.role, one.content) for one in good.steps[0].observation.messages] == [
        ("system", "s"),
        ("user", "What is in /a?"),
    ]
    assert good.steps[0].action.call == ParsedCall(name="ls", arguments={"path": "/a"})
    assert [(one.role, one.content) for one in good.steps[1].observation.messages] == [("tool", "b.py")]
    assert good.steps[1].action.command == "b.py"
    assert good.info["tools"][0]["function"]["name"] == "ls"
    assert isinstance(twice, ReadProblem)
    assert isinstance(call, ReadProblem)
    assert [(one.line, one.reason) for one in (twice, call)] == [(2, "not_alternating"), (3, "bad_call")]


def test_turns_as_messages() -> None:
    calls = [{"name": "ls", "arguments": {}}, {"name": "pwd", "arguments": "{}"}]
    got = messages_of_turns([turn("human", "a"), {**turn("function_call", json.dumps(calls)), "loss": True}], None)
    assert got == [
        {"role": "user", "content": "a"},
        {
            "loss": True,
            "role": "assistant",
            "content": None,
            "tool_calls": [{"type": "function", "function": call} for call in calls],
        },
    ]
    assert messages_of_turns([turn("system", "s"), turn("user", "a")], None)[0] == {"role": "system", "content": "s"}


@pytest.mark.parametrize(
    ("turns", "reason"),
    [
        ([turn("gpt", "a")], "not_alternating"),
        ([turn("human", "a"), turn("observation", "b")], "not_alternating"),
        ([turn("human", "a"), turn("oracle", "b")], "bad_role"),
        ([turn("human", None)], "bad_content"),
        ([turn("human", "a"), turn("function_call", "[]")], "bad_call"),
        (["a"], "no_messages"),
        ("a", "no_messages"),
    ],
)
def test_turns_that_are_refused(turns: Any, reason: str) -> None:
    with pytest.raises(Refused) as caught:
        messages_of_turns(turns, None)
    assert caught.value.reason == reason
