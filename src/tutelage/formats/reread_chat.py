"""What a trainer learns from a chat row, by the rules that it publishes; written apart from the writers on purpose.

One function per trainer: a row -> `Reading`. A row that the trainer would refuse raises `FormatError`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tutelage.errors import FormatError


@dataclass(frozen=True, slots=True)
class Reading:
    """A row as a trainer sees it."""

    messages: tuple[dict[str, Any], ...]
    """Messages in OpenAI's shape, without flags."""
    trained: frozenset[int]
    """Indices of the messages that carry loss."""


def reread_openai(row: Mapping[str, Any]) -> Reading:
    """Assistant messages are trained unless their ``weight`` is 0; other messages have none."""

    def learns(message: Mapping[str, Any]) -> bool:
        if message["role"] != "assistant":
            if "weight" in message:
                raise FormatError(f"a message of role {message['role']!r} with a weight; only assistants have one")
            return False
        weight = message.get("weight", 1)
        if isinstance(weight, bool) or weight not in (0, 1):
            raise FormatError(f"weight {weight!r}, expected 0 or 1")
        return bool(weight)

    return _read(row, ("weight",), learns)


def reread_axolotl(row: Mapping[str, Any]) -> Reading:
    """With ``message_field_training: train`` and no roles to train: a message is trained where its flag is true.

    A message that renders to nothing has no place in the text, and is then not trained.
    """

    def learns(message: Mapping[str, Any]) -> bool:
        flag = message.get("train")
        return flag is True and bool(message.get("content") or message.get("tool_calls"))

    return _read(row, ("train",), learns)


def reread_slime(row: Mapping[str, Any]) -> Reading:
    """Assistant messages are trained unless the flag is there and other than 1. Both names of the flag must agree."""

    def learns(message: Mapping[str, Any]) -> bool:
        if message.get("loss", 1) != message.get("step_loss_mask", 1):
            raise FormatError(
                f"loss {message.get('loss')!r} and step_loss_mask {message.get('step_loss_mask')!r} differ"
            )
        return bool(message["role"] == "assistant" and message.get("step_loss_mask", 1) == 1)

    return _read(row, ("loss", "step_loss_mask"), learns)


def reread_tinker(row: Mapping[str, Any]) -> Reading:
    """Every message must carry ``trainable``, and it rules, whatever the role."""

    def learns(message: Mapping[str, Any]) -> bool:
        if "trainable" not in message:
            raise FormatError("a message without 'trainable'; TrainOnWhat.CUSTOMIZED wants it on each")
        return bool(message["trainable"])

    return _read(row, ("trainable",), learns)


def _read(row: Mapping[str, Any], flags: tuple[str, ...], learns: Callable[[Mapping[str, Any]], bool]) -> Reading:
    messages = row.get("messages")
    if not isinstance(messages, list) or not messages:
        raise FormatError("a row without messages")
    trained = frozenset(index for index, message in enumerate(messages) if learns(message))
    plain = [{key: value for key, value in message.items() if key not in flags} for message in messages]
    return Reading(tuple(plain), trained)
