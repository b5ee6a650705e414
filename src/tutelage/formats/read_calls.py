"""Tool calls of foreign messages: what was called, and the one string that names its arguments.

`function.arguments` is a string of JSON in chat files. Some producers write an object, some encode it twice; all three are
read, and `Action.raw` holds the one string.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tutelage.formats.base import Refused, clean_json
from tutelage.types import ParsedCall


def call_of(tool_call: Any) -> ParsedCall | None:
    """The parsed call. None: the arguments are a text that holds no object, which is what the model wrote.

    Raises `Refused` ``bad_call`` where the file is at fault: no name, no arguments, arguments of another type.

    Example: ``call_of({"function": {"name": "ls", "arguments": "{\\"path\\": \\"/\\"}"}})`` -> ls(path="/")
    """
    name, arguments = _parts(tool_call)
    found = arguments_of(arguments)
    # A text of JSON may spell a lone surrogate or NUL in plain letters.
    return None if found is None else ParsedCall(name=name, arguments=clean_json(found)[0])


def arguments_of(arguments: Any) -> dict[str, Any] | None:
    """The argument map of an object, of a string of JSON, or of one that was encoded twice. None: there is none in it.

    An empty string means no arguments, as some servers write it.
    """
    for _ in range(3):
        if isinstance(arguments, dict):
            return arguments
        if not isinstance(arguments, str):
            return None
        if not arguments.strip():
            return {}
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            return None
    return arguments if isinstance(arguments, dict) else None


def wire_arguments(arguments: Any) -> str:
    """The string to write for arguments as they came: a string once encoded, never twice.

    Example: ``{"a": 1}``, ``'{"a": 1}'`` and ``'"{\\"a\\": 1}"'`` all give ``{"a": 1}``; a text that is no JSON stays.
    """
    if not isinstance(arguments, str):
        return json.dumps(arguments, ensure_ascii=False)
    text = arguments
    for _ in range(2):
        try:
            inner = json.loads(text)
        except (ValueError, RecursionError):
            break
        if not isinstance(inner, str):
            break
        text = inner
    return text


def wire_call(tool_call: Mapping[str, Any]) -> dict[str, Any]:
    """A tool call as chat files have it: name and arguments under `function`, the arguments as one string.

    Example: ``{"id": "1", "name": "ls", "arguments": {}}`` ->
    ``{"id": "1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}``
    """
    name, arguments = _parts(tool_call)
    inner = tool_call.get("function")
    function = dict(inner) if isinstance(inner, Mapping) else {}
    others = {key: one for key, one in tool_call.items() if inner is not None or key not in ("name", "arguments")}
    function |= {"name": name, "arguments": wire_arguments(arguments)}
    return {**others, "type": tool_call.get("type") or "function", "function": function}


def calls_of(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The tool calls of an assistant message; absent, null and [] all mean none. A `function_call` of old files is one.

    Raises `Refused` ``bad_call`` where they are no list of objects.
    """
    calls = message.get("tool_calls")
    if calls is None or calls == []:
        legacy = message.get("function_call")
        return [{"type": "function", "function": legacy}] if isinstance(legacy, dict) else []
    if not isinstance(calls, list) or not all(isinstance(one, dict) for one in calls):
        raise Refused("bad_call", f"tool_calls is {_shown(calls)}, expected a list of objects")
    return calls


def _parts(tool_call: Any) -> tuple[str, Any]:
    """Name and arguments as they came."""
    function = tool_call.get("function") if isinstance(tool_call, dict) else None
    # Some producers leave out the wrapper.
    function = tool_call if function is None and isinstance(tool_call, dict) and "name" in tool_call else function
    if not isinstance(function, dict):
        raise Refused("bad_call", f"call {_shown(tool_call)}: no function in it")
    name = function.get("name")
    if not isinstance(name, str) or not name.strip():
        raise Refused("bad_call", f"call {_shown(tool_call)}: no name, expected a text")
    arguments = function.get("arguments")
    if not isinstance(arguments, str | dict):
        raise Refused(
            "bad_call", f"call of {name}: arguments are {_shown(arguments)}, expected a string of JSON or an object"
        )
    return name, arguments


def _shown(value: Any) -> str:
    """A value, cut for a message."""
    text = "absent" if value is None else repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
