"""Which format a file has, which files a folder means, and one account of all."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tutelage.errors import ConfigError
from tutelage.formats.base import FormatLedger, ReadOptions, Refused
from tutelage.formats.outcomes import rewards_of
from tutelage.formats.registry import FORMATS, detect, files_of, read_all, read_switch_indices
from tutelage.rendering.context import Full
from tutelage.selection.filters import HasExpertSteps, NoRepetition, NotTruncated
from tutelage.selection.ledger import select
from tutelage.store import RecordStore
from tutelage.supervision.samples import build_all_samples
from tutelage.supervision.step_masks import expert_steps
from tutelage.testing import ByteRenderer
from tutelage.types import Actor, Trajectory

FILES = Path(__file__).parents[1] / "fixtures" / "formats"
EXPERT = ReadOptions(actor=Actor.EXPERT)
CHAT = {"messages": [{"role": "user", "content": "go"}, {"role": "assistant", "content": "a"}]}


def imported(
    paths: list[Path], name: str = "auto", options: ReadOptions = EXPERT
) -> tuple[list[Trajectory], FormatLedger]:
    ledger = FormatLedger(format=name)
    return list(read_all(name, paths, options, ledger)), ledger


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("traj/good.traj", "swe_agent"),
        ("traj/cut.traj", "swe_agent"),
        ("traj/empty.traj", "swe_agent"),
        ("mini/finished.traj.json", "mini_swe_agent"),
        ("atif/main.json", "atif"),
        ("rows/mixed.jsonl", "openai_chat"),
        ("rows/sharegpt.json", "sharegpt"),
    ],
)
def test_detection_of_the_fixtures(name: str, found: str) -> None:
    assert detect(FILES / name) == found


@pytest.mark.parametrize(
    ("name", "data", "found"),
    [
        ("a.txt", json.dumps(CHAT).encode(), "openai_chat"),
        ("a.txt", json.dumps([CHAT], indent=1).encode(), "openai_chat"),
        ("a.txt", json.dumps({**CHAT, "info": {"exit_status": None}}).encode(), "mini_swe_agent"),
        ("a.txt", b'{"history": []}', "swe_agent"),
        ("a.json", b'{"schema_version": 1, "kind": "trajectory"}\n{"x": 1}\n', "native"),
        ("a.txt", b"PAR1....", "parquet"),
        ("a.traj.json", b"{", "mini_swe_agent"),
        ("a.jsonl", b"{", "openai_chat"),
        ("a.json", b"{", None),
        ("a.json", b"[1]", None),
        ("a.json", b"", None),
    ],
)
def test_detection_by_content_then_by_name(name: str, data: bytes, found: str | None, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(data)
    if found is None:
        with pytest.raises(Refused, match="unknown_format"):
            detect(tmp_path / name)
    else:
        assert detect(tmp_path / name) == found


def test_every_reader_is_there() -> None:
    assert [one.read.__name__ for one in FORMATS.values()] == [f"read_{name}" for name in FORMATS]


def test_a_folder_of_everything_is_accounted_for() -> None:
    got, ledger = imported([FILES], options=ReadOptions(actor=Actor.EXPERT))
    assert ledger.num_read == ledger.num_converted + sum(ledger.skipped.values())
    assert len(got) == ledger.num_converted == len({one.trajectory_id for one in got})
    assert ledger.skipped == {
        "unknown_key": 1,
        "open_reference": 1,
        "torn_line": 1,
        "bad_call": 3,
        "not_alternating": 1,
        "cut": 1,
        "empty": 1,
        "no_info": 1,
        "no_trajectory": 1,
    }
    # The helper is read once, from the document that leads to it.
    assert [one.parent_id for one in got if one.trajectory_id == "helper"] == ["main"]


def test_what_was_read_passes_store_filters_masks_and_samples(tmp_path: Path) -> None:
    """Nothing of it needs an environment."""
    got, _ = imported([FILES / "traj"], options=ReadOptions(actor=Actor.EXPERT, switch_indices={"good": 2}))
    store: RecordStore = RecordStore(tmp_path / "t.jsonl", "trajectory")
    for one in got:
        assert store.append(one)
    assert list(RecordStore(tmp_path / "t.jsonl", "trajectory")) == got
    selection = select(got, [NotTruncated(), HasExpertSteps(), NoRepetition()])
    assert selection.ledger.dropped == {"truncated": 1}
    renderer = ByteRenderer()
    samples, ledger = build_all_samples(selection.kept, expert_steps, renderer, Full())
    assert (ledger.num_trajectories, ledger.num_samples, ledger.refused) == (5, 5, {})
    by_id = {one.trajectory_id: one for one in samples}
    good = next(one for one in got if one.trajectory_id == "good")
    trained = [token for token, mask in zip(by_id["good"].token_ids, by_id["good"].loss_mask, strict=True) if mask]
    assert trained == list(renderer.action_ids(good.steps[2].action))


def test_several_of_one_task_are_samples_of_it(tmp_path: Path) -> None:
    for run in ("a", "b", "c"):
        (tmp_path / run).mkdir()
        (tmp_path / run / "good.traj").write_bytes((FILES / "traj" / "good.traj").read_bytes())
    got, _ = imported([tmp_path])
    assert [(one.trajectory_id, one.task_id, one.sample_index) for one in got] == [
        ("good", "good", 0),
        ("good.n1", "good", 1),
        ("good.n2", "good", 2),
    ]
    assert select(got, []).ledger.dropped == {}, "none is taken for a second try of another"


def test_what_looked_odd_is_in_the_account(tmp_path: Path) -> None:
    value = json.loads((FILES / "mini" / "finished.traj.json").read_text())
    for name in "ab":
        newer = value | {"trajectory_format": "mini-swe-agent-1.9", "instance_id": name}
        (tmp_path / f"{name}.traj.json").write_text(json.dumps(newer))
    _, ledger = imported([tmp_path])
    assert ledger.notes == ["2 x trajectory_format mini-swe-agent-1.9 is newer than mini-swe-agent-1.1"]


def test_names_of_files_that_are_no_utf8(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"a\xff.traj")
    path.write_bytes((FILES / "traj" / "good.traj").read_bytes())
    (got,), _ = imported([tmp_path])
    assert got.trajectory_id == "a\ufffd"
    assert got.info["source"]["file"].endswith("a\ufffd.traj")


def test_our_own_records_come_back_and_an_id_only_once(tmp_path: Path) -> None:
    got, _ = imported([FILES / "traj"])
    store: RecordStore = RecordStore(tmp_path / "t.jsonl", "trajectory")
    for one in got:
        store.append(one)
    with open(tmp_path / "t.jsonl", "ab") as file:
        file.write(b'{"trajectory_id": 3}\n{"trajectory_id": "torn')
    again, ledger = imported([tmp_path / "t.jsonl"], "native", ReadOptions())
    assert again == got
    assert ledger.skipped == {"bad_record": 1, "torn_line": 1}
    (tmp_path / "u.jsonl").write_bytes((tmp_path / "t.jsonl").read_bytes())
    _, ledger = imported([tmp_path], "native", ReadOptions())
    assert ledger.skipped["duplicate_id"] == len(got)
    (tmp_path / "v.jsonl").write_text('{"schema_version": 99, "kind": "trajectory"}\n')
    _, ledger = imported([tmp_path / "v.jsonl"], "auto", ReadOptions())
    assert ledger.skipped == {"newer_schema": 1}


def test_paths_and_names_that_are_wrong(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Did you mean 'swe_agent'"):
        imported([FILES], "sweagent")
    with pytest.raises(ConfigError, match="no such file or folder"):
        imported([tmp_path / "no"])
    with pytest.raises(ConfigError, match=r"no file named \*.traj in this folder"):
        imported([tmp_path], "swe_agent")
    (tmp_path / "a.json").write_text("{}")
    (tmp_path / "report.json").write_text("{}")
    assert files_of([tmp_path], "auto") == [tmp_path / "a.json"]
    _, ledger = imported([tmp_path])
    assert ledger.skipped == {"unknown_format": 1}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"a": 2, "b": 0}', {"a": 2, "b": 0}),
        ('{"instance_id": "a", "model_switch_idx": 2}\n{"trajectory_id": "b", "switch_index": 0}\n', {"a": 2, "b": 0}),
        ('{"instance_id": "a", "model_switch_idx": 2}\n', {"a": 2}),
        ("id,index\na,2\nb,0\n", {"a": 2, "b": 0}),
        ("a, 2\n", {"a": 2}),
    ],
)
def test_side_files_of_switch_indices(text: str, found: dict[str, int], tmp_path: Path) -> None:
    (tmp_path / "indices").write_text(text)
    assert read_switch_indices(tmp_path / "indices") == found


@pytest.mark.parametrize("text", ['{"a": -1}', '{"a": true}', "a,2\nb,x\n", "a,2\n,3\n", '{"instance_id": "a"}\n'])
def test_side_files_that_are_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "indices").write_text(text)
    with pytest.raises(ConfigError, match="indices"):
        read_switch_indices(tmp_path / "indices")


@pytest.mark.parametrize(
    ("report", "found"),
    [
        ({"resolved": True}, {"": 1.0}),
        ({"a": {"resolved": False}, "b": True}, {"a": 0.0, "b": 1.0}),
        ({"resolved_ids": ["a"], "unresolved_ids": ["b"], "error_ids": ["c"]}, {"a": 1.0, "b": 0.0, "c": None}),
        ({"resolved": ["a"], "unresolved": ["b"], "no_generation": ["c"]}, {"a": 1.0, "b": 0.0, "c": 0.0}),
        ([{"instance_id": "a", "resolved": True}, 3], {"a": 1.0}),
        ({"total": 3}, {}),
        ("text", {}),
    ],
)
def test_reports_in_all_their_shapes(report: Any, found: dict[str, float | None]) -> None:
    assert rewards_of(report) == found
