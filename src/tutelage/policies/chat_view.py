"""A trajectory as chat messages, and an assistant message as an action: how a policy behind a chat server takes part.

In: the trajectory so far, whoever acted in it, and the format that the next author acts in. Out: messages in the shape
of OpenAI's chat. The history is rendered from parsed calls, never by reading text again, and only for the request:
the record keeps what each author wrote.

  native   the content is the reasoning, beside it one tool call ``call_{step}``; its answer has the role tool
  text     the action stands in the content, in `action_format`; what it is answered has the role user
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, Literal

from tutelage.envs.action_formats import ActionFormat, executed
from tutelage.envs.action_formats.base import PLAIN_CALLS, is_scalar, known_arguments
from tutelage.errors import ConfigError
from tutelage.types import Action, ParsedCall, ParseOutcome

Style = Literal["native", "text"]

STYLES: Final = ("native", "text")


def parse_chat_reply(
    message: Mapping[str, Any], *, style: Style, action_format: ActionFormat | None, env_format: ActionFormat | None
) -> Action:
    """The action in an assistant message from a server, as the environment executes it.

    native: the first of `tool_calls`, whose name and arguments must be of `env_format` (None: ``act(command)``). text: the
    content as `action_format` reads it (None: as `env_format` does, or the whole of it as command). The text of the action
    is the content; the message is kept in `raw`. What makes no action is `MALFORMED`, never an exception. A reply that was
    cut off reads like any other: whoever knows sets `ENDED_WITHOUT_STOP`.

    Example, native: ``{"content": null, "tool_calls": [{"id": "x", "type": "function", "function": {"name": "search",
    "arguments": "{\\"query\\": \\"Emma\\"}"}}]}`` -> text ``""``, call ``search(query="Emma")``
    """
    check_style(style)
    text = flat_text(message.get("content"))
    unread = Action(text=text, parse=ParseOutcome.MALFORMED)
    if style == "native":
        call = _first_call(message.get("tool_calls"), PLAIN_CALLS if env_format is None else env_format.calls)
        read = unread if call is None else executed(replace(unread, **_made(call)), env_format)
    else:
        command = text.strip()
        said = Action(text=text, command=command) if command else unread
        reader = action_format if action_format is not None else env_format
        read = said if reader is None else reader.apply(said)
        if reader is not env_format:
            read = executed(read, env_format)
    return replace(read, raw=dict(message))


def flat_text(content: object) -> str:
    """The text of a message's content: a string, null, or a list of parts, of which text parts are joined."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list | tuple):
        return ""
    texts = (part.get("text") if isinstance(part, Mapping) else part for part in content)
    return "".join(text for text in texts if isinstance(text, str))


def check_style(style: str) -> None:
    """Raise ConfigError for a style that there is not."""
    if style not in STYLES:
        raise ConfigError.unknown("chat messages: style", style, STYLES)


def _made(call: ParsedCall) -> dict[str, Any]:
    return {"call": call, "command": call.name, "parse": ParseOutcome.CLEAN}


def _first_call(tool_calls: object, calls: Mapping[str, Any]) -> ParsedCall | None:
    """The first call, its arguments an object, a JSON string, or a string of a string. None: there is none of `calls`."""
    if not isinstance(tool_calls, list | tuple) or not tool_calls:
        return None
    function = tool_calls[0].get("function") if isinstance(tool_calls[0], Mapping) else None
    if not isinstance(function, Mapping):
        return None
    name, arguments = function.get("name"), function.get("arguments")
    if not isinstance(name, str) or name not in calls:
        return None
    if not calls[name] and arguments in (None, ""):
        # Servers differ in how they say that a call has no arguments.
        arguments = {}
    for _ in range(2):
        arguments = _decoded(arguments)
    if not isinstance(arguments, Mapping):
        return None
    call = ParsedCall(name=name, arguments=dict(arguments))
    return call if known_arguments(calls, call) and all(map(is_scalar, arguments.values())) else None


def _decoded(arguments: object) -> object:
    if not isinstance(arguments, str):
        return arguments
    try:
        decoded: object = json.loads(arguments)
    except (ValueError, RecursionError):
        return None
    return decoded
