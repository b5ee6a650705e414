"""What ms-swift learns from a row: neighbouring parts of a reply are one message, and the first one's flag rules."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tutelage.errors import FormatError
from tutelage.formats.reread_chat import Reading


def reread_swift(row: Mapping[str, Any]) -> Reading:
    """Assistant and tool_call messages that follow each other are joined. Without ``loss`` the message is trained."""
    messages: list[dict[str, Any]] = []
    trained: set[int] = set()
    for message in row["messages"]:
        role = message["role"]
        if role not in ("assistant", "tool_call"):
            if "loss" in message:
                raise FormatError(f"a message of role {role!r} with 'loss'; only assistants have one")
            messages.append({"role": "tool" if role == "tool_response" else role, "content": message["content"]})
            continue
        if not messages or messages[-1]["role"] != "assistant":
            messages.append({"role": "assistant", "content": None})
            if message.get("loss", True) is not False:
                trained.add(len(messages) - 1)
        joined = messages[-1]
        if role == "assistant":
            joined["content"] = (joined["content"] or "") + message["content"]
        else:
            call = json.loads(message["content"])
            arguments = json.dumps(call["arguments"], ensure_ascii=False)
            function = {"name": call["name"], "arguments": arguments}
            joined.setdefault("tool_calls", []).append({"type": "function", "function": function})
    return Reading(tuple(messages), frozenset(trained))
