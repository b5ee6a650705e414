"""Ordinary commands in a sandbox: what comes back, what is seen, and how long starting takes."""

from __future__ import annotations

import sys
from pathlib import Path

from tutelage.envs.sandbox import SandboxLimits


def test_output_and_exit_code(sandbox):
    result = sandbox.run(["sh", "-c", "echo out; echo err >&2; cat; exit 3"], stdin=b"in\xff")
    assert (result.exit_code, result.stdout, result.stderr) == (3, "out\nin\ufffd", "err\n")
    assert (result.timed_out, result.output_cut, result.killed_by) == (False, False, None)


def test_workspace_is_written_and_stays(sandbox, tmp_path):
    (tmp_path / "sub").mkdir()
    result = sandbox.run(["sh", "-c", "pwd; echo made > file"], workspace=tmp_path, cwd="sub")
    assert result.stdout == "/workspace/sub\n"
    assert (tmp_path / "sub" / "file").read_text() == "made\n"


def test_the_interpreter_is_ours(sandbox):
    result = sandbox.run([sandbox.python, "-c", "import sys; print(sys.version)"])
    assert result.stdout == sys.version + "\n"


def test_readonly_folder(sandbox, tmp_path):
    (tmp_path / "data").write_text("seen")
    script = "cat /opt/data/data; echo x > /opt/data/data"
    result = sandbox.run(["sh", "-c", script], readonly={Path(tmp_path): "/opt/data"})
    assert result.stdout == "seen"
    assert result.exit_code == 2
    assert (tmp_path / "data").read_text() == "seen"


def test_time_out(sandbox):
    result = sandbox.run(["sleep", "20"], limits=SandboxLimits(seconds=0.3))
    assert result.exit_code is None
    assert result.timed_out
    assert result.killed_by == "timeout"
    assert result.seconds < 5
