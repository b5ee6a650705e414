"""The bug maker: mutations of a small package that its own tests notice.

In: a tree whose tests pass. Out: bugs, each with the tests that it breaks. Everything is run in the sandbox in which
the tasks are played later. A bug is accepted only if

  - the clean tree passes all its tests, twice, with the same tests found
  - the changed tree can be collected, and its tests come to their end within the time
  - at least one test fails
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tutelage.envs.repo.check import CHECK_LIMITS, PASSED, TestRun, is_guarded, run_tests
from tutelage.envs.repo.mutate import Mutation, mutations
from tutelage.envs.repo.toolbox import Toolbox
from tutelage.envs.repo.tree import Entry, Tree
from tutelage.envs.sandbox.base import Sandbox
from tutelage.envs.sandbox.limits import SandboxLimits
from tutelage.errors import FormatError
from tutelage.types import stable_hash

MUTANT_LIMITS: Final = replace(CHECK_LIMITS, seconds=60, cpu_seconds=2, memory_mb=2048)
"""A mutant that runs on is no task: nobody learns from waiting. The embedded packages need a fifth of the time, and what
fills the memory needs longer, so that on any machine the same ones are stopped."""

NAMED_TESTS: Final = 5
"""Failing tests that a problem statement names."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Bug:
    """A mutation and what it breaks."""

    mutation: Mutation
    fail_to_pass: tuple[str, ...]
    """Ids of the tests that fail because of it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Bugs:
    """What the bug maker found in a tree."""

    tests: tuple[str, ...]
    """Ids of all tests, sorted."""
    bugs: tuple[Bug, ...]
    rejected: Counter[str]
    """Reason -> number of mutations: ``survived``, ``broken``, ``stopped``."""


class BugMaker:
    """Tries mutations of one tree. Raises FormatError if its tests do not pass as they are."""

    def __init__(
        self,
        tree: Tree,
        *,
        sandbox: Sandbox,
        toolbox: Toolbox,
        scratch: Path,
        name: str = "tree",
        limits: SandboxLimits = MUTANT_LIMITS,
    ) -> None:
        self.tree = tree
        self._limits = limits
        self._sandbox, self._toolbox, self._scratch = sandbox, toolbox, scratch
        self._files = [path for path in tree if is_guarded(path) and path.rpartition("/")[2].startswith("test_")]
        first, second = (self._run(tree) for _ in range(2))
        failing = sorted(test for test, outcome in first.outcomes.items() if outcome not in PASSED)
        trouble = first.trouble or second.trouble or ", ".join((*first.broken, *failing)[:5])
        if trouble or not first.outcomes or first.outcomes != second.outcomes:
            why = trouble or ("two runs differ" if first.outcomes else "no test was found")
            raise FormatError(f"{name}: the tests do not pass as they are, twice: {why}. Repair the package first.")
        self.tests = tuple(sorted(first.outcomes))

    def candidates(self, per_function: int) -> list[Mutation]:
        """At most so many mutations per function, drawn by their names alone, of all files that are no tests."""
        by_function: dict[tuple[str, str], list[Mutation]] = {}
        for path, entry in self.tree.items():
            if path.endswith(".py") and not is_guarded(path):
                for mutation in mutations(path, entry.data):
                    by_function.setdefault((path, mutation.function), []).append(mutation)
        drawn = []
        for group in by_function.values():
            drawn += sorted(group, key=lambda one: stable_hash("bug", one.name, one.new))[:per_function]
        return sorted(drawn, key=lambda one: (one.path, one.start, one.end, one.new))

    def try_out(self, mutation: Mutation) -> Bug | str:
        """The bug that a mutation makes, or why it makes none."""
        run = self._run(mutated(self.tree, mutation))
        if run.trouble:
            return "stopped"
        if run.broken or tuple(sorted(run.outcomes)) != self.tests:
            return "broken"
        failing = tuple(test for test in self.tests if not run.passed(test))
        return Bug(mutation=mutation, fail_to_pass=failing) if failing else "survived"

    def find(self, per_function: int = 4) -> Bugs:
        """Try the candidates, one after the other."""
        bugs: list[Bug] = []
        rejected: Counter[str] = Counter()
        for mutation in self.candidates(per_function):
            found = self.try_out(mutation)
            if isinstance(found, Bug):
                bugs.append(found)
            else:
                rejected[found] += 1
        return Bugs(tests=self.tests, bugs=tuple(bugs), rejected=rejected)

    def _run(self, tree: Tree) -> TestRun:
        return run_tests(
            tree,
            self._files,
            sandbox=self._sandbox,
            toolbox=self._toolbox,
            scratch=self._scratch,
            guarded=self._files,
            limits=self._limits,
        )


@contextmanager
def bug_maker(
    tree: Tree, sandbox: Sandbox, name: str = "tree", limits: SandboxLimits = MUTANT_LIMITS
) -> Iterator[BugMaker]:
    """A bug maker with a folder of its own to work in."""
    with TemporaryDirectory(prefix="tutelage-bugs-") as folder:
        tools = Path(folder, "tools")
        tools.mkdir()
        toolbox = Toolbox(sandbox, tools)
        yield BugMaker(tree, sandbox=sandbox, toolbox=toolbox, scratch=Path(folder), name=name, limits=limits)


def mutated(tree: Tree, mutation: Mutation) -> Tree:
    """The tree with a mutation made."""
    entry = tree[mutation.path]
    return tree.changed({mutation.path: Entry(mutation.apply(entry.data), entry.mode)})


def statement_of(package: str, fail_to_pass: Sequence[str], num_tests: int) -> str:
    """A problem statement that says what fails and nothing about why."""
    shown = [f"- {test}" for test in fail_to_pass[:NAMED_TESTS]]
    if len(fail_to_pass) > NAMED_TESTS:
        shown.append(f"- and {len(fail_to_pass) - NAMED_TESTS} more")
    fail = "fails" if len(fail_to_pass) == 1 else "fail"
    return "\n".join(
        [
            f"{len(fail_to_pass)} of the {num_tests} tests of the package {package} {fail} since the last change:",
            "",
            *shown,
            "",
            "Find the cause in the package and repair it, so that all tests pass. The tests are right as they are.",
        ]
    )
