"""Rows of data sets: JSON lines, or one JSON array of rows. And what a row says beside its messages."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from tutelage.errors import FormatError
from tutelage.formats.base import (
    ReadOptions,
    ReadProblem,
    Refused,
    clean_json,
    clean_text,
    item,
    json_from_bytes,
    lines_of,
    shown,
    with_replaced,
)
from tutelage.formats.read_messages import reward_of, trajectory_of
from tutelage.store import from_json, to_json
from tutelage.types import StopReason, Trajectory

ID_KEYS: Final = ("trajectory_id", "traj_id", "id", "uuid", "instance_id", "task_id")
TASK_KEYS: Final = ("task_id", "instance_id")
REWARD_KEYS: Final = ("reward", "resolved")

OWN_KEY: Final = "tutelage"
"""Key of a row that we wrote: the fields of the trajectory that chat messages do not carry."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row, or why it is none."""

    value: Any
    line: int
    byte: int | None
    refused: Refused | None = None


def json_rows(path: Path) -> Iterator[Row]:
    """The rows of a file of JSON lines, or of one JSON array (position in place of the line)."""
    with open(path, "rb") as file:
        start = file.read(4096).removeprefix(b"\xef\xbb\xbf").lstrip()
    if start.startswith(b"["):
        try:
            rows = json_from_bytes(path.read_bytes())
        except Refused as refused:
            yield Row(None, 1, refused.byte, refused)
            return
        for position, value in enumerate(rows, start=1):
            yield Row(value, position, None)
        return
    nothing = True
    for line in lines_of(path):
        nothing = False
        try:
            yield Row(json_from_bytes(line.data), line.number, line.byte)
        except Refused as refused:
            torn = line.torn and refused.reason == "cut"
            reason, detail = (
                ("torn_line", "the last line has no end; its writer was stopped") if torn else _both(refused)
            )
            yield Row(None, line.number, line.byte, Refused(reason, detail, byte=line.byte + (refused.byte or 0)))
    if nothing:
        yield Row(None, 1, 0, Refused("empty", "no row in the file", byte=0))


def read_rows(
    path: Path, options: ReadOptions, make: Callable[[dict[str, Any], ReadOptions, Path, int], Trajectory]
) -> Iterator[Trajectory | ReadProblem]:
    """One trajectory or problem for each row."""
    for row in json_rows(path):
        yield item(partial(_made, row, options, path, make), path, line=row.line, byte=row.byte)


def _made(
    row: Row, options: ReadOptions, path: Path, make: Callable[[dict[str, Any], ReadOptions, Path, int], Trajectory]
) -> Trajectory:
    if row.refused is not None:
        raise row.refused
    if not isinstance(row.value, dict):
        raise Refused("not_object", f"the row is a {type(row.value).__name__}, expected an object")
    return make(row.value, options, path, row.line)


def _both(refused: Refused) -> tuple[str, str]:
    return refused.reason, refused.detail


def trajectory_of_row(
    row: Mapping[str, Any], messages: Any, options: ReadOptions, path: Path, line: int, *, format_name: str
) -> Trajectory:
    """A row and its messages as a trajectory. Other keys of the row stay in `info["row"]`.

    Identity: the first of ``trajectory_id, traj_id, id, uuid, instance_id, task_id`` that is there, else file and line.
    Reward: ``reward`` or ``resolved``, else None. Ending: ``stop_reason`` if it is one of ours, else completed.
    """
    others = {key: value for key, value in row.items() if key not in ("messages", "conversations", "system")}
    (fit, fit_messages), replaced = clean_json([others, messages])
    own = fit.pop(OWN_KEY, None)
    trajectory_id = _identity(fit, ID_KEYS) or f"{clean_text(path.stem)[0]}-{line}"
    rewards = [reward_of(fit[key], key) for key in REWARD_KEYS if key in fit]
    info: dict[str, Any] = {"source": {"format": format_name, "file": shown(path), "line": line}}
    tools = tools_of(fit.pop("tools", None))
    if tools is not None:
        info["tools"] = tools
    if isinstance(fit.get("model"), str):
        info["model"] = fit["model"]
    if fit:
        info["row"] = fit
    stated = fit.get("stop_reason")
    trajectory = trajectory_of(
        fit_messages,
        options,
        trajectory_id=trajectory_id,
        task_id=_identity(fit, TASK_KEYS) or trajectory_id,
        where=f"{path}, line {line}",
        info=with_replaced(info, replaced),
        row=fit,
        reward=next((one for one in rewards if one is not None), None),
        stop_reason=StopReason(stated) if stated in list(StopReason) else StopReason.COMPLETED,
    )
    return trajectory if own is None else overlaid(trajectory, own)


def overlaid(trajectory: Trajectory, fields: Any) -> Trajectory:
    """The trajectory with fields as `to_json` writes them. Raises `Refused` where they do not fit."""
    if not isinstance(fields, dict):
        raise Refused("bad_extra", f"{OWN_KEY} is a {type(fields).__name__}, expected an object")
    try:
        made: Trajectory = from_json("trajectory", {**to_json(trajectory), **fields})
    except FormatError as error:
        raise Refused("bad_extra", str(error)) from None
    return made


def tools_of(tools: Any) -> list[Any] | None:
    """The tool list of a row: a list, a string of JSON, null or absent. Raises `Refused` for anything else."""
    if isinstance(tools, str):
        if not tools.strip():
            return None
        try:
            tools = json.loads(tools)
        except (ValueError, RecursionError) as error:
            raise Refused("bad_tools", f"tools is a text that is no JSON: {error}") from None
    if tools is None or tools == []:
        return None
    if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
        raise Refused("bad_tools", f"tools is {str(tools)[:60]!r}, expected a list of objects or its JSON")
    found: list[Any] = clean_json(tools)[0]
    return found


def _identity(row: Mapping[str, Any], keys: tuple[str, ...]) -> str | None:
    for key in keys:
        value = row.get(key)
        if (isinstance(value, str) and value.strip()) or (isinstance(value, int) and not isinstance(value, bool)):
            return str(value)
    return None
