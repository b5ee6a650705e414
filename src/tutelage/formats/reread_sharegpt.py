"""What a consumer of ShareGPT rows learns: turns that do not take turns are dropped, flags do not exist."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from tutelage.errors import FormatError
from tutelage.formats.reread_chat import Reading

_ODD: Final = ("human", "observation")
_EVEN: Final = ("gpt", "function_call")


def reread_sharegpt(row: Mapping[str, Any]) -> Reading:
    """Every turn of the model is trained."""
    messages = _messages(row)
    return Reading(messages, frozenset(index for index, one in enumerate(messages) if one["role"] == "assistant"))


def reread_llama_factory(row: Mapping[str, Any]) -> Reading:
    """With ``mask_history``: only the last turn of a row is trained."""
    messages = _messages(row)
    return Reading(messages, frozenset([len(messages) - 1]))


def _messages(row: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
    turns = row["conversations"]
    if len(turns) % 2:
        raise FormatError(f"{len(turns)} turns, expected an even number; LLaMA-Factory drops such a row")
    messages: list[dict[str, Any]] = [{"role": "system", "content": row["system"]}] if row["system"] else []
    for place, turn in enumerate(turns):
        if turn["from"] not in (_EVEN if place % 2 else _ODD):
            raise FormatError(f"turn {place} is from {turn['from']!r}, out of turn; LLaMA-Factory drops such a row")
        messages.append(_message(turn))
    return tuple(messages)


def _message(turn: Mapping[str, str]) -> dict[str, Any]:
    if turn["from"] != "function_call":
        roles = {"human": "user", "observation": "tool", "gpt": "assistant"}
        return {"role": roles[turn["from"]], "content": turn["value"]}
    found = json.loads(turn["value"])
    calls = [
        {
            "type": "function",
            "function": {"name": one["name"], "arguments": json.dumps(one["arguments"], ensure_ascii=False)},
        }
        for one in (found if isinstance(found, list) else [found])
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}
