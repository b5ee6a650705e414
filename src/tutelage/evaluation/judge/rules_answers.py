"""Rules for tasks that one answer ends: search and python."""

from __future__ import annotations

import ast
import re
from typing import Final

from tutelage.envs.python.env import UNREADABLE
from tutelage.evaluation.judge.evidence import Evidence, longest_run
from tutelage.evaluation.judge.findings import Finding, Rule
from tutelage.types import FailureCategory

_SYNTAX: Final = re.compile(r"(?m)^(?:SyntaxError|IndentationError|TabError)\b")
_PROGRAM: Final = re.compile(r"(?m)^\s*(?:def|import|from|class|for|while|print)\b")


def code_never_parsed(evidence: Evidence) -> Finding | None:
    """At least half of the runs ended in a syntax error, two at least, or the answer is a program that does not parse."""
    runs = [call is not None and call.name == "python" for call in evidence.calls]
    broken = [run and _SYNTAX.search(reply) is not None for run, reply in zip(runs, evidence.replies, strict=True)]
    span = longest_run(broken)
    if span is not None and sum(broken) >= 2 and 2 * sum(broken) >= sum(runs):
        return Finding(FailureCategory.SYNTAX_ERROR, f"{sum(broken)} of {sum(runs)} runs ended in a syntax error", span)
    answer = _answer(evidence)
    if answer is not None and _PROGRAM.search(answer):
        try:
            ast.parse(answer)
        except (SyntaxError, ValueError, RecursionError):
            return Finding(
                FailureCategory.SYNTAX_ERROR, "the program that was answered does not parse", (evidence.last,) * 2
            )
    return None


def unreadable_answer(evidence: Evidence) -> Finding | None:
    """The environment took the answer and could read nothing in it."""
    if evidence.final_reply.strip() != UNREADABLE:
        return None
    return Finding(FailureCategory.TOOL_ERROR, "nothing could be read in the answer", (evidence.last, evidence.last))


def wrong_answer(evidence: Evidence) -> Finding | None:
    """It answered, and the answer is not right. Whether it understood the question, no rule can tell."""
    answer = _answer(evidence)
    if answer is None or evidence.was_cut:
        return None
    return Finding(FailureCategory.WRONG_SOLUTION, f"the answer {answer!r:.80} is not right", (evidence.last,) * 2)


def _answer(evidence: Evidence) -> str | None:
    call = evidence.calls[-1] if evidence.calls else None
    return str(call.arguments.get("text", "")) if call is not None and call.name == "answer" else None


SEARCH_RULES: Final[tuple[Rule, ...]] = (wrong_answer,)
PYTHON_RULES: Final[tuple[Rule, ...]] = (code_never_parsed, unreadable_answer, wrong_answer)
