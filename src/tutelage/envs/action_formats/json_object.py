"""A reply that is one JSON object: `JsonFormat`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tutelage.envs.action_formats.base import (
    call_from,
    json_call,
    json_text,
    unwrapped,
)
from tutelage.envs.action_formats.calls import FormatOfCalls
from tutelage.types import ParsedCall

_FENCED: Final = re.compile(r"```(?:[ \t]*json)?[ \t]*\n(.*?)```", re.DOTALL | re.IGNORECASE)
_DECODER: Final = json.JSONDecoder()

_OPENING: Final = re.compile(r'\{(?=\s*["}])')
_MOST_TRIES: Final = 200
"""Braces of a text that may begin an object and do not."""


@dataclass(frozen=True, kw_only=True)
class JsonFormat(FormatOfCalls):
    """One JSON object: ``{"thought": "First look.", "name": "bash", "arguments": {"command": "ls"}}``.

    The object is the whole reply; or else stands in its only fenced block; or else is the last one in the text.
    ``arguments`` is an object, or a string that holds one. Values must be JSON scalars and keep their type. Malformed: no
    such object, a tool or argument that does not exist. Other keys are ignored.
    """

    name: str = "json"

    def write(self, call: ParsedCall, thought: str = "") -> str:
        said = {"thought": thought} if thought else {}
        return json_text(self, said | json_call(call, self))

    def thought(self, text: str) -> str:
        """The text before the object, then its `thought`."""
        found = object_in(text)
        return unwrapped(text) if found is None else thought_of(*found)

    def _find(self, text: str) -> ParsedCall | None:
        found = object_in(text)
        return None if found is None else call_from(self.tools, found[0])


def thought_of(value: Mapping[str, Any], before: str) -> str:
    """What an object and the text before it say besides the call."""
    inner = value.get("thought")
    parts = [unwrapped(before), inner.strip() if isinstance(inner, str) else ""]
    return "\n".join(part for part in parts if part)


def object_in(text: str) -> tuple[dict[str, Any], str] | None:
    """The JSON object of a reply, and the text before it."""
    fenced = list(_FENCED.finditer(text))
    places = [(text, "")]
    if len(fenced) == 1:
        places.append((fenced[0][1], text[: fenced[0].start()]))
    for place, before in places:
        try:
            found = json.loads(place)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict):
            return found, before
    return _last_object(text)


def _last_object(text: str) -> tuple[dict[str, Any], str] | None:
    """The last JSON object within a text that is part of no other, and the text before it."""
    last = None
    position = failed = 0
    # An object that does not close is read to the end of the text; one with very many of them is given up.
    while failed < _MOST_TRIES and (opening := _OPENING.search(text, position)) is not None:
        begin = opening.start()
        try:
            found, position = _DECODER.raw_decode(text, begin)
        except (ValueError, RecursionError):
            position = begin + 1
            failed += 1
        else:
            last = found, text[:begin]
    return last
