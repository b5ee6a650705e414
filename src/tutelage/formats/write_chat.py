"""Chat rows with the flag per message that each trainer reads: OpenAI, Mistral, Axolotl, slime, tinker.

One function per trainer: a conversation -> its row. Raises `Refused` for what the trainer cannot be told.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tutelage.formats.base import Refused
from tutelage.formats.write_messages import Conversation


def openai_row(conversation: Conversation) -> dict[str, Any]:
    """OpenAI and Mistral fine-tuning: ``weight`` 0 or 1 on each assistant message.

    Refused: reasoning beside the content (there is no key for it), calls without an id, answers that match no call.
    """
    _no_reasoning(conversation)
    check_calls(conversation.messages)
    return _row(conversation, [{"weight": int(on)} if assistant else {} for assistant, on in _flags(conversation)])


def axolotl_row(conversation: Conversation) -> dict[str, Any]:
    """Axolotl: ``train`` true or false on every message, so that no default decides.

    Refused: what Axolotl would not find, see `check_text`.
    """
    check_text(conversation)
    return _row(conversation, [{"train": on} for _, on in _flags(conversation)])


def slime_row(conversation: Conversation) -> dict[str, Any]:
    """slime: ``loss`` 0 or 1 on each assistant message, and the same as ``step_loss_mask``, the key its mask builder reads."""
    flags = [
        {"loss": int(on), "step_loss_mask": int(on)} if assistant else {} for assistant, on in _flags(conversation)
    ]
    return _row(conversation, flags)


def tinker_row(conversation: Conversation) -> dict[str, Any]:
    """tinker-cookbook with ``TrainOnWhat.CUSTOMIZED``: ``trainable`` on every message, as it demands.

    Refused: reasoning beside the content, which its messages hold inside the content.
    """
    _no_reasoning(conversation)
    return _row(conversation, [{"trainable": on} for _, on in _flags(conversation)])


AXOLOTL_CONFIG = """\
datasets:
  - path: {path}
    type: chat_template
    field_messages: messages
    message_field_training: train
    roles_to_train: []
    train_on_eos: turn
"""
"""The lines of an Axolotl configuration by which the flags rule."""

TINKER_CONFIG = "train_on_what: CUSTOMIZED  # tinker_cookbook.renderers.TrainOnWhat.CUSTOMIZED\n"


def check_text(conversation: Conversation) -> None:
    """Axolotl finds each trained message: by where the conversation differs from one with ``[[dummy_message]]`` in its place.

    Refused: a message without text and without a call (no place), and a text that begins or ends as the dummy does (the
    token that they share would not be trained).
    """
    for index in sorted(conversation.trained):
        message = conversation.messages[index]
        text, calls = message["content"] or "", message.get("tool_calls")
        if not text and not calls:
            raise Refused("empty_trained_message", f"message {index}: Axolotl trains no message without text")
        if text.startswith("[") or (text.endswith("]") and not calls):
            raise Refused("shared_border", f"message {index}: Axolotl would not train the bracket at its border")


def check_calls(messages: Sequence[dict[str, Any]]) -> None:
    """Every call has an id, every answer names a call of the message before it, each once.

    Calls of the last message need no answer: the episode ended there.
    """
    waiting: set[str] = set()
    for index, message in enumerate(messages):
        if message["role"] == "tool":
            if message.get("tool_call_id") not in waiting:
                raise Refused("unmatched_answer", f"message {index}: answers {message.get('tool_call_id')!r}")
            waiting.remove(message["tool_call_id"])
            continue
        if waiting:
            raise Refused("unanswered_call", f"message {index}: {', '.join(sorted(waiting))} has no answer before it")
        identities = [call.get("id") for call in message.get("tool_calls", ())]
        if None in identities or len(set(identities)) != len(identities):
            raise Refused("call_without_id", f"message {index}: ids {identities}, expected one for each call")
        waiting = set(identities)


def _flags(conversation: Conversation) -> list[tuple[bool, bool]]:
    """For each message: is it the assistant's (one shown as a demonstration too), and is it trained."""
    return [
        (message["role"] == "assistant", weight > 0.0)
        for message, weight in zip(conversation.messages, conversation.weights, strict=True)
    ]


def _row(conversation: Conversation, flags: Sequence[dict[str, Any]]) -> dict[str, Any]:
    messages = [message | flag for message, flag in zip(conversation.messages, flags, strict=True)]
    return {"messages": messages} | ({"tools": list(conversation.tools)} if conversation.tools else {})


def _no_reasoning(conversation: Conversation) -> None:
    for index, message in enumerate(conversation.messages):
        if "reasoning_content" in message:
            raise Refused("reasoning_content", f"message {index}: this format has no place for reasoning of its own")
