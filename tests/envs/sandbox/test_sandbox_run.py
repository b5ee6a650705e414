"""Ordinary commands in a sandbox: what comes back, what is seen, and how long starting takes."""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutelage.envs.sandbox import CUT_MARK, SandboxLimits, SandboxUnsafe, make_sandbox
from tutelage.envs.sandbox.inside.watch import memory_bytes
from tutelage.envs.sandbox.limits import BoundedOutput
from tutelage.errors import ConfigError, EnvError


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


def test_output_keeps_both_ends(sandbox):
    result = sandbox.run(["seq", "1", "1000"], limits=SandboxLimits(output_chars=10))
    assert result.stdout == "1\n2\n3" + CUT_MARK + "1000\n"
    assert result.output_cut


def test_a_command_that_does_not_exist(sandbox):
    assert sandbox.run(["no-such-command"]).exit_code == 127


def test_a_command_that_ends_by_a_signal(sandbox):
    result = sandbox.run(["sh", "-c", "kill -SEGV $$"])
    assert (result.exit_code, result.killed_by) == (139, None)


def test_the_same_user_for_everybody(sandbox):
    assert (
        sandbox.run(["sh", "-c", "id -un; id -u; id -g; hostname; pwd"]).stdout == "agent\n1000\n1000\nsandbox\n/tmp\n"
    )


def test_git_works_in_a_workspace(sandbox, tmp_path):
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    result = sandbox.run(["sh", "-c", "git init -q . && git status --porcelain"], workspace=tmp_path)
    assert (result.exit_code, result.stderr) == (0, "")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"argv": []}, "empty command"),
        ({"cwd": "../x"}, "below the workspace"),
        ({"cwd": "/etc"}, "below the workspace"),
        ({"cwd": "x\0--bind\0/\0/host"}, "NUL character"),
        ({"env": {"A": "x\0y"}}, "NUL character"),
        ({"workspace": Path("/no/such/folder")}, "Make it first"),
        ({"readonly": {Path("/no/such/file"): "/opt/x"}}, "expected what exists"),
        ({"readonly": {Path("/usr"): "opt/x"}}, "absolute path"),
    ],
)
def test_what_cannot_be_run(sandbox, options, message):
    with pytest.raises(ConfigError, match=message):
        sandbox.run(**({"argv": ["true"]} | options))


def test_a_sandbox_that_cannot_be_set_up_is_an_error_of_the_machinery(sandbox, tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(EnvError, match="could not be set up"):
        # Nothing can be made below the null device.
        sandbox.run(["true"], readonly={tmp_path / "file": "/dev/null/x"})


def test_limits_are_checked():
    with pytest.raises(ConfigError, match="memory_mb is 0"):
        SandboxLimits(memory_mb=0)


def test_kinds():
    with pytest.raises(ConfigError, match="Did you mean 'bubblewrap'"):
        make_sandbox("bubblewarp")
    with pytest.raises(ConfigError, match=r"isolates nothing[\s\S]*apt-get install bubblewrap"):
        make_sandbox("rlimit")


def test_limits_without_isolation(tmp_path):
    with pytest.warns(SandboxUnsafe):
        unsafe = make_sandbox("rlimit", allow_unsafe=True)
    assert not unsafe.isolated
    assert unsafe.workspace_path(tmp_path) == str(tmp_path)
    limits = SandboxLimits(seconds=1, memory_mb=256, file_mb=1)
    start = time.monotonic()
    assert (
        unsafe.run(["sh", "-c", "sleep 60 & setsid sleep 60 & echo hi; pwd"], workspace=tmp_path).stdout
        == f"hi\n{tmp_path}\n"
    )
    assert time.monotonic() - start < 30
    assert unsafe.run(["sleep", "60"], limits=limits).timed_out
    assert unsafe.run(["sh", "-c", "setsid sh -c 'trap \"\" TERM; sleep 60'"], limits=limits).timed_out
    assert unsafe.run([unsafe.python, "-c", "bytearray(10**9)"], limits=limits).stderr.endswith("MemoryError\n")
    assert "SECRET" not in unsafe.run(["env"]).stdout
    with pytest.raises(ConfigError, match="cannot be shown"):
        unsafe.run(["true"], readonly={tmp_path: "/opt/x"})


@given(st.binary(max_size=200), st.integers(1, 40), st.booleans(), st.integers(1, 50))
def test_bounded_output(data, chars, keep_tail, chunk):
    """Whatever comes, in whatever pieces: short text is kept whole, long text within the bound, marked where it is cut."""
    output = BoundedOutput(chars, keep_tail)
    for start in range(0, len(data), chunk):
        output.add(data[start : start + chunk])
    text, cut = output.text()
    whole = data.decode("utf-8", "replace")
    assert cut == (len(whole) > chars)
    if not cut:
        assert text == whole
    else:
        head, mark, tail = text.partition(CUT_MARK if keep_tail else CUT_MARK.rstrip())
        assert mark
        assert len(head) + len(tail) == chars if keep_tail else head == whole[:chars]
        assert whole.startswith(head)


@given(st.integers(0, 3))
def test_memory_is_read_for_living_processes_only(number):
    assert memory_bytes(os.getpid()) > 1_000_000
    assert memory_bytes(2**22 + number) == 0
