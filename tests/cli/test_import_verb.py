"""`tutelage import` as it is typed: what it prints, what it writes, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tutelage.cli.main import main
from tutelage.store import RecordStore

FILES = Path(__file__).parents[1] / "fixtures" / "formats"


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", "list"]) == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert names == ["swe_agent", "mini_swe_agent", "openai_chat", "sharegpt", "parquet", "atif", "native", "auto"]


def test_a_folder_is_read_and_accounted_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "new" / "t.jsonl"
    code = main(["import", "auto", str(FILES / "traj"), "--out", str(out), "--actor", "expert", "--env", "mine"])
    shown = capsys.readouterr()
    assert code == 0
    assert shown.out == (
        "import  auto: 10 read = 6 converted + 1 cut + 1 empty + 1 no_info + 1 no_trajectory; "
        "15 steps, 14 expert_steps, 6 unscored, 1 truncated, 1 student_steps\n"
        f"        -> {out}   ledger {out}.ledger.json\n"
    )
    assert f"  {FILES / 'traj' / 'cut.traj'}, byte 696: cut: the JSON ends after 700 bytes" in shown.err
    assert "no trajectory has a reward" in shown.err
    store: RecordStore = RecordStore(out, "trajectory")
    assert (len(store), {one.env for one in store}) == (6, {"mine"})
    ledger = json.loads(Path(f"{out}.ledger.json").read_text())
    assert (ledger["num_read"], ledger["num_converted"], len(ledger["problems"])) == (10, 6, 4)
    assert sorted(path.name for path in out.parent.iterdir()) == ["t.jsonl", "t.jsonl.ledger.json"]


def test_t35_without_an_author_nothing_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", "swe_agent", str(FILES / "traj" / "good.traj"), "--out", str(tmp_path / "t.jsonl")]) == 2
    assert "good.traj: the file does not say who acted" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_switch_indices_of_a_side_file_and_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "idx.json").write_text('{"good": 2}')
    (tmp_path / "report.json").write_text('{"resolved_ids": ["good"]}')
    out = tmp_path / "t.jsonl"
    words = ["--switch-index", str(tmp_path / "idx.json"), "--report", str(tmp_path / "report.json")]
    assert main(["import", "swe_agent", str(FILES / "traj" / "good.traj"), "--out", str(out), *words]) == 0
    (one,) = RecordStore(out, "trajectory")
    assert (one.switch_index, one.reward) == (2, 1.0)
    assert capsys.readouterr().err == ""


def test_a_field_of_another_name(tmp_path: Path) -> None:
    value = json.loads((FILES / "traj" / "good.traj").read_text()) | {"handover": 1}
    (tmp_path / "a.traj").write_text(json.dumps(value))
    out = tmp_path / "t.jsonl"
    assert main(["import", "auto", str(tmp_path / "a.traj"), "--out", str(out), "--switch-index", "handover"]) == 0
    (one,) = RecordStore(out, "trajectory")
    assert one.switch_index == 1


def test_a_flag_becomes_a_file_of_supervisions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = FILES / "rows" / "mixed.jsonl", tmp_path / "t.jsonl"
    assert main(["import", "auto", str(source), "--out", str(out), "--actor", "expert", "--flag", "weight"]) == 0
    first = next(iter(RecordStore(tmp_path / "t.supervision.jsonl", "step_supervision")))
    assert (first.trajectory_id, first.step_mask, first.source) == ("string", (True, False), "flag:weight")
    capsys.readouterr()
    # What was written is not read again with the folder that it is in.
    (tmp_path / "rows.jsonl").write_bytes(source.read_bytes())
    assert main(["import", "auto", str(tmp_path), "--out", str(out), "--actor", "expert", "--force"]) == 0
    assert len(RecordStore(out, "trajectory")) == 6
    capsys.readouterr()
    (tmp_path / "bad.jsonl").write_text('{"messages": [{"role": "assistant", "content": "a", "weight": "x"}]}\n')
    words = ["--out", str(tmp_path / "u.jsonl"), "--actor", "expert", "--flag", "weight"]
    assert main(["import", "auto", str(tmp_path / "bad.jsonl"), *words]) == 2
    assert "step 0: weight is 'x', expected true, false or a number >= 0" in capsys.readouterr().err
    assert not (tmp_path / "u.jsonl").exists()


def test_exit_codes_and_outputs_that_are_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "t.jsonl"
    words = ["import", "auto", str(FILES / "traj"), "--actor", "expert"]
    assert main([*words, "--dry-run"]) == 0
    assert not out.exists()
    assert main([*words, "--out", str(out), "--max-skipped", "3"]) == 3
    assert main([*words, "--out", str(out)]) == 2
    assert "is there already. Give --force" in capsys.readouterr().err
    assert main([*words, "--out", str(out), "--force", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["num_converted"] == 6
    assert main(["import", "auto", str(FILES / "traj" / "empty.traj"), "--out", str(tmp_path / "u.jsonl")]) == 1
    assert main(["import", "auto", "--out", "x"]) == 2
    assert main(["import", "auto", str(tmp_path / "none"), "--out", "x"]) == 2
    assert main([*words, "--out", str(tmp_path / "v"), "--switch-index", "no.json"]) == 2
    assert main([*words, "--out", str(tmp_path / "v"), "--actor", "teacher"]) == 2
    assert main([*words, "--out", str(tmp_path / "v"), "--report", str(tmp_path / "no")]) == 2


def test_r2_truncated_exits_stay_out_of_training_data_by_default(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the files to the rows: the exit at the cost limit is imported, and learnt only when asked for."""
    names = [str(FILES / "traj" / name) for name in ("good.traj", "exit_cost.traj")]
    stored = tmp_path / "t.jsonl"
    assert main(["import", "swe_agent", *names, "--out", str(stored), "--actor", "expert"]) == 0
    capsys.readouterr()
    assert main(["export", "axolotl", str(stored), "--out", str(tmp_path / "a.jsonl")]) == 0
    assert "select  2 in  1 kept  1 truncated" in capsys.readouterr().err
    assert len((tmp_path / "a.jsonl").read_text().splitlines()) == 1
    for target, select in (("axolotl", ["--select", "none"]), ("atif", [])):
        assert main(["export", target, str(stored), "--out", str(tmp_path / f"{target}.jsonl"), *select]) == 0
        assert len((tmp_path / f"{target}.jsonl").read_text().splitlines()) == 2
