"""ShareGPT rows: `conversations` of `from` and `value`, strictly in turns, with `system` and `tools` as strings beside them.

The format has no flag. A plain consumer trains every turn of the model, so `sharegpt` takes only conversations in which
all are trained. LLaMA-Factory can mask the history, so `llama_factory` writes one row per trained turn.
"""

from __future__ import annotations

import json
from typing import Any, Final

from tutelage.formats.base import Refused
from tutelage.formats.write_messages import Conversation, loads_object

_OBSERVERS: Final = {"user": "human", "tool": "observation"}


def sharegpt_rows(conversation: Conversation) -> list[tuple[dict[str, Any], Conversation]]:
    """One row, with every turn of the model trained.

    Refused: a turn that is not trained, several calls in one turn, and what `_turns` refuses.
    """
    for index, message in enumerate(conversation.messages):
        if message["role"] != "assistant":
            continue
        if index not in conversation.trained:
            raise Refused(
                "untrained_turn", f"message {index}: ShareGPT has no flag, every turn of the model would be trained"
            )
        if len(message.get("tool_calls", ())) > 1:
            raise Refused("several_calls", f"message {index}: a ShareGPT turn holds one call")
    return [(_row(conversation), conversation)]


def llama_factory_rows(conversation: Conversation) -> list[tuple[dict[str, Any], Conversation]]:
    """One row per trained turn, which stands last in it; ``mask_history: true`` leaves the turns before it untrained."""
    parts = [conversation.until(index) for index in sorted(conversation.trained)]
    return [(_row(part), part) for part in parts]


LLAMA_FACTORY_CONFIG = """\
# dataset_info.json
{{
  "{name}": {{
    "file_name": "{path}",
    "formatting": "sharegpt",
    "columns": {{"messages": "conversations", "system": "system", "tools": "tools"}}
  }}
}}
# training configuration: each row trains its last turn, and only that
dataset: {name}
mask_history: true
train_on_prompt: false
cutoff_len: a number above the longest row, for LLaMA-Factory cuts what is longer
"""
"""What a LLaMA-Factory user sets, or every turn would be trained again in every row."""


def _row(conversation: Conversation) -> dict[str, Any]:
    messages = list(conversation.messages)
    system = ""
    if messages[0]["role"] == "system":
        system = messages.pop(0)["content"]
    first = len(conversation.messages) - len(messages)
    turns = [_turn(message, first + place) for place, message in enumerate(messages)]
    for place, turn in enumerate(turns):
        expected = ("human", "observation") if place % 2 == 0 else ("gpt", "function_call")
        if turn["from"] not in expected:
            raise Refused(
                "not_alternating",
                f"message {first + place}: '{turn['from']}' where {' or '.join(expected)} has its turn; "
                "--merge join joins neighbouring messages of one role",
            )
    tools = json.dumps(list(conversation.tools), ensure_ascii=False) if conversation.tools else ""
    return {"conversations": turns, "system": system, "tools": tools}


def _turn(message: dict[str, Any], place: int) -> dict[str, str]:
    if message["role"] != "assistant":
        if message["role"] not in _OBSERVERS:
            raise Refused(
                "unknown_role", f"message {place}: role {message['role']!r} has no place inside a conversation"
            )
        return {"from": _OBSERVERS[message["role"]], "value": message["content"]}
    if "reasoning_content" in message:
        raise Refused("reasoning_content", f"message {place}: this format has no place for reasoning of its own")
    calls = message.get("tool_calls")
    if not calls:
        return {"from": "gpt", "value": message["content"]}
    if message["content"]:
        raise Refused("text_beside_a_call", f"message {place}: a turn is a text or a call, never both")
    written = []
    for call in calls:
        arguments = loads_object(call["function"]["arguments"])
        if arguments is None:
            raise Refused("arguments_not_json", f"message {place}: {call['function']['arguments'][:60]!r}")
        written.append({"name": call["function"]["name"], "arguments": arguments})
    return {
        "from": "function_call",
        "value": json.dumps(written[0] if len(written) == 1 else written, ensure_ascii=False),
    }
