"""What a request for an answer says, in the dialect of each server. All sampling settings are sent: defaults of servers may
come from the model's files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tutelage.policies.endpoint.completion import (
    Completion,
    read_completion,
    read_llama_cpp,
    read_sglang,
)
from tutelage.policies.endpoint.config import EndpointConfig

Read = Callable[[Mapping[str, Any], str], Completion]
"""Answer and request id -> completion."""


def chat_body(
    config: EndpointConfig,
    messages: Sequence[Mapping[str, Any]],
    *,
    tools: Sequence[Mapping[str, Any]] | None,
    response_format: Mapping[str, Any] | None,
    seed: int | None,
    max_tokens: int | None,
    temperature: float | None,
) -> dict[str, Any]:
    """The body for ``/v1/chat/completions``. None: nothing of that kind, or what the config says."""
    body: dict[str, Any] = {
        "model": config.model,
        "messages": [dict(message) for message in messages],
        "max_tokens": max_tokens or config.max_tokens,
        "temperature": config.temperature if temperature is None else temperature,
        "top_p": config.top_p,
    }
    if seed is not None:
        body["seed"] = seed
    if tools:
        body["tools"] = [dict(tool) for tool in tools]
    if response_format is not None:
        body["response_format"] = dict(response_format)
    if config.server == "vllm":
        body |= {"return_token_ids": True, "logprobs": True, "top_k": -1}
    return _with_extra(config, body)


def completion_request(
    config: EndpointConfig,
    prompt: Sequence[int] | str,
    *,
    stop_token_ids: Sequence[int],
    seed: int | None,
    max_tokens: int | None,
    temperature: float | None,
) -> tuple[str, dict[str, Any], Read]:
    """Path, body and reader of a request for what follows a prompt of ids or text."""
    temperature = config.temperature if temperature is None else temperature
    max_tokens = max_tokens or config.max_tokens
    content: Any = prompt if isinstance(prompt, str) else [int(one) for one in prompt]
    stops = [int(one) for one in stop_token_ids]
    seeded = {} if seed is None else {"seed": seed}
    if config.server == "sglang":
        sampling: dict[str, Any] = {"max_new_tokens": max_tokens, "temperature": temperature, "top_p": config.top_p}
        sampling |= {"stop_token_ids": stops} | ({} if seed is None else {"sampling_seed": seed})
        named = {"text": content} if isinstance(content, str) else {"input_ids": content}
        body = {**named, "sampling_params": sampling, "return_logprob": True}
        return "/generate", _with_extra(config, body), read_sglang
    common = {"prompt": content, "temperature": temperature, "top_p": config.top_p, **seeded}
    if config.server == "llama_cpp":
        # Its defaults cut the distribution in several ways; none may stand between us and the model.
        plain = {"top_k": 0, "min_p": 0.0, "repeat_penalty": 1.0, "return_tokens": True, "n_probs": 1}
        return "/completion", _with_extra(config, {**common, "n_predict": max_tokens, **plain}), read_llama_cpp
    body = {"model": config.model, **common, "max_tokens": max_tokens}
    if config.server == "vllm":
        body |= {"return_token_ids": True, "logprobs": 1, "top_k": -1, "stop_token_ids": stops}
    return "/v1/completions", _with_extra(config, body), read_completion


def _with_extra(config: EndpointConfig, body: dict[str, Any]) -> dict[str, Any]:
    """The config's further keys in, those that it sets to null out."""
    return {key: value for key, value in {**body, **config.extra_body}.items() if value is not None}
