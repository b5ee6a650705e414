"""Calls as XML: `FunctionFormat`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from tutelage.envs.action_formats.base import (
    Escape,
    after,
    as_text,
    check_writable,
    known_arguments,
    unwrapped,
)
from tutelage.envs.action_formats.calls import FormatOfCalls
from tutelage.types import ParsedCall

_OPENING: Final = re.compile(r"<function=([^<>\s]+)>")
_PARAMETER: Final = re.compile(r"<parameter=([^<>\s]+)>")
_SPACE: Final = re.compile(r"\s*")
_ESCAPE_VALUE: Final = Escape("/parameter>")
_ESCAPE_THOUGHT: Final = Escape("function=")


@dataclass(frozen=True, kw_only=True)
class FunctionFormat(FormatOfCalls):
    """Reasoning, then one call as XML: ``<function=bash><parameter=command>ls</parameter></function>``.

    One newline next to the tags inside a parameter belongs to the layout, all other white space to the value. Values are
    text. Text after the closing tag is ignored. Malformed: no call that closes, a tool or parameter that does not exist, a
    parameter twice. A closing tag that a value holds is written with a backslash, ``<\\/parameter>``, and so is
    ``<\\function=`` in a thought.
    """

    name: str = "functions"

    def fit(self, call: ParsedCall) -> ParsedCall | None:
        """Numbers and booleans become text; an argument that is null is left out."""
        if not known_arguments(self.tools, call):
            return None
        texts = {name: as_text(value) for name, value in call.arguments.items() if value is not None}
        arguments = {name: text for name, text in texts.items() if text is not None}
        return ParsedCall(name=call.name, arguments=arguments) if len(arguments) == len(texts) else None

    def write(self, call: ParsedCall, thought: str = "") -> str:
        check_writable(self, call)
        body = "".join(
            f"<parameter={name}>\n{_ESCAPE_VALUE.hide(value)}\n</parameter>\n" for name, value in call.arguments.items()
        )
        return after(_ESCAPE_THOUGHT.hide(thought), f"<function={call.name}>\n{body}</function>")

    def thought(self, text: str) -> str:
        opening = _OPENING.search(text)
        return unwrapped(text if opening is None else _ESCAPE_THOUGHT.show(text[: opening.start()]))

    def _find(self, text: str) -> ParsedCall | None:
        opening = _OPENING.search(text)
        if opening is None or opening[1] not in self.tools:
            return None
        arguments: dict[str, str] = {}
        position = opening.end()
        while True:
            space = _SPACE.match(text, position)
            position = position if space is None else space.end()
            if text.startswith("</function>", position):
                return ParsedCall(name=opening[1], arguments=arguments)
            parameter = _PARAMETER.match(text, position)
            end = -1 if parameter is None else text.find("</parameter>", parameter.end())
            if parameter is None or end < 0:
                return None
            name = parameter[1]
            if name in arguments or name not in self.tools[opening[1]]:
                return None
            value = text[parameter.end() : end].removeprefix("\n").removesuffix("\n")
            arguments[name] = _ESCAPE_VALUE.show(value)
            position = end + len("</parameter>")
