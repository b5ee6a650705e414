"""A bound on processes that the kernel itself keeps: a control group with the controller `pids`.

`watch` counts processes too, but a fork bomb can starve whoever counts, and the kernel does not apply the limit on the
number of processes to root. Where this process may make no control group (it is not root, or the machine has no such
controller), that limit does hold for it, and nothing is done here.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

ROOT: Final = Path("/sys/fs/cgroup")
_JOIN: Final = 'echo $$ > "$0" && exec "$@"'
_COUNTER: Final = itertools.count()
_REMOVE_SECONDS: Final = 1.0


class ProcessBound:
    """At most `most` processes and threads for a command and all that it starts."""

    def __init__(self, most: int) -> None:
        self._folder: Path | None = None
        parent = _parent()
        if parent is not None:
            self._folder = _make(parent, most)

    @property
    def holds(self) -> bool:
        """Whether there is such a group."""
        return self._folder is not None

    def wrap(self, argv: Sequence[str]) -> tuple[str, ...]:
        """The command as it is started inside the group; the same process becomes `argv`."""
        if self._folder is None:
            return tuple(argv)
        return ("/bin/sh", "-c", _JOIN, str(self._folder / "cgroup.procs"), *argv)

    def remove(self) -> None:
        """Take the group away, once all of its processes have ended; again is harmless."""
        folder, self._folder = self._folder, None
        deadline = time.monotonic() + _REMOVE_SECONDS
        while folder is not None:
            try:
                folder.rmdir()
            except FileNotFoundError:
                return
            except OSError:
                # The kernel may still be clearing up after processes that were killed.
                if time.monotonic() > deadline:
                    return
                time.sleep(0.002)
            else:
                return


@lru_cache(maxsize=1)
def _parent() -> Path | None:
    """The control group below which others can be made; None: none can."""
    for line in _own_groups():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers == "pids" or number == "0":
            folder = (ROOT / "pids" if number != "0" else ROOT) / path.lstrip("/")
            made = _make(folder, 8)
            if made is not None:
                with contextlib.suppress(OSError):
                    made.rmdir()
                _remove_left_ones(folder)
                return folder
    return None


def _remove_left_ones(parent: Path) -> None:
    """Take away groups of processes of ours that were killed. One that is in use cannot be taken away."""
    for folder in parent.glob("tutelage-*-*"):
        owner = folder.name.split("-")[1]
        if owner.isdigit() and not Path("/proc", owner).exists():
            with contextlib.suppress(OSError):
                folder.rmdir()


def _own_groups() -> list[str]:
    try:
        return Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []


def _make(parent: Path, most: int) -> Path | None:
    folder = parent / f"tutelage-{os.getpid()}-{next(_COUNTER)}"
    try:
        folder.mkdir()
    except OSError:
        return None
    try:
        (folder / "pids.max").write_text(str(most))
    except OSError:
        with contextlib.suppress(OSError):
            folder.rmdir()
        return None
    return folder
