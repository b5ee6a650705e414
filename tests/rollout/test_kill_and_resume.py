"""Real signals to a real process in the middle of a run, then a resume."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

from tutelage.rollout.runner import make_jobs, run_rollouts
from tutelage.rollout.summary import latest_attempts
from tutelage.rollout.switch import UniformStep
from tutelage.store import RecordStore
from tutelage.testing import CountingEnv, ScriptedPolicy, counting_task
from tutelage.types import Actor, StopReason

PLAY = """
    import os, signal, sys
    from tutelage.rollout.runner import make_jobs, run_rollouts
    from tutelage.rollout.switch import UniformStep
    from tutelage.store import RecordStore
    from tutelage.testing import CountingEnv, ScriptedPolicy, counting_task
    from tutelage.types import Actor

    path, what = sys.argv[1:]
    tasks = [counting_task(f"c-{index}", target=3) for index in range(10)]
    policies = {Actor.STUDENT: ScriptedPolicy([], then="look"), Actor.EXPERT: ScriptedPolicy([], then="add")}

    class TornStore(RecordStore):
        '''The sixth record stops after 37 bytes, and so does the process.'''
        def _write(self, data):
            if len(self) == 6:
                with open(self.path, "ab") as file:
                    file.write(data[:37])
                os.kill(os.getpid(), signal.SIGKILL)
            super()._write(data)

    def make_env(task):
        if what == "hang" and task.task_id == "c-5":
            task = counting_task("c-5", target=3, inline=False, hang_at=1)
            print("hanging", flush=True)
        return CountingEnv(task)

    store = (TornStore if what == "tear" else RecordStore)(path, "trajectory")
    run_rollouts(make_jobs(tasks), policies=policies, rule=UniformStep(0, 4), store=store, make_env=make_env)
"""


def command(path: Path, what: str) -> list[str]:
    return [sys.executable, "-c", textwrap.dedent(PLAY), str(path), what]


def resume(store: RecordStore) -> tuple[int, int]:
    tasks = [counting_task(f"c-{index}", target=3) for index in range(10)]
    policies = {Actor.STUDENT: ScriptedPolicy([], then="look"), Actor.EXPERT: ScriptedPolicy([], then="add")}
    rule = UniformStep(0, 4)
    summary = run_rollouts(make_jobs(tasks), policies=policies, rule=rule, store=store, make_env=CountingEnv)
    return summary.num_played, summary.num_resumed


def test_a_kill_with_half_a_line_written(tmp_path: Path) -> None:
    """C1: five whole lines and 37 bytes of the sixth; a resume plays five, a second resume none."""
    path = tmp_path / "t.jsonl"
    assert subprocess.run(command(path, "tear"), check=False).returncode == -signal.SIGKILL
    content = path.read_bytes()
    assert content.count(b"\n") == 1 + 5
    assert len(content.splitlines()[-1]) == 37
    store = RecordStore(path, "trajectory")
    assert store.note is not None
    assert "left out a torn last line of 37 bytes (line 7); the 5 records before it are whole" in store.note
    assert resume(store) == (5, 5)
    assert resume(RecordStore(path, "trajectory")) == (0, 10)
    assert path.read_bytes().count(b"\n") == 1 + 10
    assert len(set(RecordStore(path, "trajectory").ids)) == 10

    unbroken = RecordStore(tmp_path / "unbroken.jsonl", "trajectory")
    assert resume(unbroken) == (10, 0)
    got, expected = (
        [replace(trajectory, seconds=0.0) for trajectory in latest_attempts(RecordStore(file, "trajectory"))]
        for file in (path, unbroken.path)
    )
    assert got == expected


def test_an_interrupt_while_an_environment_hangs(tmp_path: Path) -> None:
    """C3: the partial trajectory is kept with its stop reason, the others are not lost, the exit code is not 0."""
    path = tmp_path / "t.jsonl"
    process = subprocess.Popen(command(path, "hang"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "hanging\n"
    # The other nine are played in the time that the hanging one takes to be noticed.
    while not path.exists() or path.read_bytes().count(b"\n") < 1 + 9:
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=10)
    assert process.returncode == -signal.SIGINT
    assert errors.splitlines()[-1] == "KeyboardInterrupt"

    stop_reasons = {trajectory.task_id: trajectory.stop_reason for trajectory in RecordStore(path, "trajectory")}
    assert stop_reasons.pop("c-5") is StopReason.INTERRUPTED
    assert stop_reasons == {f"c-{index}": StopReason.COMPLETED for index in range(10) if index != 5}
    store = RecordStore(path, "trajectory")
    assert resume(store) == (1, 9)
    assert store.ids[-1] == "c-5.uniform.s0.n0.a1"
    assert resume(store) == (0, 10)
