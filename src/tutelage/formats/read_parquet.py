"""Parquet data sets with a column `messages` (or `conversations`) and perhaps `tools`, as data-set hubs hold them.

Arrow gives every struct of a column the same keys: one that some row has stands in all rows, as null. Such nulls are taken
away where null can only mean absent (a message, a call, the frame of a tool). In arguments one stays if the tool's own
schema allows null there. Inside a JSON schema nothing is touched.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from tutelage.errors import MissingExtra
from tutelage.formats.base import ReadOptions, ReadProblem, Refused, item, json_from_bytes
from tutelage.formats.read_rows import tools_of, trajectory_of_row
from tutelage.formats.read_sharegpt import messages_of_turns
from tutelage.store import text_from_bytes
from tutelage.types import Trajectory

NAME = "parquet"

BATCH: Final = 256
"""Rows held in memory at a time."""

_FRAME: Final = ("type", "function", "name", "description", "parameters", "strict")


def read_parquet(path: Path, options: ReadOptions = ReadOptions()) -> Iterator[Trajectory | ReadProblem]:
    """One trajectory for each row. `messages` may be structs or a text of JSON, whichever type the column has.

    Raises `MissingExtra` without pyarrow.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingExtra("reading Parquet", "data") from None
    position = 0
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=BATCH):
                for row in batch.to_pylist():
                    position += 1
                    yield item(partial(_trajectory, row, options, path, position), path, line=position)
    except (pyarrow.ArrowException, OSError) as error:
        reason = "not_parquet" if position == 0 else "cut"
        yield Refused(reason, f"after {position} rows: {' '.join(str(error).split())[:200]}").at(path, byte=0)
        return
    if position == 0:
        yield Refused("empty", "no row in the file").at(path, byte=0)


def _trajectory(row: dict[str, Any], options: ReadOptions, path: Path, position: int) -> Trajectory:
    fit = {key: plain(value) for key, value in row.items() if value is not None}
    fit["tools"] = tools_of(fit["tools"]) if isinstance(fit.get("tools"), str) else _tools(fit.get("tools"))
    if "messages" in fit:
        messages = _parsed(fit["messages"], "messages")
        if isinstance(messages, list) and not isinstance(row["messages"], str | bytes):
            nullable = nullable_arguments(fit["tools"])
            messages = [_message(one, nullable) if isinstance(one, dict) else one for one in messages]
    elif "conversations" in fit:
        turns = _parsed(fit["conversations"], "conversations")
        if isinstance(turns, list):
            turns = [_without_nulls(turn) if isinstance(turn, dict) else turn for turn in turns]
        messages = messages_of_turns(turns, fit.get("system"))
    else:
        raise Refused("no_messages", f"columns {', '.join(sorted(row)[:12])}: expected 'messages' or 'conversations'")
    return trajectory_of_row(fit, messages, options, path, position, format_name=NAME)


def _parsed(value: Any, name: str) -> Any:
    """A column as it is, or the JSON in its text."""
    if not isinstance(value, str):
        return value
    try:
        return json_from_bytes(value.encode("utf-8", "surrogateescape"))
    except Refused as refused:
        raise Refused("bad_json", f"column '{name}': {refused.detail}") from None


def nullable_arguments(tools: list[Any] | None) -> frozenset[tuple[str, str]]:
    """(tool, argument) of each argument whose schema allows null."""
    found = set()
    for tool in tools or []:
        function = tool.get("function", tool) if isinstance(tool, dict) else None
        parameters = function.get("parameters") if isinstance(function, dict) else None
        properties = parameters.get("properties") if isinstance(parameters, dict) else None
        for name, schema in (properties or {}).items() if isinstance(properties, dict) else ():
            kinds = schema.get("type") if isinstance(schema, dict) else None
            if isinstance(schema, dict) and (
                schema.get("nullable") is True or kinds == "null" or "null" in _list(kinds)
            ):
                found.add((str(function.get("name")) if isinstance(function, dict) else "", name))
    return frozenset(found)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _message(message: dict[str, Any], nullable: frozenset[tuple[str, str]]) -> dict[str, Any]:
    """A message without the nulls of other rows. A content of null is said as null only beside calls."""
    fit = _without_nulls(message)
    calls = fit.get("tool_calls")
    if isinstance(calls, list):
        fit["tool_calls"] = [_call(call, nullable) if isinstance(call, dict) else call for call in calls]
    if "content" in message and message["content"] is None:
        fit["content"] = None
    if isinstance(fit.get("content"), list):
        fit["content"] = [_without_nulls(part) if isinstance(part, dict) else part for part in fit["content"]]
    return fit


def _call(call: dict[str, Any], nullable: frozenset[tuple[str, str]]) -> dict[str, Any]:
    fit = _without_nulls(call)
    function = fit.get("function")
    if isinstance(function, dict):
        fit["function"] = function = _without_nulls(function)
        arguments = function.get("arguments")
        if isinstance(arguments, dict):
            name = str(function.get("name"))
            function["arguments"] = {
                key: value for key, value in arguments.items() if value is not None or (name, key) in nullable
            }
    return fit


def _tools(tools: Any) -> Any:
    """Tool structs: nulls of the frame go, the schema under `parameters` stays as it is."""
    if not isinstance(tools, list):
        return tools
    return [_frame(tool) if isinstance(tool, dict) else tool for tool in tools]


def _frame(tool: dict[str, Any]) -> dict[str, Any]:
    fit = {key: value for key, value in tool.items() if value is not None or key not in _FRAME}
    if isinstance(fit.get("function"), dict):
        fit["function"] = _frame(fit["function"])
    return fit


def _without_nulls(value: Mapping[str, Any]) -> dict[str, Any]:
    return {key: one for key, one in value.items() if one is not None}


def plain(value: Any) -> Any:
    """An Arrow value as JSON values: bytes as text, dates and decimals by their name, pairs of a map as an object."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, bytes):
        return text_from_bytes(value)
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        if value and all(isinstance(one, tuple) and len(one) == 2 for one in value):
            return {str(key): plain(one) for key, one in value}
        return [plain(one) for one in value]
    return str(value)
