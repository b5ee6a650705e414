"""The text of an action in tokenised rows: as its author wrote it, native calls in a named style.

In: an action, perhaps with the raw message of a server or a file. Out: the text that the model is to write.
"""

from __future__ import annotations

import json
from typing import Final, Literal

from tutelage.formats.base import Refused
from tutelage.formats.write_messages import assistant_message, loads_object
from tutelage.types import Action

CallStyle = Literal["refuse", "tool_call"]
"""How native calls are written as text. ``tool_call``: one ``<tool_call>`` element with a JSON object per call."""

CALL_STYLES: Final = ("refuse", "tool_call")


def written_text(action: Action, calls: CallStyle = "refuse") -> str:
    """What the author wrote, then each native call; arguments are spelled as they came.

    Example, style ``tool_call``: text "I look.", one call of bash ->
      I look.
      <tool_call>
      {"name": "bash", "arguments": {"command": "ls"}}
      </tool_call>

    Raises Refused for native calls without a style, arguments that are no JSON object, and reasoning beside the text.
    """
    message = assistant_message(action)
    if "reasoning_content" in message:
        raise Refused("reasoning_content", "where a model writes its reasoning is its template's affair")
    written = message.get("tool_calls", ())
    if written and calls == "refuse":
        raise Refused(
            "native_calls", "which text stands for a call differs between models; name it with --calls tool_call"
        )
    parts = [message["content"]] if message["content"] else []
    for call in written:
        arguments = call["function"]["arguments"]
        if loads_object(arguments) is None:
            raise Refused("arguments_not_json", f"{arguments[:60]!r}")
        name = json.dumps(call["function"]["name"], ensure_ascii=False)
        parts.append(f'<tool_call>\n{{"name": {name}, "arguments": {arguments}}}\n</tool_call>')
    return "\n".join(parts)
