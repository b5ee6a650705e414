"""ATIF 1.8 documents: one JSON object per episode. Keys of ours stand under `extra` only, each with the prefix `tutelage_`."""

from __future__ import annotations

from typing import Any, Final

from tutelage import __version__
from tutelage.formats.write_messages import Conversation, loads_object
from tutelage.types import Trajectory

ATIF_VERSION: Final = "ATIF-v1.8"


def atif_document(conversation: Conversation, trajectory: Trajectory) -> dict[str, Any]:
    """The document of an episode, its last observation included.

    Arguments are an object here: the string as it came is kept in the call's ``tutelage_raw_arguments``. A tool message
    is a result of the agent step that it follows. What ATIF has no field for (actor, weight, reward, ending) is in `extra`.
    """
    steps: list[dict[str, Any]] = []
    for message, index, weight in zip(
        conversation.messages, conversation.step_indices, conversation.weights, strict=True
    ):
        if index is not None:
            steps.append(_agent_step(message, index, weight, trajectory))
        elif message["role"] == "tool" and steps and steps[-1]["source"] == "agent":
            _add_result(steps[-1], message)
        else:
            steps.append(_told_step(message))
    for number, step in enumerate(steps, start=1):
        step["step_id"] = number
    agent: dict[str, Any] = {"name": "tutelage", "version": __version__}
    if conversation.tools:
        agent["tool_definitions"] = list(conversation.tools)
    if isinstance(trajectory.info.get("model"), str):
        agent["model_name"] = trajectory.info["model"]
    return {
        "schema_version": ATIF_VERSION,
        "trajectory_id": trajectory.trajectory_id,
        "agent": agent,
        "steps": [{"step_id": step["step_id"], **step} for step in steps],
        "extra": _root_extra(trajectory),
    }


def _agent_step(message: dict[str, Any], index: int, weight: float, trajectory: Trajectory) -> dict[str, Any]:
    step, action = trajectory.steps[index], trajectory.steps[index].action
    extra: dict[str, Any] = {
        "tutelage_step_index": index,
        "tutelage_actor": step.actor.value,
        "tutelage_train": weight > 0.0,
        "tutelage_weight": weight,
    }
    if message["content"] is None:
        extra["tutelage_content_null"] = True
    if step.policy_version:
        extra["tutelage_policy_version"] = step.policy_version
    if step.reward is not None:
        extra["tutelage_reward"] = step.reward
    written: dict[str, Any] = {"source": "agent", "message": message["content"] or ""}
    if "reasoning_content" in message:
        written["reasoning_content"] = message["reasoning_content"]
    if calls := message.get("tool_calls"):
        written["tool_calls"] = [_call(call, index, place) for place, call in enumerate(calls)]
    metrics: dict[str, Any] = {}
    if action.token_ids is not None:
        metrics["completion_token_ids"] = list(action.token_ids)
    if action.rollout_logprobs is not None:
        metrics["logprobs"] = list(action.rollout_logprobs)
    return written | ({"metrics": metrics} if metrics else {}) | {"extra": extra}


def _call(call: dict[str, Any], index: int, place: int) -> dict[str, Any]:
    raw = call["function"]["arguments"]
    arguments = loads_object(raw)
    extra: dict[str, Any] = {"tutelage_raw_arguments": raw}
    if arguments is None:
        extra["tutelage_arguments_not_json"] = True
    if "id" not in call:
        extra["tutelage_without_id"] = True
    return {
        "tool_call_id": call.get("id", f"call_{index}_{place}"),
        "function_name": call["function"]["name"],
        "arguments": arguments or {},
        "extra": extra,
    }


def _add_result(step: dict[str, Any], message: dict[str, Any]) -> None:
    """A tool message is a result of the step before it; one that names no call of that step says so in `extra`."""
    result: dict[str, Any] = {"content": message["content"]}
    known = {call["tool_call_id"] for call in step.get("tool_calls", ())}
    extra = {}
    if message.get("tool_call_id") in known:
        result["source_call_id"] = message["tool_call_id"]
    elif "tool_call_id" in message:
        extra["tutelage_tool_call_id"] = message["tool_call_id"]
    if "name" in message:
        extra["tutelage_name"] = message["name"]
    if extra:
        result["extra"] = extra
    step.setdefault("observation", {"results": []})["results"].append(result)


def _told_step(message: dict[str, Any]) -> dict[str, Any]:
    role = message["role"]
    step: dict[str, Any] = {"source": role if role in ("system", "user") else "user", "message": message["content"]}
    extra = {f"tutelage_{key}": message[key] for key in ("name", "tool_call_id") if key in message}
    if step["source"] != role:
        extra["tutelage_role"] = role
    return step | ({"extra": extra} if extra else {})


def _root_extra(trajectory: Trajectory) -> dict[str, Any]:
    return {
        "tutelage_task_id": trajectory.task_id,
        "tutelage_env": trajectory.env,
        "tutelage_goal": trajectory.goal,
        "tutelage_seed": trajectory.seed,
        "tutelage_reward": trajectory.reward,
        "tutelage_stop_reason": trajectory.stop_reason.value,
        "tutelage_terminated": trajectory.terminated,
        "tutelage_truncated": not trajectory.terminated,
        "tutelage_switch_index": trajectory.switch_index,
    }
