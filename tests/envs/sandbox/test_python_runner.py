"""Python cells in fresh processes: what they give, what they cannot do to each other, and what is left of them."""

from __future__ import annotations

import os
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from tutelage.envs.sandbox import (
    CUT_MARK,
    PYTHON_LIMITS,
    PythonRunner,
    SandboxLimits,
    SandboxUnsafe,
    make_sandbox,
    shared_runner,
)
from tutelage.envs.sandbox.inside.watch import descendants

REPOSITORY = Path(__file__).parents[3]

WIDE = replace(PYTHON_LIMITS, seconds=30, cpu_seconds=10, memory_mb=256, output_chars=1_000)


@pytest.fixture(autouse=True)
def _goes_on(runner: PythonRunner):
    """After each of these, an ordinary call works."""
    yield
    assert runner.run(["print('still here')"]).stdout == "still here\n"


def test_cells_share_names_and_only_the_last_prints(runner):
    result = runner.run(["x = 6 * 7; print(x)", "1 / 0", "print(x + 1)"])
    assert (result.exit_code, result.stdout, result.stderr) == (0, "43\n", "")


@pytest.mark.parametrize(
    ("code", "exit_code", "stdout", "stderr"),
    [
        ("print('a'); 1 / 0", 1, "a\n", "ZeroDivisionError: division by zero\n"),
        ("def f(:", 1, "", "SyntaxError: invalid syntax\n"),
        ("input()", 1, "", "EOFError: EOF when reading a line\n"),
        ("import sys; sys.exit(3)", 3, "", ""),
        ("import sys; sys.exit('gone')", 1, "", "gone\n"),
        ("import os; os._exit(125)", 125, "", ""),
        ("raise KeyboardInterrupt", 1, "", "KeyboardInterrupt\n"),
        ("import sys; sys.stdout.buffer.write(b'\\xff\\n')", 0, "\ufffd\n", ""),
        ("print(__name__); f = lambda: g(); g = lambda: 1; print(f())", 0, "__main__\n1\n", ""),
        ("import os; os.abort()", 139, "", ""),
        ("import os; print(os.listdir('/tmp'), os.getcwd(), os.getuid())", 0, "[] /tmp 0\n", ""),
        ("import threading, time; threading.Thread(target=lambda: print('t')).start()", 0, "t\n", ""),
        ("import atexit; atexit.register(print, 'bye')", 0, "bye\n", ""),
    ],
)
def test_what_a_call_gives(runner, code, exit_code, stdout, stderr):
    result = runner.run([code])
    if exit_code > 128:  # first processes of a process space cannot be ended by every signal
        assert result.exit_code > 128
    else:
        assert (result.exit_code, result.stdout, result.stderr) == (exit_code, stdout, stderr)


def test_standard_input(runner):
    assert runner.run(["print(sum(int(input()) for _ in range(2)))"], stdin=b"3\n4\n").stdout == "7\n"


def test_same_cells_print_the_same(runner):
    code = "import random; print(random.random(), hash('a'), {'b', 'a', 'c'})"
    first = runner.run([code]).stdout
    other = PythonRunner(runner.sandbox)
    try:
        assert {runner.run([code]).stdout, other.run([code]).stdout} == {first}
    finally:
        other.close()


def test_fork_bomb(runner):
    result = runner.run(["import os\nwhile True:\n  try: os.fork()\n  except OSError: pass"], limits=WIDE)
    assert result.killed_by in ("processes", "timeout")


def test_memory_bomb(runner):
    result = runner.run(["held = []\nwhile True: held.append(bytearray(10_000_000))"], limits=WIDE)
    assert result.stderr == "MemoryError\n"


def test_memory_of_many_processes(runner):
    code = "import os, time\nfor _ in range(12):\n  if os.fork() == 0: x = b'x' * 100_000_000; time.sleep(60)\ntime.sleep(60)"
    assert runner.run([code], limits=WIDE).killed_by == "memory"


def test_endless_output_keeps_its_beginning(runner):
    result = runner.run(["i = 0\nwhile True: print(i); i += 1"], limits=WIDE)
    assert result.killed_by == "output"
    assert result.stdout.startswith("0\n1\n2\n")
    assert result.stdout.endswith(CUT_MARK.rstrip())
    assert len(result.stdout) == 1_000 + len(CUT_MARK.rstrip())


@pytest.mark.parametrize(
    "code",
    [
        "import time; time.sleep(60)",
        "import signal, time\nfor n in (2, 15): signal.signal(n, signal.SIG_IGN)\ntime.sleep(60)",
        "import os, time\nfor fd in range(3): os.close(fd)\ntime.sleep(60)",
        "import sys\nsys.settrace(lambda *a: None)\ntry:\n  import time; time.sleep(60)\nfinally:\n  time.sleep(60)",
    ],
)
def test_hung_code_is_stopped(runner, code):
    result = runner.run([code], limits=replace(WIDE, seconds=0.5))
    assert result.timed_out
    assert result.seconds < 10


def test_processor_time(runner):
    if runner.sandbox.kind != "bubblewrap":
        pytest.skip("takes a second of work; the kinds do not differ in it")
    result = runner.run(["while True: pass"], limits=replace(WIDE, seconds=60, cpu_seconds=1))
    assert result.killed_by == "cpu"


def test_the_host_is_out_of_reach(runner, tmp_path):
    (tmp_path / "answers.json").write_text("42")
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.1)
        paths = [
            "/etc/shadow",
            str(Path.home()),
            str(REPOSITORY),
            str(tmp_path / "answers.json"),
            "/proc/1",
            "/workspace",
        ]
        code = (
            "import os, socket\n"
            f"print([path for path in {paths!r} if os.path.lexists(path)], os.environ.get('HOME'))\n"
            f"try: socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), timeout=1); print('reached')\n"
            "except OSError: print('no')\n"
            f"for pid in (1, os.getppid(), {os.getpid()}, -1):\n"
            "  try: os.kill(pid, 9)\n"
            "  except OSError: pass\n"
            "for path in ('/x', '/usr/x', '/opt/tutelage/inside/x', '/dev/x', '/proc/x'):\n"
            "  try: open(path, 'w'); print(path)\n"
            "  except OSError: pass"
        )
        assert runner.run([code]).stdout == "[] /tmp\nno\n"


def test_calls_leave_nothing_for_each_other(runner):
    leave = (
        "import builtins, os, sys, math\n"
        "open('/tmp/note', 'w').write('x'); open('/dev/shm/note', 'w').write('x')\n"
        "builtins.print = None; math.pi = 3; sys.modules['json'] = None\n"
        "if os.fork() == 0:\n"
        "  os.setsid()\n"
        "  import time; time.sleep(60)"
    )
    assert runner.run([leave]).exit_code == 0
    look = "import json, math, os; print(os.listdir('/tmp'), os.listdir('/dev/shm'), math.pi > 3, os.listdir('/proc'))"
    assert runner.run([look]).stdout == "[] [] True []\n"


def test_output_that_floods_while_the_code_ends(runner):
    """The host gives up on the output at the moment in which the code ends by itself: either may come first."""
    limits = replace(WIDE, output_chars=1)
    for size in range(4_000, 4_200, 10):
        assert runner.run([f"print('x' * {size})"], limits=limits).killed_by in (None, "output")


def test_no_descriptor_of_the_host_is_open(runner):
    code = "import os\nfor fd in range(256):\n  try: os.fstat(fd); print(fd)\n  except OSError: pass"
    assert runner.run([code]).stdout == "0\n1\n2\n"


def test_many_at_once(runner):
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda number: runner.run([f"print({number} ** 2)"]).stdout, range(64)))
    assert results == [f"{number**2}\n" for number in range(64)]


def test_a_hung_call_holds_up_no_other(runner):
    with ThreadPoolExecutor(2) as pool:
        hung = pool.submit(runner.run, ["import time; time.sleep(60)"], limits=replace(WIDE, seconds=2))
        start = time.monotonic()
        assert runner.run(["print(1)"]).stdout == "1\n"
        assert time.monotonic() - start < 1.8
        assert hung.result().timed_out


def test_an_interpreter_that_was_killed_is_started_again(sandbox):
    runner = PythonRunner(sandbox)
    assert runner.run(["print(1)"]).stdout == "1\n"
    os.kill(runner._zygote._process.pid, signal.SIGKILL)
    if sandbox.kind == "bubblewrap":  # its first process goes on without it
        runner._zygote._control.shutdown(socket.SHUT_RDWR)
    time.sleep(0.2)
    assert runner.run(["print(2)"]).stdout == "2\n"
    runner.close()


def test_closing_leaves_no_process_and_no_descriptor(sandbox):
    runner = PythonRunner(sandbox)
    before = sorted(os.listdir("/proc/self/fd"))
    for _ in range(5):
        runner.run(["print(1)"])
    process = runner._zygote._process
    runner.close()
    runner.close()
    assert process.returncode is not None
    assert sorted(os.listdir("/proc/self/fd")) == before


def test_closing_kills_an_interpreter_that_does_not_end(sandbox, monkeypatch):
    monkeypatch.setattr("tutelage.envs.sandbox.python_runner.GRACE", 0.2)
    runner = PythonRunner(sandbox)
    runner.run(["print(1)"])
    inside = descendants(runner._zygote._process.pid, 100)
    for pid in inside:
        os.kill(pid, signal.SIGSTOP)
    runner.close()
    deadline = time.monotonic() + 10
    while any(os.path.exists(f"/proc/{pid}") for pid in inside) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert inside
    assert not [pid for pid in inside if os.path.exists(f"/proc/{pid}")]


def test_a_runner_that_outlives_the_thread_that_started_it(sandbox):
    runner = PythonRunner(sandbox)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(runner.run, ["print(1)"]).result().stdout
    process = runner._zygote._process
    assert (first, runner.run(["print(2)"]).stdout) == ("1\n", "2\n")
    assert runner._zygote._process is process
    runner.close()


def test_a_forked_process_gets_an_interpreter_of_its_own(runner):
    assert runner.run(["print(1)"]).stdout == "1\n"
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = 0 if runner.run(["print(2)"]).stdout == "2\n" else 1
            runner.close()
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert runner.run(["print(3)"]).stdout == "3\n"


def test_one_runner_for_all():
    assert shared_runner() is shared_runner()


def test_without_isolation_cells_still_run_within_limits():
    with pytest.warns(SandboxUnsafe, match="without isolation"):
        sandbox = make_sandbox("rlimit", allow_unsafe=True)
    runner = PythonRunner(sandbox)
    assert runner.run(["x = 2", "print(x, input())"], stdin=b"in\n").stdout == "2 in\n"
    assert runner.run(["import time; time.sleep(60)"], limits=SandboxLimits(seconds=0.5)).timed_out
    assert runner.run(["1 / 0"]).stderr == "ZeroDivisionError: division by zero\n"
