"""A list of chat messages as a trajectory: what every reader of messages shares.

System and user messages before the first reply are the first observation. Each assistant message is one step. What
follows it, up to the next reply, is the next observation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tutelage.envs.action_formats import command_of
from tutelage.errors import ConfigError
from tutelage.formats.base import ReadOptions, Refused
from tutelage.formats.read_calls import call_of, calls_of, wire_call
from tutelage.types import Action, Actor, Message, Observation, ParseOutcome, Step, StopReason, SwitchEvent, Trajectory

ROLES: Final = ("system", "developer", "user", "tool", "function", "assistant")

ACTOR_KEY: Final = "tutelage_actor"
"""Key of a message that names its author."""

SWITCH_RULE: Final = "imported"
"""`Trajectory.switch_rule` of an episode in which, as its file says, an expert took over."""


@dataclass(kw_only=True, slots=True)
class Conversation:
    """Messages cut into steps."""

    observations: list[Observation] = field(default_factory=list)
    """[N + 1] what came before each action, and what came last (without messages: nothing came)."""
    replies: list[Mapping[str, Any]] = field(default_factory=list)
    """[N] assistant messages as they came."""
    positions: list[int] = field(default_factory=list)
    """[N] where each stands among the messages."""

    @property
    def final_observation(self) -> Observation | None:
        return self.observations[-1] if self.observations[-1].messages else None


def text_of(content: Any, where: str) -> str:
    """Content as text: null is empty, parts of type text are joined. Raises `Refused` for anything else.

    Example: ``[{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]`` -> ``ab``
    """
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise Refused("bad_content", f"{where}: content is a {type(content).__name__}, expected text, null or parts")
    texts = []
    for part in content:
        text = part if isinstance(part, str) else part.get("text") if isinstance(part, dict) else None
        kind = part.get("type", "text") if isinstance(part, dict) else "text"
        if not isinstance(text, str) or kind not in ("text", "input_text", "output_text"):
            raise Refused("not_text", f"{where}: a part of type {kind!r}, expected text only")
        texts.append(text)
    return "".join(texts)


def message_of(message: Mapping[str, Any], where: str) -> Message:
    """A foreign message that is no step. Content of null, or with parts that say more than text, stays in `extra`."""
    content = message.get("content")
    extra = {key: value for key, value in message.items() if key not in ("role", "content")}
    if "content" in message and (content is None or _says_more(content)):
        extra["content"] = content
    return Message(role=message["role"], content=text_of(content, where), extra=extra)


def _says_more(content: Any) -> bool:
    """Whether parts have keys beside type and text."""
    parts = content if isinstance(content, list) else []
    return any(isinstance(part, dict) and not part.keys() <= {"type", "text"} for part in parts)


def cut(
    messages: Any, *, is_step: Callable[[Mapping[str, Any]], bool] | None = None, check_answers: bool = True
) -> Conversation:
    """Check the messages and cut them into steps. `is_step` says which assistant messages are steps; None: all.

    Raises `Refused`: no list of objects, an unknown role, no assistant message, tool messages that answer no call.
    """
    if not isinstance(messages, list):
        raise Refused("no_messages", f"messages is a {type(messages).__name__}, expected a list")
    cut_messages = Conversation()
    waiting: list[Message] = []
    open_ids: list[Any] | None = None
    for index, message in enumerate(messages):
        where = f"message {index}"
        if not isinstance(message, dict) or message.get("role") not in ROLES:
            role = message.get("role") if isinstance(message, dict) else message
            raise Refused("bad_role", f"{where}: role {str(role)[:40]!r}, expected one of: {', '.join(ROLES)}")
        if message["role"] == "assistant" and (is_step is None or is_step(message)):
            cut_messages.observations.append(Observation(messages=tuple(waiting)))
            cut_messages.replies.append(message)
            cut_messages.positions.append(index)
            waiting = []
            text_of(message.get("content"), where)
            ids = [one.get("id") for one in calls_of(message)]
            open_ids = ids if all(isinstance(one, str) for one in ids) else None
        else:
            if check_answers:
                _check_answer(message, open_ids, where)
            waiting.append(message_of(_with_id(message, open_ids), where))
    if not cut_messages.replies:
        raise Refused("no_assistant", f"{len(messages)} messages and none of role assistant")
    cut_messages.observations.append(Observation(messages=tuple(waiting)))
    return cut_messages


def _check_answer(message: Mapping[str, Any], open_ids: list[Any] | None, where: str) -> None:
    """A tool message with an id answers one call of the reply before it, once."""
    answered = message.get("tool_call_id")
    if message["role"] != "tool" or answered is None or open_ids is None:
        return
    if answered not in open_ids:
        raise Refused("tool_ids", f"{where}: answers call {answered!r}, expected one of {open_ids}, each once")
    open_ids.remove(answered)


def _with_id(message: Mapping[str, Any], open_ids: list[Any] | None) -> Mapping[str, Any]:
    """SWE-agent names the call that is answered by a list, `tool_call_ids`."""
    ids = message.get("tool_call_ids")
    if message["role"] != "tool" or message.get("tool_call_id") is not None or not isinstance(ids, list):
        return message
    answered = [one for one in ids if open_ids is not None and one in open_ids]
    return {**message, "tool_call_id": answered[0]} if len(ids) == len(answered) == 1 else message


def action_of_reply(message: Mapping[str, Any], where: str) -> Action:
    """The action of an assistant message: its text, its first call, and the message as it came but for how calls are written.

    Without a call the text is what is done. Neither, or arguments that are no JSON object: `MALFORMED`.
    """
    text = text_of(message.get("content"), where)
    calls = calls_of(message)
    found = []
    for call in calls:
        try:
            found.append(call_of(call))
        except Refused as refused:
            raise Refused(refused.reason, f"{where}: {refused.detail}") from None
    raw = {key: one for key, one in message.items() if key not in (ACTOR_KEY, "tool_calls", "function_call")}
    if calls:
        raw["tool_calls"] = [wire_call(call) for call in calls]
    if calls and found[0] is not None:
        return Action(text=text, command=command_of(found[0]), call=found[0], raw=raw)
    if not calls and text.strip():
        return Action(text=text, command=text, raw=raw)
    return Action(text=text, parse=ParseOutcome.MALFORMED, raw=raw)


def actions_of(conversation: Conversation) -> list[Action]:
    """[N] the actions of the replies."""
    return [
        action_of_reply(reply, f"message {index}")
        for reply, index in zip(conversation.replies, conversation.positions, strict=True)
    ]


def author(named: Any, options: ReadOptions, where: str) -> Actor:
    """Who made a step. Raises `ConfigError` where neither the file nor the options say it."""
    if named is not None:
        if named not in list(Actor):
            raise Refused("bad_actor", f"{where}: {ACTOR_KEY} {named!r}, expected one of: {', '.join(Actor)}")
        return Actor(named)
    if options.actor is None:
        raise ConfigError(
            f"{where}: the file does not say who acted, and only known authors are trained. Say it: --actor expert (to "
            "be learnt from), --actor student (its own play), or --switch-index FIELD|FILE with the number of student steps."
        )
    return options.actor


def actors_by_index(
    places: Sequence[Any], ids: Sequence[str], num_steps: int, options: ReadOptions, where: str
) -> list[Actor]:
    """[N] the authors: the student before the switch index of the file or of the side file, the expert from there on.

    Without an index all steps are the `actor` of the options. An index beyond the steps is refused: it counts something
    else than the replies of the first model.

    Example: index 2, three steps -> student student expert
    """
    told = next((options.switch_indices[one] for one in ids if one in options.switch_indices), None)
    for place in places:
        if told is None and isinstance(place, dict):
            told = place.get(options.switch_field)
    if told is None:
        return [author(None, options, where)] * num_steps
    if not isinstance(told, int) or isinstance(told, bool) or not 0 <= told <= num_steps:
        raise Refused("switch_index", f"{options.switch_field} is {str(told)[:40]!r}, expected 0..{num_steps} (steps)")
    return [Actor.STUDENT] * told + [Actor.EXPERT] * (num_steps - told)


def authors(
    named: Sequence[Any], places: Sequence[Any], ids: Sequence[str], options: ReadOptions, where: str
) -> tuple[list[Actor], str]:
    """[N] the authors, and what told them: the steps themselves where one of them names its author, else an index."""
    if any(one is not None for one in named):
        return [author(one, options, where) for one in named], ACTOR_KEY
    return actors_by_index(places, ids, len(named), options, where), options.switch_field


def switch_of(actors: Sequence[Actor], told_by: str) -> dict[str, Any]:
    """`switch_rule` and `switch_events` of a trajectory: one event for each change of author, none with one author.

    Example: ``s s e e`` -> one event at 2, to the expert; ``e e`` -> none, rule ``never``
    """
    changes = [
        SwitchEvent(step_index=index, actor=actor, reason=told_by)
        for index, actor in enumerate(actors)
        if index > 0 and actor is not actors[index - 1]
    ]
    return {"switch_rule": SWITCH_RULE if changes else "never", "switch_events": tuple(changes)}


def steps_of(conversation: Conversation, actions: Sequence[Action], actors: Sequence[Actor]) -> tuple[Step, ...]:
    return tuple(
        Step(observation=seen, action=action, actor=actor)
        for seen, action, actor in zip(conversation.observations, actions, actors, strict=False)
    )


def goal_of(observation: Observation) -> str:
    """What is asked: the last user message before the first step that is no demonstration."""
    asked = [one.content for one in observation.messages if one.role == "user" and not one.extra.get("is_demo")]
    return asked[-1] if asked else ""


def reward_of(value: Any, key: str) -> float | None:
    """A reward or a verdict of a file: true is 1.0, false is 0.0, null is not scored. Raises `Refused`."""
    if value is None:
        return None
    if isinstance(value, bool | int | float):
        try:
            return float(value)
        except OverflowError:
            pass
    raise Refused("bad_reward", f"{key} is {str(value)[:40]!r}, expected a number, true, false or null")


def trajectory_of(
    messages: Any,
    options: ReadOptions,
    *,
    trajectory_id: str,
    task_id: str,
    where: str,
    info: Mapping[str, Any],
    row: Mapping[str, Any],
    reward: float | None = None,
    stop_reason: StopReason = StopReason.COMPLETED,
) -> Trajectory:
    """The trajectory of a list of messages; a switch index may stand in the row.

    Raises `Refused` (the item) and `ConfigError` (an unknown author).
    """
    conversation = cut(messages)
    actions = actions_of(conversation)
    named = [reply.get(ACTOR_KEY) for reply in conversation.replies]
    actors, told_by = authors(named, [row], [trajectory_id, task_id], options, where)
    return assembled(
        conversation,
        actions,
        actors,
        trajectory_id=trajectory_id,
        task_id=task_id,
        env=options.env or "imported",
        told_by=told_by,
        stop_reason=stop_reason,
        reward=reward,
        info=info,
    )


def assembled(
    conversation: Conversation,
    actions: Sequence[Action],
    actors: Sequence[Actor],
    *,
    trajectory_id: str,
    task_id: str,
    env: str,
    told_by: str,
    stop_reason: StopReason,
    reward: float | None,
    info: Mapping[str, Any],
) -> Trajectory:
    """The record of a conversation; where the machinery stopped it there is no reward, whatever the file says."""
    return Trajectory(
        trajectory_id=trajectory_id,
        task_id=task_id,
        env=env,
        goal=goal_of(conversation.observations[0]),
        steps=steps_of(conversation, actions, actors),
        final_observation=conversation.final_observation,
        stop_reason=stop_reason,
        reward=None if stop_reason.is_infrastructure else reward,
        seed=0,
        **switch_of(actors, told_by),
        info=info,
    )
