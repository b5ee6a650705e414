"""Stages in worker processes: same results as in one process, nothing left behind after a signal, errors that arrive."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tutelage.pipeline.run import run
from tutelage.recipe import load_recipe
from tutelage.run_dir import RunDir, read_json

pytestmark = pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds leftover processes by /proc")


def start(out: Path, *more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tutelage", "run", "smoke/household_oec", "--out", str(out), "--workers", "2", *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for_line(log: Path, text: str, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if log.is_file() and text in log.read_text():
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    raise AssertionError(f"{text!r} never came into {log}")


def workers_of(out: Path) -> list[int]:
    """Processes whose command line names this run directory as a worker's."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                command = (folder / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"tutelage.pipeline.worker" in command and os.fsencode(out) in command:
                found.append(int(folder.name))
    return found


def wait_until_gone(out: Path) -> None:
    deadline = time.monotonic() + 20
    while workers_of(out):
        assert time.monotonic() < deadline, "a worker outlived its run"
        time.sleep(0.05)


def test_signals_and_resume(tmp_path: Path) -> None:
    out = tmp_path / "run"
    process = start(out)
    wait_for_line(out / "log.txt", "train:imitation: started", process)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Stopped. What was finished is stored; the same command goes on from there." in errors
    assert "Traceback" not in errors
    assert workers_of(out) == []

    process = start(out)
    wait_for_line(out / "log.txt", "rollout:corrections: started", process)
    process.kill()
    process.communicate()
    wait_until_gone(out)

    process = start(out)
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert "note: the last run here (process " in errors
    assert f"report  -> {out / 'report.html'}" in output
    assert workers_of(out) == []

    alone = run(load_recipe("smoke/household_oec"), tmp_path / "alone").dir
    for arm in ("imitation", "imitation_double", "corrected"):
        assert read_json(RunDir(out).result_path(arm)) == read_json(alone.result_path(arm))
        assert read_json(RunDir(out).sample_ledger_path(arm)) == read_json(alone.sample_ledger_path(arm))


def test_an_error_in_a_worker_arrives(tmp_path: Path) -> None:
    process = start(
        tmp_path / "run",
        *("--set", "models.imitation.data=[{source: expert_first, count: 9}]"),
        *("--set", "student.start=builtin:household_tiny"),
    )
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 2
    assert (
        "ConfigError: stage build:imitation: models.imitation: data from 'expert_first': count 9, but only 8" in errors
    )
    assert "Raise the count of rollouts.expert_first.tasks" in errors
    assert "Traceback" not in errors


def test_a_worker_that_dies_is_told(tmp_path: Path) -> None:
    out = tmp_path / "run"
    process = start(out)
    wait_for_line(out / "log.txt", "new:start: started", process)
    os.kill(workers_of(out)[0], signal.SIGKILL)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "its worker process ended with code -9 (killed, or out of memory)" in errors
