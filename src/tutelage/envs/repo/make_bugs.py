"""Makes bugs: the list of the embedded packages again, or tasks from a package of the user's.

    python -m tutelage.envs.repo.make_bugs                        compare with the list that is there (exit status 1: differs)
    python -m tutelage.envs.repo.make_bugs --write                write it
    python -m tutelage.envs.repo.make_bugs --folder P --out F     bugs of the package in folder P, as rows of SWE-smith

The rows can be loaded with ``RepoTasks(source="rows", path=F, repositories=<the folder above P>)``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from tutelage.envs.repo.bugs import MUTANT_LIMITS, Bugs, bug_maker, mutated, statement_of
from tutelage.envs.repo.embedded import BUG_LIST, PACKAGES, bug_list, package_tree
from tutelage.envs.repo.patch import make_patch
from tutelage.envs.repo.tree import Tree, read_folder
from tutelage.envs.sandbox.base import Sandbox
from tutelage.envs.sandbox.choose import make_sandbox

PER_FUNCTION: Final = 4
"""Candidates per function of the embedded packages."""


def embedded_bugs(sandbox: Sandbox, per_function: int = PER_FUNCTION) -> Iterator[tuple[str, Bugs]]:
    """The bugs of the embedded packages, package by package."""
    for name in PACKAGES:
        with bug_maker(package_tree(name), sandbox, name) as maker:
            yield name, maker.find(per_function)


def bug_rows(tree: Tree, bugs: Bugs, name: str) -> Iterator[dict[str, Any]]:
    """Bugs as rows of SWE-smith: `patch` makes the bug."""
    for bug in bugs.bugs:
        fails = set(bug.fail_to_pass)
        yield {
            "instance_id": f"{name}.{bug.mutation.name.replace('/', '.').replace(':', '.')}",
            "repo": name,
            "image_name": "",
            "patch": make_patch(tree, mutated(tree, bug.mutation)).decode("utf-8", "surrogateescape"),
            "FAIL_TO_PASS": list(bug.fail_to_pass),
            "PASS_TO_PASS": [test for test in bugs.tests if test not in fails],
            "problem_statement": statement_of(name, bug.fail_to_pass, len(bugs.tests)),
        }


def main() -> int:
    """Exit status 1 if the list would change and is not to be written."""
    parser = argparse.ArgumentParser(prog="python -m tutelage.envs.repo.make_bugs", description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the list of the embedded packages")
    parser.add_argument("--folder", type=Path, help="a package with tests, instead of the embedded ones")
    parser.add_argument("--out", type=Path, help="where its rows go, JSON lines")
    parser.add_argument("--per-function", type=int, default=PER_FUNCTION, help="candidates per function")
    parser.add_argument(
        "--cpu-seconds", type=int, default=MUTANT_LIMITS.cpu_seconds, help="of one run of all tests of the folder"
    )
    chosen = parser.parse_args()
    if (chosen.folder is None) != (chosen.out is None):
        parser.error("--folder and --out belong together")
    sandbox = make_sandbox()
    if chosen.folder is not None:
        name, tree = chosen.folder.absolute().name, read_folder(chosen.folder)
        limits = replace(MUTANT_LIMITS, cpu_seconds=chosen.cpu_seconds)
        with bug_maker(tree, sandbox, name, limits) as maker:
            bugs = maker.find(chosen.per_function)
        text = "".join(json.dumps(row, sort_keys=True) + "\n" for row in bug_rows(tree, bugs, name))
        chosen.out.write_text(text, encoding="utf-8")
        _say(name, bugs)
        return 0
    found = []
    for name, bugs in embedded_bugs(sandbox, chosen.per_function):
        _say(name, bugs)
        found.append((name, bugs))
    text = bug_list(found)
    same = BUG_LIST.is_file() and BUG_LIST.read_text(encoding="utf-8") == text
    if chosen.write and not same:
        BUG_LIST.write_text(text, encoding="utf-8")
    print(f"{BUG_LIST.name}: {'unchanged' if same else 'written' if chosen.write else 'differs'}")
    return 0 if same or chosen.write else 1


def _say(name: str, bugs: Bugs) -> None:
    rejected = ", ".join(f"{number} {reason}" for reason, number in sorted(bugs.rejected.items()))
    print(f"{name}: {len(bugs.bugs)} bugs of {len(bugs.tests)} tests; rejected: {rejected or 'none'}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
