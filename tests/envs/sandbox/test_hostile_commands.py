"""What a hostile command tries. Each is contained and bounded, and the sandbox serves the next command."""

from __future__ import annotations

import os
import signal
import socket
import time
from pathlib import Path

import pytest

from tutelage.envs.sandbox import CUT_MARK, Sandbox, SandboxLimits, SandboxResult

REPOSITORY = Path(__file__).parents[3]

SHORT = SandboxLimits(seconds=20, cpu_seconds=5, memory_mb=256, file_mb=8, disk_mb=48, processes=24, output_chars=2_000)
"""Wide enough in time that another limit comes first on a busy machine."""

BRIEF = SandboxLimits(seconds=1)


@pytest.fixture(autouse=True)
def _goes_on(sandbox: Sandbox):
    """After each of these, an ordinary command works and no process of the sandbox is left."""
    yield
    assert sandbox.run(["echo", "still here"]).stdout == "still here\n"
    assert not marked_processes()


def marked_processes() -> list[str]:
    """Processes of this machine that carry the mark of these tests in their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            except OSError:
                continue
            if MARK in line:
                found.append(line)
    return found


MARK = f"hostile-{os.getpid()}"


def python(sandbox: Sandbox, code: str, limits: SandboxLimits = SHORT, **options) -> SandboxResult:
    return sandbox.run([sandbox.python, "-c", code, MARK], limits=limits, **options)


def test_fork_bomb(sandbox):
    result = python(sandbox, "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass")
    assert result.killed_by in ("processes", "timeout")
    assert result.exit_code is None


def test_memory_bomb_of_one_process(sandbox):
    result = python(sandbox, "held = []\nwhile True: held.append(bytearray(10_000_000))")
    assert result.exit_code == 1
    assert result.stderr.endswith("MemoryError\n")


def test_memory_bomb_of_many_processes(sandbox):
    code = "import os, time\nfor _ in range(12):\n  if os.fork() == 0: held = b'x' * 100_000_000; time.sleep(60)\ntime.sleep(60)"
    assert python(sandbox, code).killed_by == "memory"


def test_memory_outside_of_any_limit_is_refused(sandbox):
    code = (
        "import ctypes, os\n"
        "try: os.memfd_create('m'); print('memfd')\n"
        "except OSError as error: print(error.errno)\n"
        "print(ctypes.CDLL(None).shmget(0, 1 << 20, 0o1000))"
    )
    if os.uname().machine not in ("x86_64", "aarch64"):
        pytest.skip("no filter of system calls is known for this machine")
    assert python(sandbox, code).stdout == "1\n-1\n"


def test_endless_output(sandbox):
    result = python(sandbox, "while True: print('x' * 10_000)")
    assert result.killed_by == "output"
    assert result.output_cut
    assert result.stdout.startswith("x" * 1_000 + CUT_MARK)
    assert len(result.stdout) == 2_000 + len(CUT_MARK)


def test_files_outside_are_not_there(sandbox, tmp_path):
    paths = [
        "/etc/shadow",
        str(Path.home()),
        str(REPOSITORY),
        "/home",
        "/root",
        "/var",
        "/run",
        "/sys",
        "/mnt",
        "/boot",
    ]
    code = f"import os; print([path for path in {paths!r} if os.path.lexists(path)])"
    assert python(sandbox, code, workspace=tmp_path).stdout == "[]\n"


def test_a_file_beside_the_workspace_is_not_there(sandbox, tmp_path):
    (tmp_path / "workspace").mkdir()
    (tmp_path / "answers.json").write_text("42")
    code = (
        f"import os\nfor path in ('../answers.json', {str(tmp_path / 'answers.json')!r}): print(os.path.exists(path))"
    )
    assert python(sandbox, code, workspace=tmp_path / "workspace").stdout == "False\nFalse\n"


def test_the_system_cannot_be_written(sandbox, tmp_path):
    code = (
        "for path in ('/x', '/usr/x', '/etc/x', '/etc/passwd', '/opt/x', '/dev/x', '/proc/sys/kernel/panic'):\n"
        "  try: open(path, 'w').write('1'); print(path)\n"
        "  except OSError: pass"
    )
    assert python(sandbox, code, workspace=tmp_path).stdout == ""


def test_a_server_of_the_host_is_out_of_reach(sandbox):
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        port = server.getsockname()[1]
        code = (
            "import socket\n"
            "for host in ('127.0.0.1', '::1', 'localhost', '1.1.1.1'):\n"
            f"  try: socket.create_connection((host, {port}), timeout=1); print('reached', host)\n"
            "  except OSError: pass\n"
            "print('done')"
        )
        result = python(sandbox, code)
        with pytest.raises(TimeoutError):
            server.accept()
    assert result.stdout == "done\n"


def test_abstract_sockets_of_the_host_are_out_of_reach(sandbox):
    name = f"\0{MARK}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(name)
        server.listen()
        code = f"import socket\ntry: socket.socket(socket.AF_UNIX).connect({name!r}); print('reached')\nexcept OSError: print('no')"
        assert python(sandbox, code).stdout == "no\n"


def test_the_parent_cannot_be_killed(sandbox):
    code = f"import os\nfor pid in (os.getppid(), 1, {os.getpid()}):\n  try: os.kill(pid, 9)\n  except OSError: pass\nprint('tried')"
    result = python(sandbox, code)
    assert result.killed_by is None
    assert result.stdout == "tried\n"


def test_killing_everything_kills_only_itself(sandbox):
    assert python(sandbox, "import os; os.kill(-1, 9)").exit_code in (1, 137)


def test_a_link_of_the_workspace_leads_nowhere_inside(sandbox, tmp_path):
    (tmp_path / "workspace").mkdir()
    (tmp_path / "secret").write_text("secret")
    os.symlink(tmp_path / "secret", tmp_path / "workspace" / "link")
    os.symlink("/etc/shadow", tmp_path / "workspace" / "shadow")
    result = sandbox.run(["sh", "-c", "cat link shadow"], workspace=tmp_path / "workspace")
    assert result.stdout == ""
    assert result.exit_code == 1


def test_a_link_made_inside_is_a_link_outside(sandbox, tmp_path):
    (tmp_path / "workspace").mkdir()
    (tmp_path / "secret").write_text("secret")
    python(sandbox, f"import os; os.symlink({str(tmp_path / 'secret')!r}, 'result')", workspace=tmp_path / "workspace")
    result = tmp_path / "workspace" / "result"
    assert result.is_symlink()
    with pytest.raises(OSError, match="symbolic links"):
        os.open(result, os.O_RDONLY | os.O_NOFOLLOW)


def test_a_link_in_place_of_a_folder_is_no_way_out(sandbox, tmp_path):
    """Writing through a link that points to a folder of the host writes inside, or nowhere."""
    (tmp_path / "workspace").mkdir()
    (tmp_path / "outside").mkdir()
    script = f"ln -s {tmp_path / 'outside'} out; echo x > out/file; mkdir -p {tmp_path / 'outside'} && echo x > out/file; true"
    sandbox.run(["sh", "-c", script], workspace=tmp_path / "workspace")
    assert list((tmp_path / "outside").iterdir()) == []


def test_deleting_the_workspace(sandbox, tmp_path):
    (tmp_path / "workspace" / "folder").mkdir(parents=True)
    (tmp_path / "beside").write_text("kept")
    result = sandbox.run(
        ["sh", "-c", "rm -rf /workspace /workspace/* / 2>/dev/null; ls"], workspace=tmp_path / "workspace"
    )
    assert result.stdout == ""
    assert (tmp_path / "workspace").is_dir()
    assert (tmp_path / "beside").read_text() == "kept"


def test_a_daemon_does_not_outlive_its_command(sandbox, tmp_path):
    code = (
        "import os, time\n"
        "if os.fork() == 0:\n"
        "  os.setsid()\n"
        "  if os.fork(): os._exit(0)\n"
        "  for fd in range(3): os.close(fd)\n"
        "  while True: time.sleep(0.05); open('alive', 'a').write('x')\n"
        "time.sleep(0.5)"
    )
    result = python(sandbox, code, workspace=tmp_path)
    assert result.exit_code == 0
    size = (tmp_path / "alive").stat().st_size
    assert size > 0
    time.sleep(0.3)
    assert (tmp_path / "alive").stat().st_size == size


def test_ignoring_signals(sandbox):
    code = (
        "import signal, time\n"
        "for number in range(1, 65):\n"
        "  try: signal.signal(number, signal.SIG_IGN)\n"
        "  except (OSError, ValueError): pass\n"
        "time.sleep(60)"
    )
    result = python(sandbox, code, BRIEF)
    assert result.timed_out
    assert result.seconds < 10


def test_closing_its_output_and_going_on(sandbox):
    result = python(sandbox, "import os, time\nfor fd in range(3): os.close(fd)\ntime.sleep(60)", BRIEF)
    assert result.timed_out
    assert result.seconds < 10


def test_a_descendant_that_keeps_the_output_open(sandbox):
    result = sandbox.run(["sh", "-c", f"sleep 60 {MARK} & echo done"], limits=SHORT)
    assert result.stdout == "done\n"
    assert result.exit_code == 0
    assert result.seconds < 10


def test_one_huge_file(sandbox, tmp_path):
    result = python(sandbox, "open('huge', 'wb').write(b'x' * 20_000_000)", workspace=tmp_path)
    assert result.exit_code == 1
    assert "File too large" in result.stderr
    assert (tmp_path / "huge").stat().st_size <= 8 << 20


def test_many_big_files(sandbox, tmp_path):
    code = "import os\nfor i in range(10_000):\n  with open(str(i), 'wb') as file: file.write(b'x' * 8_000_000); os.fsync(file)"
    result = python(sandbox, code, workspace=tmp_path)
    assert result.killed_by == "disk"
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 2_000_000_000


def test_a_very_deep_tree(sandbox, tmp_path):
    """The host may have to walk it: folders within folders, deeper than a recursion goes, then big files."""
    if sandbox.kind != "bubblewrap":
        pytest.skip("removing such a tree takes long; the kinds do not differ in it")
    code = (
        "import os\n"
        "for _ in range(1_010): os.mkdir('d'); os.chdir('d')\n"
        "for i in range(10_000):\n"
        "  with open(str(i), 'wb') as file: file.write(b'x' * 8_000_000); os.fsync(file)"
    )
    assert python(sandbox, code, workspace=tmp_path).killed_by == "disk"
    sandbox.run(["sh", "-c", "rm -rf d"], workspace=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_temporary_files_are_bounded_and_gone(sandbox):
    fill = "import os\nfor i in range(100):\n  open(f'/tmp/{i}', 'wb').write(b'x' * 8_000_000)"
    result = python(sandbox, fill)
    assert result.exit_code == 1
    assert "No space left on device" in result.stderr
    assert sandbox.run(["ls", "/tmp"]).stdout == ""


def test_the_process_table_shows_nothing_of_the_host(sandbox, tmp_path):
    code = (
        "import os\n"
        "lines = [open(f'/proc/{pid}/cmdline').read() for pid in os.listdir('/proc') if pid.isdigit()]\n"
        "print(any('py' 'test' in line for line in lines), len(lines) < 5)\n"
        "for pid in (1, os.getppid()):\n"
        "  try: open(f'/proc/{pid}/mem', 'r+b').seek(4096); open(os.path.join('/proc', str(pid), 'root', 'etc', 'shadow')); print('reached')\n"
        "  except OSError: pass"
    )
    assert python(sandbox, code, workspace=tmp_path).stdout == "False True\n"


def test_nothing_of_the_environment_is_passed_on(sandbox, monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "abc")
    result = sandbox.run(["env"], env={"GIVEN": "yes"})
    assert "SECRET_TOKEN" not in result.stdout
    assert "GIVEN=yes" in result.stdout
    peek = "import os\nfor pid in os.listdir('/proc'):\n  try: print(open(f'/proc/{pid}/environ').read())\n  except OSError: pass"
    assert "SECRET_TOKEN" not in python(sandbox, peek).stdout


def test_no_privilege_is_left(sandbox):
    code = (
        "import ctypes, re\n"
        "status = open('/proc/self/status').read()\n"
        "print(re.findall(r'Cap(?:Prm|Eff|Bnd|Amb):\\s*(\\w+)', status), re.findall(r'NoNewPrivs:\\s*(\\d)', status))\n"
        "libc = ctypes.CDLL(None)\n"
        "print(libc.unshare(0x10000000), libc.mount(b'none', b'/tmp', b'tmpfs', 0, None), libc.chroot(b'/tmp'))"
    )
    assert python(sandbox, code).stdout == f"{['0' * 16] * 4} ['1']\n-1 -1 -1\n"


def test_odd_bytes(sandbox):
    result = sandbox.run(["printf", r"a\377\000b\n"])
    assert result.stdout == "a\ufffd\0b\n"


def test_processor_time(sandbox):
    result = python(sandbox, "while True: pass", SandboxLimits(seconds=60, cpu_seconds=1))
    assert result.killed_by == "cpu"
    assert not result.timed_out


def test_input_that_nobody_reads(sandbox):
    result = sandbox.run(["true"], stdin=b"x" * 1_000_000)
    assert result.exit_code == 0


def test_dying_with_the_host(sandbox, tmp_path):
    """The host is killed while a command runs: the command ends too."""
    pid = os.fork()
    if pid == 0:
        try:
            code = "import time\nwhile True: open('alive', 'a').write('x'); time.sleep(0.05)"
            python(sandbox, code, SandboxLimits(seconds=60), workspace=tmp_path)
        finally:
            os._exit(0)
    deadline = time.monotonic() + 20
    while not (tmp_path / "alive").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    time.sleep(0.3)
    size = (tmp_path / "alive").stat().st_size
    time.sleep(0.3)
    assert (tmp_path / "alive").stat().st_size == size
