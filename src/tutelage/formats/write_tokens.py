"""Tokenised rows: the ids and the trained positions of samples, for trainers without a flag per message.

TRL reads `input_ids`, `labels`, `attention_mask`; verl's SFT reads `input_ids`, `attention_mask`, `position_ids`,
`loss_mask`. Files: JSON lines, Parquet with declared types, or a `datasets` folder.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import orjson

from tutelage.errors import ConfigError, MissingExtra
from tutelage.types import TrainingSample

IGNORED: Final = -100
"""The label of a token without loss."""


def trl_row(sample: TrainingSample) -> dict[str, list[int]]:
    """Example: ids 5 6 7 of which 7 is trained -> ``labels`` -100 -100 7."""
    pairs = zip(sample.token_ids, sample.loss_mask, strict=True)
    return {
        "input_ids": list(sample.token_ids),
        "labels": [token if trained else IGNORED for token, trained in pairs],
        "attention_mask": [1] * len(sample.token_ids),
    }


def verl_sft_row(sample: TrainingSample) -> dict[str, list[int]]:
    """The mask says which token is learnt, at that token's own position; verl shifts it with the ids.

    Example: ids 5 6 7 of which 7 is trained -> ``loss_mask`` 0 0 1, ``position_ids`` 0 1 2.
    """
    return {
        "input_ids": list(sample.token_ids),
        "attention_mask": [1] * len(sample.token_ids),
        "position_ids": list(range(len(sample.token_ids))),
        "loss_mask": [int(trained) for trained in sample.loss_mask],
    }


def write_rows(rows: Sequence[dict[str, Any]], path: Path, *, kind: str, schema: Any = None) -> None:
    """Write rows as ``jsonl``, ``parquet`` or ``datasets`` (a folder). `schema`: an Arrow schema; None: lists of int64.

    Raises MissingExtra without pyarrow or datasets.
    """
    if kind == "jsonl":
        path.write_bytes(b"".join(_line(row) for row in rows))
        return
    table = arrow_table(rows, schema)
    if kind == "parquet":
        import pyarrow.parquet as parquet

        parquet.write_table(table, path)
        return
    try:
        from datasets import Dataset
    except ModuleNotFoundError as error:
        raise MissingExtra("a datasets folder", "trl") from error
    with quiet_datasets():
        Dataset(table).save_to_disk(str(path))


def read_rows(path: Path, *, kind: str) -> list[dict[str, Any]]:
    """The rows of a file as the consumer's own library gives them."""
    if kind == "jsonl":
        return [json.loads(line) for line in path.read_bytes().split(b"\n") if line]
    if kind == "parquet":
        import pyarrow.parquet as parquet

        found: list[dict[str, Any]] = parquet.read_table(path).to_pylist()
        return found
    from datasets import load_from_disk

    with quiet_datasets():
        rows: list[dict[str, Any]] = load_from_disk(str(path)).to_list()
    return rows


def _line(row: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(row) + b"\n"
    except TypeError:  # integers above 64 bits
        return json.dumps(row, ensure_ascii=False).encode() + b"\n"


def arrow_table(rows: Sequence[dict[str, Any]], schema: Any = None) -> Any:
    """An Arrow table with declared types: a column of nulls or of empty lists would get a type that fits no other file."""
    try:
        import pyarrow
    except ModuleNotFoundError as error:
        raise MissingExtra("Parquet", "data") from error
    if schema is None:
        columns = rows[0].keys() if rows else ()
        schema = pyarrow.schema([(name, pyarrow.list_(pyarrow.int64())) for name in columns])
    return pyarrow.Table.from_pylist(list(rows), schema=schema)


def kind_of(out: Path, allowed: Sequence[str]) -> str:
    """Which kind of file a name asks for: ``.jsonl``, ``.parquet``, or no suffix for a folder.

    Raises ConfigError for one that the target does not write.
    """
    kind = {".jsonl": "jsonl", ".parquet": "parquet", "": "datasets"}.get(out.suffix, out.suffix)
    if kind not in allowed:
        names = {"jsonl": "NAME.jsonl", "parquet": "NAME.parquet", "datasets": "NAME (a folder)"}
        raise ConfigError(f"--out {out}: expected {' or '.join(names[one] for one in allowed)} for this target.")
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
