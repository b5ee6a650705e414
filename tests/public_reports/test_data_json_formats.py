"""Reports about data: mixed types in Parquet, arguments encoded twice, broken trajectory files, text that is no UTF-8."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from tutelage.cli.main import main
from tutelage.envs.sandbox.limits import BoundedOutput
from tutelage.formats.base import REPLACED_KEY, FormatLedger, ReadOptions, ReadProblem
from tutelage.formats.export import export
from tutelage.formats.read_openai_chat import read_openai_chat
from tutelage.formats.read_parquet import read_parquet
from tutelage.formats.registry import read_all
from tutelage.formats.write_messages import conversation_of
from tutelage.rendering.base import Renderer
from tutelage.rendering.load import load_renderer
from tutelage.store import RecordStore, from_json, read_records, text_from_bytes, to_json
from tutelage.students import student_path
from tutelage.supervision.samples import build_samples
from tutelage.supervision.step_masks import all_steps
from tutelage.testing import ByteRenderer, make_trajectory
from tutelage.types import Action, Actor, ParsedCall, StopReason, Trajectory

EXPERT = ReadOptions(actor=Actor.EXPERT)


def rows(path: Path) -> list[Trajectory | ReadProblem]:
    return list(read_openai_chat(path, EXPERT))


def trajectories(path: Path) -> list[Trajectory]:
    found = [one for one in rows(path) if isinstance(one, Trajectory)]
    assert found
    return found


def said(trajectory: Trajectory) -> list[dict[str, Any]]:
    """The messages of an episode as they would be written."""
    return list(conversation_of(trajectory, all_steps(trajectory)).messages)


# D1


def test_d1_parquet_invents_no_null_and_no_type(fixtures: Path, tmp_path: Path) -> None:
    """verifiers#547, #418, axolotl#2909, #3238, PR #3136, ms-swift PR #10125: Arrow gave every row the others' keys."""
    given_rows = trajectories(fixtures / "rows" / "mixed_arguments.jsonl")
    out = tmp_path / "rows.parquet"
    export("parquet", given_rows, out, supervise=all_steps)
    back = [one for one in read_parquet(out, EXPERT) if isinstance(one, Trajectory)]
    assert [said(one) for one in back] == [said(one) for one in given_rows]
    assert [one.info.get("tools") for one in back] == [one.info.get("tools") for one in given_rows]
    assert [one.steps[0].action.call for one in back] == [
        ParsedCall(name="find", arguments={"id": 1}),
        ParsedCall(name="find", arguments={"id": "x"}),
        ParsedCall(name="find", arguments={"id": None}),
        None,
        None,
    ]
    # Of the two rows without calls neither has the key, whether it was null or absent.
    assert ["tool_calls" in said(one)[-1] for one in back] == [True, True, True, False, False]
    # Calls and schemas stand in the file as strings, which Arrow cannot join into one type.
    import pyarrow.parquet

    for row in pyarrow.parquet.read_table(out).to_pylist():
        assert isinstance(row["tools"], str | None)
        for message in row["messages"]:
            assert all(isinstance(call["function"]["arguments"], str) for call in message["tool_calls"] or ())


def test_d1_by_the_command_line(fixtures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """axolotl#3238, ms-swift PR #10125: imported, written as Parquet, imported again: the same calls."""
    first, table, second = tmp_path / "a.jsonl", tmp_path / "rows.parquet", tmp_path / "b.jsonl"
    source = str(fixtures / "rows" / "mixed_arguments.jsonl")
    assert main(["import", "openai_chat", source, "--actor", "expert", "--out", str(first)]) == 0
    assert main(["export", "parquet", str(first), "--mask", "all_steps", "--out", str(table)]) == 0
    capsys.readouterr()
    assert main(["import", "parquet", str(table), "--actor", "expert", "--out", str(second), "--json"]) == 0
    ledger = json.loads(capsys.readouterr().out)
    assert (ledger["num_read"], ledger["num_converted"]) == (5, 5)
    before, after = read_records(first, "trajectory"), read_records(second, "trajectory")
    assert [said(one) for one in after] == [said(one) for one in before]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.dictionaries(st.text(max_size=4), json_values, max_size=3), min_size=2, max_size=3))
def test_d1_any_arguments_side_by_side(
    tmp_path_factory: pytest.TempPathFactory, arguments: list[dict[str, Any]]
) -> None:
    """verifiers#547, axolotl#2909: whatever the types of other rows, a row's arguments come back as they were."""
    folder = tmp_path_factory.mktemp("d1")
    written = [json.dumps(one) for one in arguments]
    given_rows = [called(index, text) for index, text in enumerate(written)]
    if any("\\ud" in text or "\\u0000" in text for text in written):
        return  # Lone surrogates and NUL are D5's.
    export("parquet", given_rows, folder / "rows.parquet", supervise=all_steps)
    back = [one for one in read_parquet(folder / "rows.parquet", EXPERT) if isinstance(one, Trajectory)]
    calls = [(one.steps[0].action.raw or {})["tool_calls"][0]["function"]["arguments"] for one in back]
    assert calls == written


def called(index: int, arguments: str) -> Trajectory:
    raw = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "find", "arguments": arguments}}],
    }
    call = ParsedCall(name="find", arguments=json.loads(arguments))
    return make_trajectory("e", [Action(text="", command="find", call=call, raw=raw)], sample_index=index)


# D2


def test_d2_arguments_are_encoded_once(fixtures: Path, tmp_path: Path) -> None:
    """oumi#2599, oumi#2603, flama#258, trl#4881: a string of JSON was dumped once more, and null became the text None."""
    found = rows(fixtures / "rows" / "encodings.jsonl")
    read = {one.trajectory_id: one for one in found if isinstance(one, Trajectory)}
    for name in ("string", "object", "twice", "empty content"):
        assert read[name].steps[0].action.call == ParsedCall(name="find", arguments={"id": 1}), name
    for name in ("string", "object"):
        [_, message] = said(read[name])
        assert json.loads(message["tool_calls"][0]["function"]["arguments"]) == {"id": 1}
        assert message["content"] is None
    assert said(read["empty content"])[1]["content"] == ""
    kept = [read["string"], read["object"]]
    export("openai", kept, tmp_path / "rows.jsonl", supervise=all_steps)
    text = (tmp_path / "rows.jsonl").read_text()
    assert "None" not in text
    assert text.count('"content": null') + text.count('"content":null') == 2
    assert [one.steps[0].action.call for one in trajectories(tmp_path / "rows.jsonl")] == [
        ParsedCall(name="find", arguments={"id": 1})
    ] * 2


def test_d2_a_malformed_call_is_a_problem_with_its_line(fixtures: Path) -> None:
    """oumi#2599, oumi#2603: a call without name or arguments ended the import, or came in as an empty call."""
    path = fixtures / "rows" / "encodings.jsonl"
    problems = [one for one in rows(path) if isinstance(one, ReadProblem)]
    assert [(one.line, one.reason) for one in problems] == [(5, "bad_call"), (6, "bad_call")]
    assert str(problems[0]).startswith(f"{path}, line 5, byte ")
    assert "no name, expected a text" in problems[0].detail
    assert "call of find: arguments are absent, expected a string of JSON or an object" in problems[1].detail
    assert [one.trajectory_id for one in trajectories(path)][-1] == "after them", "the others go on"


def test_d2_by_the_command_line(fixtures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """oumi#2599, flama#258: the ledger counts what was left out, and a bound on it is an exit code."""
    arguments = ["import", "openai_chat", str(fixtures / "rows" / "encodings.jsonl"), "--actor", "expert"]
    assert main([*arguments, "--out", str(tmp_path / "t.jsonl"), "--json"]) == 0
    ledger = json.loads(capsys.readouterr().out)
    assert (ledger["num_read"], ledger["num_converted"], ledger["skipped"]) == (7, 5, {"bad_call": 2})
    assert [one["line"] for one in ledger["problems"]] == [5, 6]
    assert len(read_records(tmp_path / "t.jsonl", "trajectory")) == 5
    assert main([*arguments, "--out", str(tmp_path / "u.jsonl"), "--max-skipped", "1"]) == 3


# D4

BROKEN = {
    "cut.traj": ("cut", "the JSON ends after 572 bytes in the middle of a value", 562),
    "empty.traj": ("empty", "0 bytes and no JSON value", 0),
    "no_info.traj": (
        "no_info",
        "keys environment, history, trajectory: expected an object 'info' that says how it ended",
        0,
    ),
    "no_trajectory.traj": ("no_trajectory", "keys environment, history, info: expected a list 'trajectory'", 0),
}


def read_folder(folder: Path) -> tuple[dict[str, Trajectory], FormatLedger]:
    ledger = FormatLedger(format="auto")
    return {one.trajectory_id: one for one in read_all("auto", [folder], EXPERT, ledger)}, ledger


def test_d4_broken_files_are_named_and_the_others_go_on(fixtures: Path) -> None:
    """SWE-agent#1042, SWE-smith#58, #85, #144, mini-swe-agent#116, trae-agent#193: one bad file ended the conversion."""
    read, ledger = read_folder(fixtures / "traj")
    problems = {Path(one.file).name: (one.reason, one.detail, one.byte) for one in ledger.problems}
    assert problems == BROKEN
    assert (ledger.num_read, ledger.num_converted, dict(ledger.skipped)) == (
        9,
        5,
        {"cut": 1, "empty": 1, "no_info": 1, "no_trajectory": 1},
    )
    assert sorted(read) == ["cost_limit", "good", "list_content", "mini-finished", "mini-killed"]


def test_d4_what_is_tolerated(fixtures: Path) -> None:
    """SWE-smith#85, trae-agent#193: state as text or object, query or messages, content as text or parts, read alike."""
    read, _ = read_folder(fixtures / "traj")
    good, parts = read["good"], read["list_content"]
    assert [step.action.command for step in good.steps] == ["cat add.py", "sed -i s/-/+/ add.py", "submit"]
    assert [(step.action.raw or {})["state"] for step in good.steps] == [
        '{"open_file": "n/a", "working_dir": "/r"}',
        {"working_dir": "/r"},
        "",
    ]
    assert [one.action.text for one in parts.steps] == [one.action.text for one in good.steps]
    assert [one.observation.text for one in parts.steps] == [one.observation.text for one in good.steps]
    assert good.stop_reason is StopReason.COMPLETED


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_d4_a_file_cut_anywhere_is_one_problem(
    fixtures: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """SWE-agent#1042, mini-swe-agent#116: wherever the writer was stopped, the place is told and nothing is raised."""
    whole = (fixtures / "traj" / "good.traj").read_bytes().rstrip()
    at = data.draw(st.integers(0, len(whole) - 1))
    path = tmp_path_factory.mktemp("d4") / "one.traj"
    path.write_bytes(whole[:at])
    ledger = FormatLedger(format="swe_agent")
    assert list(read_all("swe_agent", [path], EXPERT, ledger)) == []
    [problem] = ledger.problems
    assert problem.reason in ("cut", "empty")
    assert problem.byte is not None
    assert 0 <= problem.byte <= at


def test_d4_by_the_command_line(fixtures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """SWE-smith#58, #144: the skipped files are named on standard error and in the ledger beside the output."""
    out = tmp_path / "t.jsonl"
    assert main(["import", "auto", str(fixtures / "traj"), "--actor", "expert", "--out", str(out)]) == 0
    told = capsys.readouterr()
    assert "9 read = 5 converted + 1 cut + 1 empty + 1 no_info + 1 no_trajectory" in told.out
    for name in BROKEN:
        assert f"{name}, byte " in told.err
    beside = json.loads(Path(f"{out}.ledger.json").read_text())
    assert beside["num_read"] == beside["num_converted"] + sum(beside["skipped"].values())


def test_d4_an_atif_document_with_a_field_that_nobody_knows(fixtures: Path) -> None:
    """SWE-smith#144, trae-agent#193: a key of another version was taken along, or the whole folder was given up."""
    read, ledger = read_folder(fixtures / "atif")
    [problem] = ledger.problems
    assert Path(problem.file).name == "unknown_field.json"
    assert "colour" in problem.detail
    whole, inner = read["main"], read["reader"]
    assert [one.action.text for one in whole.steps] == ["", "Mended."], "copied context is shown, and no step"
    assert "Mend add.py." in whole.steps[0].observation.text
    assert "I looked at it before." in whole.steps[0].observation.text
    assert whole.steps[1].observation.text == "The sign is wrong."
    assert (inner.parent_id, [one.action.text for one in inner.steps]) == ("main", ["The sign is wrong."])


# D5

ODD = "a\udc00b\0c\U0001f600"


def test_d5_any_text_is_stored_and_read_back() -> None:
    """inspect_ai PR #2316, agentscope#1117, agent-zero#1773, claude-code-log#139: a lone surrogate ended the run."""
    trajectory = make_trajectory("s", [Action.of(ODD)], [ODD, ODD])
    assert from_json("trajectory", json.loads(json.dumps(to_json(trajectory)))) == trajectory


@settings(max_examples=60, deadline=None)
@given(st.text(st.characters(), max_size=20) | st.binary(max_size=20).map(text_from_bytes))
def test_d5_files_hold_any_text_and_any_bytes(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    """SWE-agent#697, mini-swe-agent#154, inspect_k8s_sandbox#206: output of a process that is no UTF-8."""
    path = tmp_path_factory.mktemp("d5") / "t.jsonl"
    trajectory = make_trajectory("s", [Action.of(text)], [text, "end"])
    RecordStore(path, "trajectory").append(trajectory)
    [back] = read_records(path, "trajectory")
    assert back == trajectory


def test_d5_what_had_to_be_replaced_is_marked_and_counted(
    fixtures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """inspect_ai PR #2316, claude-code-log#139: characters vanished from foreign files, and nothing told of it."""
    odd = {one.trajectory_id: one for one in trajectories(fixtures / "rows" / "odd_text.jsonl")}
    assert odd["surrogate"].steps[0].observation.text == "a\ufffdb"
    assert odd["nul"].steps[0].observation.text == "a\ufffdb"
    assert odd["emoji"].steps[0].observation.text == "a\U0001f600b"
    assert [odd[name].info.get(REPLACED_KEY) for name in ("surrogate", "nul", "emoji")] == [1, 1, None]
    [broken] = trajectories(fixtures / "rows" / "odd_bytes.jsonl")
    assert (broken.steps[0].observation.text, broken.info[REPLACED_KEY]) == ("a\ufffd\ufffdb", 2)
    arguments = ["import", "openai_chat", str(fixtures / "rows" / "odd_text.jsonl"), "--actor", "expert"]
    assert main([*arguments, "--out", str(tmp_path / "t.jsonl")]) == 0
    assert "2 replaced_characters" in capsys.readouterr().out


@pytest.mark.parametrize("renderer", [ByteRenderer(), load_renderer(student_path("builtin:household_tiny"))])
def test_d5_token_counts_are_those_of_the_text(renderer: Renderer) -> None:
    """agentscope#1117, agent-zero#1773: the count was taken of another text than was sent."""
    trajectory = make_trajectory("s", [Action.of(ODD)], [ODD])
    [sample] = build_samples(trajectory, all_steps(trajectory), renderer)
    trained = [token for token, mask in zip(sample.token_ids, sample.loss_mask, strict=True) if mask]
    assert renderer.decode(trained[:-1]) == ODD
    stored = from_json("trajectory", to_json(trajectory))
    assert build_samples(stored, all_steps(stored), renderer) == [sample]


def test_d5_a_chat_model_reads_the_replacement(chat_folder: Callable[..., Path], byte_level: Tokenizer) -> None:
    """inspect_ai PR #2316, agent-zero#1773: its tokenizer cannot hold a lone surrogate; one character stands for it."""
    renderer = load_renderer(chat_folder("newline_after_turn_end", byte_level))
    shown = ODD.replace("\udc00", "\ufffd")
    for text in (ODD, shown):
        trajectory = make_trajectory("s", [Action.of(text)], [text])
        [sample] = build_samples(trajectory, all_steps(trajectory), renderer)
        trained = [token for token, mask in zip(sample.token_ids, sample.loss_mask, strict=True) if mask]
        assert renderer.decode(trained[:-1]) == shown
        assert trained[:-1] == byte_level.encode(shown).ids


def test_d5_output_of_a_process_in_any_pieces() -> None:
    """SWE-agent#697, inspect_k8s_sandbox#206: an emoji cut by the edge of a chunk became two broken characters."""
    data = "before \U0001f600 after ".encode() + b"\xff\xfe\x00"
    for size in (1, 2, 3, len(data)):
        output = BoundedOutput(100)
        for start in range(0, len(data), size):
            output.add(data[start : start + size])
        assert output.text() == ("before \U0001f600 after \ufffd\ufffd\0", False), size


def test_d5_a_record_of_such_text_goes_through_the_command_line(tmp_path: Path) -> None:
    """claude-code-log#139, mini-swe-agent#154: printing the record raised, in a terminal that is not UTF-8 as well."""
    path = tmp_path / "t.jsonl"
    RecordStore(path, "trajectory").append(make_trajectory("s", [Action.of(ODD)], [ODD, "end"]))
    for encoding in ("utf-8", "ascii"):
        done = subprocess.run(
            [sys.executable, "-m", "tutelage", "show", str(path)],
            capture_output=True, check=False, env={**os.environ, "PYTHONIOENCODING": encoding},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr.decode()
        assert rb"a\udc00b" in done.stdout
