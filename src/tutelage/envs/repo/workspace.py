"""The folder that an agent works in: what changed in it, its clock, and access that no link leads out of.

Between two actions nothing of the agent's runs. What it left behind is looked at without following links.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from tutelage.envs.repo.tree import EXECUTABLE, FILE, LINK, SKIPPED_FOLDERS, Entry, Tree, read_folder

CLOCK_START: Final = 978_307_200
"""Modification time of all files at the start: 2001-01-01. Files written in step i are i + 1 minutes younger, so that
listings come out the same in every run."""

MAX_FILES: Final = 100_000
"""Files and folders of a workspace."""
READ_LIMIT: Final = 4 << 20
"""Largest file that the editor opens, bytes."""

_PLAIN: Final = re.compile(r"[A-Za-z0-9_./@%=~][A-Za-z0-9_./+@%=~-]*")

Change = tuple[str, str]
"""What became of a file (empty: written, ``+``: made, ``-``: removed), and its path."""


@dataclass(frozen=True, slots=True)
class _Seen:
    mark: tuple[int, ...]
    digest: str


class OutsideWorkspace(Exception):
    """A path that leads out of the workspace, or through a link."""


class Workspace:
    """A folder of the host with a tree in it, and what is known of its files."""

    def __init__(self, folder: Path, tree: Tree, max_mb: int) -> None:
        self.folder = folder
        self.too_big = False
        """Whether it holds more than `max_mb`, or too many files. Then nothing more is said about it."""
        self._max_bytes = max_mb << 20
        tree.write(folder, CLOCK_START)
        self._seen: dict[str, _Seen] = {}
        self.changes(0)

    def changes(self, num_steps: int) -> list[Change]:
        """What changed since the last call (contents, kind or executability), in the order of paths.

        The files get the time of the episode's clock.
        """
        found = self._scan()
        if found is None:
            self.too_big = True
            return []
        seen: dict[str, _Seen] = {}
        changed: dict[str, str] = {}
        for path, mark in found.items():
            before = self._seen.get(path)
            if before is not None and before.mark == mark:
                seen[path] = before
                continue
            digest = self._digest(path)
            self._set_time(path, num_steps)
            seen[path] = _Seen(_mark(os.lstat(self.folder / path)), digest)
            if before is None or before.digest != digest:
                changed[path] = "+" if before is None else ""
        changed |= dict.fromkeys(self._seen.keys() - seen.keys(), "-")
        self._seen = seen
        return [(changed[path], path) for path in sorted(changed, key=os.fsencode)]

    def state_hash(self) -> str:
        """SHA-256 over paths and contents as of the last look."""
        lines = (f"{seen.digest} {path!a}\n" for path, seen in sorted(self._seen.items()))
        return hashlib.sha256("".join(lines).encode()).hexdigest()

    def tree(self) -> Tree:
        """The files now. Raises FormatError if they are too many bytes."""
        self._scan()
        return read_folder(self.folder, max_bytes=self._max_bytes)

    # The editor's way in

    def is_folder(self, path: PurePosixPath) -> bool:
        try:
            with self._parent(path / "x"):
                return True
        except OSError:
            return False

    def read(self, path: PurePosixPath) -> bytes:
        """Raises OSError, or OutsideWorkspace."""
        with self._parent(path) as parent, open(_open(path.name, os.O_RDONLY, parent), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise OSError("not a regular file")
            data = file.read(READ_LIMIT + 1)
        if len(data) > READ_LIMIT:
            raise OSError(f"larger than {READ_LIMIT >> 20} MiB")
        return data

    def write(self, path: PurePosixPath, data: bytes | None) -> None:
        """Write a file, folders on the way included; None removes it. Raises OSError, or OutsideWorkspace."""
        if data is None:
            with self._parent(path) as parent:
                os.unlink(path.name, dir_fd=parent)
            return
        with (
            self._parent(path, make=True) as parent,
            open(_open(path.name, os.O_WRONLY | os.O_CREAT, parent), "wb") as file,
        ):
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise OSError("not a regular file")
            file.truncate(0)
            file.write(data)

    @contextlib.contextmanager
    def _parent(self, path: PurePosixPath, make: bool = False) -> Iterator[int]:
        """The open folder that a path is in, reached from the top one folder at a time, never through a link."""
        fd = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for part in path.parts[:-1]:
                if make:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(part, dir_fd=fd)
                below = _open(part, os.O_RDONLY | os.O_DIRECTORY, fd)
                os.close(fd)
                fd = below
            yield fd
        finally:
            os.close(fd)

    # Looking

    def _scan(self) -> dict[str, tuple[int, ...]] | None:
        """Path -> mark of every file and link. None: too many or too large. Opens what the agent made unreadable."""
        found: dict[str, tuple[int, ...]] = {}
        total = number = 0
        stack = [""]
        while stack:
            parent = stack.pop()
            folder = self.folder / parent
            mode = stat.S_IMODE(os.lstat(folder).st_mode)
            if mode & 0o700 != 0o700:
                os.chmod(folder, mode | 0o700)
            with os.scandir(folder) as items:
                for item in items:
                    path = f"{parent}/{item.name}" if parent else item.name
                    status = item.stat(follow_symlinks=False)
                    total += status.st_blocks * 512
                    number += 1
                    if number > MAX_FILES or total > self._max_bytes:
                        return None
                    if stat.S_ISDIR(status.st_mode):
                        stack.append(path)
                    elif (stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)) and not _skipped(path):
                        found[path] = _mark(status)
        return found

    def _digest(self, path: str) -> str:
        place = self.folder / path
        status = os.lstat(place)
        if stat.S_ISLNK(status.st_mode):
            entry = Entry(os.readlink(os.fsencode(place)), LINK)
        else:
            if not status.st_mode & 0o400:
                os.chmod(place, 0o644)
            with open(os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
                entry = Entry(file.read(), EXECUTABLE if status.st_mode & 0o100 else FILE)
        return hashlib.sha256(b"%o " % entry.mode + entry.data).hexdigest()

    def _set_time(self, path: str, num_steps: int) -> None:
        seconds = CLOCK_START + 60 * num_steps
        parents = [str(parent) for parent in PurePosixPath(path).parents]
        for name in (path, *parents):
            os.utime(self.folder / name, (seconds, seconds), follow_symlinks=False)


def _mark(status: os.stat_result) -> tuple[int, ...]:
    return (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_mode)


def _skipped(path: str) -> bool:
    return any(part in SKIPPED_FOLDERS for part in path.split("/")[:-1])


def _open(name: str, flags: int, folder: int) -> int:
    """Open below an open folder, links refused; a pipe without a writer is not waited for."""
    try:
        return os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644, dir_fd=folder)
    except OSError as error:
        with contextlib.suppress(OSError):
            if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                raise OutsideWorkspace(name) from None
        raise error


def shown(path: str) -> str:
    """A path as replies name it: as it is, or in quotes as JSON has them where it holds anything unusual."""
    return path if _PLAIN.fullmatch(path) else json.dumps(path)
