"""ms-swift rows: messages of the roles system, user, assistant, tool_call, tool_response, with ``loss`` on what the model says.

ms-swift joins neighbouring assistant and tool_call messages into one and takes the flag of the first, so that one action
(its text, then its calls) is one message to it, and two actions without an observation between them are too.
"""

from __future__ import annotations

import json
from typing import Any, Final

from tutelage.formats.base import Refused
from tutelage.formats.write_messages import Conversation, loads_object

_ROLES: Final = {"system": "system", "user": "user", "tool": "tool_response"}


def swift_row(conversation: Conversation) -> dict[str, Any]:
    """The row of a conversation; every part of an action carries the action's flag.

    Refused: two actions in a row (joined into one, whatever their flags), arguments that are no JSON object, reasoning
    beside the content, an empty reply, roles that ms-swift does not know.
    """
    messages: list[dict[str, Any]] = []
    for place, (message, weight) in enumerate(zip(conversation.messages, conversation.weights, strict=True)):
        if message["role"] != "assistant":
            if message["role"] not in _ROLES:
                raise Refused(
                    "unknown_role", f"message {place}: role {message['role']!r}, known are {', '.join(_ROLES)}"
                )
            messages.append({"role": _ROLES[message["role"]], "content": message["content"]})
            continue
        if place and conversation.messages[place - 1]["role"] == "assistant":
            same = (conversation.weights[place - 1] > 0.0) == (weight > 0.0)
            raise Refused(
                "consecutive_actions",
                f"messages {place - 1} and {place}: ms-swift joins them and takes the first one's flag"
                + ("" if same else ", and theirs differ"),
            )
        if "reasoning_content" in message:
            raise Refused("reasoning_content", f"message {place}: this format has no place for reasoning of its own")
        messages += [one | {"loss": weight > 0.0} for one in _parts(message, place)]
    tools = {"tools": json.dumps(list(conversation.tools), ensure_ascii=False)} if conversation.tools else {}
    return {"messages": messages} | tools


def _parts(message: dict[str, Any], place: int) -> list[dict[str, Any]]:
    parts = [{"role": "assistant", "content": message["content"]}] if message["content"] else []
    for call in message.get("tool_calls", ()):
        arguments = loads_object(call["function"]["arguments"])
        if arguments is None:
            raise Refused("arguments_not_json", f"message {place}: {call['function']['arguments'][:60]!r}")
        content = json.dumps({"name": call["function"]["name"], "arguments": arguments}, ensure_ascii=False)
        parts.append({"role": "tool_call", "content": content})
    if not parts:
        raise Refused("empty_reply", f"message {place}: ms-swift has no message without text")
    return parts
