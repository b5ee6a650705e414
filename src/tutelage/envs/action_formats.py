"""How an action is read out of a reply, for environments whose actions have structure.

In: an action as its author wrote it. Out: the same action with `command`, `call` and `parse` filled. The text is kept:
it is what was said, and what is trained. Nothing readable in it is an outcome (`MALFORMED`), never an exception.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from tutelage.errors import ConfigError
from tutelage.types import Action, ParsedCall, ParseOutcome


class ActionFormat(Protocol):
    """One way to write actions as text."""

    @property
    def name(self) -> str:
        """Recorded in task settings, e.g. ``tags``."""
        ...

    @property
    def help(self) -> str:
        """The fixed sentence by which an environment answers a malformed action."""
        ...

    def apply(self, action: Action) -> Action:
        """The action as this format reads its text. One that carries a call, or is malformed already, stays as it is."""
        ...

    def write(self, call: ParsedCall, thought: str = "") -> str:
        """The reply that says `thought` and makes `call`; `apply` reads the same call out of it."""
        ...


def action_format_of(env: object) -> ActionFormat | None:
    """The attribute `action_format` of an environment. None: its actions are plain commands, read by itself."""
    found: ActionFormat | None = getattr(env, "action_format", None)
    return found


def action_of(action_format: ActionFormat, call: ParsedCall, thought: str = "") -> Action:
    """A clean action of a scripted author, written in a format.

    Raises ConfigError if the format cannot say this call, e.g. a query that holds a closing tag.
    """
    text = action_format.write(call, thought)
    action = action_format.apply(Action.of(text))
    if action.call != call:
        raise ConfigError(
            f"action format '{action_format.name}' cannot write {call}: it would be read as {action.call}."
        )
    return action


def command_of(call: ParsedCall) -> str:
    """One line that names a call: equal calls, equal lines. Example: ``bash {"command": "ls"}``"""
    return f"{call.name} {json.dumps(dict(call.arguments), sort_keys=True, ensure_ascii=False)}"


@dataclass(frozen=True, kw_only=True)
class TagFormat:
    """Reasoning, then exactly one tagged action, e.g. ``... <search>who wrote Emma</search>``.

    Text after the first closing tag is ignored. Malformed: no tag, one that does not close, a second opening tag before
    the first closes, an empty one.

    Example, tags ``{"search": "query", "answer": "text"}``:
      ``I must look. <search> Emma </search> and`` -> command ``<search>Emma</search>``, call ``search(query="Emma")``
    """

    tags: Mapping[str, str]
    """Tag -> the argument that its content becomes."""
    help: str
    name: str = "tags"
    boxed_as: str | None = None
    """A tag that the last ``\\boxed{...}`` of a reply without any tag stands for. None: a box means nothing."""

    def apply(self, action: Action) -> Action:
        if action.call is not None or action.parse is ParseOutcome.MALFORMED:
            return action
        found = self._find(action.text)
        if found is None:
            return malformed(action)
        tag, content = found
        call = ParsedCall(name=tag, arguments={self.tags[tag]: content})
        return replace(action, command=f"<{tag}>{content}</{tag}>", call=call)

    def write(self, call: ParsedCall, thought: str = "") -> str:
        if call.name not in self.tags or set(call.arguments) != {self.tags[call.name]}:
            raise ConfigError(f"action format '{self.name}': no call {call}; tags are {dict(self.tags)}.")
        content = call.arguments[self.tags[call.name]]
        return (
            f"{thought}\n<{call.name}>{content}</{call.name}>" if thought else f"<{call.name}>{content}</{call.name}>"
        )

    def _find(self, text: str) -> tuple[str, str] | None:
        names = "|".join(re.escape(tag) for tag in self.tags)
        marks = list(re.finditer(rf"<(/?)({names})>", text))
        closing = next((index for index, mark in enumerate(marks) if mark[1]), None)
        if closing is None:
            return None if marks else self._boxed(text)
        # Exactly the opening tag of the same kind may stand before the first closing one.
        if closing != 1 or marks[0][2] != marks[1][2]:
            return None
        content = text[marks[0].end() : marks[1].start()].strip()
        return (marks[0][2], content) if content else None

    def _boxed(self, text: str) -> tuple[str, str] | None:
        content = None if self.boxed_as is None else last_boxed(text)
        return (self.boxed_as, content.strip()) if self.boxed_as and content and content.strip() else None


def last_boxed(text: str) -> str | None:
    """What stands in the last ``\\boxed{...}``, braces inside matched. None: there is none that closes.

    Example: ``so \\boxed{\\frac{1}{2}}`` -> ``\\frac{1}{2}``
    """
    start = text.rfind("\\boxed{")
    if start < 0:
        return None
    begin = start + len("\\boxed{")
    depth = 1
    for index in range(begin, len(text)):
        depth += {"{": 1, "}": -1}.get(text[index], 0)
        if depth == 0:
            return text[begin:index]
    return None


@dataclass(frozen=True, kw_only=True)
class FunctionFormat:
    """Reasoning, then one call as XML: ``<function=bash><parameter=command>ls</parameter></function>``.

    One newline next to the tags inside a parameter belongs to the layout, all other white space to the value. Text after
    the closing tag is ignored. Malformed: no call that closes, a tool or parameter that does not exist, a parameter twice.
    """

    tools: Mapping[str, Sequence[str]]
    """Tool -> its parameters. Which of them a call needs is the environment's business."""
    help: str
    name: str = "functions"

    def apply(self, action: Action) -> Action:
        return _with_call(action, self._find)

    def write(self, call: ParsedCall, thought: str = "") -> str:
        body = "".join(f"<parameter={name}>\n{value}\n</parameter>\n" for name, value in call.arguments.items())
        return _after(thought, f"<function={call.name}>\n{body}</function>")

    def _find(self, text: str) -> ParsedCall | None:
        opening = re.search(r"<function=([^<>\s]+)>", text)
        if opening is None or opening[1] not in self.tools:
            return None
        arguments: dict[str, str] = {}
        position = opening.end()
        while True:
            position += len(text[position:]) - len(text[position:].lstrip())
            if text.startswith("</function>", position):
                return ParsedCall(name=opening[1], arguments=arguments)
            parameter = re.compile(r"<parameter=([^<>\s]+)>").match(text, position)
            end = -1 if parameter is None else text.find("</parameter>", parameter.end())
            if parameter is None or end < 0:
                return None
            name = parameter[1]
            if name in arguments or name not in self.tools[opening[1]]:
                return None
            arguments[name] = text[parameter.end() : end].removeprefix("\n").removesuffix("\n")
            position = end + len("</parameter>")


@dataclass(frozen=True, kw_only=True)
class ToolCallFormat:
    """Reasoning, then one native tool call: ``<tool_call>{"name": "bash", "arguments": {"command": "ls"}}</tool_call>``.

    ``arguments`` is an object, or a string that holds one (as some servers write it). Values must be JSON scalars. Text
    after the closing tag is ignored. Malformed: no call that closes, no JSON object, a tool or argument that does not
    exist.
    """

    tools: Mapping[str, Sequence[str]]
    """Tool -> its arguments."""
    help: str
    name: str = "tool_calls"

    def apply(self, action: Action) -> Action:
        return _with_call(action, self._find)

    def write(self, call: ParsedCall, thought: str = "") -> str:
        # `</` inside a string would close the call for a reader that looks for tags; JSON lets us spell it otherwise.
        body = json.dumps({"name": call.name, "arguments": dict(call.arguments)}, ensure_ascii=False)
        written = f"<tool_call>\n{body.replace('</', '<' + chr(92) + '/')}\n</tool_call>"
        return _after(thought, written)

    def _find(self, text: str) -> ParsedCall | None:
        begin = text.find("<tool_call>")
        end = text.find("</tool_call>", begin)
        if begin < 0 or end < 0:
            return None
        try:
            found: Any = json.loads(text[begin + len("<tool_call>") : end])
            arguments: Any = found["arguments"] if isinstance(found, dict) else None
            arguments = json.loads(arguments) if isinstance(arguments, str) else arguments
        except (ValueError, KeyError, RecursionError):
            return None
        name = found.get("name") if isinstance(found, dict) else None
        if not isinstance(arguments, dict) or not isinstance(name, str) or name not in self.tools:
            return None
        known = self.tools[name]
        if any(key not in known or isinstance(value, dict | list) for key, value in arguments.items()):
            return None
        return ParsedCall(name=name, arguments=arguments)


def malformed(action: Action) -> Action:
    """The action with nothing read out of it."""
    return replace(action, command=None, call=None, parse=ParseOutcome.MALFORMED)


def _with_call(action: Action, find: Callable[[str], ParsedCall | None]) -> Action:
    """The action with the call that `find` reads in its text, if it has none and is not malformed already."""
    if action.call is not None or action.parse is ParseOutcome.MALFORMED:
        return action
    call = find(action.text)
    return malformed(action) if call is None else replace(action, command=command_of(call), call=call)


def _after(thought: str, written: str) -> str:
    return f"{thought}\n{written}" if thought else written
