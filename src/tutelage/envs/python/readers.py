"""Readers of the files that evaluations use. Each row is checked; messages name rows, never what stands in them.

aime   JSON lines: id, problem, answer (a whole number from 0 to 999)
math   JSON lines: id, problem, answer (a number, or an expression in LaTeX)
gpqa   the published CSV, or JSON lines with its columns: Question, Correct Answer, Incorrect Answer 1 to 3, Record ID
lcb    JSON lines of LiveCodeBench: question_id, question_content, starter_code, public_test_cases,
       private_test_cases, metadata
"""

from __future__ import annotations

import base64
import binascii
import csv
import io
import json
import pickle
import random
import zlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from tutelage.envs.python.problems import HiddenTest, Problem
from tutelage.errors import ConfigError, FormatError
from tutelage.types import stable_hash

LETTERS: Final = "ABCD"

INCORRECT: Final = ("Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3")

PROGRAM_NOTE: Final = "Your answer is the whole program. It reads standard input and prints to standard output."
FUNCTION_NOTE: Final = "Your answer is the whole code, with this beginning completed:"

MOST_TEST_BYTES: Final = 1 << 30
"""Size to which packed tests may unfold."""


def read_problems(source: str, path: Path, shuffle_seed: int = 0) -> dict[str, Problem]:
    """Id -> problem, in the order of the file.

    shuffle_seed: for the order of the options of GPQA, which each question draws by itself.
    Raises FormatError with file and row, also for an id that comes twice.
    """
    if source not in READERS:
        raise ConfigError.unknown("python problems: source", source, READERS)
    found: dict[str, Problem] = {}
    for number, row in enumerate(_rows(path), start=1):
        where = f"{path}, row {number}"
        row_id, problem = READERS[source](row, where, shuffle_seed)
        if row_id in found:
            raise FormatError(f"{where}: id {row_id!r} came before. Give every problem an id of its own.")
        found[row_id] = problem
    if not found:
        raise FormatError(f"{path}: no problem in it.")
    return found


def _rows(path: Path) -> Iterable[Mapping[str, Any]]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise FormatError(f"{path}: no such file. Say where the problems are.") from None
    except UnicodeDecodeError as error:
        raise FormatError(f"{path}: byte {error.start} is no UTF-8.") from None
    if path.suffix == ".csv":
        yield from csv.DictReader(io.StringIO(text))
        return
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            try:
                row = json.loads(line)
            except ValueError as error:
                raise FormatError(f"{path}, line {number}: no JSON ({error.__class__.__name__}).") from None
            if not isinstance(row, dict):
                raise FormatError(f"{path}, line {number}: a {type(row).__name__}, expected an object.")
            yield row


def _text(row: Mapping[str, Any], key: str, where: str) -> str:
    value = row.get(key)
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not value.strip():
        raise FormatError(f"{where}: '{key}' is {'empty' if value == '' else 'missing or no text'}.")
    return value


def _aime(row: Mapping[str, Any], where: str, _seed: int) -> tuple[str, Problem]:
    answer = _text(row, "answer", where).strip()
    if not answer.isascii() or not answer.isdigit() or int(answer) > 999:
        raise FormatError(f"{where}: the answer is no whole number from 0 to 999; source 'math' takes any.")
    text = _text(row, "problem", where)
    return _text(row, "id", where), Problem(text=text, answer=str(int(answer)), judge="aime", kind="aime")


def _math(row: Mapping[str, Any], where: str, _seed: int) -> tuple[str, Problem]:
    problem = Problem(
        text=_text(row, "problem", where), answer=_text(row, "answer", where).strip(), judge="math", kind="math"
    )
    return _text(row, "id", where), problem


def _gpqa(row: Mapping[str, Any], where: str, seed: int) -> tuple[str, Problem]:
    row_id = _text(row, "Record ID", where).strip()
    correct = _text(row, "Correct Answer", where).strip()
    options = [correct, *(_text(row, key, where).strip() for key in INCORRECT)]
    if len(set(options)) != len(options):
        raise FormatError(f"{where}: two options are the same.")
    # Each question has an order of its own, so that adding a question changes no other.
    random.Random(stable_hash("options", seed, row_id)).shuffle(options)
    listed = "\n".join(f"{letter}. {option}" for letter, option in zip(LETTERS, options, strict=True))
    text = f"{_text(row, 'Question', where).strip()}\n\n{listed}"
    key = LETTERS[options.index(correct)]
    return row_id, Problem(
        text=text, answer=key, judge="choice", kind=str(row.get("High-level domain") or "gpqa").lower()
    )


def _lcb(row: Mapping[str, Any], where: str, _seed: int) -> tuple[str, Problem]:
    starter = str(row.get("starter_code") or "")
    function = _function_name(row, where) if starter.strip() else None
    cases = [*_cases(row, "public_test_cases", where), *_cases(row, "private_test_cases", where)]
    tests = tuple(_hidden_test(case, function, where) for case in cases)
    if not tests:
        raise FormatError(f"{where}: no tests.")
    note = f"{FUNCTION_NOTE}\n\n{starter.rstrip()}" if function else PROGRAM_NOTE
    text = f"{_text(row, 'question_content', where).strip()}\n\n{note}"
    kind = str(row.get("difficulty") or "lcb")
    return _text(row, "question_id", where), Problem(text=text, answer="", judge="program", kind=kind, tests=tests)


def _function_name(row: Mapping[str, Any], where: str) -> str:
    metadata = row.get("metadata") or "{}"
    try:
        found = json.loads(metadata) if isinstance(metadata, str) else metadata
        name = found["func_name"]
    except (ValueError, KeyError, TypeError):
        raise FormatError(f"{where}: starter code, but no 'func_name' in 'metadata'.") from None
    return str(name)


def _cases(row: Mapping[str, Any], key: str, where: str) -> list[dict[str, str]]:
    """Tests of one kind: a list, a JSON list as text, or that packed by zlib, pickle and base64."""
    value = row.get(key) or []
    try:
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except ValueError:
                value = json.loads(_unpacked(value))
        return [{field: _word(case[field]) for field in ("input", "output", "testtype")} for case in value]
    except (ValueError, KeyError, TypeError, binascii.Error, zlib.error, pickle.UnpicklingError, EOFError) as error:
        raise FormatError(f"{where}: '{key}' cannot be read ({type(error).__name__}).") from None


def _word(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("no text")
    return value


class _TextOnly(pickle.Unpickler):
    """Reads plain values; a pickle that names any class or function is refused, since that could run code."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it names {module}.{name}")


def _unpacked(text: str) -> str:
    unfold = zlib.decompressobj()
    data = unfold.decompress(base64.b64decode(text, validate=True), MOST_TEST_BYTES)
    if unfold.unconsumed_tail:
        raise ValueError("too big")
    found = _TextOnly(io.BytesIO(data)).load()
    return found if isinstance(found, str) else json.dumps(found)


def _hidden_test(case: Mapping[str, str], function: str | None, where: str) -> HiddenTest:
    kind = case["testtype"]
    if kind not in ("stdin", "functional") or (kind == "functional") != (function is not None):
        raise FormatError(f"{where}: a test of type {kind!r} {'with' if function else 'without'} starter code.")
    return HiddenTest(given=case["input"], expected=case["output"], function=function)


READERS: Final[dict[str, Callable[[Mapping[str, Any], str, int], tuple[str, Problem]]]] = {
    "aime": _aime,
    "math": _math,
    "gpqa": _gpqa,
    "lcb": _lcb,
}
