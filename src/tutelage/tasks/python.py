"""Problems for the Python tool: generated ones without end, or those of an evaluation's file.

Generated panels are balanced: index i has level i mod the number of levels. The splits draw from disjoint calculations.
Files are for evaluation: all their problems belong to the split test, and no other can be loaded.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from tutelage.envs.python.env import DEFAULT_MAX_STEPS, limits_of
from tutelage.envs.python.problems import Problem
from tutelage.envs.python.sources import problem_of, problems_of_file
from tutelage.envs.python.templates import LEVELS
from tutelage.envs.sandbox import KINDS
from tutelage.errors import ConfigError
from tutelage.tasks.base import split_named
from tutelage.types import Split, Task

SOURCES: Final = ("generated", "aime", "math", "gpqa", "lcb")

DEFAULT_COUNT: Final = 120
"""Tasks in a generated panel if no number is given."""


class PythonTasks:
    """Problems that are solved with a Python tool.

    source: ``generated``, or the kind of the file at `path`: ``aime``, ``math``, ``gpqa`` or ``lcb`` (LiveCodeBench).
    levels: of generated problems, in turns; see `LEVELS`.
    shuffle_seed: for the order of the options of ``gpqa``.
    version: of the file, e.g. ``release_v6``; goes into every task. ``lcb`` cannot do without it.
    max_steps, persist, limits, sandbox, allow_unsafe: into the settings of every task; see `PythonEnv`.

    Task ids: ``py-stories-train-000017`` for generated problems; ``py-aime24-<id of the row>`` for those of a file.
    """

    def __init__(
        self,
        source: str = "generated",
        levels: Sequence[str] = LEVELS,
        path: str | Path | None = None,
        shuffle_seed: int = 0,
        version: str | None = None,
        max_steps: int = DEFAULT_MAX_STEPS,
        persist: bool = False,
        limits: Mapping[str, Any] | None = None,
        sandbox: str = "auto",
        allow_unsafe: bool = False,
    ) -> None:
        if source not in SOURCES:
            raise ConfigError.unknown("python tasks: source", source, SOURCES)
        if sandbox not in KINDS:
            raise ConfigError.unknown("python tasks: sandbox", sandbox, KINDS)
        for level in levels:
            if level not in LEVELS:
                raise ConfigError.unknown("python tasks: levels", level, LEVELS)
        if not levels or max_steps < 1:
            raise ConfigError(
                f"python tasks: {len(levels)} levels and max_steps {max_steps}, expected at least 1 each."
            )
        if (source == "generated") != (path is None):
            raise ConfigError(
                f"python tasks: source '{source}' with path {path!r}.\n"
                "  Give a path (the file) with every source but 'generated', and none with that."
            )
        if source == "lcb" and version is None:
            raise ConfigError("python tasks: source 'lcb' without version. Say which release the file is of.")
        limits_of(limits or {})
        self.source = source
        self.levels = tuple(levels)
        self.path = None if path is None else Path(path)
        self.shuffle_seed = shuffle_seed
        self.version = version
        options = {"persist": persist, "limits": dict(limits or {}), "allow_unsafe": allow_unsafe}
        self._shared: dict[str, Any] = {"source": source, "max_steps": max_steps}
        self._shared |= {name: value for name, value in options.items() if value}
        self._shared |= {} if sandbox == "auto" else {"sandbox": sandbox}

    def load(self, split: Split | str, start: int = 0, count: int | None = None) -> list[Task]:
        """Tasks start, start + 1, ... of a split.

        count: None takes 120 generated problems, or all that a file has left. A file may have fewer than asked for.
        Raises ConfigError for a file and any split but test, FormatError for a file that cannot be read.
        """
        split = split_named(split)
        if start < 0 or (count is not None and count < 1):
            raise ConfigError(
                f"python tasks: start {start} and count {count}, expected start >= 0, count >= 1 or none."
            )
        if self.path is None:
            return [self._generated(split, index) for index in range(start, start + (count or DEFAULT_COUNT))]
        if split is not Split.TEST:
            raise ConfigError(
                f"python tasks: split '{split.value}' of {self.path}. Files of evaluations are never trained on; "
                "load split 'test', and generated problems for the others."
            )
        rows = list(self._problems.items())[start : None if count is None else start + count]
        return [self._of_file(row_id, problem) for row_id, problem in rows]

    @property
    def splits(self) -> tuple[Split, ...]:
        """The splits that hold problems."""
        return tuple(Split) if self.path is None else (Split.TEST,)

    def _generated(self, split: Split, index: int) -> Task:
        level = self.levels[index % len(self.levels)]
        settings = {"source": "generated", "level": level, "problem_seed": index, "share": split.value}
        problem = problem_of(settings)
        return self._task(f"py-{level}-{split.value}-{index:06d}", split, problem, problem.text, settings)

    def _of_file(self, row_id: str, problem: Problem) -> Task:
        assert self.path is not None
        settings: dict[str, Any] = {
            "file": self.path.name,
            "row": row_id,
            "root": str(self.path.parent),
            "file_hash": self._file_hash,
        }
        settings |= {"shuffle_seed": self.shuffle_seed} if self.source == "gpqa" else {}
        settings |= {} if self.version is None else {"version": self.version}
        # What the goal says goes into manifests and tables, where questions of an evaluation have no place.
        return self._task(
            f"py-{self.path.stem}-{row_id}", Split.TEST, problem, f"{self.source} problem {row_id}", settings
        )

    def _task(self, task_id: str, split: Split, problem: Problem, goal: str, settings: dict[str, Any]) -> Task:
        return Task(
            task_id=task_id,
            env="python",
            goal=goal,
            split=split,
            kind=problem.kind,
            settings=settings | {"content_hash": problem.content_hash} | self._shared,
        )

    @cached_property
    def _problems(self) -> Mapping[str, Problem]:
        return problems_of_file(self.source, str(self.path), self.shuffle_seed)

    @cached_property
    def _file_hash(self) -> str:
        assert self.path is not None
        return hashlib.sha256(self.path.read_bytes()).hexdigest()
