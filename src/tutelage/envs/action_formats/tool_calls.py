"""Calls as JSON between tags, as many chat models write them: `ToolCallFormat`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tutelage.envs.action_formats.base import (
    Escape,
    after,
    call_from,
    is_scalar,
    json_call,
    json_text,
    known_arguments,
    unwrapped,
    with_call,
)
from tutelage.types import Action, ParsedCall

_OPENING, _CLOSING = "<tool_call>", "</tool_call>"
_ESCAPE_THOUGHT: Final = Escape("/?tool_call>")


@dataclass(frozen=True, kw_only=True)
class ToolCallFormat:
    """Reasoning, then one native tool call: ``<tool_call>{"name": "bash", "arguments": {"command": "ls"}}</tool_call>``.

    ``arguments`` is an object, or a string that holds one (as some servers write it). Values must be JSON scalars and keep
    their type. Text after the closing tag is ignored. Malformed: no call that closes, no JSON object, a tool or argument
    that does not exist. The tag in a thought is written with a backslash, ``<\\tool_call>``.
    """

    tools: Mapping[str, Sequence[str]]
    """Tool -> its arguments."""
    help: str
    name: str = "tool_calls"
    descriptions: Mapping[str, str] = field(default_factory=dict)
    """Tool -> what it does, for a model that is given a list of tools."""

    @property
    def calls(self) -> Mapping[str, Sequence[str]]:
        return self.tools

    def apply(self, action: Action) -> Action:
        return with_call(action, self, self._find)

    def fit(self, call: ParsedCall) -> ParsedCall | None:
        known = known_arguments(self.tools, call) and all(map(is_scalar, call.arguments.values()))
        return call if known else None

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
