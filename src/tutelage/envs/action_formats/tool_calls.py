"""Calls as JSON between tags, as many chat models write them: `ToolCallFormat`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from tutelage.envs.action_formats.base import (
    Escape,
    after,
    call_from,
    json_call,
    json_text,
    unwrapped,
)
from tutelage.envs.action_formats.calls import FormatOfCalls
from tutelage.types import ParsedCall

_OPENING, _CLOSING = "<tool_call>", "</tool_call>"
_ESCAPE_THOUGHT: Final = Escape("/?tool_call>")


@dataclass(frozen=True, kw_only=True)
class ToolCallFormat(FormatOfCalls):
    """Reasoning, then one native tool call: ``<tool_call>{"name": "bash", "arguments": {"command": "ls"}}</tool_call>``.

    ``arguments`` is an object, or a string that holds one (as some servers write it). Values must be JSON scalars and keep
    their type. Text after the closing tag is ignored. Malformed: no call that closes, no JSON object, a tool or argument
    that does not exist. The tag in a thought is written with a backslash, ``<\\tool_call>``.
    """

    name: str = "tool_calls"

    def write(self, call: ParsedCall, thought: str = "") -> str:
        # `</` inside a string would close the call for a reader that looks for tags; JSON lets us spell it otherwise.
        body = json_text(self, json_call(call, self)).replace("</", "<\\/")
        return after(_ESCAPE_THOUGHT.hide(thought), f"{_OPENING}\n{body}\n{_CLOSING}")

    def thought(self, text: str) -> str:
        before, opening, _ = text.partition(_OPENING)
        return unwrapped(_ESCAPE_THOUGHT.show(before) if opening else text)

    def _find(self, text: str) -> ParsedCall | None:
        begin = text.find(_OPENING)
        end = text.find(_CLOSING, begin)
        if begin < 0 or end < 0:
            return None
        try:
            return call_from(self.tools, json.loads(text[begin + len(_OPENING) : end]))
        except (ValueError, RecursionError):
            return None
