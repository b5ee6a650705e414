"""Runs one process to its end within bounds: reads what it writes, watches what it uses, kills it when it must."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tutelage.envs.sandbox.inside.watch import descendants, excess
from tutelage.envs.sandbox.limits import OVERHEAD_MB, BoundedOutput, SandboxLimits, Stop
from tutelage.envs.sandbox.process_bound import ProcessBound
from tutelage.envs.sandbox.pump import Pump, open_pipes
from tutelage.envs.sandbox.system import WRAPPER_ENV

TICK: Final = 0.02
"""Seconds between two looks at processes and memory. A process can touch some 40 MiB in that time."""

DISK_TICKS: Final = 10
"""Looks at the disk are this many times rarer."""

MOST_FILES: Final = 100_000
"""Files and folders in a workspace, or below /tmp inside a sandbox."""

WALK_SECONDS: Final = 1.0
"""How long a workspace is walked; one that takes longer counts as too big."""

LEAST_BOUND: Final = 128
"""The hard bound on processes and threads is never below this; the count that ends a command is `limits.processes`."""

GRACE: Final = 5.0
"""Seconds that a killed process may take to be gone."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Finished:
    """How a process ended."""

    return_code: int
    """Of the direct child; negative for a signal."""
    stdout: BoundedOutput
    stderr: BoundedOutput
    stopped: Stop | None
    seconds: float
    """Wall clock."""
    cpu_seconds: float
    """Processor time of the direct child and of those below it that were waited for."""


def supervise(
    argv: Sequence[str],
    *,
    limits: SandboxLimits,
    kill: Callable[[subprocess.Popen[bytes]], None],
    first_process: Callable[[], int | None] = lambda: None,
    stdin: bytes = b"",
    pass_fds: Sequence[int] = (),
    extra_processes: int = 0,
    workspace: Path | None = None,
) -> Finished:
    """Run `argv`. It has a session of its own.

    kill: ends the process and all that it started.
    first_process: number of the first process inside a sandbox, whose /tmp is bounded too.
    extra_processes: how many processes of the sandbox itself stand below the direct child.
    workspace: folder whose growth is bounded by `limits.disk_mb`.
    """
    start = time.monotonic()
    # Threads count too, and some programs start several.
    bound = ProcessBound(max(LEAST_BOUND, 2 * (limits.processes + extra_processes + 1)))
    theirs, ours = open_pipes()
    try:
        process = subprocess.Popen(
            bound.wrap(argv),
            stdin=theirs[0],
            stdout=theirs[1],
            stderr=theirs[2],
            env=WRAPPER_ENV,
            pass_fds=pass_fds,
            start_new_session=True,
        )
    except BaseException:
        for fd in ours:
            os.close(fd)
        bound.remove()
        raise
    finally:
        for fd in theirs:
            os.close(fd)
    watch = _Watch(process, limits, extra_processes, workspace, first_process, start)
    stopped: Stop | None = None
    end_fd = os.pidfd_open(process.pid)
    try:
        with Pump(*ours, end_fd=end_fd, stdin=stdin, limits=limits) as pump:
            while stopped is None and not pump.round(watch.wait()):
                stopped = watch.look() or ("output" if pump.flooded else None)
            if stopped is not None:
                kill(process)
            cpu_seconds = _reap(process)
            pump.drain()
    finally:
        os.close(end_fd)
        if process.returncode is None:
            kill(process)
            _reap(process)
        bound.remove()
    return Finished(
        return_code=process.returncode,
        stdout=pump.stdout,
        stderr=pump.stderr,
        stopped=stopped,
        seconds=time.monotonic() - start,
        cpu_seconds=cpu_seconds,
    )


def kill_process(process: subprocess.Popen[bytes]) -> None:
    """Kill the direct child. (`Popen.kill` would first ask for its exit status, and so take it from `supervise`.)"""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGKILL)


def kill_tree(process: subprocess.Popen[bytes]) -> None:
    """Kill the direct child and all below it that are there now."""
    for pid in [*descendants(process.pid, MOST_FILES), process.pid]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _reap(process: subprocess.Popen[bytes]) -> float:
    """Wait for a process that has ended or was killed, by force if it takes too long. Its processor time."""
    deadline = time.monotonic() + GRACE
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return usage.ru_utime + usage.ru_stime
        if time.monotonic() > deadline:
            kill_process(process)
        time.sleep(0.001)


class _Watch:
    """Looks at what the process and its descendants use."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        limits: SandboxLimits,
        extra_processes: int,
        workspace: Path | None,
        first_process: Callable[[], int | None],
        start: float,
    ) -> None:
        self._pid = process.pid
        self._limits = limits
        self._processes = limits.processes + extra_processes + 1
        self._workspace = workspace
        self._first_process = first_process
        self._free = _free(workspace) if workspace else (0, 0)
        self._deadline = start + limits.seconds
        self._next_look = start + TICK
        self._ticks = 0

    def wait(self) -> float:
        """Seconds until the next look."""
        return max(0.0, min(self._deadline, self._next_look) - time.monotonic())

    def look(self) -> Stop | None:
        now = time.monotonic()
        if now >= self._deadline:
            return "timeout"
        if now < self._next_look:
            return None
        self._next_look = now + TICK
        self._ticks += 1
        if self._ticks % DISK_TICKS == 0 and (self._workspace_too_big() or self._too_many_files()):
            return "disk"
        return excess(self._pid, self._processes, (self._limits.memory_mb + OVERHEAD_MB) << 20)

    def _workspace_too_big(self) -> bool:
        """Whether the workspace has grown by more than allowed. It is walked only if the disk has lost that much."""
        if self._workspace is None:
            return False
        bound = self._limits.disk_mb << 20
        now = _free(self._workspace)
        if self._free[0] - now[0] < bound and self._free[1] - now[1] < MOST_FILES:
            return False
        # Others write to the same disk. How big it was before is not known, and counted as nothing: the workspace of
        # a task is small beside the bound.
        return _is_bigger(self._workspace, bound)

    def _too_many_files(self) -> bool:
        """Whether /tmp inside holds so many files that their entries, which its size does not count, fill memory."""
        pid = self._first_process()
        if pid is None:
            return False
        root = f"/proc/{pid}/root"
        try:
            if os.stat(f"{root}/").st_dev == os.stat("/").st_dev:
                return False  # not inside yet
            found = os.statvfs(f"{root}/tmp")
        except OSError:
            return False
        return found.f_files - found.f_ffree > MOST_FILES


def _free(folder: Path) -> tuple[int, int]:
    """Bytes and files for which the disk has room."""
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize, found.f_favail


def _is_bigger(folder: Path, bound: int) -> bool:
    """Whether a tree holds more bytes, or more than `MOST_FILES` files. It may change meanwhile, and be of any depth."""
    size, files = 0, 0
    queue = [str(folder)]
    deadline = time.monotonic() + WALK_SECONDS
    while queue:
        if time.monotonic() > deadline:
            return True
        with contextlib.suppress(OSError), os.scandir(queue.pop()) as entries:
            for entry in entries:
                files += 1
                if entry.is_dir(follow_symlinks=False):
                    queue.append(entry.path)
                else:
                    size += entry.stat(follow_symlinks=False).st_blocks * 512
                if size > bound or files > MOST_FILES:
                    return True
    return False
