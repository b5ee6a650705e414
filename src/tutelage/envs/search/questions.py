"""Questions with their gold answers, and the files they come in.

Files: JSONL (also ``.gz``), a JSON array, or Parquet. A row holds `question`, `golden_answers` (a list) and `data_source`;
the fields of the original releases of the seven usual data sets are understood as well:

  nq              answer: list                       hotpotqa, 2wikimultihopqa   answer; _id, type
  triviaqa        answer: {value, aliases}           musique                     answer, answer_aliases
  popqa           possible_answers: list, or JSON    bamboogle                   Question, Answer
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tutelage.envs.search.answers import normalise
from tutelage.envs.search.passages import read_jsonl
from tutelage.errors import FormatError, MissingExtra

DATA_SETS: Final = ("nq", "triviaqa", "popqa", "hotpotqa", "2wikimultihopqa", "musique", "bamboogle")
"""The usual seven. Published runs train on nq and hotpotqa, test on all, and average the seven plainly."""

ALIASES: Final = {"2wiki": "2wikimultihopqa", "natural_questions": "nq", "nq_open": "nq", "trivia_qa": "triviaqa"}
"""Other names of theirs."""

SUFFIXES: Final = (".jsonl", ".jsonl.gz", ".json", ".parquet")


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """One question. Everything but `question` is hidden from whoever answers it."""

    id: str
    question: str
    golden_answers: tuple[str, ...]
    data_source: str
    supporting_titles: tuple[str, ...] = ()
    """Titles of passages that are said to hold the answer. Hints for evaluation, never shown."""

    @property
    def content_hash(self) -> str:
        """SHA-256 of the normalised question and its answers, 64 hex digits."""
        content = [normalise(self.question), sorted(normalise(gold) for gold in self.golden_answers)]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def read_questions(path: str | Path, data_source: str | None = None) -> tuple[Question, ...]:
    """The questions of a file, in its order.

    data_source: of rows that name none; None: the data set named in the file's path, else its stem.
    Raises FormatError with the row that does not fit, MissingExtra for Parquet without pyarrow.
    """
    path = Path(path)
    source = data_source or _source_in(path)
    found = []
    for number, (where, row) in enumerate(_rows(path)):
        if not isinstance(row, dict):
            raise FormatError(f"{where}: {type(row).__name__}, expected an object with 'question' and answers.")
        found.append(_question(row, where, number, source))
    if not found:
        raise FormatError(f"{path}: holds no question.")
    return tuple(found)


def _question(row: Mapping[str, Any], where: str, number: int, source: str) -> Question:
    text = row.get("question", row.get("Question"))
    golden = golden_answers(row)
    if not isinstance(text, str) or not text.strip() or not golden:
        raise FormatError(f"{where}: fields {sorted(row)} with question {text!r}, expected a question and its answers.")
    row_id = next((row[key] for key in ("id", "_id", "question_id") if row.get(key) is not None), number)
    titles = row.get("supporting_titles") or []
    return Question(
        id=str(row_id),
        question=text.strip(),
        golden_answers=golden,
        data_source=ALIASES.get(str(row.get("data_source") or source), str(row.get("data_source") or source)),
        supporting_titles=tuple(str(title) for title in titles),
    )


def golden_answers(row: Mapping[str, Any]) -> tuple[str, ...]:
    """All accepted answers of a row, the main one first. Empty: it has none.

    Example: ``{"answer": "USA", "answer_aliases": ["United States"]}`` -> ``USA``, ``United States``
    """
    if row.get("golden_answers") is not None:
        found = _texts(row["golden_answers"])
    elif row.get("possible_answers") is not None:
        found = _texts(row["possible_answers"])
    else:
        found = _texts(row.get("answer", row.get("Answer"))) + _texts(row.get("answer_aliases"))
    return tuple(dict.fromkeys(text for text in found if text.strip()))


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        # popqa writes a list as a string.
        if value.startswith("["):
            try:
                return _texts(json.loads(value))
            except ValueError:
                return [value]
        return [value]
    if isinstance(value, Mapping):
        return _texts(value.get("value")) + _texts(value.get("aliases"))
    if isinstance(value, list | tuple):
        return [text for one in value for text in _texts(one)]
    return [] if value is None or isinstance(value, bool) else [str(value)]


def _rows(path: Path) -> Iterator[tuple[str, Any]]:
    if path.name.endswith(".parquet"):
        yield from ((f"{path}, row {number}", row) for number, row in enumerate(_parquet(path)))
    elif path.name.endswith(".json"):
        try:
            rows = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise FormatError(f"{path}: no JSON ({error}). One object a line needs the suffix .jsonl.") from error
        if not isinstance(rows, list):
            raise FormatError(f"{path}: {type(rows).__name__}, expected an array of questions.")
        yield from ((f"{path}, entry {number}", row) for number, row in enumerate(rows))
    else:
        yield from read_jsonl(path)


def _parquet(path: Path) -> list[dict[str, Any]]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingExtra(f"{path}: reading Parquet", "data") from None
    try:
        rows: list[dict[str, Any]] = pyarrow.parquet.read_table(path).to_pylist()
    except (OSError, pyarrow.ArrowException) as error:
        raise FormatError(f"{path}: cannot be read as Parquet ({error}).") from error
    return rows


def _source_in(path: Path) -> str:
    """The data set that the path names, innermost part first. Example: ``data/hotpotqa/dev.jsonl`` -> ``hotpotqa``"""
    for part in reversed(path.absolute().parts):
        stem = part.lower().partition(".")[0]
        for name in (*DATA_SETS, *ALIASES):
            if stem == name or stem.startswith((f"{name}_", f"{name}-")):
                return ALIASES.get(name, name)
    return path.name.partition(".")[0]
