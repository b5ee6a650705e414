"""SWE-agent ``.traj``: ``trajectory`` (what the model wrote, failed attempts too), ``history`` (messages), ``info``.

`history` says which steps there are and what was seen; `trajectory` says what the model really wrote. The two have different
lengths, and after a change of tool format `history` holds rewritten turns. They are aligned by content.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from tutelage.envs.action_formats import command_of
from tutelage.formats.align import Entry, Turn, align
from tutelage.formats.base import (
    ReadOptions,
    ReadProblem,
    Refused,
    clean_json,
    clean_text,
    item,
    json_from_bytes,
    shown,
    with_replaced,
)
from tutelage.formats.outcomes import Outcomes
from tutelage.formats.read_calls import call_of, calls_of, wire_call
from tutelage.formats.read_messages import (
    Conversation,
    actors_by_index,
    assembled,
    cut,
    message_of,
    text_of,
)
from tutelage.formats.stop_reasons import swe_agent_stop
from tutelage.types import Action, FailedAttempt, Message, Observation, ParsedCall, ParseOutcome, StopReason, Trajectory

NAME = "swe_agent"

_EXIT: Final = re.compile(r"Exit(ed)?\b", re.IGNORECASE)
_FUNCTION: Final = re.compile(r"<function=([^>\s]+)>(.*?)</function>", re.DOTALL)
_PARAMETER: Final = re.compile(r"<parameter=([^>\s]+)>(.*?)</parameter>", re.DOTALL)


def read_swe_agent(path: Path, options: ReadOptions = ReadOptions()) -> Iterator[Trajectory | ReadProblem]:
    """The one trajectory of a file.

    An action's text is ``trajectory[i].response``; where `history` has another text, that one is in ``raw["rewritten"]``.
    Entries without a message in `history` are failed attempts of the step after them. Demonstrations are part of the
    first observation. A last message in which the scaffold says that it stopped is no step: ``info["exit_message"]``.
    """
    yield item(partial(_trajectory, path, options), path)


def _trajectory(path: Path, options: ReadOptions) -> Trajectory:
    data = path.read_bytes()
    value, replaced = clean_json(json_from_bytes(data))
    told, entries = _checked(value)
    status = told.get("exit_status") if isinstance(told.get("exit_status"), str) else None
    task_id = _task_id(value, path)
    outcomes = Outcomes.beside(path, options)
    status = status or outcomes.statuses.get(task_id)
    stop = swe_agent_stop(status)
    turns = _turns(value.get("history"), entries)
    exit_message = _take_exit_notice(turns, entries, stop)
    if not turns.replies:
        raise Refused("no_steps", "no reply of the model in the file", byte=0)
    actions, trailing = _actions(turns, entries)
    # The notice is an assistant message too, and may be in the count.
    told_steps = len(actions) + (exit_message is not None)
    actors = actors_by_index([value, told], [task_id, path.stem], told_steps, options, str(path))[: len(actions)]
    reward = outcomes.reward(task_id, value.get("resolved"), told.get("resolved"))
    patch = told.get("submission") if isinstance(told.get("submission"), str) else None
    stats = told.get("model_stats") if isinstance(told.get("model_stats"), dict) else {}
    optional = {
        "submission": patch or outcomes.patch(task_id),
        "exit_message": exit_message,
        "model": _model(value.get("replay_config")) or outcomes.model(task_id),
        "cost": stats.get("instance_cost") if isinstance(stats, dict) else None,
        "model_stats": stats,
        "attempts_after_last_step": trailing,
        "notes": list(outcomes.notes),
    }
    info = {"source": {"format": NAME, "file": shown(path)}, "exit_status": status}
    info |= {key: one for key, one in optional.items() if one}
    if reward is not None:
        info["resolved"] = reward >= 1.0
    return assembled(
        turns,
        actions,
        actors,
        trajectory_id=task_id,
        task_id=task_id,
        env=options.env or "repo",
        told_by=options.switch_field,
        stop_reason=stop,
        reward=reward,
        info=with_replaced(info, replaced),
    )


def _checked(value: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """`info` and `trajectory` of a file. Raises `Refused` for a file without them."""
    if not isinstance(value, dict):
        raise Refused("not_object", f"the file holds a {type(value).__name__}, expected an object", byte=0)
    keys = ", ".join(sorted(value)[:8]) or "none"
    info, entries = value.get("info"), value.get("trajectory")
    if not isinstance(entries, list):
        raise Refused("no_trajectory", f"keys {keys}: expected a list 'trajectory'", byte=0)
    if not isinstance(info, dict):
        raise Refused("no_info", f"keys {keys}: expected an object 'info' that says how it ended", byte=0)
    if not all(isinstance(entry, dict) for entry in entries):
        raise Refused("bad_entry", "an entry of 'trajectory' is no object", byte=0)
    return info, [_with_action(entry) for entry in entries]


def _with_action(entry: dict[str, Any]) -> dict[str, Any]:
    return {**entry, "action": entry["action"] if isinstance(entry.get("action"), str) else ""}


def _response(entry: Mapping[str, Any]) -> str:
    """What the model wrote; files without it have the thought."""
    for key in ("response", "thought"):
        if isinstance(entry.get(key), str):
            return str(entry[key])
    return ""


def _turns(history: Any, entries: Sequence[Mapping[str, Any]]) -> Conversation:
    """The steps by `history`; without it by `trajectory`, what was seen first by its first query."""
    if isinstance(history, list) and history:
        messages = [one for one in history if isinstance(one, dict) and isinstance(one.get("role"), str)]
        if len(messages) != len(history):
            raise Refused("bad_role", "a message of 'history' is no object with a role", byte=0)
        return cut(messages, is_step=lambda one: not one.get("is_demo"), check_answers=False)
    turns = Conversation()
    seen = _first_query(entries)
    for index, entry in enumerate(entries):
        observed = entry.get("observation")
        if not entry["action"].strip() and not observed and index + 1 < len(entries):
            continue  # A failed attempt: nothing was executed and nothing seen.
        turns.observations.append(Observation(messages=tuple(seen)))
        turns.replies.append({"role": "assistant", "content": _response(entry), "action": entry["action"]})
        turns.positions.append(index)
        seen = [Message(role="user", content=text_of(observed, f"entry {index}"))] if observed else []
    turns.observations.append(Observation(messages=tuple(seen)))
    return turns


def _first_query(entries: Sequence[Mapping[str, Any]]) -> list[Message]:
    query = entries[0].get("query", entries[0].get("messages")) if entries else None
    first = []
    for index, message in enumerate(query if isinstance(query, list) else []):
        if isinstance(message, dict) and isinstance(message.get("role"), str):
            if message["role"] == "assistant" and not message.get("is_demo"):
                break
            first.append(message_of(message, f"query of entry 0, message {index}"))
    return first


def _take_exit_notice(turns: Conversation, entries: list[dict[str, Any]], stop: StopReason) -> str | None:
    """Take the words of the scaffold off the end, e.g. ``Exit due to cost limit``: no model wrote them."""
    if stop is StopReason.COMPLETED:
        return None
    notice = None
    if turns.replies and _is_notice(turns.replies[-1], turns.replies[-1].get("action")):
        notice = text_of(turns.replies[-1].get("content"), "last message")
        turns.replies.pop()
        turns.positions.pop()
        turns.observations.pop()  # What came before the notice is now what was seen last.
    if entries and _is_notice({"content": _response(entries[-1])}, entries[-1]["action"]):
        notice = _response(entries.pop())
    return notice


def _is_notice(message: Mapping[str, Any], action: Any) -> bool:
    said = text_of(message.get("content"), "last message").strip()
    acted = action.strip() if isinstance(action, str) else ""
    return (
        bool(_EXIT.match(said))
        and len(said) < 2000
        and not message.get("tool_calls")
        and (not acted or acted.startswith("exit_"))
    )


def _actions(turns: Conversation, entries: Sequence[Mapping[str, Any]]) -> tuple[list[Action], list[str]]:
    """[N] actions, each with the failed attempts before it; and what the model wrote after the last step."""
    answers = [one.text for one in turns.observations[1:]]
    found = align(
        [
            Turn(
                text_of(reply.get("content"), "history"),
                str(reply.get("action") or ""),
                str(reply.get("thought") or ""),
                answer,
            )
            for reply, answer in zip(turns.replies, answers, strict=True)
        ],
        [Entry(_response(one), one["action"], str(one.get("thought") or ""), _seen(one)) for one in entries],
    )
    actions: list[Action] = []
    past = 0
    for reply, position, index in zip(turns.replies, turns.positions, found, strict=True):
        attempts: list[FailedAttempt] = []
        entry: Mapping[str, Any] | None = None
        if index is not None:
            attempts = [FailedAttempt(text=_response(one), error="requeried") for one in entries[past:index]]
            entry, past = entries[index], index + 1
        actions.append(replace(_action(reply, entry, f"history message {position}"), attempts=tuple(attempts)))
    return actions, [_response(one) for one in entries[past:]]


def _seen(entry: Mapping[str, Any]) -> str:
    observed = entry.get("observation")
    return observed if isinstance(observed, str) else ""


def _action(reply: Mapping[str, Any], entry: Mapping[str, Any] | None, where: str) -> Action:
    """The text as the model wrote it; the call of that text, of the message, or the command that was executed."""
    said = text_of(reply.get("content"), where)
    text = entry["response"] if entry is not None and isinstance(entry.get("response"), str) else said
    text = text if text.strip() else said
    raw = {key: one for key, one in reply.items() if key not in ("content", "tool_calls")}
    rewritten = text.strip() != said.strip()
    raw["content"] = reply.get("content") if text == said else text
    if rewritten:
        raw["rewritten"] = {key: reply[key] for key in ("content", "tool_calls") if reply.get(key)}
    elif reply.get("tool_calls"):
        raw["tool_calls"] = [wire_call(call) for call in _calls(reply, where)]
    if entry is not None and "state" in entry:
        raw["state"] = entry["state"]
    call = _call(text, reply, rewritten, where)
    executed = (entry or reply).get("action")
    command = executed.strip("\n") if isinstance(executed, str) and executed.strip() else None
    if call is not None:
        return Action(text=text, command=command_of(call), call=call, raw=raw)
    if command is not None and not calls_of(raw):
        return Action(text=text, command=command, raw=raw)
    return Action(text=text, parse=ParseOutcome.MALFORMED, raw=raw)


def _call(text: str, reply: Mapping[str, Any], rewritten: bool, where: str) -> ParsedCall | None:
    """Of the model's own text first: a rewritten turn may have lost arguments."""
    block = _FUNCTION.search(text)
    if block is not None:
        arguments = {name: _stripped(value) for name, value in _PARAMETER.findall(block[2])}
        return ParsedCall(name=block[1], arguments=arguments)
    calls = [] if rewritten else _calls(reply, where)
    return call_of(calls[0]) if calls else None


def _calls(reply: Mapping[str, Any], where: str) -> list[dict[str, Any]]:
    """The calls of a message, each with a name and arguments."""
    calls = calls_of(reply)
    try:
        for call in calls:
            call_of(call)
    except Refused as refused:
        raise Refused(refused.reason, f"{where}: {refused.detail}", byte=0) from None
    return calls


def _stripped(value: str) -> str:
    """Without the newline that sets a long value on lines of its own."""
    return value.removeprefix("\n").removesuffix("\n")


def _task_id(value: Mapping[str, Any], path: Path) -> str:
    for key in ("instance_id", "id"):
        if isinstance(value.get(key), str) and value[key]:
            return str(value[key])
    return clean_text(path.name.removesuffix(".traj") or path.stem)[0]


def _model(replay_config: Any) -> str | None:
    """The model's name in `replay_config`, a text of JSON (older files: an object)."""
    try:
        config = json.loads(replay_config) if isinstance(replay_config, str) else replay_config
    except (ValueError, RecursionError):
        return None
    for key in ("agent", "model", "name"):
        config = config.get(key) if isinstance(config, dict) else None
    return config if isinstance(config, str) else None
