"""Software tasks: bugs in the embedded packages, or rows of SWE-bench and SWE-smith.

The embedded splits share no package and no function: test has packages of its own; of the others, one function in five
(methods of a class together) is for validation, the rest for training.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

from tutelage.envs.repo.bugs import Bug
from tutelage.envs.repo.embedded import PACKAGES, embedded_package
from tutelage.envs.repo.problem import content_hash_of, problem_of
from tutelage.envs.repo.settings import DEFAULT_MAX_STEPS, PlaySettings, action_format_named
from tutelage.envs.repo.tree import run_git
from tutelage.errors import ConfigError, FormatError
from tutelage.tasks.base import split_named
from tutelage.tasks.swe_rows import SweRow, SweRows, read_rows
from tutelage.types import Split, Task, stable_hash

SOURCES: Final = ("embedded", "rows")
DEFAULT_COUNT: Final = 100
"""Tasks in a panel if no number is given."""

TEST_PACKAGES: Final = ("almanac", "routes")
VALIDATION_SHARE: Final = 5
"""One function in so many is for validation."""

SPLIT_OF_KIND: Final = {"swe_smith": Split.TRAIN, "swe_bench": Split.TEST}


class RepoTasks:
    """Tasks of the repo environment.

    source: ``embedded``, or ``rows`` for a file of SWE-bench or SWE-smith rows at `path`.
    kind: which of the two the rows are, where their fields do not tell; see `swe_rows`.
    repositories: folder with the repositories of the rows, as ``owner__name``, ``owner/name`` or ``name``: a git
      clone, a folder of files, or a tar file with that name.
    image: container image of a row, e.g. ``{image_name}`` or ``swebench/sweb.eval.x86_64.{hub_id}``; then commands run in
      it, and without `repositories` the tree is taken from it. Places: instance_id, hub_id, image_name.
    split: which split the rows are. Default: train for SWE-smith, test for SWE-bench.
    The others go into the settings of every task; see `PlaySettings`.
    """

    def __init__(
        self,
        source: str = "embedded",
        path: str | Path | None = None,
        kind: str | None = None,
        repositories: str | Path | None = None,
        image: str | None = None,
        split: str | None = None,
        action_format: str = "functions",
        max_steps: int = DEFAULT_MAX_STEPS,
        play: dict[str, Any] | None = None,
    ) -> None:
        if source not in SOURCES:
            raise ConfigError.unknown("repo tasks: source", source, SOURCES)
        if (source == "rows") != (path is not None):
            raise ConfigError(f"repo tasks: source '{source}' with path {path!r}; give a path with source 'rows' only.")
        if source == "rows" and repositories is None and image is None:
            raise ConfigError("repo tasks: rows name repositories; give 'repositories', where they are, or 'image'.")
        action_format_named(action_format)
        self._shared = {"max_steps": max_steps, "action_format": action_format} | (play or {})
        PlaySettings.of(self._shared)
        self.source = source
        self.path = None if path is None else Path(path)
        self.repositories = None if repositories is None else Path(repositories)
        self._kind, self._image, self._split = kind, image, split

    def load(self, split: Split | str, start: int = 0, count: int | None = None) -> list[Task]:
        """Tasks start, start + 1, ... of a split; `count` None takes 100, or all that are left.

        Raises ConfigError if the split has no task at `start`.
        """
        split = split_named(split)
        if start < 0 or (count is not None and count < 1):
            raise ConfigError(
                f"repo tasks: start {start} and count {count}, expected start >= 0 and count >= 1 or none."
            )
        end = start + (count or DEFAULT_COUNT)
        if self.path is not None:
            rows = self._rows.rows if split is self._rows_split else ()
            number = len(rows)
            tasks = [self._of_row(row) for row in rows[start:end]]
        else:
            bugs = self._embedded[split]
            number = len(bugs)
            tasks = [self._of_bug(split, package, bug) for package, bug in bugs[start:end]]
        if not tasks:
            raise ConfigError(f"repo tasks: split '{split.value}' has {number} tasks, none at {start}.")
        return tasks

    def report(self) -> str:
        """What there is, in one line."""
        if self.path is not None:
            return self._rows.report()
        sizes = ", ".join(f"{len(bugs)} {split.value}" for split, bugs in self._embedded.items())
        return f"bugs in {len(PACKAGES)} embedded packages: {sizes}"

    # Embedded packages

    @cached_property
    def _embedded(self) -> dict[Split, list[tuple[str, Bug]]]:
        """The packages of a split take turns."""
        by_package: dict[Split, dict[str, list[Bug]]] = {split: {} for split in Split}
        for package in PACKAGES:
            for bug in embedded_package(package).bugs:
                by_package[split_of(package, bug)].setdefault(package, []).append(bug)
        return {split: list(_in_turns(bugs)) for split, bugs in by_package.items()}

    def _of_bug(self, split: Split, package: str, bug: Bug) -> Task:
        mutation = bug.mutation
        file = mutation.path.removesuffix(".py").replace("/", ".")
        return self._task(
            f"repo-{file}-{mutation.mutator}-{mutation.start}-{mutation.end}",
            split,
            mutation.mutator,
            {"package": package, "bug": mutation.name},
        )

    def _task(self, task_id: str, split: Split, kind: str, settings: dict[str, Any]) -> Task:
        goal = settings.get("statement") or problem_of(settings).statement
        return Task(
            task_id=task_id,
            env="repo",
            goal=goal,
            split=split,
            kind=kind,
            settings=settings | {"content_hash": content_hash_of(settings)} | self._shared,
        )

    # Rows

    @cached_property
    def _rows(self) -> SweRows:
        assert self.path is not None
        return read_rows(self.path, self._kind)

    @property
    def _rows_split(self) -> Split:
        return SPLIT_OF_KIND[self._rows.kind] if self._split is None else split_named(self._split)

    def _of_row(self, row: SweRow) -> Task:
        settings: dict[str, Any] = {
            "statement": row.statement,
            "fail_to_pass": list(row.fail_to_pass),
            "pass_to_pass": list(row.pass_to_pass),
        }
        patches = {"bug_patch": row.bug_patch, "fix_patch": row.fix_patch, "test_patch": row.test_patch}
        settings |= {name: patch for name, patch in patches.items() if patch}
        if self._image is not None:
            hub_id = row.instance_id.replace("__", "_1776_").lower()
            settings["image"] = self._image.format(
                instance_id=row.instance_id, hub_id=hub_id, image_name=row.image_name
            )
        if self.repositories is not None:
            settings |= self._repository(row)
        return self._task(row.instance_id, self._rows_split, row.repo, settings)

    def _repository(self, row: SweRow) -> dict[str, Any]:
        assert self.repositories is not None
        names = [row.repo.replace("/", "__"), row.repo, row.repo.rpartition("/")[2]]
        for name in (one + ending for one in names for ending in ("", ".tar", ".tar.gz", ".tgz")):
            place = self.repositories / name
            if not place.exists():
                continue
            found: dict[str, Any] = {"root": str(self.repositories), "folder": name}
            if place.is_dir() and ((place / ".git").exists() or (place / "HEAD").is_file()):
                wanted = [f"{row.commit or 'HEAD'}^{{commit}}"]
                commit = run_git(["rev-parse", "--verify", "--end-of-options", *wanted], place)
                found["commit"] = commit.decode().strip()
            elif row.commit is not None:
                raise FormatError(f"{place}: {row.instance_id} needs commit {row.commit}, and this is no git clone.")
            return found
        raise FormatError(f"{self.repositories}: none of {', '.join(names)} for {row.instance_id}. Clone it there.")


def split_of(package: str, bug: Bug) -> Split:
    """The split of a bug: by its package, then by its function, all methods of a class together."""
    if package in TEST_PACKAGES:
        return Split.TEST
    top = bug.mutation.function.split(".")[0]
    held_out = stable_hash("repo split", package, bug.mutation.path, top) % VALIDATION_SHARE == 0
    return Split.VALIDATION if held_out else Split.TRAIN


def _in_turns(bugs: dict[str, list[Bug]]) -> Iterator[tuple[str, Bug]]:
    ordered = [
        [(package, bug) for bug in sorted(found, key=lambda bug: stable_hash("repo order", bug.mutation.name))]
        for package, found in sorted(bugs.items())
    ]
    for turn in zip_longest(*ordered):
        yield from (one for one in turn if one is not None)
