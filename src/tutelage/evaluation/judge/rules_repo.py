"""Rules for software episodes. They know the texts of the episode, not the repair and not the hidden tests."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Final

from tutelage.evaluation.judge.evidence import Evidence
from tutelage.evaluation.judge.findings import Finding, Rule
from tutelage.evaluation.judge.prompt import statement
from tutelage.evaluation.judge.repo_facts import RepoFacts, repo_facts
from tutelage.types import FailureCategory

_TEST_OF: Final = re.compile(r"\btest_(\w+)\.py\b")


def left_syntax_error(evidence: Evidence) -> Finding | None:
    """A changed file does not parse in the end, or a syntax error in one was reported after its last change."""
    facts = repo_facts(evidence)
    broken = facts.unparsable()
    if broken:
        path, step = min(broken.items())
        return Finding(FailureCategory.SYNTAX_ERROR, f"{path} does not parse as it was left", (step, step))
    for step, path in reversed(facts.syntax_errors):
        if path in facts.changed and step > facts.changed[path]:
            return Finding(
                FailureCategory.SYNTAX_ERROR,
                f"step {step} reports a syntax error in {path}, which was changed at step {facts.changed[path]} and not again",
                (facts.changed[path], step),
            )
    return None


def changed_only_tests(evidence: Evidence) -> Finding | None:
    """Everything that was changed is a test, or decides how tests run; such changes do not count."""
    facts = repo_facts(evidence)
    if not facts.changed or facts.sources_changed:
        return None
    steps = sorted(facts.changed.values())
    names = ", ".join(sorted(facts.changed))
    return Finding(
        FailureCategory.IDENTIFIED_INCORRECT_FILE, f"only tests were changed: {names}", (steps[0], steps[-1])
    )


def tests_of_another_module(evidence: Evidence) -> Finding | None:
    """The failing tests are named after modules that were seen and not changed, and after none that was changed."""
    facts = repo_facts(evidence)
    sources = facts.sources_changed
    failing = _failing_modules(evidence, facts)
    changed = {PurePosixPath(path).stem for path in sources}
    if not sources or not failing or failing & changed:
        return None
    seen = "\n".join(evidence.replies)
    wanted = sorted(name for name in failing if re.search(rf"(?<!test_)\b{re.escape(name)}\.py\b", seen))
    if not wanted:
        return None
    steps = sorted(sources.values())
    return Finding(
        FailureCategory.IDENTIFIED_INCORRECT_FILE,
        f"the failing tests are of {', '.join(wanted)}; changed was {', '.join(sorted(sources))}",
        (steps[0], steps[-1]),
    )


def fewer_tests_fail(evidence: Evidence) -> Finding | None:
    """The last run of its tests fails less than an equal one before the change."""
    facts = repo_facts(evidence)
    after = [run for run in facts.runs if run.step > facts.last_change >= 0]
    if not after or not after[-1].num_failed:
        return None
    last = after[-1]
    before = [run for run in facts.runs if run.step < min(facts.changed.values()) and run.command == last.command]
    if not before or not last.num_failed < before[0].num_failed:
        return None
    return Finding(
        FailureCategory.MISSED_EDGE_CASE,
        f"{before[0].num_failed} tests failed before the change and {last.num_failed} do after it",
        (before[0].step, last.step),
    )


def own_tests_passed(evidence: Evidence) -> Finding | None:
    """It finished after the tests that it ran had passed; others did not."""
    facts = repo_facts(evidence)
    after = [run for run in facts.runs if run.step > facts.last_change >= 0]
    if evidence.was_cut or not after or after[-1].num_failed:
        return None
    return Finding(
        FailureCategory.MISSED_EDGE_CASE,
        f"the tests that it ran at step {after[-1].step} passed, those of the task did not",
        (facts.last_change, after[-1].step),
    )


def finished_while_failing(evidence: Evidence) -> Finding | None:
    """It changed the code and finished although its last test run failed no less than before."""
    facts = repo_facts(evidence)
    after = [run for run in facts.runs if run.step > facts.last_change >= 0]
    if evidence.was_cut or not after or not after[-1].num_failed:
        return None
    return Finding(
        FailureCategory.WRONG_SOLUTION,
        f"it finished although {after[-1].num_failed} of the tests that it ran at step {after[-1].step} fail",
        (facts.last_change, after[-1].step),
    )


def _failing_modules(evidence: Evidence, facts: RepoFacts) -> set[str]:
    """Names of the modules whose tests fail, by the last failed run, else by the problem statement."""
    failed = [run for run in facts.runs if run.num_failed]
    named = _modules(failed[-1].reply.splitlines()) if failed else set()
    return named or _modules(statement(evidence.trajectory).splitlines())


def _modules(lines: Iterable[str]) -> set[str]:
    told = [line for line in lines if "::" in line]
    return {name for line in told for name in _TEST_OF.findall(line)}


RULES: Final[tuple[Rule, ...]] = (
    left_syntax_error,
    changed_only_tests,
    tests_of_another_module,
    fewer_tests_fail,
    own_tests_passed,
    finished_while_failing,
)
