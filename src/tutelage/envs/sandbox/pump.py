"""Moves bytes between a process and bounded memory."""

from __future__ import annotations

import contextlib
import os
import selectors
from types import TracebackType
from typing import Final

from tutelage.envs.sandbox.limits import FLOOD_FACTOR, BoundedOutput, SandboxLimits

CHUNK: Final = 1 << 16


class Pump:
    """Writes stdin, reads stdout and stderr, and notices the end. Owns the three descriptors of the streams.

    end_fd: becomes readable when the process has ended; it stays the caller's.
    """

    def __init__(
        self, stdin_fd: int, stdout_fd: int, stderr_fd: int, *, end_fd: int, stdin: bytes, limits: SandboxLimits
    ) -> None:
        self._stdin_fd: int | None = stdin_fd
        self._stdin = memoryview(stdin)
        self._end_fd = end_fd
        self._flood = FLOOD_FACTOR * limits.output_chars
        self.stdout = BoundedOutput(limits.output_chars, limits.keep_tail)
        self.stderr = BoundedOutput(limits.output_chars, limits.keep_tail)
        self._outputs = {stdout_fd: self.stdout, stderr_fd: self.stderr}
        self._selector = selectors.DefaultSelector()
        self._selector.register(end_fd, selectors.EVENT_READ)
        for fd in self._outputs:
            os.set_blocking(fd, False)
            self._selector.register(fd, selectors.EVENT_READ)
        os.set_blocking(stdin_fd, False)
        self._selector.register(stdin_fd, selectors.EVENT_WRITE)
        if not stdin:
            self._end_stdin()

    def __enter__(self) -> Pump:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._selector.close()
        self._end_stdin(unregister=False)
        for fd in self._outputs:
            os.close(fd)
        self._outputs = {}

    @property
    def flooded(self) -> bool:
        """More was written than is worth reading."""
        return self.stdout.num_bytes + self.stderr.num_bytes > self._flood

    def round(self, seconds: float) -> bool:
        """Move what can be moved, waiting at most so long. True: the process has ended."""
        ended = False
        for key, _ in self._selector.select(seconds):
            if key.fd == self._end_fd:
                ended = True
            elif key.fd in self._outputs:
                self._read(key.fd)
            else:
                self._write(key.fd)
        return ended

    def drain(self) -> None:
        """Read what is left in the pipes after the end, without waiting for whoever still holds them."""
        for fd in tuple(self._outputs):
            while fd in self._outputs and not self.flooded and self._read(fd):
                pass

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
            os.close(fd)
        return bool(data)

    def _write(self, fd: int) -> None:
        try:
            self._stdin = self._stdin[os.write(fd, self._stdin[:CHUNK]) :]
        except BrokenPipeError:
            self._stdin = self._stdin[:0]
        if not self._stdin:
            self._end_stdin()

    def _end_stdin(self, unregister: bool = True) -> None:
        if self._stdin_fd is None:
            return
        if unregister:
            self._selector.unregister(self._stdin_fd)
        with contextlib.suppress(BrokenPipeError):
            os.close(self._stdin_fd)
        self._stdin_fd = None


def open_pipes() -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """Descriptors of stdin, stdout and stderr: those for a process, and ours, which a `Pump` takes."""
    stdin_read, stdin_write = os.pipe()
    stdout_read, stdout_write = os.pipe()
    stderr_read, stderr_write = os.pipe()
    return (stdin_read, stdout_write, stderr_write), (stdin_write, stdout_read, stderr_read)
