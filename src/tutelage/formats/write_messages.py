"""A trajectory as the chat messages that trainers read, with the weight of each.

In: a trajectory and its step supervision. Out: messages in OpenAI's shape, the step behind each assistant message and its
weight. What a chat format cannot say is `Refused` with a reason; an exporter counts it and goes on.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from tutelage.formats.base import Refused, clean_json, clean_text
from tutelage.types import (
    Action,
    LossComponent,
    Message,
    Observation,
    ParseOutcome,
    StepSupervision,
    Target,
    Trajectory,
)

STANDARD_KEYS: Final = ("role", "content", "name", "tool_calls", "tool_call_id", "reasoning_content")
"""Keys of a message that exporters carry. Others are left out and counted: one of them could be a trainer's flag."""


OBSERVATION_KEYS: Final = ("role", "content", "name", "tool_call_id")
"""The same for a message of an observation."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Conversation:
    """The messages of a trajectory up to its last action; lists of equal length.

    Example, two steps of which the second is trained:
      role        user  assistant  user  assistant
      step_index  None  0          None  1
      weights     0     0          0     1
    """

    trajectory_id: str
    messages: tuple[dict[str, Any], ...]
    step_indices: tuple[int | None, ...]
    """The step whose action a message is. None: an observation."""
    weights: tuple[float, ...]
    """What imitation weighs at each message; 0 for an observation."""
    tools: tuple[Any, ...] = ()
    """JSON schemas of the tools that the agent had. Empty: none are known."""
    left_out: tuple[str, ...] = ()
    """Keys of messages that no chat format carries, one entry per message and key."""

    @property
    def trained(self) -> frozenset[int]:
        """Indices of the messages that are learnt."""
        return frozenset(index for index, weight in enumerate(self.weights) if weight > 0.0)

    def until(self, index: int) -> Conversation:
        """The messages up to and including one of them, of which only that one is learnt."""
        weights = (*(0.0 for _ in range(index)), self.weights[index])
        return replace(
            self, messages=self.messages[: index + 1], step_indices=self.step_indices[: index + 1], weights=weights
        )


def conversation_of(trajectory: Trajectory, supervision: StepSupervision, *, whole: bool = False) -> Conversation:
    """The messages of an episode and what imitation weighs at each.

    The observation after the last action is left out: nothing is learnt from it, and trainers want an assistant message
    at the end. `whole` keeps it, and takes episodes of which nothing is learnt: for formats that are records.

    Raises:
        Refused: nothing is trained, a label replaces an action, a reply was cut off, a call is malformed.
    """
    if supervision.target is not Target.EXECUTED:
        raise Refused("label_target", "a label is learnt in place of the executed action; write tokenised rows")
    weights = sft_weights(supervision)
    if not any(weights) and not whole:
        raise Refused("no_trained_step", "the mask trains none of its steps")
    messages: list[dict[str, Any]] = []
    indices: list[int | None] = []
    message_weights: list[float] = []
    left_out: list[str] = []

    def add(message: dict[str, Any], index: int | None, weight: float) -> None:
        messages.append(message)
        indices.append(index)
        message_weights.append(weight)

    for index, (step, weight) in enumerate(zip(trajectory.steps, weights, strict=True)):
        if weight > 0.0 and step.action.parse is ParseOutcome.ENDED_WITHOUT_STOP and not whole:
            raise Refused(
                "cut_off_reply", f"step {index}: a trainer would add a stop token that its author never wrote"
            )
        for message in step.observation.messages:
            add(observation_message(message), None, 0.0)
            left_out += [key for key, value in message.extra.items() if _is_lost(key, value, OBSERVATION_KEYS)]
        add(assistant_message(step.action, where=f"step {index}"), index, weight)
        left_out += [key for key, value in (step.action.raw or {}).items() if _is_lost(key, value)]
    if whole and trajectory.final_observation is not None:
        for message in trajectory.final_observation.messages:
            add(observation_message(message), None, 0.0)
    return Conversation(
        trajectory_id=trajectory.trajectory_id,
        messages=tuple(messages),
        step_indices=tuple(indices),
        weights=tuple(message_weights),
        tools=tuple(trajectory.info.get("tools") or ()),
        left_out=tuple(left_out),
    )


def sft_weights(supervision: StepSupervision) -> tuple[float, ...]:
    """[N] the weights of imitation; all 0 where the supervision has none."""
    return tuple(supervision.step_weights.get(LossComponent.SFT, (0.0,) * len(supervision.step_mask)))


def observation_message(message: Message) -> dict[str, Any]:
    """One message of an observation, without keys that trainers do not know."""
    known = {key: message.extra[key] for key in OBSERVATION_KEYS[2:] if message.extra.get(key) is not None}
    return {"role": message.role, "content": message.content, **known}


def assistant_message(action: Action, *, where: str = "action") -> dict[str, Any]:
    """The message by which an action is written: its own text, and the calls as they came.

    Arguments are one JSON string: a string is kept to the letter, an object is written as JSON. Content that was null
    beside a call stays null.

    Raises Refused if a call has no name or no arguments.
    """
    raw = action.raw or {}
    content = None if raw.get("content", "") is None and not action.text else action.text
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if isinstance(raw.get("reasoning_content"), str) and raw["reasoning_content"]:
        message["reasoning_content"] = raw["reasoning_content"]
    if calls := raw.get("tool_calls"):
        message["tool_calls"] = [written_call(call, f"{where}, call {place}") for place, call in enumerate(calls)]
    return message


def written_call(call: Any, where: str) -> dict[str, Any]:
    """One call of a message with its arguments as a string.

    Example: ``{"function": {"name": "bash", "arguments": {"command": "ls"}}}`` ->
    ``{"type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}``
    """
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str) or "arguments" not in function:
        raise Refused("malformed_call", f"{where}: {json.dumps(call, ensure_ascii=False)[:80]}")
    arguments = function["arguments"]
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    identity = {"id": call["id"]} if isinstance(call.get("id"), str) else {}
    return {**identity, "type": "function", "function": {"name": function["name"], "arguments": arguments}}


def fit_for_utf8(trajectory: Trajectory) -> tuple[Trajectory, int]:
    """The trajectory without lone surrogates and NUL in what it shows and does, and how many characters were replaced.

    An action whose text changes loses its sampled ids, which spell the old text.
    """
    total = 0

    def text(value: str) -> str:
        nonlocal total
        fit, count = clean_text(value)
        total += count
        return fit

    def plain(value: Mapping[str, Any]) -> dict[str, Any]:
        nonlocal total
        fit, count = clean_json(dict(value))
        total += count
        return dict(fit)

    def observation(value: Observation) -> Observation:
        messages = [replace(one, content=text(one.content), extra=plain(one.extra)) for one in value.messages]
        return Observation(messages=tuple(messages))

    steps = []
    for step in trajectory.steps:
        raw = None if step.action.raw is None else plain(step.action.raw)
        action = replace(step.action, text=text(step.action.text), raw=raw)
        if action.text != step.action.text:
            action = replace(action, token_ids=None, rollout_logprobs=None)
        steps.append(replace(step, observation=observation(step.observation), action=action))
    final = None if trajectory.final_observation is None else observation(trajectory.final_observation)
    if not total:
        return trajectory, 0
    return replace(trajectory, steps=tuple(steps), final_observation=final), total


def with_named_answers(trajectory: Trajectory) -> tuple[Trajectory, int]:
    """The trajectory with each observation after one native call as the answer to it, and how many these are.

    Our environments answer as the user; a server was shown that answer as the tool's. Episodes of foreign files, which say
    themselves what answers what, stay as they are.
    """
    if "source" in trajectory.info:
        return trajectory, 0
    steps = list(trajectory.steps)
    count = 0
    for index in range(1, len(steps)):
        calls: list[Any] = list((steps[index - 1].action.raw or {}).get("tool_calls") or [])
        messages = list(steps[index].observation.messages)
        places = [place for place, one in enumerate(messages) if one.role == "user"]
        named = len(calls) == 1 and isinstance(calls[0], Mapping) and isinstance(calls[0].get("id"), str)
        if not named or not places or any(one.role == "tool" for one in messages):
            continue
        answer = messages.pop(places[0])
        extra = {**answer.extra, "tool_call_id": calls[0]["id"]}
        messages.insert(0, Message(role="tool", content=answer.content, extra=extra))
        steps[index] = replace(steps[index], observation=Observation(messages=tuple(messages)))
        count += 1
    return (replace(trajectory, steps=tuple(steps)), count) if count else (trajectory, 0)


def merged(trajectory: Trajectory) -> Trajectory:
    """The trajectory with neighbouring messages of one role in an observation joined by an empty line.

    The named rule `join` for formats in which the two sides take turns. Messages of different roles stay apart.
    """
    steps = tuple(replace(step, observation=_joined(step.observation)) for step in trajectory.steps)
    return replace(trajectory, steps=steps)


def num_joined(trajectory: Trajectory) -> int:
    """How many messages the rule `join` takes away."""
    before = sum(len(step.observation.messages) for step in trajectory.steps)
    return before - sum(len(step.observation.messages) for step in merged(trajectory).steps)


def loads_object(text: str) -> dict[str, Any] | None:
    """The JSON object that a string of arguments holds. None: it holds no object, or a number that JSON cannot write."""

    def number(literal: str) -> float:
        value = float(literal)
        if not math.isfinite(value):
            raise ValueError(literal)
        return value

    try:
        found = json.loads(text, parse_constant=number, parse_float=number)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _joined(observation: Observation) -> Observation:
    messages: list[Message] = []
    for message in observation.messages:
        if messages and messages[-1].role == message.role:
            messages[-1] = Message(role=message.role, content=f"{messages[-1].content}\n\n{message.content}")
        else:
            messages.append(message)
    return Observation(messages=tuple(messages))


def _is_lost(key: str, value: Any, kept: Sequence[str] = STANDARD_KEYS) -> bool:
    return key not in kept and value not in (None, "", [], {})
