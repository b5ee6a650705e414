"""A -> native -> A: what was read is written as it was, up to the normalisations that docs/formats.md lists."""

from __future__ import annotations

import copy
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tutelage.errors import ExportError
from tutelage.formats.base import ReadOptions
from tutelage.formats.export import export
from tutelage.formats.read_atif import read_atif
from tutelage.formats.read_calls import wire_arguments
from tutelage.formats.read_openai_chat import read_openai_chat
from tutelage.formats.read_parquet import read_parquet
from tutelage.store import from_json, to_json
from tutelage.supervision.step_masks import all_steps
from tutelage.types import Actor, Trajectory

EXPERT = ReadOptions(actor=Actor.EXPERT)
SETTINGS = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])

TEXT = st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
SOME_TEXT = TEXT.filter(str.strip)
VALUES = st.integers(-5, 5) | TEXT | st.none() | st.lists(st.integers(0, 3), max_size=2)
ARGUMENTS = st.dictionaries(SOME_TEXT, VALUES, max_size=3)


@st.composite
def written_arguments(draw: st.DrawFn) -> Any:
    """Arguments in each shape that producers give them."""
    text = json.dumps(draw(ARGUMENTS), ensure_ascii=draw(st.booleans()))
    return draw(st.sampled_from([text, json.loads(text), json.dumps(text)]))


@st.composite
def content(draw: st.DrawFn, text: st.SearchStrategy[str]) -> Any:
    said = draw(text)
    parts = [{"type": "text", "text": said[: len(said) // 2]}, {"type": "text", "text": said[len(said) // 2 :]}]
    return draw(st.sampled_from([said, parts]))


@st.composite
def rows(draw: st.DrawFn) -> dict[str, Any]:
    """A conversation that ends with a reply: calls with answers in any order, content null, plain replies."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": draw(TEXT)}] if draw(st.booleans()) else []
    messages.append({"role": "user", "content": draw(content(TEXT))})
    for turn in range(draw(st.integers(1, 3))):
        count = draw(st.integers(0, 2))
        reply: dict[str, Any] = {
            "role": "assistant",
            "content": draw(content(SOME_TEXT) if not count else st.none() | TEXT),
        }
        calls = [
            {
                "id": f"c{turn}{place}",
                "type": "function",
                "function": {"name": draw(st.sampled_from(["ls", "édit"])), "arguments": draw(written_arguments())},
            }
            for place in range(count)
        ]
        if calls or draw(st.booleans()):
            reply["tool_calls"] = calls or draw(st.sampled_from([None, []]))
        messages.append(reply)
        for call in draw(st.permutations(calls)):
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": draw(content(TEXT))})
        if not count:
            messages.append({"role": "user", "content": draw(TEXT)})
    while messages[-1]["role"] != "assistant":
        messages.pop()
    row: dict[str, Any] = {"messages": messages}
    if draw(st.booleans()):
        row["tools"] = [{"type": "function", "function": {"name": "ls", "parameters": {"x": {"default": None}}}}]
    return row


def normalised(row: dict[str, Any]) -> dict[str, Any]:
    """What a row is after the listed normalisations: parts as text, arguments as one string, no calls as no key."""
    row = copy.deepcopy(row)
    for message in row["messages"]:
        if isinstance(message["content"], list):
            message["content"] = "".join(part["text"] for part in message["content"])
        if not message.get("tool_calls"):
            message.pop("tool_calls", None)
        for call in message.get("tool_calls", ()):
            call["function"]["arguments"] = wire_arguments(call["function"]["arguments"])
        message.pop("weight", None)
    return row


def through_native(trajectory: Trajectory) -> Trajectory:
    made: Trajectory = from_json("trajectory", json.loads(json.dumps(to_json(trajectory))))
    assert made == trajectory
    return made


def read_one(reader: Any, path: Path, options: ReadOptions = EXPERT) -> Trajectory:
    (made,) = reader(path, options)
    assert isinstance(made, Trajectory), made
    return made


@SETTINGS
@given(rows())
def test_chat_rows(row: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path, out = Path(folder, "in.jsonl"), Path(folder, "out.jsonl")
        path.write_text(json.dumps(row) + "\n")
        made = through_native(read_one(read_openai_chat, path))
        export("openai", [made], out, supervise=all_steps)
        (line, nothing) = out.read_text(encoding="utf-8").split("\n")
    assert nothing == ""
    written = json.loads(line)
    assert [one.pop("weight") for one in written["messages"] if one["role"] == "assistant"] == [1] * len(made.steps)
    assert written == normalised(row)


@settings(parent=SETTINGS, max_examples=25)
@given(rows())
def test_d1_parquet_rows(row: dict[str, Any]) -> None:
    """Also arguments whose keys and types differ from call to call, and schemas with a null in them."""
    pytest.importorskip("pyarrow")
    with tempfile.TemporaryDirectory() as folder:
        path, out = Path(folder, "in.jsonl"), Path(folder, "out.parquet")
        path.write_text(json.dumps(row) + "\n")
        made = read_one(read_openai_chat, path)
        refused = None
        try:
            export("parquet", [made], out, supervise=all_steps)
        except ExportError as error:
            refused = str(error)
        if refused is not None:
            # What the flag `train` cannot say of a text is refused; nothing is then to be read again.
            assert "shared_border" in refused or "empty_trained_message" in refused
            assert not out.exists()
            return
        again = read_one(read_parquet, out)
    assert [step.action.call for step in again.steps] == [step.action.call for step in made.steps]
    assert said(again) == said(made)
    assert again.info.get("tools") == made.info.get("tools")


@SETTINGS
@given(rows(), st.data())
def test_atif_documents(row: dict[str, Any], data: st.DataObject) -> None:
    """ATIF -> native -> ATIF -> native: who acted, what was said and seen, ids, reward and ending are the same."""
    with tempfile.TemporaryDirectory() as folder:
        path, first, second = (Path(folder, name) for name in ("in.jsonl", "first.jsonl", "second.jsonl"))
        options = ReadOptions(actor=Actor.EXPERT, switch_indices={"t": 0})
        path.write_text(json.dumps({"id": "t", "reward": data.draw(st.sampled_from([None, 0, 1.0])), **row}) + "\n")
        chat = read_one(read_openai_chat, path, options)
        export("atif", [chat], first, supervise=all_steps)
        made = through_native(read_one(read_atif, first, ReadOptions()))
        export("atif", [made], second, supervise=all_steps)
        again = read_one(read_atif, second, ReadOptions())
        documents = [json.loads(one.read_text(encoding="utf-8")) for one in (first, second)]
    assert documents[0] == documents[1]
    assert again.steps == made.steps
    assert said(made) == said(chat)
    assert [step.actor for step in made.steps] == [step.actor for step in chat.steps]
    assert (made.trajectory_id, made.reward, made.stop_reason) == (chat.trajectory_id, chat.reward, chat.stop_reason)


def said(trajectory: Trajectory) -> list[Any]:
    """Every message of an episode up to its last action, in the shape of chat rows."""
    messages: list[Any] = []
    for step in trajectory.steps:
        for one in step.observation.messages:
            messages.append((one.role, one.content, one.extra.get("tool_call_id")))
        raw = step.action.raw or {}
        messages.append(("assistant", raw.get("content") and step.action.text, raw.get("tool_calls")))
    return messages


def test_the_fixture_document_comes_back(tmp_path: Path) -> None:
    """Ids and log-probabilities too; parts are one text."""
    pytest.importorskip("atif")
    main = next(read_atif(Path(__file__).parents[1] / "fixtures/formats/atif/main.json", EXPERT))
    assert isinstance(main, Trajectory)
    export("atif", [main], tmp_path / "a.jsonl", supervise=all_steps)
    again = read_one(read_atif, tmp_path / "a.jsonl", ReadOptions())
    assert [step.action for step in again.steps] == [step.action for step in main.steps]
    assert said(again) == said(main)
    assert (again.trajectory_id, again.reward) == ("main", 1.0)
