"""A trajectory as chat messages, and an assistant message as an action: how a policy behind a chat server takes part.

In: the trajectory so far, whoever acted in it, and the format that the next author acts in. Out: messages in the shape
of OpenAI's chat. The history is rendered from parsed calls, never by reading text again, and only for the request:
the record keeps what each author wrote.

  native   the content is the reasoning, beside it one tool call ``call_{step}``; its answer has the role tool
  text     the action stands in the content, in the author's action format; what it is answered has the role user
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from tutelage.envs.action_formats import ActionFormat, call_of, executed, reasoning_of
from tutelage.envs.action_formats import text_in as text_in
from tutelage.envs.action_formats.base import PLAIN_CALLS, is_scalar, known_arguments
from tutelage.envs.instructions import instructions_for
from tutelage.envs.registry import action_format_for
from tutelage.errors import ConfigError
from tutelage.policies.base import PartialTrajectory
from tutelage.rendering.context import ContextRule, Full
from tutelage.types import Action, Actor, Message, Observation, ParsedCall, ParseOutcome, Step, Task

Style = Literal["native", "text"]

STYLES: Final = ("native", "text")

ChatMessage = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class ChatView:
    """How one policy behind a chat server sees an episode and is understood, whatever the environment.

    Example: ``ChatView(style="native")`` for an expert with tools, ``ChatView()`` for a student with the environment's tags.
    """

    style: Style = "text"
    action_format: ActionFormat | None = None
    """In which it writes its actions, of the style ``text``. None: the environment's own."""
    instructions: str | None = None
    """The system message. None: what the environment says to a player of this style."""
    announce: str | None = None
    """A sentence that tells it, with the task, that a student has acted before. None: nothing tells it."""
    context_rule: ContextRule = field(default_factory=Full)

    def __post_init__(self) -> None:
        check_style(self.style)

    def messages(self, so_far: PartialTrajectory) -> list[ChatMessage]:
        """What is sent before the next action."""
        instructions = self.instructions
        if instructions is None:
            instructions = instructions_for(so_far.task, style=self.style, action_format=self.action_format)
        return chat_messages(
            so_far,
            style=self.style,
            action_format=self.action_format,
            env_format=action_format_for(so_far.task),
            instructions=instructions,
            announce=self.announce,
            context_rule=self.context_rule,
        )

    def tools(self, task: Task) -> list[dict[str, Any]] | None:
        """The tool list that is sent. None: no tools, since actions are text."""
        return tool_schemas(action_format_for(task)) if self.style == "native" else None

    def read(self, message: Mapping[str, Any], task: Task) -> Action:
        """The action in the assistant message that came back; see `parse_chat_reply`."""
        return parse_chat_reply(
            message, style=self.style, action_format=self.action_format, env_format=action_format_for(task)
        )


def chat_messages(
    so_far: PartialTrajectory,
    *,
    style: Style,
    action_format: ActionFormat | None = None,
    env_format: ActionFormat | None = None,
    instructions: str | None = None,
    announce: str | None = None,
    context_rule: ContextRule = Full(),
) -> list[ChatMessage]:
    """The messages before the next action, its author acting in a style; see `episode_messages`.

    `announce` ends the first user message once a student's step stands in the history.
    """
    observation = so_far.observation
    handed_over = any(step.actor is Actor.STUDENT for step in so_far.steps)
    return episode_messages(
        so_far.steps,
        observation,
        style=style,
        action_format=action_format,
        env_format=env_format,
        instructions=instructions,
        announce=announce if handed_over else None,
        context_rule=context_rule,
    )


def episode_messages(
    steps: Sequence[Step],
    observation: Observation | None,
    *,
    style: Style,
    action_format: ActionFormat | None = None,
    env_format: ActionFormat | None = None,
    instructions: str | None = None,
    announce: str | None = None,
    context_rule: ContextRule = Full(),
) -> list[ChatMessage]:
    """Steps and the observation that follows them (None: the last action ends the list) as messages.

    `action_format`: how actions are written in the style text; None: as `env_format` does, and where that is None too, as
    the bare command. `instructions` become the only system message. Keys of foreign messages are left out; a
    ``tool_call_id`` decides which call a message answers, and is written anew.

    Raises ConfigError where a call cannot be said in the action format.

    Example, native, one step ``I look. <search>Emma</search>``:
      system, user (task), assistant ``I look.`` with ``call_0`` search {"query": "Emma"}, tool ``call_0`` (passages)
    """
    check_style(style)
    seen = [step.observation for step in steps]
    shown = context_rule.observations(seen if observation is None else [*seen, observation])
    kept = [index for index, one in enumerate(shown) if one is not None]
    messages: list[ChatMessage] = [] if instructions is None else [{"role": "system", "content": instructions}]
    pending: dict[str, str | None] = {}
    for place, index in enumerate(kept):
        one = shown[index]
        assert one is not None
        if index == 0:
            messages += _opening(one, instructions is not None, announce)
        else:
            messages += _answered(one, pending)
        if index == len(steps):
            break
        answer = shown[kept[place + 1]] if place + 1 < len(kept) else None
        if style == "native":
            message, pending = _native(index, steps[index].action, env_format, answer)
        else:
            chosen = action_format if action_format is not None else env_format
            message = {"role": "assistant", "content": text_in(chosen, steps[index].action)}
        messages.append(message)
    return messages


def tool_schemas(action_format: ActionFormat | None) -> list[dict[str, Any]]:
    """The calls of a format as OpenAI's list of tools; all arguments are text. None: ``act(command)`` for plain commands."""
    calls = PLAIN_CALLS if action_format is None else action_format.calls
    described: Mapping[str, str] = getattr(action_format, "descriptions", {}) or _PLAIN_DESCRIPTION
    return [_tool(name, arguments, described.get(name)) for name, arguments in calls.items()]


_PLAIN_DESCRIPTION: Final = {"act": "Give one command to the environment."}


def _tool(name: str, arguments: Sequence[str], description: str | None) -> dict[str, Any]:
    parameters = {
        "type": "object",
        "properties": {argument: {"type": "string"} for argument in arguments},
        # Which of several a call needs is the environment's business.
        "required": list(arguments) if len(arguments) == 1 else [],
        "additionalProperties": False,
    }
    function = {"name": name, "parameters": parameters} | ({"description": description} if description else {})
    return {"type": "function", "function": function}


# Observations


def _opening(observation: Observation, instructed: bool, announce: str | None) -> list[ChatMessage]:
    """The messages that state the task. A system message in it is another author's if there are instructions."""
    messages = [message for message in observation.messages if not (instructed and message.role == "system")]
    opening = _merged(
        [
            _plain(message, keep=("system", "assistant") if index == 0 else ("assistant",))
            for index, message in enumerate(messages)
        ]
    )
    if announce is not None:
        last = next((message for message in reversed(opening) if message["role"] == "user"), None)
        if last is None:
            return [*opening, {"role": "user", "content": announce}]
        last["content"] = f"{last['content']}\n\n{announce}"
    return opening


def _answered(observation: Observation, pending: Mapping[str, str | None]) -> list[ChatMessage]:
    """The messages after an action: first an answer to each call that is pending, then the others as the user's.

    `pending`: id of each call as written -> its id in the file that it came from.
    """
    rest = list(observation.messages)
    answers: list[ChatMessage] = []
    for call_id, foreign_id in pending.items():
        message = _answer_to(foreign_id, rest)
        if message is not None:
            rest.remove(message)
        answers.append({"role": "tool", "tool_call_id": call_id, "content": "" if message is None else message.content})
    return [*answers, *_merged([_plain(message, keep=("assistant",)) for message in rest])]


def _answer_to(foreign_id: str | None, messages: Sequence[Message]) -> Message | None:
    """The message that names a call, else the first of a tool that names none, else the first that is not the system's."""
    tools = [message for message in messages if message.role == "tool"]
    named = [one for one in tools if foreign_id is not None and one.extra.get("tool_call_id") == foreign_id]
    others = [message for message in messages if message.role in ("tool", "user")]
    return next(iter([*named, *tools, *others]), None)


def _plain(message: Message, keep: Sequence[str]) -> ChatMessage:
    """Without keys beyond role and content; roles that have no place there are the user's."""
    return {"role": message.role if message.role in keep else "user", "content": message.content}


def _merged(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    """Neighbours of the role user as one, with a newline between: many templates want roles that take turns."""
    merged: list[ChatMessage] = []
    for message in messages:
        if merged and merged[-1]["role"] == message["role"] == "user":
            merged[-1] = {"role": "user", "content": f"{merged[-1]['content']}\n{message['content']}"}
        else:
            merged.append(message)
    return merged


# Actions


def _native(
    step_index: int, action: Action, env_format: ActionFormat | None, answer: Observation | None
) -> tuple[ChatMessage, dict[str, str | None]]:
    """The assistant message, and its call ids -> those of the file or server that it came from.

    Of several calls in one message the first was executed; the others are shown where the next observation answers them.
    """
    call = call_of(action)
    if call is None:
        return {"role": "assistant", "content": _unread(action)}, {}
    foreign = _foreign_calls(action)
    num_answers = 0 if answer is None else sum(message.role == "tool" for message in answer.messages)
    shown = [(call.name, json.dumps(dict(call.arguments), ensure_ascii=False), foreign[0][2] if foreign else None)]
    shown += foreign[1 : max(1, num_answers)]
    pending: dict[str, str | None] = {}
    tool_calls = []
    for index, (name, arguments, foreign_id) in enumerate(shown):
        call_id = f"call_{step_index}" + (f"_{index}" if index else "")
        pending[call_id] = foreign_id
        tool_calls.append({"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}})
    content = reasoning_of(action, env_format)
    return {"role": "assistant", "content": content or None, "tool_calls": tool_calls}, pending


def _foreign_calls(action: Action) -> list[tuple[str, str, str | None]]:
    """Name, arguments as one JSON string, and id of each call of a foreign message; up to one that cannot be read."""
    calls: list[tuple[str, str, str | None]] = []
    for one in _listed(None if action.raw is None else action.raw.get("tool_calls")):
        function = one.get("function") if isinstance(one, Mapping) else None
        name = function.get("name") if isinstance(function, Mapping) else None
        arguments = _argument_map(function.get("arguments")) if isinstance(function, Mapping) else None
        if not isinstance(name, str) or arguments is None:
            break
        foreign_id = one.get("id")
        text = json.dumps(dict(arguments), ensure_ascii=False)
        calls.append((name, text, foreign_id if isinstance(foreign_id, str) else None))
    return calls


def _unread(action: Action) -> str:
    """What a reply without an action said; calls that could not be read are spelled out if it said nothing besides."""
    if action.text.strip() or action.raw is None:
        return action.text
    functions = [one.get("function") for one in _listed(action.raw.get("tool_calls")) if isinstance(one, Mapping)]
    spelled = [f"{one.get('name')}({one.get('arguments')})" for one in functions if isinstance(one, Mapping)]
    return "\n".join(spelled) or action.text


# Replies


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
        made = None if call is None else replace(unread, call=call, command=call.name, parse=ParseOutcome.CLEAN)
        read = unread if made is None else executed(made, env_format)
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
    texts = (part.get("text") if isinstance(part, Mapping) else part for part in _listed(content))
    return "".join(text for text in texts if isinstance(text, str))


def check_style(style: str) -> None:
    """Raise ConfigError for a style that there is not."""
    if style not in STYLES:
        raise ConfigError.unknown("chat messages: style", style, STYLES)


def _first_call(tool_calls: object, calls: Mapping[str, Sequence[str]]) -> ParsedCall | None:
    """The first call. None: there is none, or it is none of `calls`, or its arguments are no object of scalars."""
    first = next(iter(_listed(tool_calls)), None)
    function = first.get("function") if isinstance(first, Mapping) else None
    if not isinstance(function, Mapping):
        return None
    name, arguments = function.get("name"), function.get("arguments")
    if not isinstance(name, str) or name not in calls:
        return None
    # Servers differ in how they say that a call has no arguments.
    found = {} if not calls[name] and arguments in (None, "") else _argument_map(arguments)
    if found is None:
        return None
    call = ParsedCall(name=name, arguments=dict(found))
    return call if known_arguments(calls, call) and all(map(is_scalar, found.values())) else None


def _argument_map(arguments: object) -> Mapping[str, Any] | None:
    """Arguments that are an object, a JSON string of one, or a string of such a string. None: anything else."""
    for _ in range(2):
        if isinstance(arguments, str):
            try:
                arguments = json.loads(arguments)
            except (ValueError, RecursionError):
                return None
    return arguments if isinstance(arguments, Mapping) else None


def _listed(value: object) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()
