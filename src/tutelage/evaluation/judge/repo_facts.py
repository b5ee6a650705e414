"""What the texts of a software episode tell about its files: which were changed, which no longer parse, what tests said."""

from __future__ import annotations

import ast
import re
import warnings
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple

from tutelage.envs.repo.check import is_guarded
from tutelage.envs.repo.editor import viewed_text
from tutelage.envs.repo.shell import path_below, read_ending
from tutelage.evaluation.judge.evidence import Evidence, is_misuse
from tutelage.types import ParsedCall

TEST_RUN: Final = re.compile(r"\b(?:pytest|py\.test|unittest|tox)\b")
_FAILED: Final = re.compile(r"\b(\d+) (?:failed|errors?)\b")
_PASSED: Final = re.compile(r"\b\d+ passed\b")


class TestRun(NamedTuple):
    """One run of tests whose outcome the reply tells."""

    step: int
    command: str
    num_failed: int
    """Errors included."""
    reply: str


@dataclass
class RepoFacts:
    """Files and tests of one episode, from its texts alone."""

    changed: dict[str, int] = field(default_factory=dict)
    """Path -> last step that changed it; those made and removed again are not in it."""
    texts: dict[str, str] = field(default_factory=dict)
    """Path -> content, where the texts tell it whole."""
    syntax_errors: list[tuple[int, str]] = field(default_factory=list)
    """(step, path or empty) where an answer reported a syntax error."""
    runs: list[TestRun] = field(default_factory=list)

    @property
    def sources_changed(self) -> dict[str, int]:
        """Without tests and their configuration, which do not count."""
        return {path: step for path, step in self.changed.items() if not is_guarded(path)}

    @property
    def last_change(self) -> int:
        """Step of the last change; -1: nothing was changed."""
        return max(self.changed.values(), default=-1)

    def unparsable(self) -> dict[str, int]:
        """Changed Python files whose known content does not parse -> step of the last change."""
        return {
            path: step
            for path, step in self.changed.items()
            if path.endswith(".py") and path in self.texts and not _parses(self.texts[path])
        }


@lru_cache(maxsize=4)  # Each rule asks for them.
def repo_facts(evidence: Evidence) -> RepoFacts:
    """Follow an episode whose tools are `bash` and `edit`, or are named like them."""
    facts, directory = RepoFacts(), ""
    for index, (call, reply) in enumerate(zip(evidence.calls, evidence.replies, strict=True)):
        if call is None:
            continue
        if "edit" in call.name.lower():
            _follow_edit(facts, index, call, path_below(str(call.arguments.get("path", "")), directory), reply)
            continue
        end = read_ending(reply)
        for path in end.changed if end else ():
            facts.changed[path] = index
            facts.texts.pop(path, None)
        for path in end.gone if end else ():
            facts.changed.pop(path, None)
        directory = end.directory if end else directory
        if re.search(r"\b(?:SyntaxError|IndentationError|TabError): ", reply):
            facts.syntax_errors.append((index, _blamed(reply)))
        if TEST_RUN.search(evidence.commands[index]):
            run = _test_run(index, evidence.commands[index], reply)
            facts.runs += [run] if run is not None else []
    return facts


def _follow_edit(facts: RepoFacts, index: int, call: ParsedCall, path: str, reply: str) -> None:
    arguments = call.arguments
    command = arguments.get("command")
    if not reply or is_misuse(call, reply):
        return
    if command == "view":
        shown = None if arguments.get("first_line") or arguments.get("last_line") else viewed_text(reply)
        if shown is not None:
            facts.texts[path] = shown
        return
    facts.changed[path] = index
    before = facts.texts.pop(path, None)
    if command == "create":
        facts.texts[path] = str(arguments.get("file_text", ""))
    elif command == "str_replace" and before is not None:
        facts.texts[path] = before.replace(str(arguments.get("old_str")), str(arguments.get("new_str") or ""), 1)
    elif command == "insert" and before is not None and str(arguments.get("insert_line")).isdecimal():
        lines = before.splitlines(keepends=True)
        at = int(arguments["insert_line"])
        text = str(arguments.get("insert_text", ""))
        facts.texts[path] = "".join([*lines[:at], text if text.endswith("\n") else f"{text}\n", *lines[at:]])


def _test_run(index: int, command: str, reply: str) -> TestRun | None:
    """None: the reply does not tell the outcome."""
    failed = [int(number) for number in _FAILED.findall(reply)]
    if not failed and not _PASSED.search(reply):
        return None
    # The summary is the last line that counts; earlier ones may be output of the tests themselves.
    summary = next(line for line in reversed(reply.splitlines()) if _FAILED.search(line) or _PASSED.search(line))
    return TestRun(index, command.strip(), sum(map(int, _FAILED.findall(summary))), reply)


def _blamed(reply: str) -> str:
    """The file that a syntax error is reported in. Empty: it is not named, e.g. in code on the command line."""
    named = re.findall(r'File "(?:/workspace/|/testbed/)?([^"<>]+\.py)", line \d+', reply)
    return named[-1] if named else ""


def _parses(text: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # A doubtful escape is no error.
            ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
