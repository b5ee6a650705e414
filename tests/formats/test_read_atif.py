"""ATIF documents: keys outside `extra`, copied context, sub-agents, continuations; and the rules of the package itself."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tutelage.formats.atif_rules import check_document
from tutelage.formats.base import ReadOptions, ReadProblem, Refused
from tutelage.formats.read_atif import read_atif, referenced_files
from tutelage.types import Actor, ParsedCall, StopReason, Trajectory

FILES = Path(__file__).parents[1] / "fixtures" / "formats" / "atif"
EXPERT = ReadOptions(actor=Actor.EXPERT)
MAIN = json.loads((FILES / "main.json").read_text())


def document(*steps: dict[str, Any], **others: Any) -> dict[str, Any]:
    numbered = [{"step_id": index, **step} for index, step in enumerate(steps, start=1)]
    return {"schema_version": "ATIF-v1.8", "agent": {"name": "a", "version": "1"}, "steps": numbered, **others}


def user(text: str, **others: Any) -> dict[str, Any]:
    return {"source": "user", "message": text, **others}


def agent(text: str, **others: Any) -> dict[str, Any]:
    return {"source": "agent", "message": text, **others}


def read(path: Path, options: ReadOptions = EXPERT) -> list[Any]:
    return list(read_atif(path, options))


def write(path: Path, value: Any) -> Path:
    path.write_text(json.dumps(value))
    return path


def test_a_document_and_its_sub_agent() -> None:
    main, helper = read(FILES / "main.json")
    assert (main.trajectory_id, main.parent_id, main.reward, main.stop_reason) == (
        "main",
        None,
        1.0,
        StopReason.COMPLETED,
    )
    assert main.goal == "What is in /a?"
    assert [step.action.call for step in main.steps] == [
        ParsedCall(name="ls", arguments={"path": "/a"}),
        ParsedCall(name="delegate"),
        None,
    ]
    first = main.steps[0].action
    assert (first.token_ids, first.rollout_logprobs) == ((5, 6, 7), (-0.1, -0.2, -0.3))
    assert first.raw == {
        "role": "assistant",
        "content": "I look.",
        "reasoning_content": "Use ls.",
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "ls", "arguments": '{"path": "/a"}'}}],
    }
    assert [(one.role, one.content) for one in main.steps[1].observation.messages] == [("tool", "b.py")]
    assert main.steps[1].observation.messages[0].extra["tool_call_id"] == "c1"
    assert (main.info["model"], main.info["cost"]) == ("some-model", 0.3)
    assert main.info["tools"] == MAIN["agent"]["tool_definitions"]
    assert (helper.trajectory_id, helper.parent_id, helper.info["part"]) == ("helper", "main", "subagent")


def test_copied_context_is_seen_once_and_never_a_step() -> None:
    helper = read(FILES / "main.json")[1]
    assert [step.action.text for step in helper.steps] == ["It is empty."]
    seen = helper.steps[0].observation.messages
    assert [(one.role, one.content, one.extra.get("is_copied_context", False)) for one in seen] == [
        ("user", "What is in /a?", True),
        ("assistant", "I look.", True),
        ("tool", "b.py", True),
        ("user", "Is b.py empty?", False),
    ]
    assert helper.info["copied_steps"] == 2


def test_an_open_reference_is_reported_and_the_document_is_kept() -> None:
    kept, open_reference = read(FILES / "open_reference.json")
    assert isinstance(kept, Trajectory)
    assert kept.stop_reason is StopReason.CONTEXT_OVERFLOW, "it goes on in a file that is not there"
    assert (open_reference.reason, open_reference.file) == ("open_reference", str(FILES / "open_reference.json"))
    assert "nowhere.json" in open_reference.detail


def test_a_continuation_is_followed_and_a_circle_ends(tmp_path: Path) -> None:
    write(tmp_path / "a.json", document(user("go"), agent("1"), trajectory_id="a", continued_trajectory_ref="b.json"))
    write(
        tmp_path / "b.json", document(user("go on"), agent("2"), trajectory_id="b", continued_trajectory_ref="a.json")
    )
    first, second = read(tmp_path / "a.json")
    assert (first.trajectory_id, second.trajectory_id, second.parent_id) == ("a", "b", "a")
    assert second.info["part"] == "continuation"
    assert referenced_files(tmp_path / "a.json") == {(tmp_path / "b.json").resolve()}


def test_embedded_sub_agents(tmp_path: Path) -> None:
    inner = document(user("sub"), agent("done"), trajectory_id="in")
    outer = document(user("go"), agent("ask"), trajectory_id="out", subagent_trajectories=[inner])
    outer["steps"][1]["observation"] = {"results": [{"subagent_trajectory_ref": [{"trajectory_id": "in"}]}]}
    got = read(write(tmp_path / "a.json", outer))
    assert [(one.trajectory_id, one.parent_id) for one in got] == [("out", None), ("in", "out")]


def test_an_unknown_root_key_makes_the_file_invalid() -> None:
    (got,) = read(FILES / "unknown_key.json")
    assert isinstance(got, ReadProblem)
    assert got.reason == "unknown_key"
    assert got.detail.startswith("root: key 'reward', expected schema_version, ")


def test_json_lines_of_documents(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    lines = [json.dumps(document(user("go"), agent(str(i)), trajectory_id=f"t{i}")) for i in range(2)]
    path.write_text("\n".join([lines[0], "{", lines[1]]) + "\n")
    got = read(path)
    assert [one.trajectory_id if isinstance(one, Trajectory) else (one.line, one.reason) for one in got] == [
        "t0",
        (2, "cut"),
        "t1",
    ]


def test_what_we_put_under_extra_comes_back(tmp_path: Path) -> None:
    extra = {
        "tutelage_trajectory_id": "hh-1.s0",
        "tutelage_task_id": "hh-1",
        "tutelage_env": "household",
        "tutelage_stop_reason": "max_steps",
        "tutelage_reward": 0.5,
        "tutelage_seed": 3,
        "tutelage_truncated": True,
        "other": 1,
    }
    steps = [user("go"), agent("a", extra={"tutelage_actor": "student", "tutelage_reward": 0.25}),
             agent("b", extra={"tutelage_actor": "expert", "tutelage_action": {"text": "b", "command": "look"}})]  # fmt: skip
    (got,) = read(write(tmp_path / "a.json", document(*steps, extra=extra)), ReadOptions())
    assert (got.trajectory_id, got.env, got.stop_reason, got.reward, got.seed) == (
        "hh-1.s0",
        "household",
        StopReason.MAX_STEPS,
        0.5,
        3,
    )
    assert ([step.actor for step in got.steps], got.switch_index) == ([Actor.STUDENT, Actor.EXPERT], 1)
    assert (got.steps[0].reward, got.steps[1].action.command) == (0.25, "look")
    assert got.info["row"] == {"other": 1}
    broken = document(*steps, extra={"tutelage_stop_reason": "tired"})
    (refused,) = read(write(tmp_path / "b.json", broken), ReadOptions())
    assert refused.reason == "bad_extra"


def test_switch_index_and_names_of_lines(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_text(json.dumps(document(user("go"), agent("1"), agent("2"))) + "\nnull\n")
    got, nothing = read(path, ReadOptions(switch_indices={"runs-1": 1}))
    assert (got.trajectory_id, got.switch_index, nothing.reason) == ("runs-1", 1, "not_object")


def test_ids_and_log_probabilities_of_different_length_are_a_problem(tmp_path: Path) -> None:
    bad = document(user("go"), agent("a", metrics={"completion_token_ids": [1, 2], "logprobs": [-1.0]}))
    (got,) = read(write(tmp_path / "a.json", bad))
    assert got.reason == "bad_record"
    (kept,) = read(tmp_path / "a.json", ReadOptions(actor=Actor.EXPERT, token_ids=False))
    assert kept.steps[0].action.token_ids is None


def changes(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where a document can be changed."""
    found = [path] if path else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        found += changes(inner, (*path, key))
    return found


PLACES = changes(MAIN)


@settings(max_examples=150)
@given(
    st.sampled_from(PLACES),
    st.sampled_from(["drop", "rename", 7, "text", None, [], {}, True, 1.5, [3], {"x": 1}]),
)
def test_our_rules_are_those_of_the_package(place: tuple[Any, ...], change: Any) -> None:
    """One change anywhere in a document: both refuse it or neither does."""
    atif = pytest.importorskip("atif")
    value = copy.deepcopy(MAIN)
    holder: Any = value
    for key in place[:-1]:
        holder = holder[key]
    if change == "drop":
        del holder[place[-1]]
    elif change == "rename":
        if isinstance(holder, list):
            return
        holder[f"{place[-1]}_"] = holder.pop(place[-1])
    else:
        holder[place[-1]] = change
    try:
        atif.Trajectory.model_validate(value, strict=True)
        theirs = None
    except ValueError as error:
        theirs = str(error)
    try:
        check_document(value)
        ours = None
    except Refused as refused:
        ours = refused
    if place[-1] == "schema_version" or (ours is not None and ours.reason in ("not_text", "version")):
        return  # We also look at the version, and read text only.
    assert (ours is None) == (theirs is None), (ours, theirs)
