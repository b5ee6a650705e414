"""The proof of an export: what the trainer reads out of the file is what was meant, message by message and token by token.

In: what was written and what was meant. An `ExportError` names the first difference; then no file is left behind.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tutelage.envs.action_formats import command_of
from tutelage.errors import ExportError
from tutelage.formats.base import Refused
from tutelage.formats.reread_chat import Reading
from tutelage.formats.write_messages import Conversation, loads_object
from tutelage.rendering.base import Renderer
from tutelage.supervision.samples import Layout, build_samples
from tutelage.types import (
    Action,
    Actor,
    LossComponent,
    Message,
    Observation,
    ParsedCall,
    Step,
    StepSupervision,
    StopReason,
    TrainingSample,
    Trajectory,
)


def check_messages(where: str, reading: Reading, meant: Conversation, *, loses: Collection[str] = ()) -> None:
    """Equal messages, equal trained set. `loses`: what the format cannot hold, as it is listed in the docs:
    ``ids`` of calls, ``null`` (a content that is null beside calls becomes empty), ``layout`` of JSON in arguments.

    Example: ``rows.jsonl, row 3 (trajectory t-1): message 4 is trained, expected untrained``
    """
    theirs = [_comparable(message, loses) for message in reading.messages]
    ours = [_comparable(message, loses) for message in meant.messages]
    for index in range(max(len(theirs), len(ours))):
        here = f"{where}, message {index}"
        if index >= len(theirs) or index >= len(ours):
            raise ExportError(f"{here}: {len(theirs)} messages are read back, expected {len(ours)}.")
        if theirs[index] != ours[index]:
            raise ExportError(f"{here}: reads back as {theirs[index]:.200}, expected {ours[index]:.200}.")
        if (index in reading.trained) != (index in meant.trained):
            words = ("untrained", "trained")
            raise ExportError(
                f"{here} reads back as {words[index in reading.trained]}, expected {words[index in meant.trained]}."
            )


def check_tokens(where: str, got: tuple[Sequence[int], Collection[int]], meant: TrainingSample) -> None:
    """Equal ids, equal trained positions."""
    token_ids, positions = got
    wanted = {index for index, trained in enumerate(meant.loss_mask) if trained}
    if list(token_ids) != list(meant.token_ids):
        first = next(
            (index for index, pair in enumerate(zip(token_ids, meant.token_ids, strict=False)) if pair[0] != pair[1]),
            min(len(token_ids), len(meant.token_ids)),
        )
        raise ExportError(
            f"{where}: {_place(meant, first)} differs at token {first}: {list(token_ids[first : first + 5])} are read back, "
            f"expected {list(meant.token_ids[first : first + 5])}."
        )
    if set(positions) != wanted:
        first = min(set(positions) ^ wanted)
        words = ("untrained", "trained")
        raise ExportError(
            f"{where}: {_place(meant, first)}: token {first} reads back as {words[first in positions]}, expected "
            f"{words[first in wanted]}."
        )


def fingerprint(token_ids: Sequence[int], positions: Iterable[int]) -> bytes:
    """SHA-256 over ids and trained positions: files may hold more tokens than memory."""
    digest = hashlib.sha256(array("q", token_ids).tobytes())
    digest.update(b"|" + array("q", sorted(positions)).tobytes())
    return digest.digest()


def fingerprint_of(sample: TrainingSample) -> bytes:
    """The fingerprint of what a sample trains."""
    return fingerprint(sample.token_ids, (index for index, trained in enumerate(sample.loss_mask) if trained))


def tokens_of_reading(
    reading: Reading, meant: Conversation, renderer: Renderer, layout: Layout
) -> list[tuple[tuple[int, ...], frozenset[int]]]:
    """Ids and trained positions of a row, built from its messages and its flags alone, as `build_samples` builds them.

    Where the format loses something that is listed, the message as it was meant stands in for it; `check_messages` has
    compared the rest.
    """
    steps: list[Step] = []
    mask: list[bool] = []
    seen: list[Message] = []
    for index, message in enumerate(meant.messages):
        if meant.step_indices[index] is None:
            extra: dict[str, Any] = {key: message[key] for key in ("name", "tool_call_id") if key in message}
            seen.append(Message(role=message["role"], content=message["content"], extra=extra))
            continue
        steps.append(
            Step(observation=Observation(messages=tuple(seen)), action=action_of_message(message), actor=Actor.STUDENT)
        )
        mask.append(index in reading.trained)
        seen = []
    rebuilt = Trajectory(
        trajectory_id=meant.trajectory_id,
        task_id="",
        env="",
        steps=tuple(steps),
        final_observation=None,
        stop_reason=StopReason.COMPLETED,
        reward=None,
        seed=0,
    )
    supervision = StepSupervision(
        trajectory_id=meant.trajectory_id,
        step_mask=tuple(mask),
        step_weights={LossComponent.SFT: tuple(float(on) for on in mask)},
        source="reread",
    )
    samples = build_samples(rebuilt, supervision, renderer, layout=layout)
    return [
        (sample.token_ids, frozenset(index for index, on in enumerate(sample.loss_mask) if on)) for sample in samples
    ]


def action_of_message(message: Mapping[str, Any]) -> Action:
    """The action that an assistant message says."""
    text = message["content"] or ""
    calls = message.get("tool_calls")
    call = None
    if calls:
        arguments = loads_object(calls[0]["function"]["arguments"])
        call = None if arguments is None else ParsedCall(name=calls[0]["function"]["name"], arguments=arguments)
    raw = dict(message) if calls or "reasoning_content" in message else None
    return Action(text=text, command=text if call is None else command_of(call), call=call, raw=raw)


def without_sampled_ids(trajectory: Trajectory) -> Trajectory:
    """The trajectory as a format of messages can say it: texts, which the trainer's tokenizer encodes."""
    steps = tuple(
        replace(step, action=replace(step.action, token_ids=None, rollout_logprobs=None)) for step in trajectory.steps
    )
    return replace(trajectory, steps=steps)


def check_no_drift(trajectory: Trajectory, renderer: Renderer) -> None:
    """Raise Refused where sampled ids are not those that the tokenizer gives the text: messages would lose them."""
    for index, step in enumerate(trajectory.steps):
        if step.action.token_ids is None:
            continue
        encoded = renderer.action_ids(replace(step.action, token_ids=None, rollout_logprobs=None))
        if list(step.action.token_ids) != list(encoded):
            raise Refused("sampled_ids_differ", f"step {index}: its text encodes to other ids; write tokenised rows")


def _comparable(message: Mapping[str, Any], loses: Collection[str]) -> str:
    """What a message says, as a string, without what the format loses."""
    plain = {key: value for key, value in message.items() if not (key in ("tool_call_id", "name") and "ids" in loses)}
    if plain.get("tool_calls"):
        plain["tool_calls"] = [_comparable_call(call, loses) for call in plain["tool_calls"]]
        if "null" in loses:
            plain["content"] = plain["content"] or None
    return json.dumps(plain, ensure_ascii=False, sort_keys=True)


def _comparable_call(call: Mapping[str, Any], loses: Collection[str]) -> dict[str, Any]:
    kept = {key: value for key, value in call.items() if not (key == "id" and "ids" in loses)}
    if "layout" in loses:
        arguments = json.dumps(json.loads(call["function"]["arguments"]), ensure_ascii=False)
        kept["function"] = {"name": call["function"]["name"], "arguments": arguments}
    return kept


def _place(sample: TrainingSample, token: int) -> str:
    """Which step a token is in, or comes before."""
    for step_index, _, end in sample.step_spans:
        if token < end:
            return f"step {step_index}"
    return "the end"
