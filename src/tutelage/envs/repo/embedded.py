"""The embedded packages and their bugs: six small packages written for this purpose, with tests, and a list of mutations.

The list (`packages/bugs.jsonl`) was made by running every candidate in the sandbox; loading it costs nothing. One line per
package with its tests, then one line per bug. `python -m tutelage.envs.repo.make_bugs` makes it again, byte for byte.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from tutelage.envs.repo.bugs import Bug, Bugs, mutated
from tutelage.envs.repo.mutate import Mutation
from tutelage.envs.repo.tree import Tree, read_folder
from tutelage.errors import ConfigError, EnvError, FormatError

FOLDER: Final = Path(__file__).parent / "packages"
BUG_LIST: Final = FOLDER / "bugs.jsonl"

PACKAGES: Final = ("almanac", "gridmath", "purse", "routes", "spans", "textkit")


@dataclass(frozen=True, kw_only=True, slots=True)
class Package:
    """One embedded package, its tests and its bugs."""

    name: str
    tree: Tree
    tests: tuple[str, ...]
    """Ids of all tests; all pass as the package is."""
    bugs: tuple[Bug, ...]

    def bug(self, name: str) -> Bug:
        """The bug of that name. Raises ConfigError if there is none."""
        for bug in self.bugs:
            if bug.mutation.name == name:
                return bug
        raise ConfigError(f"repo: package '{self.name}' has no bug {name!r}. Load the tasks again.")

    def with_bug(self, bug: Bug) -> Tree:
        return mutated(self.tree, bug.mutation)


@lru_cache(maxsize=8)
def package_tree(name: str) -> Tree:
    """The files of an embedded package. Raises ConfigError on an unknown one."""
    if name not in PACKAGES:
        raise ConfigError.unknown("repo: package", name, PACKAGES)
    return read_folder(FOLDER / name)


@lru_cache(maxsize=8)
def embedded_package(name: str) -> Package:
    """An embedded package with its bugs. Raises EnvError if its files are not those that the list was made of."""
    tree = package_tree(name)
    head, bugs = _bug_list()[name]
    if head["tree"] != tree.digest():
        raise EnvError(
            f"repo: the files of package '{name}' have changed since the list of its bugs was made.\n"
            "  Run: python -m tutelage.envs.repo.make_bugs --write"
        )
    tests = tuple(head["tests"])
    return Package(name=name, tree=tree, tests=tests, bugs=tuple(_bug(line, tests) for line in bugs))


def bug_list(found: Iterable[tuple[str, Bugs]]) -> str:
    """The text of the list: what the bug maker found, by package."""
    lines = []
    for name, bugs in found:
        head = {"package": name, "rejected": dict(sorted(bugs.rejected.items())), "tests": bugs.tests}
        lines.append(json.dumps(head | {"tree": package_tree(name).digest()}, sort_keys=True))
        for bug in bugs.bugs:
            one = bug.mutation
            place = [one.path, one.function, one.mutator, one.start, one.end, one.new]
            fails = [bugs.tests.index(test) for test in bug.fail_to_pass]
            lines.append(json.dumps({"bug": place, "fails": fails, "of": name}, sort_keys=True))
    return "".join(line + "\n" for line in lines)


def _bug(line: Mapping[str, Any], tests: tuple[str, ...]) -> Bug:
    path, function, mutator, start, end, new = line["bug"]
    mutation = Mutation(path=path, function=function, mutator=mutator, start=start, end=end, new=new)
    return Bug(mutation=mutation, fail_to_pass=tuple(tests[index] for index in line["fails"]))


@lru_cache(maxsize=1)
def _bug_list() -> dict[str, tuple[Mapping[str, Any], list[Mapping[str, Any]]]]:
    """Package -> its line, and the lines of its bugs."""
    found: dict[str, tuple[Mapping[str, Any], list[Mapping[str, Any]]]] = {}
    for number, text in enumerate(BUG_LIST.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            line = json.loads(text)
        except ValueError as error:
            raise FormatError(f"{BUG_LIST}, line {number}: not JSON ({error}).") from None
        if "package" in line:
            found[line["package"]] = (line, [])
        else:
            found[line["of"]][1].append(line)
    return found
