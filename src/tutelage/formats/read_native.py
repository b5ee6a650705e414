"""Our own trajectories.jsonl: read line by line, so that one broken line costs one trajectory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from tutelage.errors import FormatError
from tutelage.formats.base import ReadOptions, ReadProblem, Refused, clean_json, item, with_replaced
from tutelage.formats.read_rows import Row, json_rows
from tutelage.store import from_json
from tutelage.types import SCHEMA_VERSION, Trajectory

NAME = "native"


def read_native(path: Path, options: ReadOptions = ReadOptions()) -> Iterator[Trajectory | ReadProblem]:
    """The trajectories as they were recorded; authors and rewards are in them. A newer schema is one problem."""
    for index, row in enumerate(json_rows(path)):
        if index == 0 and (refused := _header_refused(row)) is not None:
            yield refused.at(path, line=row.line, byte=row.byte)
            return
        if index > 0:
            yield item(partial(_trajectory, row, options), path, line=row.line, byte=row.byte)


def _header_refused(row: Row) -> Refused | None:
    if row.refused is not None:
        return row.refused
    header = row.value if isinstance(row.value, dict) else {}
    version = header.get("schema_version")
    if header.get("kind") != "trajectory" or not isinstance(version, int):
        return Refused("no_header", f"line 1 is {str(row.value)[:60]!r}, expected schema_version and kind trajectory")
    if version > SCHEMA_VERSION:
        return Refused("newer_schema", f"schema version {version}, this tutelage reads up to {SCHEMA_VERSION}")
    return None


def _trajectory(row: Row, options: ReadOptions) -> Trajectory:
    if row.refused is not None:
        raise row.refused
    value: Any = row.value
    clean, replaced = clean_json(value)
    try:
        made: Trajectory = from_json("trajectory", clean)
    except FormatError as error:
        raise Refused("bad_record", str(error)) from None
    if options.env is not None:
        made = replace(made, env=options.env)
    return replace(made, info=with_replaced(dict(made.info), replaced))
