"""ATIF 1.0 to 1.8 documents: ``{"schema_version": "ATIF-v1.8", "agent": {...}, "steps": [...]}``.

Agent steps are steps; results and the system or user steps after them are the next observation. Copied context is shown and
never trained. What ATIF has no place for stands under ``extra`` with the prefix ``tutelage_``: each field of a Trajectory on
the document; ``tutelage_actor``, ``tutelage_reward``, ``tutelage_policy_version``, ``tutelage_state_hash``,
``tutelage_expert_action``, ``tutelage_content_null`` and ``tutelage_action`` (the whole action, without ids and
log-probabilities, which ``metrics`` holds) on an agent step; ``tutelage_raw_arguments`` and ``tutelage_without_id`` on a
call; ``tutelage_role``, ``tutelage_name``, ``tutelage_tool_call_id`` or ``tutelage_message`` (the whole message) elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from tutelage.formats.atif_rules import check_document
from tutelage.formats.base import (
    ReadOptions,
    ReadProblem,
    Refused,
    clean_json,
    clean_text,
    item,
    json_from_bytes,
    lines_of,
    shown,
    with_replaced,
)
from tutelage.formats.read_calls import wire_arguments
from tutelage.formats.read_messages import ACTOR_KEY, action_of_reply, authors, goal_of, reward_of, switch_of, text_of
from tutelage.formats.read_rows import json_rows
from tutelage.record_json import decode_record, encode_record
from tutelage.store import to_json
from tutelage.types import Action, Actor, Message, Observation, Step, StopReason, Trajectory

NAME = "atif"

PREFIX: Final = "tutelage_"

_STEP_FIELDS: Final = ("reward", "policy_version", "state_hash", "expert_action")
_TRAJECTORY_FIELDS: Final = tuple(
    one.name for one in fields(Trajectory) if one.name not in ("steps", "final_observation")
)


@dataclass(slots=True)
class _Waiting:
    """A document to be read, and whose part it is."""

    path: Path
    document: Any
    """None: still in its file."""
    parent_id: str | None
    role: str
    """``root``, ``subagent`` or ``continuation``."""
    line: int | None = None


@dataclass(slots=True)
class _Parts:
    """A document cut into steps."""

    steps: list[Step] = field(default_factory=list)
    seen: list[Message] = field(default_factory=list)
    """Messages since the last step."""
    copied: int = 0
    sub_agents: list[dict[str, Any]] = field(default_factory=list)
    """References in results."""


def read_atif(path: Path, options: ReadOptions = ReadOptions()) -> Iterator[Trajectory | ReadProblem]:
    """The trajectory of a document, then those of its sub-agents and of its continuation, each with a `parent_id`.

    A file holds one document, or one on each line. A reference to a file is followed from the folder of the file; one that
    leads nowhere is a problem ``open_reference``.
    """
    queue = list(_first(path))
    visited = {path.resolve()}
    while queue:
        one = queue.pop(0)
        if one.document is None and one.role != "root":
            resolved = one.path.resolve()
            if resolved in visited:
                continue
            visited.add(resolved)
        made = item(partial(_read, one, options, queue), one.path, line=one.line)
        if isinstance(made, ReadProblem) and made.reason == "no_file" and one.role != "root":
            made = replace(made, reason="open_reference", file=str(path))
        yield made


def _first(path: Path) -> Iterator[_Waiting]:
    """The document of a file, or those of its lines."""
    lines = lines_of(path)
    first, second = next(lines, None), next(lines, None)
    many = first is not None and second is not None and len(first.data) > 2 and first.data.endswith(b"}")
    if not many and path.suffix != ".jsonl":
        yield _Waiting(path, None, None, "root")
        return
    for row in json_rows(path):
        nothing = Refused("not_object", "the line holds null, expected an object")
        yield _Waiting(path, row.refused or (nothing if row.value is None else row.value), None, "root", row.line)


def referenced_files(path: Path) -> set[Path]:
    """Files that a document leads to, so that a folder is not read twice. Empty for a file that cannot be read."""
    try:
        document = check_document(json_from_bytes(path.read_bytes()))
    except (Refused, OSError):
        return set()
    found: set[Path] = set()
    for name in _file_references(document):
        target = _beside(path, name)
        if target is not None:
            found.add(target.resolve())
    return found


def _file_references(document: Mapping[str, Any]) -> Iterator[str]:
    continued = document.get("continued_trajectory_ref")
    if continued is not None:
        yield continued
    for step in document["steps"]:
        for result in (step.get("observation") or {}).get("results", []):
            for reference in result.get("subagent_trajectory_ref") or []:
                if reference.get("trajectory_path") is not None:
                    yield reference["trajectory_path"]
    for inner in document.get("subagent_trajectories") or []:
        yield from _file_references(inner)


def _read(one: _Waiting, options: ReadOptions, queue: list[_Waiting]) -> Trajectory:
    if one.document is None:
        if not _is_file(one.path):
            raise Refused("no_file", f"{one.role} of {one.parent_id}: no file {one.path}")
        one.document = json_from_bytes(one.path.read_bytes())
    if isinstance(one.document, Refused):
        raise one.document
    clean, replaced = clean_json(one.document)
    document = check_document(clean)
    trajectory, parts = _trajectory(document, one, options, replaced)
    embedded = {inner["trajectory_id"]: inner for inner in document.get("subagent_trajectories") or []}
    for inner in embedded.values():
        queue.append(_Waiting(one.path, inner, trajectory.trajectory_id, "subagent"))
    for reference in parts.sub_agents:
        if reference.get("trajectory_id") not in embedded:
            queue.append(_waiting(one.path, reference.get("trajectory_path"), reference, trajectory, "subagent"))
    if document.get("continued_trajectory_ref") is not None:
        name = document["continued_trajectory_ref"]
        queue.append(_waiting(one.path, name, {}, trajectory, "continuation"))
    return trajectory


def _waiting(path: Path, name: str | None, reference: Mapping[str, Any], parent: Trajectory, role: str) -> _Waiting:
    target = _beside(path, name) if name is not None else None
    shown = target if target is not None else path.parent / (name or f"(embedded {reference.get('trajectory_id')})")
    return _Waiting(shown, None, parent.trajectory_id, role)


def _is_file(path: Path) -> bool:
    """A regular file: a reference may name anything, also a device that never ends."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _beside(path: Path, name: str) -> Path | None:
    """The file a reference means; None: it is no file, e.g. an address on the network."""
    if "://" in name or "\0" in name:
        return None
    return path.parent / name.split("#", 1)[0]


def _trajectory(
    document: dict[str, Any], one: _Waiting, options: ReadOptions, replaced: int
) -> tuple[Trajectory, _Parts]:
    where = f"{one.path}: {document.get('trajectory_id') or document.get('session_id') or one.role}"
    extra = document.get("extra") or {}
    identity = _identity(document, one)
    task_id = str(extra.get("task_id") or extra.get("instance_id") or identity)
    named = [(step.get("extra") or {}).get(ACTOR_KEY) for step in document["steps"] if _is_own(step)]
    if not named:
        raise Refused("no_steps", "no step of source agent that is its own")
    actors, told_by = authors(named, [extra], [identity, task_id], options, where)
    parts = _parts(document, options, actors)
    metrics = document.get("final_metrics") or {}
    info: dict[str, Any] = {"source": {"format": NAME, "file": shown(one.path)}}
    optional = {
        "tools": document["agent"].get("tool_definitions"),
        "model": document["agent"].get("model_name"),
        "cost": metrics.get("total_cost_usd"),
        "agent": document["agent"]["name"],
        "session_id": document.get("session_id"),
        "document_notes": document.get("notes"),
        "part": None if one.role == "root" else one.role,
        "continued_in": document.get("continued_trajectory_ref"),
        "copied_steps": parts.copied,
        "row": {key: value for key, value in extra.items() if not key.startswith(PREFIX)},
    }
    info |= {key: value for key, value in optional.items() if value}
    trajectory = Trajectory(
        trajectory_id=identity,
        task_id=task_id,
        env=options.env or "imported",
        goal=goal_of(parts.steps[0].observation),
        steps=tuple(parts.steps),
        final_observation=Observation(messages=tuple(parts.seen)) if parts.seen else None,
        # The context of a document that goes on elsewhere was full: what ended here is the document, not the task.
        stop_reason=StopReason.CONTEXT_OVERFLOW if document.get("continued_trajectory_ref") else StopReason.COMPLETED,
        reward=reward_of(extra.get("reward"), "extra.reward"),
        seed=0,
        parent_id=one.parent_id,
        **switch_of(actors, told_by),
        info=with_replaced(info, replaced),
    )
    told = {name: extra[PREFIX + name] for name in _TRAJECTORY_FIELDS if PREFIX + name in extra}
    if told:
        trajectory = _decoded(Trajectory, {**to_json(trajectory), **told})
    return trajectory, parts


def _identity(document: Mapping[str, Any], one: _Waiting) -> str:
    """The document's own id, else the file's name, with the line where it holds several."""
    name = clean_text(one.path.name.split(".")[0])[0]
    return str(
        document.get("trajectory_id")
        or document.get("session_id")
        or (name if one.line is None else f"{name}-{one.line}")
    )


def _is_own(step: Mapping[str, Any]) -> bool:
    """A step of this agent in this document: what is copied from another was made and counted there."""
    return step["source"] == "agent" and not step.get("is_copied_context")


def _parts(document: dict[str, Any], options: ReadOptions, actors: Sequence[Actor]) -> _Parts:
    parts = _Parts()
    for step in document["steps"]:
        copied = bool(step.get("is_copied_context"))
        parts.copied += copied
        if _is_own(step):
            action, actor = _action(step, options), actors[len(parts.steps)]
            seen = Observation(messages=tuple(parts.seen))
            parts.steps.append(_step(seen, action, actor, step.get("extra") or {}))
            parts.seen = []
        else:
            parts.seen.append(_message(step))
        for result in (step.get("observation") or {}).get("results", []):
            parts.seen.append(_result(result, copied))
            parts.sub_agents += (result.get("subagent_trajectory_ref") or []) if not copied else []
    return parts


def _step(seen: Observation, action: Action, actor: Actor, extra: Mapping[str, Any]) -> Step:
    step = Step(observation=seen, action=action, actor=actor)
    told = {name: extra[PREFIX + name] for name in _STEP_FIELDS if PREFIX + name in extra}
    if not told:
        return step
    made: Step = _decoded(Step, {**encode_record(step, exact=True), **told})
    return made


def _decoded(cls: type, data: Any) -> Any:
    """The record that `data` is, as our own files have it."""
    try:
        return decode_record(cls, data)
    except ValueError as error:
        raise Refused("bad_extra", f"{PREFIX}{cls.__name__.lower()}: {error}") from None


def _action(step: dict[str, Any], options: ReadOptions) -> Action:
    where = f"step {step['step_id']}"
    extra = step.get("extra") or {}
    told = extra.get(f"{PREFIX}action")
    action = action_of_reply(_reply(step), where) if told is None else _decoded(Action, told)
    metrics = step.get("metrics") or {}
    ids, logprobs = metrics.get("completion_token_ids"), metrics.get("logprobs")
    if not options.token_ids or ids is None:
        return action
    return replace(
        action,
        token_ids=tuple(ids),
        rollout_logprobs=None if logprobs is None else tuple(float(one) for one in logprobs),
    )


def _reply(step: dict[str, Any]) -> dict[str, Any]:
    """An agent step as an assistant message: arguments as the string that the model wrote, where it is kept."""
    extra = {key: one for key, one in (step.get("extra") or {}).items() if not key.startswith(PREFIX)}
    content = None if (step.get("extra") or {}).get(f"{PREFIX}content_null") else step["message"]
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if step.get("reasoning_content") is not None:
        message["reasoning_content"] = step["reasoning_content"]
    calls = []
    for call in step.get("tool_calls") or []:
        kept = call.get("extra") or {}
        arguments = kept.get(f"{PREFIX}raw_arguments")
        function = {
            "name": call["function_name"],
            "arguments": wire_arguments(call["arguments"]) if arguments is None else arguments,
        }
        identity = {} if kept.get(f"{PREFIX}without_id") else {"id": call["tool_call_id"]}
        calls.append({**identity, "type": "function", "function": function})
    if calls:
        message["tool_calls"] = calls
    return {**message, **({"extra": extra} if extra else {})}


def _message(step: dict[str, Any]) -> Message:
    """A system or user step, or a copied step of the agent, as a message."""
    extra = step.get("extra") or {}
    if f"{PREFIX}message" in extra:
        return _told_message(extra)
    role = "assistant" if step["source"] == "agent" else str(extra.get(f"{PREFIX}role", step["source"]))
    others = _others(extra)
    if step.get("is_copied_context"):
        others["is_copied_context"] = True
    if role == "assistant" and step.get("tool_calls"):
        others["tool_calls"] = _reply(step)["tool_calls"]
    return Message(role=role, content=text_of(step["message"], f"step {step['step_id']}"), extra=others)


def _result(result: dict[str, Any], copied: bool) -> Message:
    """A result as a message of role tool."""
    extra = result.get("extra") or {}
    if f"{PREFIX}message" in extra:
        return _told_message(extra)
    others = _others(extra)
    if result.get("source_call_id") is not None:
        others["tool_call_id"] = result["source_call_id"]
    if copied:
        others["is_copied_context"] = True
    return Message(role="tool", content=text_of(result.get("content"), "result"), extra=others)


def _others(extra: Mapping[str, Any]) -> dict[str, Any]:
    """Keys of a message that ATIF has no field for: foreign ones, and ``tutelage_name``, ``tutelage_tool_call_id``."""
    others = {key: one for key, one in extra.items() if not key.startswith(PREFIX)}
    return others | {key: extra[PREFIX + key] for key in ("name", "tool_call_id") if PREFIX + key in extra}


def _told_message(extra: Mapping[str, Any]) -> Message:
    made: Message = _decoded(Message, extra[f"{PREFIX}message"])
    return made
