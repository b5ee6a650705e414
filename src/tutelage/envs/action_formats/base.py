"""What an action format is, and what the formats share."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol

from tutelage.errors import ConfigError
from tutelage.types import Action, ParsedCall, ParseOutcome

ACT: Final = "act"
"""The call that stands for a plain command, ``act(command=...)``, where a format needs calls."""

PLAIN_CALLS: Final[Mapping[str, tuple[str, ...]]] = {ACT: ("command",)}


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

    @property
    def calls(self) -> Mapping[str, Sequence[str]]:
        """Every call that can be made -> the names of its arguments."""
        ...

    def apply(self, action: Action) -> Action:
        """The action as this format reads its text. A malformed one stays as it is.

        One that carries a call keeps it, whatever its text is (its author may write in another format); it gets the
        command of this format, or is malformed where the call is none of this format's.
        """
        ...

    def fit(self, call: ParsedCall) -> ParsedCall | None:
        """The call as this format says it, e.g. a number as text. None: it has no such call."""
        ...

    def write(self, call: ParsedCall, thought: str = "") -> str:
        """The reply that says `thought` and makes `call`; `apply` reads the same call out of it.

        Raises ConfigError for a call that cannot be said exactly: one that `fit` would change.
        """
        ...

    def thought(self, text: str) -> str:
        """What a reply says before its call, without think tags around it. The whole of one that shows no call."""
        ...


def action_format_of(env: object) -> ActionFormat | None:
    """The attribute `action_format` of an environment. None: its actions are plain commands, read by itself."""
    found: ActionFormat | None = getattr(env, "action_format", None)
    return found


def action_of(action_format: ActionFormat, call: ParsedCall, thought: str = "") -> Action:
    """A clean action of a scripted author, written in a format.

    Raises ConfigError if the format cannot say this call, e.g. an empty query between tags.
    """
    text = action_format.write(call, thought)
    action = action_format.apply(Action.of(text))
    if call_of(action) != call:
        raise ConfigError(
            f"action format '{action_format.name}' cannot write {call}: it would be read as {action.call}."
        )
    return action


def call_of(action: Action) -> ParsedCall | None:
    """The call of an action, a plain command being ``act(command=...)``. None: it is malformed."""
    if action.call is not None or action.command is None:
        return action.call
    return ParsedCall(name=ACT, arguments={"command": action.command})


def command_of(call: ParsedCall) -> str:
    """One line that names a call: equal calls, equal lines. Example: ``bash {"command": "ls"}``"""
    return f"{call.name} {json.dumps(dict(call.arguments), sort_keys=True, ensure_ascii=False)}"


def malformed(action: Action) -> Action:
    """The action with nothing read out of it."""
    return replace(action, command=None, call=None, parse=ParseOutcome.MALFORMED)


def with_call(
    action: Action,
    action_format: ActionFormat,
    find: Callable[[str], ParsedCall | None],
    command: Callable[[ParsedCall], str] = command_of,
) -> Action:
    """The action with its own call, made to fit, or else the one that `find` reads in its text."""
    if action.parse is ParseOutcome.MALFORMED:
        return action
    call = find(action.text) if action.call is None else action_format.fit(action.call)
    return malformed(action) if call is None else replace(action, command=command(call), call=call)


def check_writable(action_format: ActionFormat, call: ParsedCall) -> None:
    """Raise ConfigError unless a format can say a call as it stands, types included."""
    fitting = action_format.fit(call)
    if fitting is not None and _typed(fitting) == _typed(call):
        return
    if fitting is None:
        known = ", ".join(f"{name}({', '.join(arguments)})" for name, arguments in action_format.calls.items())
        raise ConfigError(f"action format '{action_format.name}': no call {_shown(call)}. Calls: {known}.")
    raise ConfigError(
        f"action format '{action_format.name}' cannot write {call}: the nearest it can say is {fitting}. "
        "Write what `fit` gives."
    )


def is_scalar(value: object) -> bool:
    """Whether JSON says a value exactly, and it is no list or object."""
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, int):
        # Python refuses to write or read longer ones, of some 4,000 digits.
        return value.bit_length() <= 8192
    return value is None or isinstance(value, str)


def as_text(value: object) -> str | None:
    """A scalar as a format without types writes it: ``3``, ``true``. None: it is no scalar."""
    if isinstance(value, str):
        return value
    return json.dumps(value) if is_scalar(value) else None


def after(thought: str, written: str) -> str:
    """A thought on lines of its own, then the call."""
    return f"{thought}\n{written}" if thought else written


def unwrapped(thought: str) -> str:
    """A thought without the think tags around it. Example: ``<think>So.</think>`` -> ``So.``

    The opening one may be missing: some templates write it for the model.
    """
    thought = thought.strip()
    inner = thought.removesuffix("</think>")
    if len(inner) < len(thought):
        inner = inner.removeprefix("<think>")
    return thought if "<think>" in inner else inner.strip()


class Escape:
    """Writes marks of a format that stand in a text so that they are not read as marks: one backslash after ``<``.

    Example, marks ``/parameter>``: ``a</parameter>b`` <-> ``a<\\/parameter>b``, ``<\\/parameter>`` <-> ``<\\\\/parameter>``.
    Every text comes back as it was; texts without marks are not changed.
    """

    def __init__(self, marks: str) -> None:
        """`marks`: a pattern of what follows ``<``."""
        self._plain = re.compile(rf"<(\\*)({marks})")
        self._escaped = re.compile(rf"<\\(\\*)({marks})")

    def hide(self, text: str) -> str:
        return self._plain.sub(r"<\\\1\2", text)

    def show(self, text: str) -> str:
        return self._escaped.sub(r"<\1\2", text)


def known_arguments(calls: Mapping[str, Sequence[str]], call: ParsedCall) -> bool:
    """Whether a call is in a list of calls, with no argument that it does not have."""
    return call.name in calls and all(name in calls[call.name] for name in call.arguments)


def call_from(calls: Mapping[str, Sequence[str]], found: Any) -> ParsedCall | None:
    """The call that a JSON value makes: an object with `name` and `arguments`, those an object or a string of one.

    None: it makes no call that is in the list, or one with values that are no scalars.
    """
    if not isinstance(found, dict):
        return None
    name, arguments = found.get("name"), found.get("arguments")
    try:
        arguments = json.loads(arguments) if isinstance(arguments, str) else arguments
    except (ValueError, RecursionError):
        return None
    if not isinstance(name, str) or not isinstance(arguments, dict):
        return None
    call = ParsedCall(name=name, arguments=arguments)
    return call if known_arguments(calls, call) and all(map(is_scalar, arguments.values())) else None


def json_call(call: ParsedCall, action_format: ActionFormat) -> dict[str, Any]:
    """A call as a JSON object. Raises ConfigError where it cannot be said."""
    check_writable(action_format, call)
    return {"name": call.name, "arguments": dict(call.arguments)}


def json_text(action_format: ActionFormat, value: object) -> str:
    """JSON in one line. Raises ConfigError for numbers that are too long to be written."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError as error:
        raise ConfigError(f"action format '{action_format.name}': {error}") from None


def _shown(call: ParsedCall) -> str:
    try:
        return str(call)
    except ValueError:  # an integer too long to be written
        return call.name


def _typed(call: ParsedCall) -> tuple[str, dict[str, tuple[type, Any]]]:
    """Without the types, 1 and True would be equal."""
    return call.name, {name: (type(value), value) for name, value in call.arguments.items()}
