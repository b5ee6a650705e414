"""Passages: what is searched. One JSON object a line, in a plain or a gzip file.

{"title": "Emma", "text": "Emma is a novel ..."}            the usual form; other fields are ignored
{"contents": "\"Emma\"\nEmma is a novel ..."}               title on the first line, then the text
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tutelage.errors import FormatError


@dataclass(frozen=True, slots=True)
class Passage:
    """One piece of text that a search can bring."""

    title: str
    text: str


def read_passages(path: str | Path) -> tuple[Passage, ...]:
    """The passages of a JSONL file (also ``.gz``), in its order. Raises FormatError with the line that does not fit."""
    path = Path(path)
    passages = tuple(passage_of(row, where) for where, row in read_jsonl(path))
    if not passages:
        raise FormatError(f"{path}: holds no passage, expected one JSON object a line with 'title' and 'text'.")
    return passages


def passage_of(row: Any, where: str) -> Passage:
    """The passage that a JSON value holds. `where` opens the message of a FormatError."""
    if isinstance(row, dict):
        if isinstance(row.get("text"), str) and isinstance(row.get("title", ""), str):
            return Passage(row.get("title", ""), row["text"])
        if isinstance(row.get("contents"), str):
            return split_contents(row["contents"])
    kind = sorted(row) if isinstance(row, dict) else type(row).__name__
    raise FormatError(
        f"{where}: {kind}, expected the strings 'title' and 'text', or 'contents' (title, newline, text)."
    )


def split_contents(contents: str) -> Passage:
    """Title on the first line, maybe in quotes, then the text. Example: ``"Emma"\\nA novel.`` -> (Emma, A novel.)"""
    title, _, text = contents.partition("\n")
    title = title.strip()
    if len(title) >= 2 and title[0] == title[-1] == '"':
        title = title[1:-1]
    return Passage(title, text)


def read_jsonl(path: Path) -> Iterator[tuple[str, Any]]:
    """(place for messages, JSON value) of every line that is not blank. Raises FormatError on what is no JSON."""
    try:
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    where = f"{path}, line {number}"
                    try:
                        yield where, json.loads(line)
                    except ValueError as error:
                        raise FormatError(f"{where}: no JSON ({error}).") from None
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise FormatError(f"{path}: cannot be read ({error}). Copy it anew, or mend the path.") from error


def content_hash(passages: Iterable[Passage]) -> str:
    """SHA-256 over titles and texts in order, 64 hex digits: equal for a plain and a gzip copy."""
    digest = hashlib.sha256()
    for passage in passages:
        digest.update(json.dumps([passage.title, passage.text]).encode())
    return digest.hexdigest()
