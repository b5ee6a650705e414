"""Rows of SWE-bench and SWE-smith, from JSON, JSON lines or Parquet.

The two look alike and mean opposite things: in SWE-bench `patch` is the repair and `test_patch` the hidden tests; in
SWE-smith `patch` makes the bug, so that the repair is its reverse. A file is read as one of the two only where its fields
leave no doubt, or where the caller says which it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tutelage.errors import ConfigError, FormatError, MissingExtra

KINDS: Final = ("swe_smith", "swe_bench")

NEEDED: Final = {
    "swe_smith": ("instance_id", "repo", "patch", "FAIL_TO_PASS", "PASS_TO_PASS"),
    "swe_bench": (
        "instance_id",
        "repo",
        "base_commit",
        "patch",
        "test_patch",
        "problem_statement",
        "FAIL_TO_PASS",
        "PASS_TO_PASS",
    ),
}
"""Fields that a row of each kind must have."""

MEANING: Final = {
    "swe_smith": "patch makes the bug, the repair is its reverse",
    "swe_bench": "patch is the repair, test_patch the hidden tests",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class SweRow:
    """One task of a benchmark."""

    instance_id: str
    repo: str
    statement: str
    commit: str | None
    image_name: str
    bug_patch: str
    fix_patch: str
    test_patch: str
    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class SweRows:
    """A file of rows, all of one kind."""

    path: Path
    kind: str
    rows: tuple[SweRow, ...]
    skipped: tuple[tuple[str, str], ...]
    """Instances left out, each with the reason."""

    def report(self) -> str:
        """What was read, in one line, e.g. ``2 rows of kind swe_smith (patch makes the bug, ...), 0 left out``."""
        return f"{len(self.rows)} rows of kind {self.kind} ({MEANING[self.kind]}), {len(self.skipped)} left out"


def read_rows(path: Path, kind: str | None = None) -> SweRows:
    """Read a file of rows. kind: what the rows are, where they do not tell it themselves.

    Rows whose tests are not ids of pytest are left out and counted.
    Raises FormatError for a file that cannot be read, ConfigError where the kind is unknown, unclear or mixed.
    """
    if kind is not None and kind not in KINDS:
        raise ConfigError.unknown("repo tasks: kind", kind, KINDS)
    raw = list(_raw_rows(path))
    if not raw:
        raise FormatError(f"{path}: no rows in it.")
    rows = []
    skipped = []
    kinds = {kind or kind_of(row, f"{path}, row {number}") for number, row in enumerate(raw, start=1)}
    if len(kinds) > 1:
        raise ConfigError(f"{path}: rows of both kinds, {' and '.join(sorted(kinds))}. Split the file.")
    found = kinds.pop()
    for number, row in enumerate(raw, start=1):
        one = _row(row, found, f"{path}, row {number}")
        reason = _why_not(one)
        if reason:
            skipped.append((one.instance_id, reason))
        else:
            rows.append(one)
    return SweRows(path=path, kind=found, rows=tuple(rows), skipped=tuple(skipped))


def kind_of(row: Mapping[str, Any], where: str = "row") -> str:
    """What a row is, by its fields. Raises ConfigError where they leave a doubt.

    ``test_patch`` and ``base_commit`` without ``image_name`` is SWE-bench; ``image_name`` without them is SWE-smith.
    """
    bench = {"test_patch", "base_commit"} & row.keys()
    if len(bench) == 2 and "image_name" not in row:
        return "swe_bench"
    if not bench and "image_name" in row:
        return "swe_smith"
    raise ConfigError(
        f"{where}: the fields {', '.join(sorted(row))} do not tell SWE-bench from SWE-smith.\n"
        "  Does 'patch' repair (kind='swe_bench') or make the bug (kind='swe_smith')? Give that kind."
    )


def _row(row: Mapping[str, Any], kind: str, where: str) -> SweRow:
    missing = [name for name in NEEDED[kind] if row.get(name) is None]
    if missing:
        raise FormatError(f"{where}: no {', '.join(missing)}; a row of kind {kind} needs {', '.join(NEEDED[kind])}.")
    smith = kind == "swe_smith"
    return SweRow(
        instance_id=str(row["instance_id"]),
        repo=str(row["repo"]),
        statement=str(row.get("problem_statement") or ""),
        commit=str(row["base_commit"]) if row.get("base_commit") else None,
        image_name=str(row.get("image_name") or ""),
        bug_patch=row["patch"] if smith else "",
        fix_patch="" if smith else row["patch"],
        test_patch=str(row.get("test_patch") or ""),
        fail_to_pass=_names(row["FAIL_TO_PASS"], f"{where}, FAIL_TO_PASS"),
        pass_to_pass=_names(row["PASS_TO_PASS"], f"{where}, PASS_TO_PASS"),
    )


def _names(value: Any, where: str) -> tuple[str, ...]:
    """A list of names, which may stand in a string as JSON."""
    try:
        found = json.loads(value) if isinstance(value, str) else list(value)
    except (ValueError, TypeError):
        found = None
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise FormatError(f"{where}: {str(value)[:60]!r}, expected a list of test ids, or one as JSON in a string.")
    return tuple(found)


def _why_not(row: SweRow) -> str:
    """Why a row cannot be played. Empty: it can."""
    if not row.fail_to_pass:
        return "no test that must pass"
    if not row.statement.strip():
        return "no problem statement"
    if not all(".py" in test.split("::")[0] for test in (*row.fail_to_pass, *row.pass_to_pass)):
        return "tests are not ids of pytest"
    return ""


def _raw_rows(path: Path) -> Iterable[Mapping[str, Any]]:
    if path.suffix == ".parquet":
        return _parquet(path)
    try:
        text = path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise FormatError(f"{path}: cannot be read ({error}). Expected JSON, JSON lines or Parquet.") from None
    try:
        # A file of one row is both JSON and JSON lines.
        whole = json.loads(text)
        rows = whole if isinstance(whole, list) else [whole]
    except ValueError:
        rows = [_line(line, path, number) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]
    if not all(isinstance(row, dict) for row in rows):
        raise FormatError(f"{path}: expected JSON objects, one per row.")
    return rows


def _line(line: str, path: Path, number: int) -> Any:
    try:
        return json.loads(line)
    except ValueError as error:
        raise FormatError(f"{path}, line {number}: not JSON ({error}).") from None


def _parquet(path: Path) -> list[dict[str, Any]]:
    try:
        import pyarrow.parquet
    except ImportError:
        raise MissingExtra("reading Parquet", "data") from None
    try:
        rows: list[dict[str, Any]] = pyarrow.parquet.read_table(path).to_pylist()
    except (OSError, pyarrow.ArrowInvalid) as error:
        raise FormatError(f"{path}: cannot be read as Parquet ({error}).") from None
    return rows
