"""Where tasks come from, and how a set of them is written down.

A manifest says exactly which problems a panel holds: one JSON line per task with its id, split, content hash and
settings. Its hash goes into every run, so that two results can be told to come from the same panel.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Protocol

from tutelage.errors import ConfigError, FormatError
from tutelage.types import Split, Task

LOCAL_SETTINGS: Final = ("content_hash", "root", "python", "url", "cache_dir")
"""Settings that are not written into a manifest's settings: one has its own place, the others differ between machines."""


class TaskSet(Protocol):
    """A source of tasks. Same arguments give the same tasks on every machine."""

    def load(self, split: Split | str, start: int = 0, count: int | None = None) -> list[Task]:
        """The tasks at indices start, start + 1, ... of a split; `count` None takes the source's usual number."""
        ...


def split_named(name: Split | str) -> Split:
    """The split of that name. Raises ConfigError on an unknown one."""
    try:
        return Split(name)
    except ValueError:
        raise ConfigError.unknown("tasks: split", str(name), list(Split)) from None


def manifest_line(task: Task) -> str:
    """One task as a JSON line, keys sorted.

    Example: ``{"content_hash": "9f0c...", "id": "hh-small-test-000003", "settings": {...}, "split": "test"}``
    """
    settings = {key: value for key, value in task.settings.items() if key not in LOCAL_SETTINGS}
    content_hash = task.settings.get("content_hash")
    entry = {"content_hash": content_hash, "id": task.task_id, "settings": settings, "split": task.split.value}
    return json.dumps(entry, sort_keys=True)


def manifest(tasks: Iterable[Task]) -> str:
    """All lines, each with its newline, in the order of the tasks."""
    return "".join(manifest_line(task) + "\n" for task in tasks)


def manifest_hash(tasks: Iterable[Task]) -> str:
    """SHA-256 of the manifest, 64 hex digits."""
    return hashlib.sha256(manifest(tasks).encode()).hexdigest()


def read_manifest(path: Path) -> dict[str, str | None]:
    """Task id -> content hash of a manifest that was written to a file, in its order. Raises FormatError."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise FormatError(f"{path}: cannot be read ({error}), expected a manifest, one JSON line per task.") from None
    found: dict[str, str | None] = {}
    for number, line in enumerate(lines, start=1):
        try:
            entry = json.loads(line)
            found[entry["id"]] = entry["content_hash"]
        except (ValueError, KeyError, TypeError):
            raise FormatError(f"{path}, line {number}: expected a JSON object with 'id' and 'content_hash'.") from None
    return found


def check_disjoint(*panels: Iterable[Task]) -> None:
    """Raise ConfigError if two panels share a task, by id or by content."""
    owner: dict[str, tuple[int, str]] = {}
    for index, panel in enumerate(panels):
        for task in panel:
            marks = {f"id {task.task_id}"}
            if "content_hash" in task.settings:
                marks.add(f"content {task.settings['content_hash']}")
            for mark in marks:
                first, task_id = owner.setdefault(mark, (index, task.task_id))
                if first != index:
                    raise ConfigError(
                        f"tasks: panels {first} and {index} share {mark} (tasks {task_id} and {task.task_id}).\n"
                        "  Take them from different splits, or from ranges of one split that do not overlap."
                    )
