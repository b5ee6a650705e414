"""ShareGPT: ``{"conversations": [{"from": "human", "value": "..."}, ...], "system": "...", "tools": "<JSON>"}``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tutelage.formats.base import ReadOptions, ReadProblem, Refused
from tutelage.formats.read_rows import read_rows, trajectory_of_row
from tutelage.types import Trajectory

NAME = "sharegpt"

_READS: Final = {"human": "user", "user": "user", "observation": "tool", "tool": "tool"}
_WRITES: Final = {"gpt": "assistant", "assistant": "assistant", "function_call": "assistant"}


def read_sharegpt(path: Path, options: ReadOptions = ReadOptions()) -> Iterator[Trajectory | ReadProblem]:
    """One trajectory for each row. Turns alternate: (human | observation), then (gpt | function_call); a row that does
    not is a problem, since its consumers would drop turns of it.

    A ``function_call`` holds ``{"name": ..., "arguments": ...}``, or a list of them, as JSON. The text stays in `raw`.
    """
    return read_rows(path, options, _trajectory)


def _trajectory(row: dict[str, Any], options: ReadOptions, path: Path, line: int) -> Trajectory:
    if "conversations" not in row:
        raise Refused("no_messages", f"keys {', '.join(sorted(map(str, row))[:8])}: expected 'conversations'")
    messages = messages_of_turns(row["conversations"], row.get("system"))
    return trajectory_of_row(row, messages, options, path, line, format_name=NAME)


def messages_of_turns(turns: Any, system: Any) -> list[dict[str, Any]]:
    """The turns as chat messages. Raises `Refused`.

    Example: human "list", function_call '{"name": "ls", "arguments": {}}', observation "a.py", gpt "a.py" ->
    user, assistant with one call, tool, assistant
    """
    if not isinstance(turns, list) or not all(isinstance(turn, dict) for turn in turns):
        raise Refused("no_messages", "conversations is no list of objects")
    if system is not None and not isinstance(system, str):
        raise Refused("bad_content", f"system is a {type(system).__name__}, expected text")
    messages: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
    turns = list(turns)
    if turns and turns[0].get("from") == "system":
        messages.append({**_others(turns[0]), "role": "system", "content": _value(turns[0], 0)})
        turns = turns[1:]
    for index, turn in enumerate(turns):
        author = turn.get("from")
        expected = _WRITES if index % 2 else _READS
        if not isinstance(author, str) or author not in {**_READS, **_WRITES}:
            raise Refused(
                "bad_role",
                f"turn {index}: from {str(author)[:40]!r}, expected one of: {', '.join({**_READS, **_WRITES})}",
            )
        if author not in expected:
            raise Refused("not_alternating", f"turn {index}: from {author!r}, expected one of: {', '.join(expected)}")
        messages.append({**_others(turn), **_message(author, _value(turn, index), index)})
    return messages


def _message(author: str, value: str, index: int) -> dict[str, Any]:
    if author != "function_call":
        return {"role": {**_READS, **_WRITES}[author], "content": value}
    try:
        calls = json.loads(value)
    except (ValueError, RecursionError):
        raise Refused("bad_call", f"turn {index}: function_call {value[:60]!r} is no JSON") from None
    calls = calls if isinstance(calls, list) else [calls]
    if not calls or not all(isinstance(call, dict) for call in calls):
        raise Refused("bad_call", f"turn {index}: function_call {value[:60]!r} is no object or list of objects")
    wrapped = [{"type": "function", "function": call} for call in calls]
    return {"role": "assistant", "content": None, "tool_calls": wrapped}


def _value(turn: dict[str, Any], index: int) -> str:
    value = turn.get("value")
    if not isinstance(value, str):
        raise Refused("bad_content", f"turn {index}: value is a {type(value).__name__}, expected text")
    return value


def _others(turn: dict[str, Any]) -> dict[str, Any]:
    """Keys beside author and text. Those that a chat message has for itself would be mistaken for its own."""
    return {key: value for key, value in turn.items() if key not in ("from", "value", "role", "content", "tool_calls")}
