"""Actions between tags of their own: `TagFormat`, `ThinkActionFormat`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from tutelage.envs.action_formats.base import (
    ACT,
    PLAIN_CALLS,
    Escape,
    after,
    as_text,
    check_writable,
    malformed,
    unwrapped,
    with_call,
)
from tutelage.types import Action, ParsedCall, ParseOutcome


@dataclass(frozen=True, kw_only=True)
class TagFormat:
    """Reasoning, then exactly one tagged action, e.g. ``... <search>who wrote Emma</search>``.

    Text after the first closing tag is ignored. Malformed: no tag, one that does not close, a second opening tag before
    the first closes, an empty one. Outer white space is no part of a content, so none can be said with it, and no empty
    one. A tag of the format that a content or a thought holds is written with a backslash, ``<\\/search>``.

    Example, tags ``{"search": "query", "answer": "text"}``:
      ``I must look. <search> Emma </search> and`` -> command ``<search>Emma</search>``, call ``search(query="Emma")``
    """

    tags: Mapping[str, str]
    """Tag -> the argument that its content becomes."""
    help: str
    name: str = "tags"
    boxed_as: str | None = None
    """A tag that the last ``\\boxed{...}`` of a reply without any tag stands for. None: a box means nothing."""
    descriptions: Mapping[str, str] = field(default_factory=dict)
    """Tag -> what it does, for a model that is given the tags as tools."""

    @cached_property
    def calls(self) -> Mapping[str, Sequence[str]]:
        return {tag: (argument,) for tag, argument in self.tags.items()}

    def apply(self, action: Action) -> Action:
        return with_call(action, self, self._read, self._command)

    def fit(self, call: ParsedCall) -> ParsedCall | None:
        """Values become text without outer white space."""
        if call.name not in self.tags or set(call.arguments) != {self.tags[call.name]}:
            return None
        content = (as_text(call.arguments[self.tags[call.name]]) or "").strip()
        return ParsedCall(name=call.name, arguments={self.tags[call.name]: content}) if content else None

    def write(self, call: ParsedCall, thought: str = "") -> str:
        check_writable(self, call)
        return after(self._escape.hide(thought), self._command(call))

    def thought(self, text: str) -> str:
        found = self._find(text)
        return unwrapped(text if found is None else self._escape.show(text[: found[2]]))

    def _command(self, call: ParsedCall) -> str:
        content = self._escape.hide(call.arguments[self.tags[call.name]])
        return f"<{call.name}>{content}</{call.name}>"

    def _read(self, text: str) -> ParsedCall | None:
        found = self._find(text)
        return None if found is None else ParsedCall(name=found[0], arguments={self.tags[found[0]]: found[1]})

    def _find(self, text: str) -> tuple[str, str, int] | None:
        """Tag, content, and where the action begins."""
        marks = list(self._marks.finditer(text))
        closing = next((index for index, mark in enumerate(marks) if mark[1]), None)
        if closing is None:
            return None if marks else self._boxed(text)
        # Exactly the opening tag of the same kind may stand before the first closing one.
        if closing != 1 or marks[0][2] != marks[1][2]:
            return None
        content = self._escape.show(text[marks[0].end() : marks[1].start()].strip())
        return (marks[0][2], content, marks[0].start()) if content else None

    def _boxed(self, text: str) -> tuple[str, str, int] | None:
        content = None if self.boxed_as is None else last_boxed(text)
        if self.boxed_as is None or content is None or not content.strip():
            return None
        return self.boxed_as, content.strip(), text.rfind("\\boxed{")

    @cached_property
    def _marks(self) -> re.Pattern[str]:
        return re.compile(rf"<(/?)({self._names})>")

    @cached_property
    def _escape(self) -> Escape:
        return Escape(rf"/?(?:{self._names})>")

    @property
    def _names(self) -> str:
        return "|".join(re.escape(tag) for tag in self.tags)


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


_ACTION_MARKS: Final = re.compile(r"<(/?)action>")
_ESCAPE_ACTION: Final = Escape(r"/?action>")
_ESCAPE_BOTH: Final = Escape(r"/?(?:action|think)>")
_THINKING: Final = re.compile(r"\s*<think>(.*?)</think>", re.DOTALL)

THINK_ACTION_HELP: Final = (
    "No action was found in that reply. Think in <think>...</think>, then give exactly one command in "
    "<action>...</action>."
)


@dataclass(frozen=True, kw_only=True)
class ThinkActionFormat:
    """Reasoning, then one plain command: ``<think>It is shut.</think><action>open fridge 1</action>``.

    For environments whose action is a text; the command is what stands in the tag, and there is no call. A thought that
    stands at the front and closes is only that, whatever tags it holds. Text after the closing tag is ignored. Malformed:
    no action, one that does not close, a second one that opens before, an empty one. Tags within a command or a thought
    are written with a backslash, ``<\\/action>``.

    As a call, a command is ``act(command=...)``.
    """

    help: str = THINK_ACTION_HELP
    name: str = "think_action"

    @property
    def calls(self) -> Mapping[str, Sequence[str]]:
        return PLAIN_CALLS

    def apply(self, action: Action) -> Action:
        if action.parse is ParseOutcome.MALFORMED or _read_already(action):
            return action
        if action.call is not None:
            call = self.fit(action.call)
            command = None if call is None else str(call.arguments["command"])
        else:
            found = self._find(action.text)
            command = None if found is None else found[0]
        return malformed(action) if command is None else replace(action, command=command, call=None)

    def fit(self, call: ParsedCall) -> ParsedCall | None:
        """Outer white space goes."""
        if call.name != ACT or set(call.arguments) != {"command"}:
            return None
        command = (as_text(call.arguments["command"]) or "").strip()
        return ParsedCall(name=ACT, arguments={"command": command}) if command else None

    def write(self, call: ParsedCall, thought: str = "") -> str:
        check_writable(self, call)
        said = f"<think>{_ESCAPE_BOTH.hide(unwrapped(thought))}</think>" if thought.strip() else ""
        return after(said, f"<action>{_ESCAPE_ACTION.hide(call.arguments['command'])}</action>")

    def thought(self, text: str) -> str:
        thinking = _THINKING.match(text)
        if thinking is not None:
            return _ESCAPE_BOTH.show(thinking[1]).strip()
        found = self._find(text)
        return unwrapped(text if found is None else _ESCAPE_BOTH.show(text[: found[1]]))

    def _find(self, text: str) -> tuple[str, int] | None:
        """The command, and where the action begins."""
        thinking = _THINKING.match(text)
        marks = list(_ACTION_MARKS.finditer(text, 0 if thinking is None else thinking.end()))
        if len(marks) < 2 or marks[0][1] or not marks[1][1]:
            return None
        command = _ESCAPE_ACTION.show(text[marks[0].end() : marks[1].start()].strip())
        return (command, marks[0].start()) if command else None


def _read_already(action: Action) -> bool:
    """Whether the command was read by somebody who knew where it is: a server's call, or an earlier reading."""
    return action.call is None and (action.raw is not None or (action.command or "").strip() != action.text.strip())
