"""Log-probabilities of a prompt: how each server is asked, and where its answer holds the numbers.

    vllm      /v1/completions  prompt_logprobs: k     choices[0].prompt_logprobs[t] = {id: {logprob, ...}, ...}
    sglang    /generate        logprob_start_len: 0   meta_info.input_token_logprobs[t] = [logprob, id, text]
    others    /v1/completions  echo, logprobs: k      choices[0].logprobs.token_logprobs[t], .tokens[t]

The last is the shape of OpenAI's old completions, which some servers over llama.cpp have. In each, entry t belongs to id t, and the first is null: nothing precedes the first id.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tutelage.policies.endpoint.completion import WrongAnswer
from tutelage.policies.endpoint.config import Server


@dataclass(frozen=True, slots=True)
class PromptScores:
    """The numbers of one prompt."""

    logprobs: list[float | None]
    """[T] of the ids that were sent."""
    top: list[dict[int, float]] | None = None
    """[T] the most probable ids of each position. None: the answer holds none."""
    wrong_id: str | None = None
    """Where the server scored another id than the one that was sent, in words. None: nowhere."""


def score_body(server: Server, model: str, token_ids: list[int], k: int) -> tuple[str, dict[str, Any]]:
    """Path and body that ask for the log-probabilities of a prompt and of the `k` most probable ids at each position.

    One token of answer is asked for too, since some servers want that; it is not looked at.
    """
    if server == "sglang":
        # logprob_start_len: the default begins at the end of the prompt.
        body = {"input_ids": token_ids, "return_logprob": True, "logprob_start_len": 0, "top_logprobs_num": k}
        return "/generate", {**body, "sampling_params": {"max_new_tokens": 1, "temperature": 1.0}}
    common = {"model": model, "prompt": token_ids, "max_tokens": 1, "temperature": 1.0}
    named = {"prompt_logprobs": k} if server == "vllm" else {"echo": True, "logprobs": 1}
    return "/v1/completions", {**common, **named}


def read_scores(server: Server, data: Mapping[str, Any], token_ids: Sequence[int]) -> PromptScores:
    """The numbers in an answer; `WrongAnswer` unless there is one for each of the ids, the first of them null.

    Example, vLLM, ids 5 9: ``[null, {"9": {"logprob": -0.5}, "3": {"logprob": -1.2}}]`` -> -0.5 for the 9, top 9 and 3
    """
    reader = {"vllm": _vllm, "sglang": _sglang}.get(server, _echo)
    return reader(data, token_ids)


def _vllm(data: Mapping[str, Any], token_ids: Sequence[int]) -> PromptScores:
    choice = data["choices"][0]
    entries = choice.get("prompt_logprobs")
    _check_length(entries, token_ids)
    top: list[dict[int, float]] = []
    for entry in entries:
        top.append({int(one): float(told["logprob"]) for one, told in (entry or {}).items()})
    if top[0]:
        raise WrongAnswer("the first log-probability is not null, so the positions are shifted")
    # The sent id is always among the entries of its position, most probable or not.
    missing = [place for place in range(1, len(top)) if token_ids[place] not in top[place]]
    wrong = None
    if missing:
        place = missing[0]
        wrong = f"position {place}: sent id {token_ids[place]}, the server scored {sorted(top[place])[:5]}"
    return PromptScores([one.get(sent) for one, sent in zip(top, token_ids, strict=True)], top, wrong)


def _sglang(data: Mapping[str, Any], token_ids: Sequence[int]) -> PromptScores:
    meta = data["meta_info"]
    entries = meta.get("input_token_logprobs")
    _check_length(entries, token_ids)
    listed = meta.get("input_top_logprobs")
    top = None
    if listed:
        _check_length(listed, token_ids)
        top = [{int(one[1]): float(one[0]) for one in entry or ()} for entry in listed]
    wrong = None
    for place, (entry, sent) in enumerate(zip(entries, token_ids, strict=True)):
        if entry[1] != sent and wrong is None:
            wrong = f"position {place}: sent id {sent}, the server scored {entry[1]}"
    return PromptScores(_numbers([entry[0] for entry in entries]), top, wrong)


def _echo(data: Mapping[str, Any], token_ids: Sequence[int]) -> PromptScores:
    told = data["choices"][0].get("logprobs") or {}
    numbers, tokens = told.get("token_logprobs"), told.get("tokens")
    if isinstance(numbers, list) and len(numbers) == len(token_ids) + 1:
        numbers = numbers[:-1]  # The answer's own token stands behind the prompt.
    _check_length(numbers, token_ids)
    assert isinstance(numbers, list)
    wrong = None
    for place, (token, sent) in enumerate(zip(tokens or (), token_ids, strict=False)):
        # Servers that are told to write ids instead of texts write them like this.
        if isinstance(token, str) and token.startswith("token_id:") and token != f"token_id:{sent}" and wrong is None:
            wrong = f"position {place}: sent id {sent}, the server scored {token.removeprefix('token_id:')}"
    return PromptScores(_numbers(numbers), None, wrong)


def _check_length(entries: Any, token_ids: Sequence[int]) -> None:
    if not isinstance(entries, list):
        raise WrongAnswer("no log-probabilities of the prompt in the answer; this server does not give them")
    if len(entries) != len(token_ids):
        raise WrongAnswer(f"{len(entries)} log-probabilities for {len(token_ids)} token ids")


def _numbers(values: Sequence[Any]) -> list[float | None]:
    if values[0] is not None:
        raise WrongAnswer("the first log-probability is not null, so the positions are shifted")
    return [None if one is None else float(one) for one in values]
