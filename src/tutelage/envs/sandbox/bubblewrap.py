"""Isolation by bubblewrap: own user, process, network, IPC and host-name spaces, a read-only system, no capabilities."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Final

from tutelage.envs.sandbox.base import Prepared, Request, Sandbox, file_with, limit_arguments
from tutelage.envs.sandbox.call_filter import call_filter
from tutelage.envs.sandbox.status import Status
from tutelage.envs.sandbox.system import (
    AGENT_ID,
    HOST_NAME,
    LIMITED,
    WORKSPACE,
    system_folders,
    system_links,
    user_files,
)
from tutelage.errors import ConfigError

SHARED_MEMORY: Final = 64 << 20
"""Bytes of /dev/shm."""


class BubblewrapSandbox(Sandbox):
    """Needs the program `bwrap` (Debian, Fedora and Arch: package bubblewrap) and user namespaces."""

    kind = "bubblewrap"

    def __init__(self) -> None:
        program = shutil.which("bwrap")
        if program is None:
            raise ConfigError("the program 'bwrap' is not there")
        self._program = program

    def _prepare(self, request: Request, status: Status, status_fd: int, files: contextlib.ExitStack) -> Prepared:
        fds = [status_fd]
        options = [*_spaces(self._program, request.builds_sandboxes), "--json-status-fd", str(status_fd)]
        for target, source in system_links().items():
            options += ["--symlink", source, target]
        for source, target in system_folders().items():
            options += ["--ro-bind", source, target]
        options += _own_file_systems(request.limits.memory_mb << 20)
        for name, text in user_files().items():
            fds.append(file_with(text.encode(), files))
            options += ["--file", str(fds[-1]), name]
        for path, inside in request.readonly.items():
            options += ["--ro-bind", str(path.absolute()), inside]
        if request.workspace is not None:
            options += ["--bind", str(request.workspace.absolute()), WORKSPACE]
        home = "/tmp" if request.workspace is None else WORKSPACE
        options += ["--remount-ro", "/", "--chdir", str(PurePosixPath(home, request.cwd))]
        for name, value in request.env.items():
            options += ["--setenv", name, value]
        command = list(request.argv)
        if not request.builds_sandboxes:
            if call_filter():
                fds.append(file_with(call_filter(), files))
                options += ["--seccomp", str(fds[-1])]
            # The first process inside is the shell.
            limits = map(str, limit_arguments(request.limits, extra_processes=1))
            command = ["/bin/sh", "-c", LIMITED, "sh", *limits, *command]
        # Options tell paths of the host, and a command line can be read by everybody inside.
        fds.append(file_with("\0".join(options).encode(), files))
        argv = (self._program, "--args", str(fds[-1]), "--", *command)
        return Prepared(argv=argv, fds=tuple(fds), status=status, extra_processes=1)


@lru_cache(maxsize=2)
def _spaces(program: str, builds_sandboxes: bool) -> tuple[str, ...]:
    """The options that separate a command from the host."""
    known = subprocess.run([program, "--help"], capture_output=True, text=True, check=False).stdout
    common = (
        *("--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
        # Started by root, bubblewrap would leave all capabilities of the new user namespace.
        *("--cap-drop", "ALL", "--new-session", "--hostname", HOST_NAME, "--clearenv"),
    )
    if builds_sandboxes:
        # With another number, bubblewrap would put a second user namespace between the command and its process space.
        return (*common, "--uid", "0", "--gid", "0", "--cap-add", "CAP_SYS_ADMIN")
    # Its own first process would let bubblewrap end before the processes that a command leaves behind. And the parent
    # with which it dies is the thread that starts it, which waits for its end.
    user = ("--uid", str(AGENT_ID), "--gid", str(AGENT_ID))
    return (
        *common,
        *user,
        "--as-pid-1",
        "--die-with-parent",
        *(("--disable-userns",) if "--disable-userns" in known else ()),
    )


def _own_file_systems(temporary_bytes: int) -> list[str]:
    return [
        *(
            "--proc",
            "/proc",
            "--remount-ro",
            "/proc",
            "--dev",
            "/dev",
            "--size",
            str(SHARED_MEMORY),
            "--tmpfs",
            "/dev/shm",
        ),
        *("--remount-ro", "/dev", "--size", str(temporary_bytes), "--perms", "1777", "--tmpfs", "/tmp"),
    ]
