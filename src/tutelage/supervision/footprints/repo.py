"""Footprints of repo episodes from their texts alone.

In: a stored trajectory. Out: keys read and written per step. Which files a shell command changed is told by the last line
of its reply, so that commands of any kind are covered.

  file:PATH          contents of a file; its last writer made them
  seen:PATH          the agent was shown the file
  test_result:ID     outcome of a test, or of all that one command ran (ID: the files it named, or ``all``)
  submission

| step | reads | writes when the reply confirms |
|---|---|---|
| view, cat, grep ... | file of what is shown | seen of it |
| str_replace, insert, create, undo | seen, file | file |
| pytest ... | every file written so far | test_result of the tests named in the reply, and of what was run |
| another command | file of what it names; of every file written so far, if it runs Python; seen and file of what it changes | file of what it changes |
| submit | every test_result and file written so far | submission |
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Final, NamedTuple

from tutelage.envs.repo.editor import ERROR
from tutelage.envs.repo.env import SUBMITTED
from tutelage.envs.repo.shell import Ending, path_below, read_ending
from tutelage.types import Effect, Footprint, ParsedCall, Trajectory

_TESTS: Final = re.compile(r"(?:^|[\s;&|(])(?:pytest|py\.test|tox|unittest)\b")
_PYTHON: Final = re.compile(r"(?:^|[\s;&|(])python[\d.]*\b")
_OUTCOME: Final = re.compile(
    r"(?m)^(?:(?:PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS) (\S+)|(\S+::\S+) (?:PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)\b)"
)
_RAN: Final = re.compile(r"(?m)^=* ?(?:\d+ (?:passed|failed|errors?|skipped|xfailed|xpassed|deselected|warnings?)\b)")
_HIT: Final = re.compile(r"(?m)^(?:\./)?([^\s:]+?)(?::\d+)?[:-]")
_SHOWS: Final = frozenset(("cat", "head", "tail", "less", "more", "nl", "sed", "grep", "rg"))
_SEARCHES: Final = frozenset(("grep", "rg"))
_JOINS: Final = frozenset(("&&", "||", ";", "|", "|&", "&", "(", ")"))


class Keys(NamedTuple):
    """What a step reads and writes."""

    reads: set[str]
    writes: set[str]
    effect: Effect


def repo_footprints(trajectory: Trajectory) -> tuple[Footprint, ...]:
    """One footprint per step of a repo trajectory. No text makes it raise.

    The effect is `CHANGED` if something was written (also if it was only shown), `NO_EFFECT` for a refused edit and for
    a reply that confirms nothing, `READ_ONLY` for other commands that wrote nothing, `MALFORMED` without a call. The
    reply to the last step is the final observation; a missing one confirms nothing.
    """
    steps, final = trajectory.steps, trajectory.final_observation
    replies = [step.observation.text for step in steps[1:]] + [final.text if final else ""]
    texts = _Texts()
    footprints = []
    for index, (step, reply) in enumerate(zip(steps, replies, strict=False)):
        keys = Keys(set(), set(), Effect.MALFORMED)
        if step.action.call is not None and step.action.command is not None:
            keys = texts.step(step.action.call, reply)
        texts.known |= keys.writes
        footprints.append(
            Footprint(
                trajectory_id=trajectory.trajectory_id,
                step_index=index,
                reads=frozenset(keys.reads),
                writes=frozenset(keys.writes),
                effect=Effect.CHANGED if keys.writes else keys.effect,
            )
        )
    return tuple(footprints)


class _Texts:
    """What the texts so far have told."""

    def __init__(self) -> None:
        self.known: set[str] = set()
        """Keys that some earlier step wrote."""
        self.directory = ""

    def step(self, call: ParsedCall, reply: str) -> Keys:
        if call.name == "bash":
            return self._bash(str(call.arguments.get("command", "")), reply)
        if call.name == "edit":
            return self._edit(call, reply)
        if call.name == "submit":
            submitted = reply.startswith(SUBMITTED)
            reads = self._written("test_result:") | self._written("file:")
            return Keys(reads, {"submission"} if submitted else set(), Effect.READ_ONLY if reply else Effect.NO_EFFECT)
        return Keys(set(), set(), Effect.NO_EFFECT)

    def _written(self, kind: str) -> set[str]:
        return {key for key in self.known if key.startswith(kind)}

    def _edit(self, call: ParsedCall, reply: str) -> Keys:
        path = path_below(str(call.arguments.get("path", "")), self.directory).lower()
        file, seen = f"file:{path}", f"seen:{path}"
        confirmed = bool(reply) and not reply.startswith(ERROR)
        effect = Effect.READ_ONLY if confirmed else Effect.NO_EFFECT
        if call.arguments.get("command") == "view":
            # Of a folder, names are listed; no file is shown.
            shown = confirmed and (re.match(r" *\d+\t", reply) is not None or reply == "[empty file]")
            return Keys({file}, {seen} if shown else set(), effect)
        return Keys({seen, file}, {file} if confirmed else set(), effect)

    def _bash(self, command: str, reply: str) -> Keys:
        end = read_ending(reply)
        named = list(_named_files(command, self.directory))
        reads = {f"file:{path}" for path, _ in named}
        if end is None:
            return Keys(reads, set(), Effect.NO_EFFECT)
        changed = {path.lower() for path in (*end.changed, *end.gone)}
        writes = {f"file:{path}" for path in changed}
        reads |= {f"{kind}:{path}" for path in changed for kind in ("seen", "file")}
        is_test = _TESTS.search(command) is not None
        if is_test or _PYTHON.search(command):
            reads |= self._written("file:")
        if is_test:
            writes |= {f"test_result:{name}" for name in _tests_run(command, reply, self.directory)}
        else:
            shown = set(_shown_files(command, named, reply, end))
            writes |= {f"seen:{path}" for path in shown}
            reads |= {f"file:{path}" for path in shown}
        self.directory = end.directory
        return Keys(reads, writes, Effect.READ_ONLY if end.status is not None else Effect.NO_EFFECT)


def _words(command: str) -> list[str]:
    lexer = shlex.shlex(command.replace("\n", " ; "), posix=True, punctuation_chars=True)
    lexer.commenters = ""
    try:
        return list(lexer)
    except ValueError:
        return command.split()


def _named_files(command: str, directory: str) -> Iterator[tuple[str, str]]:
    """Paths that a command names, in lower case, each with the program it is an argument of; ``cd`` is followed."""
    program = ""
    words = _words(command)
    for index, word in enumerate(words):
        if word in _JOINS or set(word) <= set(";&|()"):
            program = ""
        elif not program:
            program = word.rpartition("/")[2]
            if program == "cd" and index + 1 < len(words) and words[index + 1] not in _JOINS:
                directory = path_below(words[index + 1], directory)
        elif _is_path(word) and program != "cd":
            yield path_below(word.split("::")[0], directory).lower(), program


def _is_path(word: str) -> bool:
    """A word that looks like a file: with an ending, no option, no pattern, nothing to calculate."""
    return re.fullmatch(r"[\w./+@~][\w./+@~:-]*\.\w+(?:::\S+)?", word) is not None


def _shown_files(command: str, named: list[tuple[str, str]], reply: str, end: Ending) -> Iterator[str]:
    """Files whose contents a command has shown: those it names to a program that prints, and those a search tells."""
    words = _words(command)
    elsewhere = any(word in (">", ">>") and words[index - 1 : index] != ["2"] for index, word in enumerate(words))
    in_place = "sed" in words and any(word.startswith(("-i", "--in-place")) for word in words)
    if elsewhere or in_place:
        return
    if end.status == 0:
        yield from (path for path, program in named if program in _SHOWS)
    if _SEARCHES & set(words):
        yield from (path for path in {match[1].lower() for match in _HIT.finditer(reply)} if _is_path(path))


def _tests_run(command: str, reply: str, directory: str) -> Iterator[str]:
    """Tests named in the reply, and what was run as a whole where the reply tells that tests ran."""
    for match in _OUTCOME.finditer(reply):
        yield (match[1] or match[2]).lower()
    if _RAN.search(reply):
        files = sorted({path for path, _ in _named_files(command, directory) if path.endswith(".py")})
        yield " ".join(files) or "all"
