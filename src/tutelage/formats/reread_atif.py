"""What an ATIF document says, by the schema of version 1.8: checked by the library `atif` where it is installed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, Final

from tutelage.errors import FormatError
from tutelage.formats.reread_chat import Reading

_STEP_KEYS: Final = {
    "step_id", "timestamp", "source", "model_name", "reasoning_effort", "message", "reasoning_content", "tool_calls",
    "observation", "metrics", "extra", "llm_call_count", "is_copied_context",
}  # fmt: skip
_ROOT_KEYS: Final = {
    "schema_version", "session_id", "trajectory_id", "agent", "steps", "notes", "final_metrics",
    "continued_trajectory_ref", "extra", "subagent_trajectories",
}  # fmt: skip


def reread_atif(document: Mapping[str, Any]) -> Reading:
    """The messages of a document and those that `tutelage_train` marks. Copied context is never trained.

    Raises FormatError for a key outside of `extra` that ATIF does not know, and for step ids that do not count from 1.
    """
    _check(document)
    messages: list[dict[str, Any]] = []
    trained: set[int] = set()
    for step in document["steps"]:
        extra = step.get("extra") or {}
        if step["source"] != "agent":
            named = {key: extra[f"tutelage_{key}"] for key in ("name", "tool_call_id") if f"tutelage_{key}" in extra}
            messages.append({"role": extra.get("tutelage_role", step["source"]), "content": step["message"], **named})
            continue
        if extra.get("tutelage_train") is True and not step.get("is_copied_context"):
            trained.add(len(messages))
        messages.append(_agent_message(step, extra))
        messages += [_tool_message(result) for result in (step.get("observation") or {}).get("results", ())]
    return Reading(tuple(messages), frozenset(trained))


def _check(document: Mapping[str, Any]) -> None:
    if find_spec("atif") is not None:
        from atif import Trajectory
        from pydantic import ValidationError

        try:
            Trajectory.model_validate(document)
        except ValidationError as error:
            raise FormatError(f"ATIF refuses the document: {error}") from error
    unknown = sorted(set(document) - _ROOT_KEYS)
    for number, step in enumerate(document["steps"], start=1):
        unknown += sorted(set(step) - _STEP_KEYS)
        if step["step_id"] != number:
            raise FormatError(f"step {number} has step_id {step['step_id']}, expected ids that count from 1")
    if unknown:
        raise FormatError(f"keys that ATIF does not know: {', '.join(unknown)}; they belong under 'extra'")


def _agent_message(step: Mapping[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    message: dict[str, Any] = {
        "role": "assistant",
        "content": None if extra.get("tutelage_content_null") else step["message"],
    }
    if "reasoning_content" in step:
        message["reasoning_content"] = step["reasoning_content"]
    if step.get("tool_calls"):
        message["tool_calls"] = [_call(call) for call in step["tool_calls"]]
    return message


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    extra = call["extra"]
    raw = extra["tutelage_raw_arguments"]
    if not extra.get("tutelage_arguments_not_json") and json.loads(raw) != call["arguments"]:
        raise FormatError(f"call {call['tool_call_id']}: arguments differ from the raw string {raw!r}")
    identity = {} if extra.get("tutelage_without_id") else {"id": call["tool_call_id"]}
    return {**identity, "type": "function", "function": {"name": call["function_name"], "arguments": raw}}


def _tool_message(result: Mapping[str, Any]) -> dict[str, Any]:
    extra = result.get("extra") or {}
    message = {"role": "tool", "content": result["content"]}
    if "tutelage_name" in extra:
        message["name"] = extra["tutelage_name"]
    identity = result.get("source_call_id", extra.get("tutelage_tool_call_id"))
    return message | ({"tool_call_id": identity} if identity is not None else {})
