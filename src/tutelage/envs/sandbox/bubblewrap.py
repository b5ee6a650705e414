"""Isolation by bubblewrap: own user, process, network, IPC and host-name spaces, a read-only system, no capabilities."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Final

from tutelage.envs.sandbox.base import Sandbox, limit_arguments
from tutelage.envs.sandbox.limits import SandboxLimits
from tutelage.envs.sandbox.supervise import Finished, kill_process, supervise
from tutelage.envs.sandbox.system import (
    ETC_FILES,
    GROUP,
    LIMITED,
    PASSWD,
    PYTHON_HOME,
    SYSTEM_FOLDERS,
    WORKSPACE,
    base_python,
)
from tutelage.errors import ConfigError, EnvError

SHARED_MEMORY: Final = 64 << 20
"""Bytes of /dev/shm."""


class BubblewrapSandbox(Sandbox):
    """Needs the program `bwrap` (Debian, Fedora and Arch: package bubblewrap) and user namespaces, or root."""

    kind = "bubblewrap"

    def __init__(self) -> None:
        program = shutil.which("bwrap")
        if program is None:
            raise ConfigError("sandbox: the program 'bwrap' is not there. Install the package 'bubblewrap'.")
        self._program = program

    def _launch(
        self,
        argv: list[str],
        *,
        workspace: Path | None,
        cwd: PurePosixPath,
        stdin: bytes,
        limits: SandboxLimits,
        env: dict[str, str],
        readonly: dict[Path, str],
    ) -> Finished:
        with contextlib.ExitStack() as files:
            status, status_end = os.pipe()
            files.callback(os.close, status)
            fds = [status_end, *(_pipe_with(text) for text in user_table())]
            for fd in fds:
                files.callback(os.close, fd)
            command = [
                self._program,
                *_spaces(self._program),
                *("--json-status-fd", str(status_end)),
                *_system(limits.memory_mb << 20),
                *("--file", str(fds[1]), "/etc/passwd", "--file", str(fds[2]), "/etc/group"),
            ]
            for source, target in readonly.items():
                command += ["--ro-bind", str(source.absolute()), target]
            if workspace is not None:
                command += ["--bind", str(workspace.absolute()), WORKSPACE]
            command += ["--remount-ro", "/", "--chdir", str(PurePosixPath(WORKSPACE if workspace else "/tmp", cwd))]
            for name, value in env.items():
                command += ["--setenv", name, value]
            command += ["--", "/bin/sh", "-c", LIMITED, "sh", *limit_arguments(limits, 2), *argv]
            child = _Status(status)
            finished = supervise(
                command,
                limits=limits,
                kill=child.kill,
                stdin=stdin,
                pass_fds=fds,
                extra_processes=1,
                workspace=workspace,
            )
            if finished.stopped is None and not child.ended:
                message = finished.stderr.text()[0].strip()
                raise EnvError(f"bubblewrap could not set up the sandbox: {message or 'no message'}.")
        return finished


class _Status:
    """What bubblewrap tells about the first process inside."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self._fd = fd
        self._text = b""

    @property
    def ended(self) -> bool:
        """The command was started, and has ended by itself."""
        return "exit-code" in self._read()

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """Kill the first process inside, and with it all others. bubblewrap then ends when the last one is gone."""
        pid = self._read().get("child-pid")
        if pid is None:
            kill_process(process)
        # Once bubblewrap has ended, the number may be another process's.
        elif os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _read(self) -> dict[str, int]:
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self._fd, 4096):
                self._text += data
        found: dict[str, int] = {}
        for line in self._text.splitlines():
            found |= json.loads(line)
        return found


@lru_cache(maxsize=1)
def _spaces(program: str) -> tuple[str, ...]:
    """The options that separate a command from the host."""
    known = subprocess.run([program, "--help"], capture_output=True, text=True, check=False).stdout
    return (
        *("--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
        # Started by root, bubblewrap would leave all capabilities of the new user namespace.
        *("--cap-drop", "ALL", "--die-with-parent", "--new-session", "--hostname", "sandbox", "--clearenv"),
        *(("--disable-userns",) if "--disable-userns" in known else ()),
    )


def _system(temporary_bytes: int) -> list[str]:
    """Options for the file system, but for the workspace."""
    options: list[str] = []
    for folder in SYSTEM_FOLDERS:
        if os.path.islink(folder):
            options += ["--symlink", os.readlink(folder), folder]
        elif os.path.isdir(folder):
            options += ["--ro-bind", folder, folder]
    for path in ETC_FILES:
        options += ["--ro-bind-try", path, path]
    if not base_python().is_relative_to("/usr"):
        options += ["--ro-bind", str(base_python()), PYTHON_HOME]
    size = str(temporary_bytes)
    return [
        *options,
        *("--proc", "/proc", "--dev", "/dev", "--size", str(SHARED_MEMORY), "--tmpfs", "/dev/shm"),
        *("--remount-ro", "/dev", "--size", size, "--perms", "1777", "--tmpfs", "/tmp"),
    ]


def user_table() -> tuple[str, str]:
    """/etc/passwd and /etc/group of a sandbox."""
    uid, gid = os.getuid(), os.getgid()
    return PASSWD.format(uid=uid, gid=gid), GROUP.format(gid=gid)


def _pipe_with(text: str) -> int:
    """A readable descriptor that gives a short text."""
    read_end, write_end = os.pipe()
    with os.fdopen(write_end, "w") as stream:
        stream.write(text)
    return read_end
