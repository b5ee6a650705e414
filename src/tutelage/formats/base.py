"""What every reader and writer of a foreign format shares: problems, the ledger, and text that is fit for UTF-8.

A reader is one function ``(path, options) -> Iterator[Trajectory | ReadProblem]``: it never raises on what stands in a
file, it yields a `ReadProblem` and goes on with the next item. A writer is one function ``(trajectories, path) -> ledger``.
An item is what one trajectory is made of (a line, a file, a row): read = converted + skipped by reason.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tutelage.errors import ConfigError, FormatError
from tutelage.store import text_from_bytes, write_atomic
from tutelage.types import Actor, Trajectory

REPLACEMENT: Final = "\ufffd"
"""What stands where a character had to go: one for each lone surrogate, NUL, or byte that is no UTF-8."""

REPLACED_KEY: Final = "replaced_characters"
"""Key of `Trajectory.info`: how many characters of it were replaced."""

MAX_DEPTH: Final = 128
"""Deepest nesting of JSON that is read."""

_WORDS: Final = ("true", "false", "null", "NaN", "Infinity", "-Infinity")
_BEGUN_NUMBER: Final = re.compile(r"-|\.|[eE][+-]?")
_UNFIT: Final = re.compile("[\ud800-\udfff\x00]")


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadProblem:
    """An item that could not be read, and where exactly."""

    file: str
    reason: str
    """One word for the ledger, e.g. ``cut``, ``no_info``, ``bad_call``."""
    detail: str
    """What came and what was expected."""
    line: int | None = None
    """Line, or position of a row, from 1. None: the file is one item."""
    byte: int | None = None
    """Offset in the file. None: a line says it."""

    def __str__(self) -> str:
        """Example: ``data.jsonl, line 3: bad_call: message 2: call without name``"""
        at = f", line {self.line}" if self.line is not None else ""
        at += f", byte {self.byte}" if self.byte is not None else ""
        return f"{self.file}{at}: {self.reason}: {self.detail}"


class Refused(FormatError):
    """One item cannot be converted. Readers turn it into a `ReadProblem`, writers into a line of their ledger."""

    def __init__(self, reason: str, detail: str, *, byte: int | None = None) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail
        self.byte = byte

    def at(self, file: str | Path, *, line: int | None = None, byte: int | None = None) -> ReadProblem:
        """The problem, with its place."""
        return ReadProblem(
            file=str(file),
            reason=self.reason,
            detail=self.detail,
            line=line,
            byte=self.byte if self.byte is not None else byte,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadOptions:
    """What a reader has to be told, since foreign files do not say it."""

    actor: Actor | None = None
    """Who acted in the steps whose author the file does not name. None: the reader raises at such a step."""
    env: str | None = None
    """Name of the environment. None: the format's own, e.g. ``repo`` or ``imported``."""
    switch_field: str = "model_switch_idx"
    """Key that holds the number of student steps, where a file has it."""
    switch_indices: Mapping[str, int] = field(default_factory=dict)
    """The same from a side file, by task id or trajectory id."""
    outcomes: Mapping[str, float | None] = field(default_factory=dict)
    """Task id -> reward, from a report that is not beside the files."""
    flag: str | None = None
    """Key of assistant messages that says whether they are trained, e.g. ``weight``. None: no key is believed."""
    one_submit: bool = False
    """End a trajectory at its first submit: for a student whose tool ends there, where the expert's asks twice."""
    token_ids: bool = True
    """Keep sampled token ids that a file carries. They are of one tokenizer, and others refuse them."""


def ledger_path(out: str | Path) -> Path:
    """Where the ledger of an output is: beside it, under its whole name, so that two outputs of one stem have two."""
    return Path(f"{out}.ledger.json")


@dataclass(kw_only=True, slots=True)
class FormatLedger:
    """The account of a conversion: num_read = num_converted + sum(skipped)."""

    format: str
    num_read: int = 0
    num_converted: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    """Items without a result, by reason."""
    problems: list[ReadProblem] = field(default_factory=list)
    """One for each skipped item, in order; a writer names the trajectory as the file."""
    counts: Counter[str] = field(default_factory=Counter)
    """Whatever else is worth a number, e.g. ``steps``, ``replaced_characters``, ``truncated``."""
    notes: list[str] = field(default_factory=list)
    """What a reader of the result should know, one sentence each."""

    def converted(self, **counts: int) -> None:
        """One item has a result."""
        self.num_read += 1
        self.num_converted += 1
        self.counts.update(counts)

    def skip(self, problem: ReadProblem) -> None:
        """One item has none."""
        self.num_read += 1
        self.skipped[problem.reason] += 1
        self.problems.append(problem)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        assert self.num_read == self.num_converted + sum(self.skipped.values()), self
        return {
            "format": self.format,
            "num_read": self.num_read,
            "num_converted": self.num_converted,
            "skipped": dict(self.skipped),
            "counts": dict(self.counts),
            "notes": list(self.notes),
            "problems": [
                {"file": one.file, "line": one.line, "byte": one.byte, "reason": one.reason, "detail": one.detail}
                for one in self.problems
            ],
        }

    def write_beside(self, out: str | Path) -> Path:
        """Write it beside the output: ``rows.jsonl`` -> ``rows.jsonl.ledger.json``. Returns the path."""
        path = ledger_path(out)
        write_atomic(path, json.dumps(self.to_json(), indent=1).encode() + b"\n")
        return path

    def __str__(self) -> str:
        """One line to read aloud, then the notes.

        Example: ``sweagent: 12 read = 10 converted + 1 cut + 1 no_info; 240 steps, 2 truncated``
        """
        parts = [f"{self.num_converted} converted", *(f"{count} {reason}" for reason, count in self.skipped.items())]
        line = f"{self.format}: {self.num_read} read = {' + '.join(parts)}"
        if self.counts:
            line += "; " + ", ".join(f"{count} {name}" for name, count in self.counts.items())
        return "\n".join([line, *self.notes])


def clean_text(text: str) -> tuple[str, int]:
    """The text without lone surrogates and NUL, and how many were replaced. The length stays.

    Example: ``clean_text("a\\udc00b\\0") == ("a\\ufffdb\\ufffd", 2)``
    """
    return _UNFIT.subn(REPLACEMENT, text)


def shown(path: Path) -> str:
    """A path as text that fits UTF-8, whatever bytes its name has."""
    return clean_text(str(path))[0]


def clean_json(value: Any) -> tuple[Any, int]:
    """A JSON value with every text in it, keys too, as `clean_text` has it. Raises `Refused` where it is nested too deep.

    Example: ``clean_json({"a": ["\\udc00"]}) == ({"a": ["\\ufffd"]}, 1)``
    """
    count = 0

    def clean(one: Any, depth: int) -> Any:
        nonlocal count
        if depth > MAX_DEPTH:
            raise Refused("too_deep", f"JSON nested deeper than {MAX_DEPTH}")
        if isinstance(one, str):
            fit, replaced = clean_text(one)
            count += replaced
            return fit
        if isinstance(one, list):
            return [clean(item, depth + 1) for item in one]
        if isinstance(one, dict):
            return {clean(key, depth + 1): clean(item, depth + 1) for key, item in one.items()}
        return one

    return clean(value, 0), count


def json_from_bytes(data: bytes) -> Any:
    """A JSON value of any bytes; bytes that are no UTF-8 inside a text stay as lone surrogates, for `clean_json`.

    Raises `Refused` ``empty`` or ``not_json`` (with the byte), ``cut`` where the data end too early.
    """
    text = text_from_bytes(data.removeprefix(b"\xef\xbb\xbf"))
    if not text.strip():
        raise Refused("empty", f"{len(data)} bytes and no JSON value", byte=0)
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        byte = (
            len(text[: error.pos].encode("utf-8", "surrogateescape"))
            + len(data)
            - len(data.removeprefix(b"\xef\xbb\xbf"))
        )
        rest = text[error.pos :].strip()
        ends_early = (
            error.msg.startswith("Unterminated string")
            or any(whole.startswith(rest) for whole in _WORDS)
            or _BEGUN_NUMBER.fullmatch(rest) is not None
            or ("escape" in error.msg and len(rest) < len('u0000"'))
        )
        if ends_early:
            raise Refused("cut", f"the JSON ends after {len(data)} bytes in the middle of a value", byte=byte) from None
        raise Refused("not_json", f"{error.msg}, got {text[error.pos : error.pos + 20]!r}", byte=byte) from None
    except (ValueError, RecursionError) as error:
        raise Refused("not_json", str(error), byte=0) from None


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a file."""

    number: int
    byte: int
    data: bytes
    torn: bool
    """The file ends without a newline here."""


def lines_of(path: Path) -> Iterator[Line]:
    """The lines that hold something, without their newline."""
    byte = 0
    with open(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield Line(number, byte, line.rstrip(b"\r\n"), not line.endswith(b"\n"))
            byte += len(line)


def item(
    make: Callable[[], Trajectory], file: Path, *, line: int | None = None, byte: int | None = None
) -> Trajectory | ReadProblem:
    """The trajectory, or what is wrong with the item. An author that nobody named is the caller's to mend, and raises."""
    try:
        return make()
    except ConfigError:
        raise
    except Refused as refused:
        return refused.at(file, line=line, byte=byte)
    except OSError as error:
        return Refused("unreadable", error.strerror or str(error)).at(file, line=line, byte=byte)
    except ValueError as error:  # A record that its own checks refuse.
        return Refused("bad_record", str(error)).at(file, line=line, byte=byte)


def with_replaced(trajectory_info: dict[str, Any], replaced: int) -> dict[str, Any]:
    """The info of a trajectory with the number of replaced characters, where there are any."""
    return trajectory_info | {REPLACED_KEY: replaced} if replaced else trajectory_info


def counts_of(trajectory: Trajectory) -> dict[str, int]:
    """What the ledger counts of a converted trajectory."""
    replaced = trajectory.info.get(REPLACED_KEY, 0)
    counts = {
        "steps": len(trajectory.steps),
        "student_steps": trajectory.num_student_steps,
        "expert_steps": trajectory.num_expert_steps,
        "truncated": int(not trajectory.terminated),
        "unscored": int(trajectory.reward is None),
        REPLACED_KEY: replaced if isinstance(replaced, int) else 0,
    }
    return {name: count for name, count in counts.items() if count}
