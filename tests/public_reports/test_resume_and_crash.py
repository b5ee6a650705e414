"""Reports about resume and crash: torn lines, rollouts that were lost or doubled, signals in the middle of a rollout."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tutelage.cli.main import main
from tutelage.policies.base import PartialTrajectory
from tutelage.rollout.runner import make_jobs, run_rollouts
from tutelage.rollout.switch import Never
from tutelage.run_dir import RunDir
from tutelage.store import RecordStore, read_records
from tutelage.testing import CountingEnv, ScriptedPolicy, counting_task
from tutelage.types import Action, Actor, StopReason, Trajectory

S = Actor.STUDENT
JOBS = make_jobs([counting_task(f"c-{index}", target=1 + index % 3) for index in range(10)])


def play(store: RecordStore, policy: ScriptedPolicy | None = None) -> tuple[int, int]:
    policy = policy or ScriptedPolicy([], then="add")
    summary = run_rollouts(JOBS, policies={S: policy}, rule=Never(), store=store, make_env=CountingEnv, retries=0)
    return summary.num_played, summary.num_resumed


def without_clock(path: Path) -> list[Trajectory]:
    """Everything but the seconds, in an order that does not depend on who was first."""
    records = [replace(one, seconds=0.0) for one in read_records(path, "trajectory")]
    return sorted(records, key=lambda one: one.trajectory_id)


def test_c1_a_torn_line_is_dropped_and_nothing_is_doubled(tmp_path: Path) -> None:
    """verifiers PR #1564, #1638, #1961, #1962, prime-rl PR #1374: half a line ended the resume, or rows came twice."""
    whole = tmp_path / "whole.jsonl"
    assert play(RecordStore(whole, "trajectory")) == (10, 0)
    lines = whole.read_bytes().splitlines(keepends=True)
    torn = tmp_path / "torn.jsonl"
    torn.write_bytes(b"".join(lines[:6]) + lines[6][:37])
    store = RecordStore(torn, "trajectory")
    assert store.note == (f"{torn}: left out a torn last line of 37 bytes (line 7); the 5 records before it are whole")
    assert play(store) == (5, 5)
    assert play(RecordStore(torn, "trajectory")) == (0, 10)
    assert torn.read_bytes().count(b"\n") == 1 + 10
    assert len({one.trajectory_id for one in without_clock(torn)}) == 10
    assert without_clock(torn) == without_clock(whole)


def test_c1_by_the_command_line(play_by_command_line: Callable[..., RunDir]) -> None:
    """verifiers PR #1564, prime-rl PR #1374: the count and the mean of the resumed run are those of an unbroken one."""
    run = play_by_command_line("none", count=10)
    path, ledger = run.trajectories_path("first"), run.ledger_path("first").read_text()
    unbroken = without_clock(path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:6]) + lines[6][:37])
    for record in (run.root / "stages").rglob("*.json"):
        record.unlink()  # It was killed in the rollout: no stage has said that it is done.
    for _ in range(2):
        play_by_command_line("none", count=10)
        assert path.read_bytes().count(b"\n") == 1 + 10
        assert without_clock(path) == unbroken
        assert run.ledger_path("first").read_text() == ledger


@pytest.fixture
def start_and_signal(fixtures: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    monkeypatch.syspath_prepend(str(fixtures / "signals"))
    import start_and_signal as module  # type: ignore[import-not-found]

    found: Callable[..., Any] = module.start_and_signal
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="finds processes by /proc")
@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_c3_a_signal_in_the_middle_of_a_rollout(
    tmp_path: Path, counter_worlds: None, start_and_signal: Callable[..., Any], fixtures: Path, sent: Any, code: int
) -> None:
    """mini-swe-agent#329, PR #585, #963, Evaluator PR #1080: what was played so far was lost, and the exit code was 0."""
    out = tmp_path / "run"
    path = RunDir(out).trajectories_path("first")
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text((fixtures / "signals" / "rollout.yaml").read_text())
    ended = start_and_signal(
        ["run", str(recipe), "--out", str(out)],
        when=lambda: path.is_file() and path.read_bytes().count(b"\n") >= 1 + 2,
        signals=[sent],
    )
    assert (ended.code, ended.left) == (code, [])
    assert ended.errors.strip().endswith("Stopped. What was finished is stored; the same command goes on from there.")
    found = {one.task_id: one for one in read_records(path, "trajectory")}
    hung = found.pop("counter-train-1")
    assert (hung.stop_reason, hung.reward, len(hung.steps)) == (StopReason.INTERRUPTED, None, 1)
    assert {one.stop_reason for one in found.values()} == {StopReason.COMPLETED}
    assert len(found) == 2


def test_c3_an_exception_of_the_model_ends_only_its_own_rollout(tmp_path: Path) -> None:
    """mini-swe-agent#963, Evaluator PR #1080: one failed model call, and the whole batch was gone."""

    class Breaks(ScriptedPolicy):
        def act(self, so_far: PartialTrajectory) -> Action:
            if so_far.task.task_id == "c-5" and len(so_far.steps) == 1:
                raise RuntimeError("model call failed")
            return super().act(so_far)

    path = tmp_path / "t.jsonl"
    assert play(RecordStore(path, "trajectory"), Breaks([], then="add")) == (10, 0)
    found = {one.task_id: one for one in read_records(path, "trajectory")}
    broken = found.pop("c-5")
    assert (broken.stop_reason, broken.reward, len(broken.steps)) == (StopReason.POLICY_ERROR, None, 1)
    assert broken.error is not None
    assert broken.error.startswith("RuntimeError: model call failed (test_resume_and_crash.py:")
    assert {one.stop_reason for one in found.values()} == {StopReason.COMPLETED}
    # Played again when the run is taken up, and then it is whole.
    assert play(RecordStore(path, "trajectory")) == (1, 9)


def test_c3_a_run_that_cannot_start_has_an_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """mini-swe-agent#329: a failed run ended with exit code 0."""
    assert main(["run", str(tmp_path / "none.yaml"), "--out", str(tmp_path / "run")]) == 2
    assert "none.yaml" in capsys.readouterr().err
