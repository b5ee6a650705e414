"""One action, several formats: as it is said in another one, and as an environment executes it.

A conversion starts from the parsed call. Text is looked at again only for the reasoning before the call.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from tutelage.envs.action_formats.base import ACT, ActionFormat, call_of, malformed, unwrapped
from tutelage.envs.action_formats.json_object import object_in, thought_of
from tutelage.errors import ConfigError
from tutelage.types import Action, ParsedCall, ParseOutcome

_CALL_MARKS: Final = r"<function=|<tool_call>|<action>"


def text_in(action_format: ActionFormat | None, action: Action) -> str:
    """The text of an action in a format: its own if that reads as the same call, else written from call and reasoning.

    None, the format of plain commands: the command alone. A malformed action is the text that its author wrote.

    Raises ConfigError for a call that the format does not have.

    Example, a call ``search(query="Emma")`` that came from a server beside the content ``I look.``, in tags:
      ``I look.``, newline, ``<search>Emma</search>``
    """
    call = call_of(action)
    if call is None:
        return action.text
    if action_format is None:
        return str(action.command)
    if call.name not in action_format.calls and ACT in action_format.calls:
        call = ParsedCall(name=ACT, arguments={"command": action.command})
    fitting = action_format.fit(call)
    if fitting is None:
        raise ConfigError(
            f"action format '{action_format.name}' has no call for {call}. Its calls: {', '.join(action_format.calls)}."
        )
    if call_of(action_format.apply(Action.of(action.text))) == fitting:
        return action.text
    return action_format.write(fitting, reasoning_of(action))


def reasoning_of(action: Action, action_format: ActionFormat | None = None) -> str:
    """What an action says besides its call. `action_format`: the one that its text may be written in.

    Beside the calls of a server the whole text is reasoning; a bare command has none.
    """
    call = call_of(action)
    if call is None or _native(action):
        return unwrapped(action.text)
    if action_format is not None and call_of(action_format.apply(Action.of(action.text))) == call:
        return action_format.thought(action.text)
    tag = re.search(rf"{_CALL_MARKS}|<{re.escape(call.name)}>", action.text)
    if tag is not None:
        return unwrapped(action.text[: tag.start()])
    found = object_in(action.text)
    if found is not None and found[0].get("name") == call.name:
        return thought_of(*found)
    return _before_command(action)


def executed(action: Action, env_format: ActionFormat | None) -> Action:
    """The action as an environment of that format executes it: command and call in its terms, whoever wrote the text.

    None, the format of plain commands: the call ``act(command=...)`` becomes its command, any other is malformed.
    """
    if action.parse is ParseOutcome.MALFORMED:
        return action
    if env_format is None:
        return action if action.call is None else _plain(action)
    if action.call is not None or ACT in env_format.calls:
        return env_format.apply(action)
    # The command first: a policy with a format of its own has read it out of its text.
    for text in (str(action.command), action.text):
        read = env_format.apply(Action.of(text))
        if read.command is not None:
            return replace(action, command=read.command, call=read.call)
    return malformed(action)


def _plain(action: Action) -> Action:
    assert action.call is not None
    command = action.call.arguments.get("command")
    if action.call.name != ACT or not isinstance(command, str) or not command.strip():
        return malformed(action)
    return replace(action, command=command.strip(), call=None)


def _native(action: Action) -> bool:
    return isinstance(action.raw, Mapping) and bool(action.raw.get("tool_calls"))


def _before_command(action: Action) -> str:
    """A text without a mark of any format: what stands before the command where it ends with it, else all of it."""
    text, command = action.text.strip(), (action.command or "").strip()
    if text == command:
        return ""
    return unwrapped(text.removesuffix(command) if command else text)
