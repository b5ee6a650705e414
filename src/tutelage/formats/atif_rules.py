"""The rules of ATIF 1.8: which keys an object may have, and what must hold between them. Any other key makes a file invalid.

The package ``atif`` (extra ``formats``) has the same rules as models; the tests hold the two against each other.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any, Final

from tutelage.formats.base import Refused

KNOWN_VERSION: Final = (1, 8)
_VERSION: Final = re.compile(r"ATIF-v(\d+)\.(\d+)")

_TEXT: Final = "a text"
_OBJECT: Final = "an object"
_LIST: Final = "a list"
_COUNT: Final = "an integer"
_NUMBER: Final = "a number"
_FLAG: Final = "true or false"
_CONTENT: Final = "a text or a list of parts"
_EFFORT: Final = "a text or a number"

_ROOT: Final = {
    "schema_version": _TEXT,
    "session_id": _TEXT,
    "trajectory_id": _TEXT,
    "agent": _OBJECT,
    "steps": _LIST,
    "notes": _TEXT,
    "final_metrics": _OBJECT,
    "continued_trajectory_ref": _TEXT,
    "extra": _OBJECT,
    "subagent_trajectories": _LIST,
}
_AGENT: Final = {"name": _TEXT, "version": _TEXT, "model_name": _TEXT, "tool_definitions": _LIST, "extra": _OBJECT}
_STEP: Final = {
    "step_id": _COUNT,
    "timestamp": _TEXT,
    "source": _TEXT,
    "model_name": _TEXT,
    "reasoning_effort": _EFFORT,
    "message": _CONTENT,
    "reasoning_content": _TEXT,
    "tool_calls": _LIST,
    "observation": _OBJECT,
    "metrics": _OBJECT,
    "extra": _OBJECT,
    "llm_call_count": _COUNT,
    "is_copied_context": _FLAG,
}
_AGENT_ONLY: Final = ("model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics")
_CALL: Final = {"tool_call_id": _TEXT, "function_name": _TEXT, "arguments": _OBJECT, "extra": _OBJECT}
_RESULT: Final = {"source_call_id": _TEXT, "content": _CONTENT, "subagent_trajectory_ref": _LIST, "extra": _OBJECT}
_REFERENCE: Final = {"trajectory_id": _TEXT, "trajectory_path": _TEXT, "session_id": _TEXT, "extra": _OBJECT}
_METRICS: Final = {
    "prompt_tokens": _COUNT,
    "completion_tokens": _COUNT,
    "cached_tokens": _COUNT,
    "cost_usd": _NUMBER,
    "prompt_token_ids": _LIST,
    "completion_token_ids": _LIST,
    "logprobs": _LIST,
    "extra": _OBJECT,
}
_FINAL: Final = {
    "total_prompt_tokens": _COUNT,
    "total_completion_tokens": _COUNT,
    "total_cached_tokens": _COUNT,
    "total_cost_usd": _NUMBER,
    "total_steps": _COUNT,
    "extra": _OBJECT,
}
_PART: Final = {"type": _TEXT, "text": _TEXT, "source": _OBJECT}


def check_document(value: Any, where: str = "root") -> dict[str, Any]:
    """The document itself, if it keeps the rules. Raises `Refused` with the place of the first breach.

    Example: a root key ``reward`` -> ``unknown_key: root: key 'reward', ...; other keys belong under 'extra'``
    """
    document = _object(value, _ROOT, ("schema_version", "agent", "steps"), where)
    check_version(document["schema_version"])
    agent = _object(document["agent"], _AGENT, ("name", "version"), f"{where}.agent")
    for tool in agent.get("tool_definitions") or []:
        _fits(tool, _OBJECT, f"{where}.agent.tool_definitions")
    if document.get("final_metrics") is not None:
        _object(document["final_metrics"], _FINAL, (), f"{where}.final_metrics")
    for index, step in enumerate(document["steps"]):
        check_step(step, index + 1, f"{where}.steps[{index}]")
    seen: set[str] = set()
    for index, inner in enumerate(document.get("subagent_trajectories") or []):
        found = check_document(inner, f"{where}.subagent_trajectories[{index}]")
        identity = found.get("trajectory_id")
        if identity is None or identity in seen:
            raise Refused(
                "bad_subagent",
                f"{where}.subagent_trajectories[{index}]: trajectory_id {identity!r}, expected one of its own",
            )
        seen.add(identity)
    return document


def check_version(version: str) -> None:
    """Raise `Refused` for a version that is no ATIF 1.x up to 1.8."""
    found = _VERSION.fullmatch(version)
    if found is None or int(found[1]) != KNOWN_VERSION[0] or int(found[2]) > KNOWN_VERSION[1]:
        raise Refused("version", f"schema_version {version[:40]!r}, expected ATIF-v1.0 to ATIF-v1.{KNOWN_VERSION[1]}")


def check_step(value: Any, number: int, where: str) -> None:
    """One step; ids count from 1."""
    step = _object(value, _STEP, ("step_id", "source", "message"), where)
    if step["step_id"] != number:
        raise Refused("step_ids", f"{where}: step_id {step['step_id']}, expected {number}")
    if step["source"] not in ("system", "user", "agent"):
        raise Refused("bad_source", f"{where}: source {step['source'][:40]!r}, expected system, user or agent")
    _parts(step["message"], f"{where}.message")
    wrong = [key for key in _AGENT_ONLY if step.get(key) is not None]
    if step["source"] != "agent" and wrong:
        raise Refused("agent_only", f"{where}: {wrong[0]} on a step of source {step['source']}")
    _check_counts(step, where)
    calls = step.get("tool_calls")
    for index, call in enumerate(calls or []):
        _object(call, _CALL, ("tool_call_id", "function_name", "arguments"), f"{where}.tool_calls[{index}]")
    if step.get("observation") is not None:
        ids = None if calls is None else {call["tool_call_id"] for call in calls}
        _check_observation(step["observation"], ids, f"{where}.observation")
    if step.get("metrics") is not None:
        metrics = _object(step["metrics"], _METRICS, (), f"{where}.metrics")
        for key, kind in (("prompt_token_ids", _COUNT), ("completion_token_ids", _COUNT), ("logprobs", _NUMBER)):
            for one in metrics.get(key) or []:
                _fits(one, kind, f"{where}.metrics.{key}")


def _check_counts(step: dict[str, Any], where: str) -> None:
    """Timestamp and number of model calls."""
    if step.get("timestamp") is not None:
        try:
            datetime.fromisoformat(step["timestamp"].replace("Z", "+00:00"))
        except ValueError:
            raise Refused("bad_value", f"{where}: timestamp {step['timestamp'][:40]!r} is not ISO 8601") from None
    count = step.get("llm_call_count")
    if count is not None and count < 0:
        raise Refused("bad_value", f"{where}: llm_call_count {count}, expected >= 0")
    if step["source"] == "agent" and count == 0:
        for key in ("metrics", "reasoning_content"):
            if step.get(key) is not None:
                raise Refused("bad_value", f"{where}: {key} on a step without a model call")


def _check_observation(value: Any, call_ids: set[str] | None, where: str) -> None:
    for index, result in enumerate(_object(value, {"results": _LIST}, ("results",), where)["results"]):
        at = f"{where}.results[{index}]"
        found = _object(result, _RESULT, (), at)
        source = found.get("source_call_id")
        if call_ids is not None and source is not None and source not in call_ids:
            raise Refused("tool_ids", f"{at}: source_call_id {source[:40]!r} is no call of this step")
        if found.get("content") is not None:
            _parts(found["content"], f"{at}.content")
        for reference in found.get("subagent_trajectory_ref") or []:
            inner = _object(reference, _REFERENCE, (), f"{at}.subagent_trajectory_ref")
            if inner.get("trajectory_id") is None and inner.get("trajectory_path") is None:
                raise Refused("bad_reference", f"{at}: a reference with neither trajectory_id nor trajectory_path")


def _parts(content: Any, where: str) -> None:
    """Parts of type text only: what is read here has to be shown to a model of text."""
    for part in content if isinstance(content, list) else []:
        found = _object(part, _PART, ("type",), where)
        if found["type"] not in ("text", "image", "audio"):
            raise Refused("bad_value", f"{where}: part of type {found['type'][:40]!r}")
        if found["type"] != "text":
            raise Refused("not_text", f"{where}: a part of type {found['type']}, expected text only")
        if found.get("text") is None or found.get("source") is not None:
            raise Refused("bad_value", f"{where}: a part of type text has a text and no source")


def _object(value: Any, keys: dict[str, str], needed: tuple[str, ...], where: str) -> dict[str, Any]:
    """The object, if its keys are known, those needed are there, and each value is of its kind (null: absent)."""
    if not isinstance(value, dict):
        raise Refused("bad_value", f"{where}: got {_kind(value)}, expected an object")
    for key in value:
        if key not in keys:
            raise Refused(
                "unknown_key", f"{where}: key {key[:40]!r}, expected {', '.join(keys)}; others belong under 'extra'"
            )
    for key in needed:
        if value.get(key) is None:
            raise Refused("missing_key", f"{where}: no {key}")
    for key, one in value.items():
        if one is not None:
            _fits(one, keys[key], f"{where}.{key}")
    return value


def _fits(value: Any, kind: str, where: str) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    fits = {
        _TEXT: isinstance(value, str),
        _OBJECT: isinstance(value, dict),
        _LIST: isinstance(value, list),
        _COUNT: isinstance(value, int) and number,
        _NUMBER: number,
        _FLAG: isinstance(value, bool),
        _CONTENT: isinstance(value, str | list),
        _EFFORT: isinstance(value, str) or number,
    }[kind]
    if not fits:
        raise Refused("bad_value", f"{where}: got {_kind(value)}, expected {kind}")


def _kind(value: Any) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 40 else text[:37] + '...'}"
