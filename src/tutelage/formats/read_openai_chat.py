"""OpenAI chat JSON lines (or a JSON array of rows): ``{"messages": [...], "tools": [...], ...}``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tutelage.formats.base import ReadOptions, ReadProblem, Refused
from tutelage.formats.read_rows import read_rows, trajectory_of_row
from tutelage.types import Trajectory

NAME = "openai_chat"


def read_openai_chat(path: Path, options: ReadOptions = ReadOptions()) -> Iterator[Trajectory | ReadProblem]:
    """One trajectory for each row. Arguments may be a string, an object or encoded twice; ``tool_calls`` absent, null or
    []; content a text, null or a list of text parts. Other keys of a message are kept, and none of them changes a mask.

    Example: ``system user assistant(call) tool assistant`` -> two steps, the tool message between them.
    """
    return read_rows(path, options, _trajectory)


def _trajectory(row: dict[str, Any], options: ReadOptions, path: Path, line: int) -> Trajectory:
    if "messages" not in row:
        raise Refused("no_messages", f"keys {', '.join(sorted(map(str, row))[:8])}: expected 'messages'")
    return trajectory_of_row(row, row["messages"], options, path, line, format_name=NAME)
