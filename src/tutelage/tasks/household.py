"""Household tasks: panels of generated games without end, or the games of a folder.

Generated panels are balanced: index i has task type i mod 6, and depends on nothing but size, split and i. The splits
draw from disjoint seeds, and test plays only in room layouts that train and validation never have.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from typing import Any, ClassVar, Final

from tutelage.envs.household.env import DEFAULT_MAX_STEPS, game_of
from tutelage.envs.household.game import TASK_TYPES
from tutelage.envs.household.reader import TRAJECTORY_FILE, GameScan, scan_games
from tutelage.envs.household.rooms import SIZES
from tutelage.errors import ConfigError, FormatError
from tutelage.tasks.base import split_named
from tutelage.types import Split, Task

SOURCES: Final = ("generated", "folder")
DEFAULT_COUNT: Final = 120
"""Tasks in a generated panel if no number is given: twenty of each type."""

SPLITS: Final = (Split.TRAIN, Split.VALIDATION, Split.TEST)
LAYOUTS: Final = {Split.TRAIN: "seen", Split.VALIDATION: "seen", Split.TEST: "unseen"}

RELEASE_SPLITS: Final = {
    "train": Split.TRAIN,
    "valid_train": Split.TRAIN,
    "valid_seen": Split.VALIDATION,
    "valid_unseen": Split.TEST,
}
"""Folder name in a release of real games -> split. Games outside all of them count as test."""


class HouseholdTasks:
    """Tasks of the household game.

    size: `small` or `real`, of generated games.
    source: `generated`, or `folder` for the games below `root`, in the released form.
    max_steps, accept_put: go into the settings of every task; see `HouseholdEnv`.

    Task ids: ``hh-small-train-000123`` for generated games, ``hh-valid_unseen.<task>.<trial>`` for those of a folder.
    """

    env: ClassVar[str] = "household"
    """Name of the environment that plays the tasks."""

    def __init__(
        self,
        size: str = "small",
        source: str = "generated",
        root: str | Path | None = None,
        max_steps: int = DEFAULT_MAX_STEPS,
        accept_put: bool = False,
    ) -> None:
        if size not in SIZES:
            raise ConfigError.unknown("household tasks: size", size, SIZES)
        if source not in SOURCES:
            raise ConfigError.unknown("household tasks: source", source, SOURCES)
        if (source == "folder") != (root is not None):
            raise ConfigError(
                f"household tasks: source '{source}' with root {root!r}.\n"
                "  Give a root with source 'folder' (where the games are), and none with 'generated'."
            )
        if max_steps < 1:
            raise ConfigError(f"household tasks: max_steps is {max_steps}, expected at least 1.")
        self.size = size
        self.source = source
        self.root = None if root is None else Path(root)
        self._shared: dict[str, Any] = {"max_steps": max_steps} | ({"accept_put": True} if accept_put else {})

    def load(self, split: Split | str, start: int = 0, count: int | None = None) -> list[Task]:
        """Tasks start, start + 1, ... of a split, in an order in which the six types take turns.

        count: None takes 120 generated games, or all that a folder has left. A folder may have fewer than asked for.
        Raises FormatError if the folder holds no game, or none of the split.
        """
        split = split_named(split)
        if start < 0 or (count is not None and count < 1):
            raise ConfigError(
                f"household tasks: start {start} and count {count}, expected start >= 0 and count >= 1 or none."
            )
        if self.root is None:
            return [self._generated(split, index) for index in range(start, start + (count or DEFAULT_COUNT))]
        folders = self._folders[split]
        if not folders:
            there = ", ".join(f"{len(found)} of {name.value}" for name, found in self._folders.items() if found)
            raise FormatError(f"{self.root}: no game of split '{split.value}' below it; there are {there or 'none'}.")
        return [self._of_folder(split, name) for name in folders[start : None if count is None else start + count]]

    @property
    def splits(self) -> tuple[Split, ...]:
        """The splits that hold games: those that a folder has, all of them for generated games."""
        return SPLITS if self.root is None else tuple(split for split in SPLITS if self._folders[split])

    @property
    def skipped(self) -> tuple[tuple[Path, str], ...]:
        """Game folders left out, each with the reason. Empty for generated games."""
        return () if self.root is None else self._scan.skipped

    def report(self) -> str:
        """What was found and what was left out, in one line, e.g. ``189 games, 2 skipped (2 not solvable)``."""
        return f"generated games of size '{self.size}'" if self.root is None else _summary(self._scan)

    def _generated(self, split: Split, index: int) -> Task:
        settings: dict[str, Any] = {
            "size": self.size,
            # Disjoint between splits by the remainder.
            "game_seed": index * len(SPLITS) + SPLITS.index(split),
            "task_type": TASK_TYPES[index % len(TASK_TYPES)],
            "layouts": LAYOUTS[split],
        }
        return self._task(f"hh-{self.size}-{split.value}-{index:06d}", split, settings)

    def _of_folder(self, split: Split, name: str) -> Task:
        assert self.root is not None
        label = self.root.absolute().name if name == "." else name.replace("/", ".")
        return self._task(f"hh-{label}", split, {"folder": name, "root": str(self.root)})

    def _task(self, task_id: str, split: Split, settings: dict[str, Any]) -> Task:
        game = game_of(settings)
        settings |= {"content_hash": game.content_hash} | self._shared
        return Task(
            task_id=task_id,
            env=self.env,
            goal=game.task,
            split=split,
            kind=game.goal.task_type,
            settings=settings,
        )

    @cached_property
    def _scan(self) -> GameScan:
        assert self.root is not None
        scan = scan_games(self.root)
        if not scan.folders:
            raise FormatError(f"{self.root}: {_summary(scan)}, expected at least one that can be played.")
        return scan

    @cached_property
    def _folders(self) -> dict[Split, list[str]]:
        """Split -> paths below root. Sorted within a task type; the types take turns."""
        assert self.root is not None
        by_type: dict[Split, dict[str, list[str]]] = {split: {t: [] for t in TASK_TYPES} for split in SPLITS}
        for folder in self._scan.folders:
            name = folder.relative_to(self.root).as_posix()
            by_type[_split_of(self.root, name)][_task_type(folder)].append(name)
        return {split: _in_turns(types.values()) for split, types in by_type.items()}


def _summary(scan: GameScan) -> str:
    reasons = Counter(reason for _, reason in scan.skipped)
    listed = ", ".join(f"{number} {reason}" for reason, number in sorted(reasons.items()))
    return f"{len(scan.folders)} games, {len(scan.skipped)} skipped" + (f" ({listed})" if listed else "")


def _task_type(folder: Path) -> str:
    path = folder / TRAJECTORY_FILE
    try:
        task_type = json.loads(path.read_text(encoding="utf-8"))["task_type"]
    except (ValueError, KeyError, TypeError) as error:
        raise FormatError(
            f"{path}: no JSON object with 'task_type' ({error}). Copy the game from its release."
        ) from None
    if task_type not in TASK_TYPES:
        raise FormatError(f"{path}: task_type is {task_type!r}, expected one of {', '.join(TASK_TYPES)}.")
    return str(task_type)


def _split_of(root: Path, name: str) -> Split:
    """By the outermost folder below root that is named like a split of the release, else by the root's own name."""
    for part in (*name.split("/"), root.absolute().name):
        if part in RELEASE_SPLITS:
            return RELEASE_SPLITS[part]
    return Split.TEST


def _in_turns(lists: Iterable[list[str]]) -> list[str]:
    return [name for turn in zip_longest(*lists) for name in turn if name is not None]
