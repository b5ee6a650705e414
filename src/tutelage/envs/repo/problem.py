"""What a task's settings stand for: the tree the agent starts from, the issue, the hidden tests, and the repair.

Settings name one of these sources:

  package, bug                     an embedded package with one of its bugs
  root, folder [, commit]          files below `root`/`folder`: a folder, a tar file, or a commit of a git repository
  image [, image_folder, engine]   files in a container image, where no folder is named; with either of the two:
    statement, fail_to_pass, pass_to_pass
    bug_patch                      makes the bug (SWE-smith); the repair is its reverse
    fix_patch, test_patch          the repair and the hidden tests (SWE-bench)
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from tutelage.envs.repo.bugs import statement_of
from tutelage.envs.repo.check import is_guarded
from tutelage.envs.repo.container import image_tree
from tutelage.envs.repo.embedded import embedded_package
from tutelage.envs.repo.patch import apply_patch, paths_of_patch
from tutelage.envs.repo.tree import Entry, Tree, read_commit, read_folder, read_tar
from tutelage.errors import ConfigError

SOURCE_SETTINGS: Final = (
    "package",
    "bug",
    "root",
    "folder",
    "commit",
    "image",
    "image_folder",
    "engine",
    "statement",
    "fail_to_pass",
    "pass_to_pass",
    "bug_patch",
    "fix_patch",
    "test_patch",
)
"""Settings that decide what the problem is."""

CACHED_PROBLEMS: Final = 64


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Problem:
    """One software task. Episodes of one process share it."""

    tree: Tree
    """What the agent starts from. No history is in it."""
    statement: str
    fail_to_pass: tuple[str, ...]
    """Ids of the tests that fail now and must pass."""
    pass_to_pass: tuple[str, ...]
    """Ids of the tests that pass now and must still pass."""
    tests: Tree
    """Tests and test configuration as they are when the final tree is judged."""
    fix: Mapping[str, Entry | None] | None
    """Path -> repaired file, or None where it goes away. None: no repair is known. Never shown to an agent."""

    @property
    def test_files(self) -> tuple[str, ...]:
        """Files that hold the tests of both lists, sorted."""
        return tuple(sorted({test.split("::")[0] for test in (*self.fail_to_pass, *self.pass_to_pass)}))

    def content_hash(self) -> str:
        """SHA-256 of all that decides how an episode goes, 64 hex digits."""
        parts = [self.tree.digest(), self.tests.digest(), self.statement, self.fail_to_pass, self.pass_to_pass]
        return hashlib.sha256(json.dumps(parts).encode("utf-8", "surrogatepass")).hexdigest()


def content_hash_of(settings: Mapping[str, Any]) -> str:
    """What a task was made of, 64 hex digits: of the problem's contents, or of the settings where a commit or an image
    fixes the contents, which are then not looked at.
    """
    if "commit" in settings or ("image" in settings and "folder" not in settings):
        return hashlib.sha256(_chosen({**settings, "root": ""}).encode("utf-8", "surrogatepass")).hexdigest()
    return problem_of(settings).content_hash()


def problem_of(settings: Mapping[str, Any]) -> Problem:
    """The problem that settings name; recent ones are kept.

    Raises ConfigError where they name none, FormatError where files or patches are broken.
    """
    return _problem(_chosen(settings))


def _chosen(settings: Mapping[str, Any]) -> str:
    chosen = {name: settings[name] for name in SOURCE_SETTINGS if settings.get(name) not in (None, "")}
    return json.dumps(chosen, sort_keys=True)


@lru_cache(maxsize=CACHED_PROBLEMS)
def _problem(chosen: str) -> Problem:
    settings = json.loads(chosen)
    if "package" in settings and "bug" in settings:
        return _embedded(settings["package"], settings["bug"])
    if "folder" in settings or "image" in settings:
        return _read(settings)
    raise ConfigError(
        f"repo task settings: neither 'package' with 'bug' nor 'folder' nor 'image' in {sorted(settings)}.\n"
        "  See tutelage.envs.repo.problem for the sources of a task."
    )


def _embedded(package_name: str, bug_name: str) -> Problem:
    package = embedded_package(package_name)
    bug = package.bug(bug_name)
    fails = set(bug.fail_to_pass)
    return Problem(
        tree=package.with_bug(bug),
        statement=statement_of(package.name, bug.fail_to_pass, len(package.tests)),
        fail_to_pass=bug.fail_to_pass,
        pass_to_pass=tuple(test for test in package.tests if test not in fails),
        tests=package.tree.only(is_guarded),
        fix={bug.mutation.path: package.tree[bug.mutation.path]},
    )


def _read(settings: Mapping[str, Any]) -> Problem:
    fail_to_pass = tuple(settings.get("fail_to_pass", ()))
    if not fail_to_pass or "statement" not in settings:
        raise ConfigError(
            "repo task settings: 'fail_to_pass' and 'statement' must say what is to be done; one is empty."
        )
    bug_patch, fix_patch, test_patch = (settings.get(name, "") for name in ("bug_patch", "fix_patch", "test_patch"))
    if bug_patch and fix_patch:
        raise ConfigError(
            "repo task settings: both 'bug_patch' and 'fix_patch'; the tree holds the bug, or it does not."
        )
    source = _tree(settings)
    tree = apply_patch(source, bug_patch)
    fixed = source if bug_patch else apply_patch(tree, fix_patch)
    # A file that the repair itself changes is the agent's to change, whatever it is called.
    repaired = frozenset(tree.changes_to(fixed))
    with_tests = apply_patch(tree, test_patch)
    of_patch = set(paths_of_patch(test_patch))
    tests = with_tests.only(lambda path: path in of_patch or (is_guarded(path) and path not in repaired))
    return Problem(
        tree=tree,
        statement=settings["statement"],
        fail_to_pass=fail_to_pass,
        pass_to_pass=tuple(settings.get("pass_to_pass", ())),
        tests=tests,
        fix=tree.changes_to(fixed) if bug_patch or fix_patch else None,
    )


def _tree(settings: Mapping[str, Any]) -> Tree:
    if "folder" not in settings:
        engine, folder = settings.get("engine", "docker"), settings.get("image_folder", "/testbed")
        return image_tree(settings["image"], engine=engine, folder=folder)
    path = Path(settings.get("root", ""), settings["folder"])
    if "commit" in settings:
        return read_commit(path, settings["commit"])
    return read_tar(path) if path.is_file() else read_folder(path)
