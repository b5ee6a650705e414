"""Parquet rows of `messages` and `tools` with declared types.

Arrow gives every row the keys and types of every other. So arguments and tool schemas are strings of JSON, and the keys of
a message are fixed: null means that the message has none.
"""

from __future__ import annotations

import json
from typing import Any

from tutelage.errors import MissingExtra
from tutelage.formats.write_chat import check_text
from tutelage.formats.write_messages import Conversation


def parquet_row(conversation: Conversation) -> dict[str, Any]:
    """One row. ``train`` on every message, and refused what is refused there, as in the `axolotl` target."""
    check_text(conversation)
    messages = [
        message | {"train": weight > 0.0}
        for message, weight in zip(conversation.messages, conversation.weights, strict=True)
    ]
    tools = json.dumps(list(conversation.tools), ensure_ascii=False) if conversation.tools else None
    return {"messages": messages, "tools": tools, "trajectory_id": conversation.trajectory_id}


def messages_schema() -> Any:
    """The Arrow schema of the rows. Raises MissingExtra without pyarrow."""
    try:
        import pyarrow as pa
    except ModuleNotFoundError as error:
        raise MissingExtra("Parquet", "data") from error
    function = pa.struct([("name", pa.string()), ("arguments", pa.string())])
    call = pa.struct([("id", pa.string()), ("type", pa.string()), ("function", function)])
    message = pa.struct(
        [
            ("role", pa.string()),
            ("content", pa.string()),
            ("name", pa.string()),
            ("tool_calls", pa.list_(call)),
            ("tool_call_id", pa.string()),
            ("reasoning_content", pa.string()),
            ("train", pa.bool_()),
        ]
    )
    return pa.schema([("messages", pa.list_(message)), ("tools", pa.string()), ("trajectory_id", pa.string())])
