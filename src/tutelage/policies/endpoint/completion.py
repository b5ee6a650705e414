"""What a server answered, in one form for all dialects. Whatever does not have the promised form is `WrongAnswer`."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

REFUSALS = ("content_filter", "refusal")
"""Finish reasons of an answer that the model or its host would not give."""


BYTES_PER_TOKEN: Final = 4
"""For estimates only, where a server does not count."""


class WrongAnswer(Exception):
    """Valid or invalid JSON that is not the answer that was asked for."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolCall:
    """A native tool call as the server gave it."""

    call_id: str
    name: str
    arguments: str
    """The string that the model wrote; JSON if it wrote JSON."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Completion:
    """One answer.

    Example: ``Completion(text="look", finish_reason="stop", prompt_tokens=41, completion_tokens=2, ...)``
    """

    text: str
    """Content, without reasoning and without calls. Empty where the server gave null."""
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: str
    """``stop``, ``tool_calls``, ``length`` (cut off), ``content_filter``, ``refusal``, or what else the server says."""
    reasoning: str = ""
    prompt_tokens: int | None
    """None: the server told no usage."""
    completion_tokens: int | None
    prompt_token_ids: tuple[int, ...] | None = None
    token_ids: tuple[int, ...] | None = None
    """[T] as sampled, the stop token included. None: the server does not tell."""
    logprobs: tuple[float, ...] | None = None
    """[T] natural log, one per id; under the temperature or before it as the server does. None: not told."""
    model: str = ""
    request_id: str = ""
    raw: Mapping[str, Any] = field(default_factory=dict)
    """The assistant message (chat) or the choice (completions) as it came."""
    reused: bool = False
    """True: an earlier answer to the same request in the same run; nothing was asked and nothing was paid."""

    @property
    def cut(self) -> bool:
        """The answer met the limit on its tokens, so that it is only a part."""
        return self.finish_reason == "length"

    @property
    def refused(self) -> bool:
        return self.finish_reason in REFUSALS


class Usage(NamedTuple):
    """Tokens as the server counts them. None: it does not tell."""

    prompt: int | None
    completion: int | None


def read_chat(data: Mapping[str, Any], request_id: str) -> Completion:
    """An answer of ``/v1/chat/completions``."""
    choice = _first_choice(data)
    message = choice.get("message")
    if not isinstance(message, dict):
        raise WrongAnswer(f"choices[0] has no message: {_short(choice)}")
    refusal = message.get("refusal")
    calls = tuple(_tool_call(one, index) for index, one in enumerate(message.get("tool_calls") or ()))
    text = _content(message.get("content"))
    usage = _usage(data)
    ids = _ids(choice.get("token_ids"))
    return Completion(
        text=text or (refusal if isinstance(refusal, str) else ""),
        tool_calls=calls,
        finish_reason="refusal" if refusal else _finish_reason(choice),
        reasoning=_content(message.get("reasoning_content") or message.get("reasoning")),
        prompt_tokens=usage.prompt,
        completion_tokens=usage.completion,
        prompt_token_ids=_ids(data.get("prompt_token_ids")),
        token_ids=ids,
        logprobs=_fitting(_chat_logprobs(choice), ids),
        model=str(data.get("model") or ""),
        request_id=request_id,
        raw=message,
    )


def read_completion(data: Mapping[str, Any], request_id: str) -> Completion:
    """An answer of ``/v1/completions``."""
    choice = _first_choice(data)
    text = choice.get("text")
    if not isinstance(text, str):
        raise WrongAnswer(f"choices[0] has no text: {_short(choice)}")
    usage = _usage(data)
    ids = _ids(choice.get("token_ids"))
    listed = choice.get("logprobs")
    numbers = listed.get("token_logprobs") if isinstance(listed, dict) else None
    return Completion(
        text=text,
        finish_reason=_finish_reason(choice),
        prompt_tokens=usage.prompt,
        completion_tokens=usage.completion,
        prompt_token_ids=_ids(choice.get("prompt_token_ids")),
        token_ids=ids,
        logprobs=_fitting(numbers, ids),
        model=str(data.get("model") or ""),
        request_id=request_id,
        raw=choice,
    )


def read_sglang(data: Mapping[str, Any], request_id: str) -> Completion:
    """An answer of SGLang's ``/generate``."""
    meta = data.get("meta_info")
    if not isinstance(data.get("text"), str) or not isinstance(meta, dict):
        raise WrongAnswer(f"no text and meta_info: {_short(data)}")
    finish = meta.get("finish_reason")
    ids = _ids(data.get("output_ids"))
    listed = meta.get("output_token_logprobs")
    numbers = None
    if isinstance(listed, list):
        numbers = [entry[0] for entry in listed]
        ids = _ids([entry[1] for entry in listed]) if ids is None else ids
    return Completion(
        text=data["text"],
        finish_reason=str(finish.get("type") if isinstance(finish, dict) else finish or "stop"),
        prompt_tokens=_count(meta.get("prompt_tokens")),
        completion_tokens=_count(meta.get("completion_tokens")),
        token_ids=ids,
        logprobs=_fitting(numbers, ids),
        request_id=request_id,
        raw=data,
    )


def read_llama_cpp(data: Mapping[str, Any], request_id: str) -> Completion:
    """An answer of llama.cpp's ``/completion``."""
    if not isinstance(data.get("content"), str):
        raise WrongAnswer(f"no content: {_short(data)}")
    ids = _ids(data.get("tokens") or None)
    listed = data.get("completion_probabilities")
    numbers = None
    if isinstance(listed, list):
        # Older versions tell probabilities of another kind.
        numbers = [one["logprob"] for one in listed] if all("logprob" in one for one in listed) else None
        ids = _ids([one.get("id") for one in listed]) if ids is None else ids
    cut = data.get("stop_type") == "limit" or data.get("stopped_limit") is True
    return Completion(
        text=data["content"],
        finish_reason="length" if cut else "stop",
        prompt_tokens=_count(data.get("tokens_evaluated")),
        completion_tokens=_count(data.get("tokens_predicted")),
        token_ids=ids,
        logprobs=_fitting(numbers, ids),
        model=str(data.get("model") or ""),
        request_id=request_id,
        raw=data,
    )


def count_tokens(data: Mapping[str, Any], prompt: bytes) -> tuple[int, int, bool]:
    """Tokens of prompt and answer, and whether they are an estimate."""
    usage = data.get("usage")
    if isinstance(usage, dict) and isinstance(usage.get("prompt_tokens"), int):
        return usage["prompt_tokens"], int(usage.get("completion_tokens") or 0), False
    meta = data.get("meta_info")
    if isinstance(meta, dict) and isinstance(meta.get("prompt_tokens"), int):
        return meta["prompt_tokens"], int(meta.get("completion_tokens") or 0), False
    if not prompt:
        return 0, 0, True
    answer = json.dumps(data.get("choices") or data.get("text") or data.get("content") or "").encode()
    return -(-len(prompt) // BYTES_PER_TOKEN), -(-len(answer) // BYTES_PER_TOKEN), True


def _first_choice(data: Mapping[str, Any]) -> dict[str, Any]:
    choices = data.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise WrongAnswer(f"no choices in the answer: {_short(data)}")
    found: dict[str, Any] = choices[0]
    return found


def _finish_reason(choice: Mapping[str, Any]) -> str:
    reason = choice.get("finish_reason")
    # Some servers give null for an answer that ended by itself.
    return "stop" if reason is None else str(reason.get("type") if isinstance(reason, dict) else reason)


def _content(content: Any) -> str:
    """A string, null, or a list of parts, as text."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    raise WrongAnswer(f"content is {type(content).__name__}, expected a string, null or a list of parts")


def _tool_call(call: Any, index: int) -> ToolCall:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise WrongAnswer(f"tool_calls[{index}] has no function name: {_short(call)}")
    arguments = function.get("arguments")
    if not isinstance(arguments, str):
        # Some servers write the object itself.
        arguments = json.dumps({} if arguments is None else arguments, ensure_ascii=False)
    return ToolCall(call_id=str(call.get("id") or f"call_{index}"), name=function["name"], arguments=arguments)


def _usage(data: Mapping[str, Any]) -> Usage:
    usage = data.get("usage")
    if not isinstance(usage, dict):
        return Usage(None, None)
    return Usage(_count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens")))


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _ids(value: Any) -> tuple[int, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list) or any(
        not isinstance(one, int) or isinstance(one, bool) or one < 0 for one in value
    ):
        raise WrongAnswer(f"token ids are {_short(value)}, expected a list of numbers")
    return tuple(value)


def _chat_logprobs(choice: Mapping[str, Any]) -> list[Any] | None:
    listed = choice.get("logprobs")
    content = listed.get("content") if isinstance(listed, dict) else None
    return [one.get("logprob") for one in content] if isinstance(content, list) else None


def _fitting(numbers: Sequence[Any] | None, ids: tuple[int, ...] | None) -> tuple[float, ...] | None:
    """Log-probabilities, if there is one for each id. Without ids nobody could say what they belong to."""
    if numbers is None or ids is None:
        return None
    if len(numbers) != len(ids):
        raise WrongAnswer(f"{len(numbers)} log-probabilities for {len(ids)} token ids")
    if any(not isinstance(one, int | float) or not math.isfinite(one) for one in numbers):
        raise WrongAnswer(f"log-probabilities are not finite numbers: {_short(numbers)}")
    return tuple(float(one) for one in numbers)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:117]}..."
