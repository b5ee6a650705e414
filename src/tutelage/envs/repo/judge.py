"""Whether a final tree solves a problem: its tests run, nothing else counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tutelage.envs.repo.check import CHECK_LIMITS, guarded_tree, run_tests
from tutelage.envs.repo.problem import Problem
from tutelage.envs.repo.toolbox import Toolbox
from tutelage.envs.repo.tree import Tree
from tutelage.envs.sandbox.base import Sandbox
from tutelage.envs.sandbox.limits import SandboxLimits


@dataclass(frozen=True, kw_only=True, slots=True)
class Judgement:
    """What the tests say of a final tree."""

    solved: bool
    """All tests of both lists passed."""
    num_passed: int
    num_tests: int
    """Of both lists together."""
    failing: tuple[str, ...]
    """Ids of the tests of both lists that did not pass, sorted."""
    trouble: str
    """Why none counts, e.g. ``tampered: ...`` or ``stopped: timeout``. Empty: they count."""
    seconds: float


def judge(
    problem: Problem,
    final: Tree,
    *,
    sandbox: Sandbox,
    toolbox: Toolbox,
    scratch: Path,
    limits: SandboxLimits = CHECK_LIMITS,
    arguments: Sequence[str] = (),
) -> Judgement:
    """Run the problem's tests on a final tree, in a fresh copy with the problem's own test files.

    Raises EnvError if the tests could not be started: then the tree is not judged.
    """
    run = run_tests(
        guarded_tree(final, problem.tests, problem.tree),
        problem.test_files,
        sandbox=sandbox,
        toolbox=toolbox,
        scratch=scratch,
        guarded=tuple(problem.tests),
        limits=limits,
        arguments=arguments,
    )
    wanted = sorted({*problem.fail_to_pass, *problem.pass_to_pass})
    failing = tuple(test for test in wanted if not run.passed(test))
    return Judgement(
        solved=not failing,
        num_passed=len(wanted) - len(failing),
        num_tests=len(wanted),
        failing=failing,
        trouble=run.trouble,
        seconds=run.seconds,
    )
