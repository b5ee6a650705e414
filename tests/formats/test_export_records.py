"""Formats that are records: ATIF 1.8, our own, and tasks for verl."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tutelage.errors import ConfigError, ExportError, FormatError
from tutelage.formats.export import export
from tutelage.formats.export_records import export_native, export_verl
from tutelage.formats.reread_atif import reread_atif
from tutelage.formats.row_files import read_rows
from tutelage.formats.write_verl import reread_verl
from tutelage.store import read_records
from tutelage.supervision.step_masks import expert_steps
from tutelage.tasks.registry import load_tasks
from tutelage.testing.trajectories import make_trajectory
from tutelage.types import Action, LossComponent, StepSupervision, StopReason, Task, Trajectory

FLAGS = Path(__file__).parents[1] / "fixtures" / "flags" / "trajectories.jsonl"


def test_an_atif_document_to_the_letter(tmp_path: Path) -> None:
    [given] = read_records(FLAGS, "trajectory")
    export("atif", [given], tmp_path / "rows.jsonl", supervise=expert_steps)
    [document] = read_rows(tmp_path / "rows.jsonl", kind="jsonl")
    assert document["schema_version"] == "ATIF-v1.8"
    assert document["agent"]["tool_definitions"] == list(given.info["tools"])
    assert [step["step_id"] for step in document["steps"]] == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert [step["source"] for step in document["steps"]] == [
        "system", "user", "agent", "user", "agent", "agent", "user", "agent", "user",
    ]  # fmt: skip
    calling = document["steps"][4]
    assert calling["message"] == ""
    assert calling["tool_calls"][1] == {
        "tool_call_id": "c2",
        "function_name": "read",
        "arguments": {"path": "b.py", "line": 7},
        "extra": {"tutelage_raw_arguments": '{"path":"b.py","line":7}'},
    }
    assert calling["observation"]["results"] == [
        {"content": "x = 1\n", "source_call_id": "c1"},
        {"content": "y = x\n", "source_call_id": "c2"},
    ]
    assert calling["extra"] == {
        "tutelage_step_index": 1, "tutelage_actor": "expert", "tutelage_train": True, "tutelage_weight": 1.0,
        "tutelage_content_null": True,
    }  # fmt: skip
    assert document["extra"]["tutelage_reward"] == 1.0
    assert document["extra"]["tutelage_stop_reason"] == "completed"


def test_atif_carries_what_trains_nothing_and_weights_between(tmp_path: Path) -> None:
    truncated = make_trajectory("ss", task_id="a", stop_reason=StopReason.MAX_STEPS, reward=None)
    sampled = make_trajectory(
        "e", [Action(text="x", command="x", token_ids=(5, 6), rollout_logprobs=(-0.5, -0.25))], task_id="b"
    )

    def supervise(trajectory: Trajectory) -> StepSupervision:
        weights = tuple(0.25 for _ in trajectory.steps) if trajectory is sampled else (0.0, 0.0)
        return StepSupervision(
            trajectory_id=trajectory.trajectory_id,
            step_mask=tuple(weight > 0 for weight in weights),
            step_weights={LossComponent.SFT: weights},
            source="test",
        )

    ledger = export("atif", [truncated, sampled], tmp_path / "documents", supervise=supervise)
    first, second = (json.loads(path.read_text()) for path in sorted((tmp_path / "documents").iterdir()))
    assert (first["extra"]["tutelage_reward"], first["extra"]["tutelage_truncated"]) == (None, True)
    assert second["steps"][1]["metrics"] == {"completion_token_ids": [5, 6], "logprobs": [-0.5, -0.25]}
    assert second["steps"][1]["extra"]["tutelage_weight"] == 0.25
    assert (ledger.counts["rows"], ledger.counts["trained_messages"]) == (2, 1)


def test_atif_refuses_foreign_keys_and_skips_copied_context(tmp_path: Path) -> None:
    export("atif", [make_trajectory("e")], tmp_path / "rows.jsonl", supervise=expert_steps)
    [document] = read_rows(tmp_path / "rows.jsonl", kind="jsonl")
    assert reread_atif(document).trained == {1}
    document["steps"][1]["is_copied_context"] = True
    assert reread_atif(document).trained == frozenset()
    with pytest.raises(FormatError, match="reward"):
        reread_atif(document | {"reward": 1.0})
    document["steps"][1]["step_id"] = 7
    with pytest.raises(FormatError, match="step_id"):
        reread_atif(document)


def test_native_keeps_everything(tmp_path: Path) -> None:
    given = [make_trajectory("sse", labels=["x", None, "y"], task_id="a"), make_trajectory("ss", task_id="b")]
    ledger = export_native(given, tmp_path / "mine.jsonl", supervise=expert_steps)
    assert read_records(tmp_path / "mine.jsonl", "trajectory") == given
    assert read_records(tmp_path / "mine.supervision.jsonl", "step_supervision") == [expert_steps(one) for one in given]
    assert dict(ledger.counts) == {"steps": 5, "trained_steps": 1}
    with pytest.raises(ConfigError, match="there already"):
        export_native(given, tmp_path / "mine.jsonl", supervise=expert_steps)
    with pytest.raises(ConfigError, match="there twice"):
        export_native([given[0], given[0]], tmp_path / "twice.jsonl", supervise=expert_steps)
    assert not (tmp_path / "twice.jsonl").exists()


@pytest.mark.parametrize("name", ["tasks.parquet", "tasks.jsonl"])
def test_verl_rows_rebuild_their_tasks(name: str, tmp_path: Path) -> None:
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    tasks = [
        *load_tasks("household", "train", count=2),
        Task(task_id="t", env="repo", goal="mend ✓", settings={"deep": [None, {"a": 1}]}),
    ]
    ledger = export_verl(tasks, tmp_path / name)
    rows = read_rows(tmp_path / name, kind=name.split(".")[1])
    assert [reread_verl(row) for row in rows] == tasks
    assert rows[2] | {"extra_info": None} == {
        "data_source": "repo",
        "prompt": [{"role": "user", "content": "mend ✓"}],
        "ability": "",
        "reward_model": {"style": "rule", "ground_truth": ""},
        "extra_info": None,
        "agent_name": "tutelage",
    }
    assert (rows[2]["extra_info"]["index"], rows[2]["extra_info"]["split"]) == (2, "train")
    assert ledger.num_converted == 3
    with pytest.raises(FormatError, match="says otherwise"):
        reread_verl(rows[0] | {"data_source": "shop"})


def test_nothing_to_write_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="no trajectory came in"):
        export_native([], tmp_path / "a.jsonl", supervise=expert_steps)
    with pytest.raises(ConfigError, match="no task came in"):
        export_verl([], tmp_path / "a.parquet")


def test_names_of_documents_are_safe(tmp_path: Path) -> None:
    odd = replace(make_trajectory("e"), trajectory_id="../a/b c")
    export("atif", [odd], tmp_path / "documents", supervise=expert_steps)
    assert [path.name for path in (tmp_path / "documents").iterdir()] == ["000000..._a_b_c.json"]
