"""Run directories: the lock, stage records, changed recipes, hashes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tutelage.errors import ConfigError, FormatError, StoreError
from tutelage.recipe import load_recipe
from tutelage.run_dir import RunDir, StageRecord, changed_keys, hash_files, hash_json


def test_one_run_at_a_time(tmp_path: Path) -> None:
    run = RunDir(tmp_path / "run")
    with run.lock() as lock:
        assert lock.killed_holder is None
        with pytest.raises(StoreError, match=r"in use by process \d+ on .*\nWait until it has ended"), run.lock():
            pass
    with run.lock() as lock:
        assert lock.killed_holder is None


def test_the_lock_of_a_killed_process_is_taken_over(tmp_path: Path) -> None:
    script = (
        "import os, signal, sys; from tutelage.run_dir import RunDir\n"
        "with RunDir(sys.argv[1]).lock(): os.kill(os.getpid(), signal.SIGKILL)"
    )
    killed = subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
    assert killed.returncode == -9
    with RunDir(tmp_path).lock() as lock:
        assert lock.killed_holder is not None
        assert lock.killed_holder.startswith("process ")


def test_a_child_that_outlives_its_parent_keeps_the_lock(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    with run.lock() as lock:
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=(lock.fd,))
    with pytest.raises(StoreError, match="in use by another process"), run.lock():
        pass
    child.communicate(b"\n")
    with run.lock():
        pass


def test_a_changed_recipe_is_refused_unless_forced(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    run.adopt_recipe(load_recipe("smoke/household_oec"), force=False)
    assert run.adopt_recipe(load_recipe("smoke/household_oec"), force=False) == []
    changed = load_recipe("smoke/household_oec", set=["train.budget=9", "models.corrected.mask=all_steps"])
    with pytest.raises(StoreError, match=r"changed: train\.budget, models\.corrected\.mask\.\nTake --force"):
        run.adopt_recipe(changed, force=False)
    assert run.recipe() == load_recipe("smoke/household_oec")
    assert run.adopt_recipe(changed, force=True) == ["train.budget", "models.corrected.mask"]
    assert run.recipe() == changed


def test_the_number_of_workers_may_change(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    run.adopt_recipe(load_recipe("smoke/household_oec"), force=False)
    assert run.adopt_recipe(load_recipe("smoke/household_oec", set=["workers=3"]), force=False) == ["workers"]


def test_what_is_no_run_directory(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not a run directory"):
        RunDir(tmp_path).recipe()
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(StoreError, match=r"cannot be made .*Choose another place with --out"),
        RunDir(tmp_path / "file").lock(),
    ):
        pass


def test_stage_records(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    assert run.record("train:a") is None
    record = StageRecord(state="done", inputs="x", outputs="y", summary={"updates": 3}, seconds=1.5, goes=2)
    run.write_record("train:a", record)
    assert run.record("train:a") == record
    run.record_path("train:a").write_text("{")
    with pytest.raises(FormatError, match="not valid JSON"):
        run.record("train:a")
    run.record_path("train:a").write_text('{"other": 1}')
    with pytest.raises(FormatError, match="not a stage record"):
        run.record("train:a")


def test_changed_keys() -> None:
    assert changed_keys({"a": {"b": 1, "d": [1, 2]}}, {"a": {"b": 2, "d": [1, 3]}, "c": 3}) == ["a.b", "a.d.1", "c"]
    assert changed_keys({"a": [1]}, {"a": [1, 2]}) == ["a"]
    assert changed_keys({"a": 1}, {}) == ["a"]
    assert changed_keys({"a": {"b": None}}, {"a": {"b": None}}) == []


def test_hashes_tell_contents_and_names_apart(tmp_path: Path) -> None:
    assert hash_json({"a": 1, "b": [2]}) == hash_json({"b": [2], "a": 1})
    assert hash_json({"a": 1}) != hash_json({"a": 1.5})
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "one").write_text("1")
    first = hash_files([tmp_path / "folder"])
    assert first == hash_files([tmp_path / "folder"])
    (tmp_path / "folder" / "one").write_text("2")
    second = hash_files([tmp_path / "folder"])
    (tmp_path / "folder" / "one").rename(tmp_path / "folder" / "two")
    assert len({first, second, hash_files([tmp_path / "folder"])}) == 3
