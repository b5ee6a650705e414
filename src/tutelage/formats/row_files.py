"""Rows in files, written and read one after the other: JSON lines, Parquet, a `datasets` folder, a folder of documents."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final

import orjson

from tutelage.errors import ConfigError, MissingExtra

Row = dict[str, Any]

CHUNK: Final = 16
"""Rows that are read into memory at once."""

_GROUP_ROWS: Final = 1000
_GROUP_VALUES: Final = 1_000_000
"""Rows, and values in their lists, of a row group of Parquet: at either of them it is written out."""


class RowWriter:
    """Writes rows as they come. ``with RowWriter(path, "jsonl") as rows: rows.add(row)``

    `kind` is ``jsonl``, ``parquet``, ``datasets`` or ``folder`` (one JSON file per row, named by its place and its
    ``trajectory_id``). `schema`: the Arrow schema; None: every column is a list of int64.

    Raises MissingExtra without pyarrow or datasets.
    """

    def __init__(self, path: Path, kind: str, schema: Any = None) -> None:
        self._path = path
        self._kind = kind
        self._schema = schema
        self._count = 0
        self._waiting: list[Row] = []
        self._values = 0
        self._tables: list[Any] = []
        self._parquet: Any = None
        self._lines: IO[bytes] | None = None

    def __enter__(self) -> RowWriter:
        if self._kind == "jsonl":
            self._lines = open(self._path, "wb")
        elif self._kind == "folder":
            self._path.mkdir(parents=True)
        return self

    def add(self, row: Row) -> None:
        if self._lines is not None:
            self._lines.write(_line(row))
        elif self._kind == "folder":
            name = re.sub(r"[^A-Za-z0-9._-]+", "_", str(row["trajectory_id"]))[:100]
            data = json.dumps(row, ensure_ascii=False, indent=1)
            (self._path / f"{self._count:06d}.{name}.json").write_text(data + "\n", encoding="utf-8", newline="\n")
        else:
            self._waiting.append(row)
            self._values += sum(len(value) for value in row.values() if isinstance(value, list))
            if len(self._waiting) >= _GROUP_ROWS or self._values >= _GROUP_VALUES:
                self._flush()
        self._count += 1

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._lines is not None:
            self._lines.close()
        if kind is None and self._waiting:
            self._flush()
        if self._parquet is not None:
            self._parquet.close()
        if kind is None and self._tables:
            self._save_dataset()

    def _flush(self) -> None:
        table = arrow_table(self._waiting, self._schema)
        self._waiting, self._values = [], 0
        if self._kind == "datasets":
            self._tables.append(table)
            return
        if self._parquet is None:
            import pyarrow.parquet as parquet

            self._parquet = parquet.ParquetWriter(self._path, table.schema)
        self._parquet.write_table(table)

    def _save_dataset(self) -> None:
        import pyarrow

        try:
            from datasets import Dataset
        except ModuleNotFoundError as error:
            raise MissingExtra("a datasets folder", "trl") from error
        with quiet_datasets():
            Dataset(pyarrow.concat_tables(self._tables)).save_to_disk(str(self._path))


def iter_rows(path: Path, kind: str) -> Iterator[Row]:
    """The rows of a file as the consumer's own library gives them, a few at a time."""
    if kind == "jsonl":
        with open(path, "rb") as lines:
            for line in lines:
                yield json.loads(line)
    elif kind == "folder":
        for document in sorted(path.glob("*.json")):
            yield json.loads(document.read_text(encoding="utf-8"))
    elif kind == "parquet":
        import pyarrow.parquet as parquet

        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=CHUNK):
                yield from batch.to_pylist()
    else:
        from datasets import load_from_disk

        with quiet_datasets():
            yield from load_from_disk(str(path))


def read_rows(path: Path, kind: str) -> list[Row]:
    """All rows of a file."""
    return list(iter_rows(path, kind))


def arrow_table(rows: Sequence[Row], schema: Any = None) -> Any:
    """An Arrow table with declared types: a column of nulls or of empty lists would get a type that fits no other file."""
    try:
        import pyarrow
    except ModuleNotFoundError as error:
        raise MissingExtra("Parquet", "data") from error
    if schema is None:
        schema = pyarrow.schema([(name, pyarrow.list_(pyarrow.int64())) for name in rows[0]])
    return pyarrow.Table.from_pylist(list(rows), schema=schema)


def kind_of(out: Path, allowed: Sequence[str]) -> str:
    """Which kind of file a name asks for: ``.jsonl``, ``.parquet``, or no suffix for a folder.

    Raises ConfigError for one that the target does not write.
    """
    folder = "folder" if "folder" in allowed else "datasets"
    kind = {".jsonl": "jsonl", ".parquet": "parquet", "": folder}.get(out.suffix, out.suffix)
    if kind not in allowed:
        names = {"jsonl": "NAME.jsonl", "parquet": "NAME.parquet"}
        expected = " or ".join(names.get(one, "NAME (a folder)") for one in allowed)
        raise ConfigError(f"--out {out}: expected {expected} for this target.")
    return kind


class quiet_datasets:
    """Without the progress bars of `datasets`, as they were afterwards."""

    def __enter__(self) -> None:
        from datasets import are_progress_bars_disabled, disable_progress_bars

        self._were_off = are_progress_bars_disabled()
        disable_progress_bars()

    def __exit__(self, *_: object) -> None:
        from datasets import enable_progress_bars

        if not self._were_off:
            enable_progress_bars()


def _line(row: Row) -> bytes:
    try:
        return orjson.dumps(row) + b"\n"
    except TypeError:  # integers above 64 bits
        return json.dumps(row, ensure_ascii=False).encode() + b"\n"
