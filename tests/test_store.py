"""Records survive files: any text, torn lines, full disks, newer versions."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tutelage.errors import FormatError, StoreError
from tutelage.store import RecordStore, from_json, read_records, record_id, text_from_bytes, to_json, write_atomic
from tutelage.types import (
    Action,
    Actor,
    DependencyGraph,
    Effect,
    FailedAttempt,
    Fallback,
    Footprint,
    Judgement,
    LossComponent,
    Message,
    Observation,
    ParsedCall,
    ParseOutcome,
    Split,
    Step,
    StepAptitude,
    StepSupervision,
    StopReason,
    SwitchEvent,
    Task,
    TrainingSample,
    Trajectory,
    TrajectoryGroup,
    UnscoredReason,
    Verdict,
)


def verdict(name: str, reason: str = "kept") -> Verdict:
    return Verdict(trajectory_id=name, keep=reason == "kept", filter="all", reason=reason)


FULL_STEP = Step(
    observation=Observation(messages=(Message(role="system", content="rules"), Message(role="user", content="a\x00b"))),
    action=Action(
        text="go\udc00",
        command="go",
        call=ParsedCall(name="go", arguments={"to": "shelf 1", "fast": True, "n": [1, 2.5, None]}),
        token_ids=(5, 6),
        rollout_logprobs=(-0.25, -1.5),
        attempts=(FailedAttempt(text="??", num_tokens=3, error="no tag"),),
    ),
    actor=Actor.STUDENT,
    expert_action=Action(text="hm", parse=ParseOutcome.MALFORMED),
    reward=0.0,
    policy_version="imitation@update-240",
    state_hash="ab12",
)

FULL_TRAJECTORY = Trajectory(
    trajectory_id="hh-1.uniform.s0.n0.a1",
    task_id="hh-1",
    env="household",
    task_kind="look_at_obj_in_light",
    goal="look at bowl",
    split=Split.TEST,
    steps=(FULL_STEP, Step(observation=Observation.of("ok"), action=Action.of("stop"), actor=Actor.EXPERT)),
    final_observation=Observation.of("done"),
    stop_reason=StopReason.COMPLETED,
    reward=1.0,
    seed=2**64 - 1,
    sample_index=3,
    attempt=1,
    switch_rule="uniform",
    drawn_switch=0,
    switch_events=(SwitchEvent(step_index=1, actor=Actor.EXPERT, reason="uniform k=1"),),
    error="close failed",
    seconds=1.25,
    parent_id="p",
    fork_index=0,
)

ONE_OF_EACH = [
    Task(task_id="t", env="household", goal="g", seed=7, kind="k", settings={"size": "small", "deep": {"a": [1]}}),
    FULL_TRAJECTORY,
    TrajectoryGroup(group_id="g", trajectories=(FULL_TRAJECTORY,)),
    Verdict(trajectory_id="t", keep=False, filter="no_repetition", reason="identical_actions", span=(0, 2)),
    Judgement(
        trajectory_id="t",
        source="evaluations/a",
        judge="rules-1",
        attempt=1,
        reason=UnscoredReason.SCHEMA,
        span=(0, 2),
        votes=("other", "unscored:schema"),
    ),
    Footprint(
        trajectory_id="t", step_index=2, reads=frozenset({"b", "a"}), writes=frozenset(), effect=Effect.READ_ONLY
    ),
    DependencyGraph(trajectory_id="t", num_steps=3, edges=((0, 1, 2), (0, 2, 1)), writer_rule="last"),
    StepAptitude(
        trajectory_id="t",
        stationary=(0.5, 0.5),
        l_graph=(0.0, 0.0),
        divergence=(0.25, None),
        l_model=(0.0, None),
        aptitude=(0.0, None),
        fallbacks=frozenset({Fallback.CONSTANT_STRUCTURE, Fallback.MISSING_DIVERGENCE}),
        config_id="c",
    ),
    StepSupervision(
        trajectory_id="t", step_mask=(False, True), step_weights={LossComponent.SFT: (0.0, 1.0)}, source="expert_steps"
    ),
    TrainingSample(
        sample_id="t/0",
        trajectory_id="t",
        token_ids=(1, 2, 3),
        token_actors="ose",
        loss_mask=(False, False, True),
        loss_weights={LossComponent.SFT: (0.0, 0.0, 1.0)},
        advantages=(0.0, -1.0, 0.5),
        rollout_logprobs=(None, -0.5, None),
        step_spans=((0, 1, 2), (1, 2, 3)),
    ),
]


@pytest.mark.parametrize("record", ONE_OF_EACH, ids=lambda record: type(record).__name__)
def test_every_kind_survives_a_file(record: Any, tmp_path: Path) -> None:
    kind = re.sub("(?<=[a-z])(?=[A-Z])", "_", type(record).__name__).lower()
    assert from_json(kind, json.loads(json.dumps(to_json(record)))) == record
    store = RecordStore(tmp_path / "records.jsonl", kind)
    assert store.append(record) is True
    assert read_records(tmp_path / "records.jsonl", kind) == [record]
    assert RecordStore(tmp_path / "records.jsonl", kind).ids == (record_id(record),)


def test_a_line_in_full(tmp_path: Path) -> None:
    path = tmp_path / "v.jsonl"
    RecordStore(path, "verdict", header={"recipe": "abc"}).append(verdict("t-1"))
    assert path.read_bytes() == (
        b'{"schema_version":1,"kind":"verdict","recipe":"abc"}\n'
        b'{"trajectory_id":"t-1","keep":true,"filter":"all","reason":"kept"}\n'
    )
    assert RecordStore(path, "verdict").header == {"schema_version": 1, "kind": "verdict", "recipe": "abc"}


def test_odd_text_is_marked_and_comes_back() -> None:
    """D5: a lone surrogate, a NUL, bytes that are not UTF-8, an emoji cut in two."""
    assert to_json(Message(role="user", content="a\\b\udc00")) == {
        "role": "user",
        "content": {"$surrogates": "a\\\\b\\udc00"},
    }
    assert to_json(Message(role="user", content="nul\x00 ünï")) == {"role": "user", "content": "nul\x00 ünï"}
    raw = bytes.fromhex("fffe00")
    assert text_from_bytes(raw) == "\udcff\udcfe\x00"
    assert text_from_bytes(raw).encode("utf-8", "surrogateescape") == raw
    half = text_from_bytes("🙂".encode()[:2])
    task = Task(task_id="t", env="e", goal=half, settings={"\ud800": {"$float": "nan"}, "b": b"\xff", "i": 2**70})
    assert from_json("task", json.loads(json.dumps(to_json(task)))) == task


def test_not_a_number_stays_one(tmp_path: Path) -> None:
    record = dataclasses.replace(FULL_TRAJECTORY, reward=math.nan)
    store = RecordStore(tmp_path / "t.jsonl", "trajectory")
    store.append(record)
    assert b'"reward":{"$float":"nan"}' in store.path.read_bytes()
    assert math.isnan(next(iter(store)).reward)


def test_infinite_credit_stays_infinite() -> None:
    sample = dataclasses.replace(ONE_OF_EACH[-1], advantages=(0.0, math.inf, -0.5))
    data = json.loads(json.dumps(to_json(sample), allow_nan=False))
    assert data["advantages"] == [0.0, {"$float": "inf"}, -0.5]
    assert from_json("training_sample", data) == sample


any_text = st.text(alphabet=st.characters(exclude_categories=()), max_size=40)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | any_text | st.binary(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_text | st.just("$items"), inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=any_text, goal=any_text, values=st.dictionaries(any_text, json_values, max_size=4), seed=st.integers())
def test_any_text_and_any_settings_survive(tmp_path: Path, text: str, goal: str, values: dict, seed: int) -> None:
    task = Task(task_id=text, env="e", goal=goal, seed=seed, settings=values)
    path = tmp_path / "tasks.jsonl"
    path.unlink(missing_ok=True)
    assert RecordStore(path, "task").append(task)
    again = RecordStore(path, "task")
    assert again.ids == (text,)
    assert list(again) == [task]
    assert again[text] == task
    assert again.append(task) is False


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.integers(min_value=0), texts=st.lists(any_text, min_size=1, max_size=6))
def test_a_file_cut_anywhere_keeps_its_whole_lines(tmp_path: Path, cut: int, texts: list[str]) -> None:
    path = tmp_path / "v.jsonl"
    path.unlink(missing_ok=True)
    records = [verdict(str(index), text) for index, text in enumerate(texts)]
    store = RecordStore(path, "verdict")
    for record in records:
        store.append(record)
    whole = path.read_bytes()
    left = whole[: cut % (len(whole) + 1)]
    path.write_bytes(left)
    again = RecordStore(path, "verdict")
    num_whole = max(left.count(b"\n") - 1, 0)
    assert list(again) == records[:num_whole]
    assert (again.note is None) == (left == b"" or left.endswith(b"\n"))
    assert [again.append(record) for record in records] == [False] * num_whole + [True] * (len(records) - num_whole)
    assert path.read_bytes() == whole


def test_a_torn_last_line_is_left_out_and_cut_at_the_first_append(tmp_path: Path) -> None:
    path = tmp_path / "v.jsonl"
    store = RecordStore(path, "verdict")
    store.append(verdict("a"))
    store.append(verdict("b"))
    before = path.read_bytes()
    path.write_bytes(before + b'{"trajectory_id":"c","ke')
    again = RecordStore(path, "verdict")
    assert again.note == f"{path}: left out a torn last line of 24 bytes (line 4); the 2 records before it are whole"
    assert path.read_bytes() == before + b'{"trajectory_id":"c","ke', "opening changes nothing"
    again.append(verdict("c"))
    assert RecordStore(path, "verdict").note is None
    assert [record.trajectory_id for record in again] == ["a", "b", "c"]


def test_zeros_at_the_end_after_a_loss_of_power_are_a_torn_line(tmp_path: Path) -> None:
    path = tmp_path / "v.jsonl"
    RecordStore(path, "verdict").append(verdict("a"))
    path.write_bytes(path.read_bytes() + b"\x00" * 500)
    store = RecordStore(path, "verdict")
    assert store.ids == ("a/all",)
    store.append(verdict("b"))
    assert path.read_bytes().splitlines()[2:] == [b'{"trajectory_id":"b","keep":true,"filter":"all","reason":"kept"}']


def test_a_broken_line_in_the_middle_names_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "v.jsonl"
    store = RecordStore(path, "verdict")
    for name in "abc":
        store.append(verdict(name))
    lines = path.read_bytes().splitlines(keepends=True)
    lines[2] = lines[2][:20] + b"\n"
    path.write_bytes(b"".join(lines))
    with pytest.raises(FormatError, match=re.escape(f"{path}, line 3: no JSON")):
        RecordStore(path, "verdict")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            '{"trajectory_id":"b","keep":true,"filter":"all","raeson":"x"}',
            "line 3: verdict: unknown field 'raeson'. Did you mean 'reason'?",
        ),
        ('{"trajectory_id":"b","keep":true,"filter":"all"}', "line 3: verdict: missing field 'reason' of Verdict"),
        (
            '{"trajectory_id":"b","keep":"yes","filter":"all","reason":"x"}',
            "line 3: verdict: keep: got 'yes', expected true or false",
        ),
        (
            '{"trajectory_id":"b","keep":true,"filter":"all","reason":"x","span":[1]}',
            "line 3: verdict: span: has 1 entries, expected 2",
        ),
    ],
)
def test_a_line_that_is_no_such_record_names_file_line_and_field(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "v.jsonl"
    RecordStore(path, "verdict").append(verdict("a"))
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(FormatError, match=re.escape(f"{path}, {message}")):
        list(RecordStore(path, "verdict"))


def test_a_deep_field_is_named_with_its_path() -> None:
    data = to_json(FULL_TRAJECTORY)
    data["steps"][0]["action"]["token_ids"][1] = "x"
    with pytest.raises(FormatError, match=re.escape("steps[0].action.token_ids[1]: got 'x', expected an integer")):
        from_json("trajectory", data)
    data = to_json(FULL_TRAJECTORY) | {"stop_reason": "env_error"}
    with pytest.raises(FormatError, match=r"carries reward 1\.0, expected None"):
        from_json("trajectory", data)
    with pytest.raises(FormatError, match="stop_reason: got 'died', expected one of completed, max_steps"):
        from_json("trajectory", to_json(FULL_TRAJECTORY) | {"stop_reason": "died"})


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ('{"schema_version":2,"kind":"verdict"}', "schema version 2, this tutelage reads up to 1. Upgrade"),
        ('{"schema_version":1,"kind":"task"}', "holds records of kind 'task', expected 'verdict'"),
        ('{"trajectory_id":"a"}', "line 1: expected a header with schema_version and kind"),
    ],
)
def test_a_foreign_header_is_refused(tmp_path: Path, header: str, message: str) -> None:
    path = tmp_path / "v.jsonl"
    path.write_text(header + "\n")
    with pytest.raises(FormatError, match=re.escape(message)):
        RecordStore(path, "verdict")


def test_wrong_kinds_and_missing_files(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="unknown kind of record 'verdicts'"):
        RecordStore(tmp_path / "v.jsonl", "verdicts")
    with pytest.raises(TypeError, match="got a Verdict, expected Task"):
        RecordStore(tmp_path / "v.jsonl", "task").append(verdict("a"))
    with pytest.raises(StoreError, match="no such file; run the stage that writes it"):
        read_records(tmp_path / "absent.jsonl", "task")
    assert list(tmp_path.iterdir()) == []


FULL_DISK = """
    import resource, signal, sys
    from tutelage.errors import StoreError
    from tutelage.store import RecordStore, write_atomic
    from tutelage.types import Verdict
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    store = RecordStore(sys.argv[1], "verdict")
    try:
        for index in range(100):
            store.append(Verdict(trajectory_id=f"t-{index}", keep=True, filter="all", reason="kept"))
    except StoreError as error:
        print(len(store), error)
    try:
        write_atomic(sys.argv[2], b"x" * 2000)
    except StoreError as error:
        print(error)
"""


def test_a_full_disk_leaves_whole_lines_and_says_what_to_do(tmp_path: Path) -> None:
    """The limit on file size lets the system write a part of a line, as a full disk does."""
    path, summary = tmp_path / "v.jsonl", tmp_path / "summary.json"
    summary.write_bytes(b"old")
    command = [sys.executable, "-c", textwrap.dedent(FULL_DISK), str(path), str(summary)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    remedy = "Free some space and run the same command again."
    assert lines[0] == f"14 {path}: cannot write: File too large. Its 14 records are whole. {remedy}"
    assert lines[1] == f"{summary}: cannot write: File too large. Its former content is untouched. {remedy}"
    assert summary.read_bytes() == b"old"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["summary.json", "v.jsonl"]
    again = RecordStore(path, "verdict")
    assert (again.note, len(again)) == (None, 14)
    assert again.append(verdict("t-14")) is True
    assert len(read_records(path, "verdict")) == 15


def test_an_interrupted_append_leaves_no_half_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = RecordStore(tmp_path / "v.jsonl", "verdict")
    store.append(verdict("a"))
    before = store.path.read_bytes()
    write = os.write

    def interrupted(descriptor: int, data: Any) -> int:
        write(descriptor, bytes(data)[:10])
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        store.append(verdict("b"))
    monkeypatch.undo()
    assert store.path.read_bytes() == before
    assert store.ids == ("a/all",)
    assert store.append(verdict("b")) is True


def test_write_atomic_replaces(tmp_path: Path) -> None:
    path = tmp_path / "summary.json"
    write_atomic(path, b"one")
    write_atomic(path, b"two")
    assert [entry.name for entry in tmp_path.iterdir()] == ["summary.json"]
    assert path.read_bytes() == b"two"


def test_a_record_whose_id_holds_a_default_is_found_again(tmp_path):
    record = StepAptitude(
        trajectory_id="t1", stationary=(1.0,), l_graph=(0.0,), divergence=(None,), l_model=(None,), aptitude=(0.0,)
    )
    RecordStore(tmp_path / "a.jsonl", "step_aptitude").append(record)
    store = RecordStore(tmp_path / "a.jsonl", "step_aptitude")
    assert list(store) == [record]
    assert "t1/" in store
    assert store.append(record) is False
