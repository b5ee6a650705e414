"""Runs one process to its end within bounds: reads what it writes, watches what it uses, kills it when it must."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tutelage.envs.sandbox.limits import FLOOD_FACTOR, BoundedOutput, SandboxLimits, Stop
from tutelage.envs.sandbox.watch import excess

TICK: Final = 0.02
"""Seconds between two looks at processes and memory. A process can touch some 40 MiB in that time."""

DISK_TICKS: Final = 10
"""Looks at the disk are this many times rarer."""

GRACE: Final = 5.0
"""Seconds that a killed process may take to be gone."""

CHUNK: Final = 1 << 16


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
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    pass_fds: Sequence[int] = (),
    extra_processes: int = 0,
    workspace: Path | None = None,
) -> Finished:
    """Run `argv`. It has a session of its own.

    kill: ends the process and all that it started.
    extra_processes: how many processes of the sandbox itself stand below the direct child.
    workspace: folder whose growth is bounded by `limits.disk_mb`.
    """
    start = time.monotonic()
    process = subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=None if env is None else dict(env),
        cwd=cwd,
        pass_fds=pass_fds,
        start_new_session=True,
        bufsize=0,
    )
    watch = _Watch(process, limits, extra_processes, workspace, start)
    pump = _Pump(process, stdin, limits)
    stopped: Stop | None = None
    try:
        while stopped is None and not pump.round(watch.wait()):
            stopped = watch.look() or ("output" if pump.flooded else None)
        if stopped is not None:
            kill(process)
        cpu_seconds = _reap(process)
        pump.drain()
    finally:
        if process.returncode is None:
            kill(process)
            _reap(process)
        pump.close()
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
        start: float,
    ) -> None:
        self._pid = process.pid
        self._limits = limits
        self._processes = limits.processes + extra_processes
        self._workspace = workspace
        self._free = _free_bytes(workspace) if workspace else 0
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
        if self._workspace is not None and self._ticks % DISK_TICKS == 0 and self._too_big(self._workspace):
            return "disk"
        found = excess(self._pid, self._processes, self._limits.memory_mb << 20)
        return "processes" if found == "processes" else "memory" if found == "memory" else None

    def _too_big(self, workspace: Path) -> bool:
        """Whether the workspace has grown by more than allowed. Walks it only if the disk has lost that much."""
        bound = self._limits.disk_mb << 20
        if self._free - _free_bytes(workspace) < bound:
            return False
        size = _tree_bytes(workspace)
        # Others write to the same disk. What was there before is not known, and counted as nothing: the workspace of
        # a task is small beside the bound.
        return size > bound


def _free_bytes(folder: Path) -> int:
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


def _tree_bytes(folder: Path) -> int:
    total = 0
    for parent, _, files in os.walk(folder):
        for name in files:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(parent, name)).st_blocks * 512
    return total


class _Pump:
    """Moves bytes: stdin to the process, stdout and stderr into bounded memory."""

    def __init__(self, process: subprocess.Popen[bytes], stdin: bytes, limits: SandboxLimits) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._process = process
        self._stdin = memoryview(stdin)
        self._flood = FLOOD_FACTOR * limits.output_chars
        self.stdout = BoundedOutput(limits.output_chars, limits.keep_tail)
        self.stderr = BoundedOutput(limits.output_chars, limits.keep_tail)
        self._outputs = {process.stdout.fileno(): self.stdout, process.stderr.fileno(): self.stderr}
        self._exit_fd = os.pidfd_open(process.pid)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._exit_fd, selectors.EVENT_READ)
        for fd in self._outputs:
            os.set_blocking(fd, False)
            self._selector.register(fd, selectors.EVENT_READ)
        if stdin:
            os.set_blocking(process.stdin.fileno(), False)
            self._selector.register(process.stdin, selectors.EVENT_WRITE)
        else:
            process.stdin.close()

    @property
    def flooded(self) -> bool:
        return self.stdout.num_bytes + self.stderr.num_bytes > self._flood

    def round(self, seconds: float) -> bool:
        """Move what can be moved, waiting at most so long. True: the process has ended."""
        ended = False
        for key, _ in self._selector.select(seconds):
            if key.fd == self._exit_fd:
                ended = True
            elif key.fd in self._outputs:
                self._read(key.fd)
            else:
                self._write()
        return ended

    def drain(self) -> None:
        """Read what is left in the pipes after the end, without waiting for whoever still holds them."""
        for fd in tuple(self._outputs):
            while fd in self._outputs and not self.flooded and self._read(fd):
                pass

    def close(self) -> None:
        self._selector.close()
        os.close(self._exit_fd)
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()

    def _read(self, fd: int) -> bool:
        """Whether there was something to read."""
        try:
            data = os.read(fd, CHUNK)
        except BlockingIOError:
            return False
        if data:
            self._outputs[fd].add(data)
        else:
            self._selector.unregister(fd)
            del self._outputs[fd]
        return bool(data)

    def _write(self) -> None:
        assert self._process.stdin is not None
        try:
            sent = os.write(self._process.stdin.fileno(), self._stdin[:CHUNK])
            self._stdin = self._stdin[sent:]
        except BrokenPipeError:
            self._stdin = self._stdin[:0]
        if not self._stdin:
            self._selector.unregister(self._process.stdin)
            self._process.stdin.close()
