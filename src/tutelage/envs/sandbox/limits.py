"""What a sandboxed command may use, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from tutelage.errors import ConfigError

Stop = Literal["timeout", "cpu", "memory", "processes", "output", "disk"]
"""Why a command was stopped before its own end; see `SandboxLimits` for the limit of each."""

FLOOD_FACTOR: Final = 4096
"""A command is stopped when it has written this many times `output_chars` bytes: reading a flood costs the host time."""

OVERHEAD_MB: Final = 64
"""Memory beyond `memory_mb` that all processes together may use: what the sandbox itself takes, and enough that a single
process meets its own limit first, as an error that it can see."""

CUT_MARK: Final = "\n[... output cut ...]\n"
"""Stands where output was left out."""


class SandboxUnsafe(UserWarning):
    """Commands run without isolation: they can read files of the host, reach the network and leave processes behind."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SandboxLimits:
    """Bounds of one command. Times are seconds, sizes are MiB.

    `memory_mb` holds for the address space of each process, and (with `OVERHEAD_MB`) for the memory of all together; temporary
    files count against a bound of the same size of their own. `processes` counts threads too, where the kernel can
    count them per sandbox.
    """

    seconds: float = 60.0
    """Wall clock."""
    cpu_seconds: int = 60
    """Processor time of each process."""
    memory_mb: int = 512
    file_mb: int = 64
    """Size of one file."""
    disk_mb: int = 512
    """What the workspace may grow by."""
    processes: int = 64
    output_chars: int = 16_000
    """Characters kept of stdout, and as many of stderr."""
    keep_tail: bool = True
    """Too long output keeps its first and its last half. False: only its beginning, which does not depend on when
    the command was stopped."""

    def __post_init__(self) -> None:
        for name in ("seconds", "cpu_seconds", "memory_mb", "file_mb", "disk_mb", "processes", "output_chars"):
            if getattr(self, name) <= 0:
                raise ConfigError(f"sandbox limits: {name} is {getattr(self, name)}, expected more than 0.")


@dataclass(frozen=True, kw_only=True, slots=True)
class SandboxResult:
    """What a command did."""

    exit_code: int | None
    """As a shell shows it: 128 + n after signal n. None: stopped by the sandbox."""
    stdout: str
    """Decoded as UTF-8; bytes that are not become U+FFFD."""
    stderr: str
    timed_out: bool
    """The wall clock ran out."""
    output_cut: bool
    """stdout or stderr is not all that was written."""
    seconds: float
    """Wall-clock time, start-up of the sandbox included."""
    killed_by: Stop | None
    """Which limit stopped it. None: it ended by itself (also by a signal, or a MemoryError of its own)."""


class BoundedOutput:
    """Keeps the beginning of a stream of bytes, and its end if wanted, in bounded memory.

    Example, 6 characters: ``abcdefghij`` -> ``abc``, mark, ``hij``.
    """

    def __init__(self, chars: int, keep_tail: bool = True) -> None:
        self._chars = chars
        self._keep_tail = keep_tail
        self._room = 4 * chars  # a character of UTF-8 has at most 4 bytes
        self._head = bytearray()
        self._tail = bytearray()
        self.num_bytes = 0

    def add(self, data: bytes) -> None:
        self.num_bytes += len(data)
        free = self._room - len(self._head)
        self._head += data[:free]
        rest = data[free:] if free < len(data) else b""
        if rest and self._keep_tail:
            self._tail = (self._tail + rest)[-self._room :]

    def text(self) -> tuple[str, bool]:
        """What was kept, and whether anything was left out."""
        dropped = self.num_bytes > len(self._head) + len(self._tail)
        if not dropped:
            whole = (self._head + self._tail).decode("utf-8", "replace")
            if len(whole) <= self._chars:
                return whole, False
            head, tail = whole, whole
        else:
            head = self._head.decode("utf-8", "replace")
            tail = self._tail.decode("utf-8", "replace")
        if not self._keep_tail:
            return head[: self._chars] + CUT_MARK.rstrip(), True
        half = self._chars // 2
        return head[: self._chars - half] + CUT_MARK + (tail[-half:] if half else ""), True
