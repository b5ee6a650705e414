"""The repo expert: repairs a task by its known repair, from any state another policy left behind.

What it knows that an agent does not: the repaired files, which come with the task (the unmutated package, a row's
patch). What it does not use: the sandbox, the workspace, the hidden tests, or any text but those of the trajectory so
far. It looks before it changes, so that its steps are those of somebody who found the fault:

    locate (grep), view the file, run the failing tests, edit, run them again, submit

Every decision depends on the record alone. What an earlier policy changed besides, and is no test, is put back.
"""

from __future__ import annotations

import ast
import difflib
import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tutelage.envs.action_formats import action_of
from tutelage.envs.repo.check import is_guarded
from tutelage.envs.repo.editor import ERROR, viewed_text
from tutelage.envs.repo.problem import Problem, problem_of
from tutelage.envs.repo.settings import action_format_named
from tutelage.envs.repo.shell import path_below, read_ending
from tutelage.envs.repo.tree import LINK, Entry
from tutelage.errors import PolicyError
from tutelage.policies.base import PartialTrajectory, SingleActPolicy
from tutelage.types import Action, ParsedCall

_TEST_RUN: Final = re.compile(r"\bpytest\b")

MAX_TEST_FILES: Final = 3
"""Test files that it runs; they are the ones of the tests that fail."""


class RepoExpert(SingleActPolicy):
    """Repairs a software task whose repair is known. Same texts and task, same action.

    Raises PolicyError for a task without a known repair.
    """

    def __init__(self) -> None:
        self.name = "repo_expert"
        self.version = "repo_expert-1"

    def act(self, so_far: PartialTrajectory) -> Action:
        settings = so_far.task.settings
        problem = problem_of(settings)
        if problem.fix is None:
            raise PolicyError(f"task {so_far.task.task_id} comes without a repair; nothing to go by", role="expert")
        call, thought = _Decision(problem, _record(so_far)).next()
        return action_of(action_format_named(str(settings.get("action_format", "functions"))), call, thought)


@dataclass
class _Record:
    """What the texts so far have told."""

    contents: dict[str, str | None] = field(default_factory=dict)
    """Path -> text of the file as last shown or written. None: it was removed."""
    touched: set[str] = field(default_factory=set)
    """Paths that somebody changed."""
    shown_in_part: set[str] = field(default_factory=set)
    """Paths that cannot be viewed whole: too long, or refused."""
    failed_edits: set[str] = field(default_factory=set)
    """Paths at which the last edit was refused."""
    failed_creates: set[str] = field(default_factory=set)
    """Paths at which something stands that is no file."""
    directory: str = ""
    """Working directory below the top."""
    located: bool = False
    num_test_runs: int = 0
    tested: bool = False
    """The tests were run since the last change."""

    def changed(self, path: str, text: str | None = None, known: bool = False) -> None:
        self.touched.add(path)
        self.tested = False
        self.contents.pop(path, None)
        if known:
            self.contents[path] = text


def _record(so_far: PartialTrajectory) -> _Record:
    record = _Record()
    seen = [*(step.observation.text for step in so_far.steps), so_far.observation.text]
    for step, reply in zip(so_far.steps, seen[1:], strict=True):
        call = step.action.call
        if call is not None and call.name == "bash":
            _read_bash(record, str(call.arguments.get("command", "")), reply)
        elif call is not None and call.name == "edit":
            path = path_below(str(call.arguments.get("path", "")), record.directory)
            _read_edit(record, call.arguments, path, reply)
    return record


def _read_bash(record: _Record, command: str, reply: str) -> None:
    end = read_ending(reply)
    if end is None:
        return
    for path in (*end.changed, *end.gone):
        record.changed(path, known=path in end.gone)
    record.located = True
    record.failed_creates.clear()
    if _TEST_RUN.search(command):
        record.num_test_runs += 1
        record.tested = not (end.changed or end.gone)
    record.directory = end.directory


def _read_edit(record: _Record, arguments: Mapping[str, Any], path: str, reply: str) -> None:
    command = arguments.get("command")
    in_part = bool(arguments.get("first_line") or arguments.get("last_line"))
    if reply.startswith(ERROR):
        failed = {"view": record.shown_in_part, "create": record.failed_creates}.get(str(command), record.failed_edits)
        if not (command == "view" and in_part):
            failed.add(path)
        return
    if command == "view":
        text = None if in_part else viewed_text(reply)
        if text is not None:
            record.contents[path] = text
        elif not in_part:
            record.shown_in_part.add(path)
        return
    record.failed_edits.discard(path)
    before = record.contents.get(path)
    if command == "create":
        record.changed(path, str(arguments.get("file_text", "")), known=True)
    elif command == "str_replace" and before is not None:
        text = before.replace(str(arguments.get("old_str")), str(arguments.get("new_str") or ""), 1)
        record.changed(path, text, known=True)
    else:
        record.changed(path)


class _Decision:
    """One decision on one record."""

    def __init__(self, problem: Problem, record: _Record) -> None:
        assert problem.fix is not None
        self.problem = problem
        self.record = record
        self.wanted: dict[str, Entry | None] = dict(problem.fix)
        repaired = problem.tree.changed(problem.fix)
        for path in record.touched:
            if not is_guarded(path) and path not in problem.tests:
                self.wanted[path] = repaired.get(path)

    def next(self) -> tuple[ParsedCall, str]:
        """The call, and what is said before it."""
        for path in sorted(self.wanted):
            call = self._mend(path)
            if call is not None:
                return call
        if not self.record.tested:
            return self._run_tests(), "Let me run the tests on the change."
        return ParsedCall(name="submit"), "That is repaired."

    def _mend(self, path: str) -> tuple[ParsedCall, str] | None:
        """What to do next about a file. None: it is as it should be."""
        record, wanted = self.record, self.wanted[path]
        if wanted is None:
            if record.contents.get(path, "") is None:
                return None
            if path not in record.touched and path not in self.problem.tree:
                return None
            return self._bash(f"rm -f -- {self._there(path)}"), f"{path} does not belong here."
        if wanted.mode == LINK or b"\0" in wanted.data:
            raise PolicyError(f"the repair of {path} is not text; the expert only writes text", role="expert")
        text = wanted.data.decode("utf-8", "surrogateescape")
        if path in record.failed_creates:
            return self._bash(f"rm -rf -- {self._there(path)}"), f"Something else stands at {path}."
        if path not in record.contents:
            if path not in self.problem.tree or path in record.shown_in_part:
                return self._create(path, text)
            if not record.located:
                return self._locate(path), "First, where is the code that these tests are about?"
            return self._edit("view", path), f"The fault may be in {path}."
        found = record.contents[path]
        if found == text:
            return None
        if record.num_test_runs == 0:
            return self._run_tests(), "Let me see how the tests fail."
        if found is None or path in record.failed_edits:
            return self._create(path, text)
        return self._replace(path, found, text)

    def _locate(self, path: str) -> ParsedCall:
        wanted, found = self.wanted[path], self.problem.tree.get(path)
        name = _function_of_change(found.data if found else b"", wanted.data if wanted else b"")
        if name is None:
            return self._bash("find . -name '*.py' | sort")
        return self._bash(f"grep -rn --include='*.py' {shlex.quote(name)} . | sort")

    def _run_tests(self) -> ParsedCall:
        files = sorted({test.split("::")[0] for test in self.problem.fail_to_pass})[:MAX_TEST_FILES]
        return self._bash(f"python -m pytest -q {' '.join(map(shlex.quote, files))} 2>&1 | tail -n 30")

    def _create(self, path: str, text: str) -> tuple[ParsedCall, str]:
        return self._edit("create", path, file_text=text), f"I write {path} anew."

    def _replace(self, path: str, found: str, wanted: str) -> tuple[ParsedCall, str]:
        """Turn the first lines that differ into the wanted ones, with lines around them until they are unique."""
        old, new = found.splitlines(keepends=True), wanted.splitlines(keepends=True)
        matcher = difflib.SequenceMatcher(a=old, b=new, autojunk=False)
        _, start, end, new_start, new_end = next(code for code in matcher.get_opcodes() if code[0] != "equal")
        for around in range(len(old) + 1):
            low, high = max(0, start - around), min(len(old), end + around)
            # The last line goes without its end, as one would write it.
            taken = "".join(old[low:high])
            given = "".join([*old[low:start], *new[new_start:new_end], *old[end:high]])
            if taken.endswith("\n") and given.endswith("\n"):
                taken, given = taken[:-1], given[:-1]
            if taken and found.count(taken) == 1:
                return self._edit("str_replace", path, old_str=taken, new_str=given), "Here it is."
        return self._create(path, wanted)

    def _bash(self, command: str) -> ParsedCall:
        """A command at the top, wherever the shell is."""
        away = self.record.directory
        back = f"cd {shlex.quote(os.path.relpath('/', '/' + away))} && " if away else ""
        return ParsedCall(name="bash", arguments={"command": back + command})

    def _edit(self, command: str, path: str, **arguments: str) -> ParsedCall:
        return ParsedCall(
            name="edit", arguments={"command": command, "path": self._there(path, away=True), **arguments}
        )

    def _there(self, path: str, away: bool = False) -> str:
        """A path as the shell names it at the top, or as the editor does where the shell is."""
        if away:
            return os.path.relpath("/" + path, "/" + self.record.directory)
        return shlex.quote(path if not path.startswith("-") else f"./{path}")


def _function_of_change(before: bytes, after: bytes) -> str | None:
    """``def`` and the name of the innermost function around the first line that differs, or None."""
    old, new = before.split(b"\n"), after.split(b"\n")
    line = next((index + 1 for index, pair in enumerate(zip(old, new, strict=False)) if pair[0] != pair[1]), None)
    if line is None:
        return None
    try:
        nodes = list(ast.walk(ast.parse(before)))
    except (SyntaxError, ValueError):
        return None
    around = [
        node
        for node in nodes
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.lineno <= line <= (node.end_lineno or 0)
    ]
    return f"def {max(around, key=lambda node: node.lineno).name}" if around else None
