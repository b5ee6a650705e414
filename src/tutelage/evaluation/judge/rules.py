"""The judge that needs no model: a list of small rules per environment, the first that finds something decides.

Rules see loops, readings, calls that fail, files that do not parse, what tests said, what was bought. They do not see what
was meant: `misunderstood_problem_statement` is never found, and a wrong file only where the texts betray it. What no rule
finds is `other`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from tutelage.evaluation.judge import rules_any
from tutelage.evaluation.judge.evidence import Evidence
from tutelage.evaluation.judge.findings import Rule
from tutelage.evaluation.judge.rules_answers import PYTHON_RULES, SEARCH_RULES
from tutelage.evaluation.judge.rules_games import HOUSEHOLD_RULES, SHOP_RULES
from tutelage.evaluation.judge.rules_repo import RULES as REPO_RULES
from tutelage.types import FailureCategory, Judgement, Trajectory

OF_ENVIRONMENT: Final[Mapping[str, tuple[Rule, ...]]] = MappingProxyType(
    {
        "household": HOUSEHOLD_RULES,
        "alfworld": HOUSEHOLD_RULES,
        "shop": SHOP_RULES,
        "search": SEARCH_RULES,
        "python": PYTHON_RULES,
        "repo": REPO_RULES,
    }
)
"""Environment -> its own rules, asked after `rules_any.BEFORE`. Others are asked the software rules, which say nothing
where no file was changed."""


def rules_for(env: str) -> tuple[Rule, ...]:
    """In the order in which they are asked."""
    return (*rules_any.BEFORE, *OF_ENVIRONMENT.get(env, REPO_RULES), *rules_any.AFTER)


@dataclass(frozen=True)
class RulesJudge:
    """Judges by rules alone. Same trajectory, same judgement."""

    name: str = "rules-1"
    concurrency: int = 1

    def prompt_hash(self, trajectory: Trajectory) -> str:
        return ""

    def judge(self, trajectory: Trajectory, *, source: str = "", attempt: int = 0) -> Judgement:
        evidence = Evidence(trajectory)
        for rule in rules_for(trajectory.env):
            finding = rule(evidence)
            if finding is not None:
                return Judgement(
                    trajectory_id=trajectory.trajectory_id,
                    source=source,
                    judge=self.name,
                    attempt=attempt,
                    category=finding.category,
                    explanation=finding.explanation,
                    rule=rule.__name__,
                    span=finding.span,
                )
        return Judgement(
            trajectory_id=trajectory.trajectory_id,
            source=source,
            judge=self.name,
            attempt=attempt,
            category=FailureCategory.OTHER,
            explanation="no rule found a cause",
        )
