"""What a server can do, found out by asking it: one small request for each capability."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from tutelage.errors import EndpointError
from tutelage.policies.endpoint.client import EndpointClient
from tutelage.policies.endpoint.completion import (
    WrongAnswer,
    read_chat,
    read_completion,
    read_llama_cpp,
    read_sglang,
)
from tutelage.policies.endpoint.config import EndpointConfig, Server
from tutelage.policies.endpoint.prompt_scores import read_scores, score_body

IDS: Final = [3, 4, 5, 6]
"""A prompt of ids that every vocabulary has."""

HELLO: Final = [{"role": "user", "content": "Reply with the word yes."}]

TOOL: Final = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Add two numbers.",
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
            "required": ["a", "b"],
        },
    },
}

SCHEMA: Final = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}


@dataclass(frozen=True, kw_only=True, slots=True)
class Capability:
    """One thing that a server may be able to do."""

    name: str
    works: bool | None
    """None: accepted, but the answer does not show whether it works."""
    detail: str = ""

    @property
    def word(self) -> str:
        return {True: "yes", False: "no", None: "unclear"}[self.works]


def probe(config: EndpointConfig) -> list[Capability]:
    """Ask a server for everything that tutelage can use. Costs some twelve requests of a few tokens.

    config.model may be empty: then the first model that the server lists is asked.
    """
    quick = replace(config, max_tries=2, deadline_seconds=min(60.0, config.deadline_seconds), max_tokens=16)
    found: list[Capability] = []
    client = EndpointClient(quick)
    try:
        try:
            listed = client.get("/v1/models", _models)
            found.append(Capability(name="models", works=True, detail=", ".join(listed[:5])))
        except EndpointError as error:
            found.append(_failed("models", error))
            if error.reason in ("transport", "timeout", "auth"):
                return found
            listed = []
        model = config.model or next(iter(listed), "")
        for name, path, body, read in _probes(model):
            try:
                works, detail = client.post(path, body, read, kind="probe", draw=name)
                found.append(Capability(name=name, works=works, detail=detail))
            except EndpointError as error:
                found.append(_failed(name, error))
    finally:
        client.close()
    return found


def table_of(found: list[Capability]) -> str:
    """The capabilities as plain text, one a line."""
    width = max(len(one.name) for one in found)
    return "\n".join(f"{one.name:<{width}}  {one.word:<7}  {one.detail}".rstrip() for one in found)


Finding = tuple[bool | None, str]
Reader = Callable[[Mapping[str, Any]], Finding]


def _probes(model: str) -> list[tuple[str, str, dict[str, Any], Reader]]:
    greedy = {"model": model, "max_tokens": 16, "temperature": 0.0}
    chat, completions = "/v1/chat/completions", "/v1/completions"
    schema = {"type": "json_schema", "json_schema": {"name": "reply", "schema": SCHEMA}}
    sampling = {"max_new_tokens": 2, "temperature": 0.0}
    few = {**greedy, "max_tokens": 2}
    probes: list[tuple[str, str, dict[str, Any], Reader]] = [
        ("chat", chat, {**greedy, "messages": HELLO}, _chat),
        ("chat: usage", chat, {**greedy, "messages": HELLO}, _usage),
        ("chat: tools", chat, {**greedy, "max_tokens": 96, "messages": _ADD, "tools": [TOOL]}, _tools),
        ("chat: JSON by schema", chat, {**greedy, "messages": HELLO, "response_format": schema}, _schema),
        ("completions of text", completions, {**few, "prompt": "One two three"}, _completion),
        ("completions of ids", completions, {**few, "prompt": IDS}, _completion),
        ("ids back (vllm)", completions, {**few, "prompt": IDS, "return_token_ids": True, "logprobs": 1}, _ids),
        ("ids back (sglang)", "/generate", {"input_ids": IDS, "sampling_params": sampling, "return_logprob": True},
         _ids_of(read_sglang)),
        ("ids back (llama_cpp)", "/completion", {"prompt": IDS, "n_predict": 2, "return_tokens": True, "n_probs": 1},
         _ids_of(read_llama_cpp)),
    ]  # fmt: skip
    scoring: tuple[Server, ...] = ("vllm", "sglang", "openai")
    for server in scoring:
        path, body = score_body(server, model, list(IDS), 0)
        probes.append((f"log-probabilities of prompts ({server})", path, body, _scores(server, 0)))
    for server in scoring[:2]:
        path, body = score_body(server, model, list(IDS), 5)
        probes.append((f"their 5 most probable ids ({server})", path, body, _scores(server, 5)))
    return probes


_ADD: Final = [{"role": "user", "content": "Add 17 and 25. Use the tool."}]


def _models(data: Mapping[str, Any]) -> list[str]:
    if not isinstance(data.get("data"), list):
        raise WrongAnswer("no list of models")
    return [str(one.get("id")) for one in data["data"] if isinstance(one, dict)]


def _chat(data: Mapping[str, Any]) -> Finding:
    return True, repr(read_chat(data, "").text[:40])


def _usage(data: Mapping[str, Any]) -> Finding:
    read = read_chat(data, "")
    return read.completion_tokens is not None, f"prompt {read.prompt_tokens}, answer {read.completion_tokens} tokens"


def _tools(data: Mapping[str, Any]) -> Finding:
    calls = read_chat(data, "").tool_calls
    return (True, f"{calls[0].name}({calls[0].arguments})") if calls else (None, "accepted; the model made no call")


def _schema(data: Mapping[str, Any]) -> Finding:
    text = read_chat(data, "").text
    try:
        fits = isinstance(json.loads(text).get("word"), str)
    except (ValueError, AttributeError):
        fits = False
    return (True, repr(text[:40])) if fits else (False, f"accepted and ignored: {text[:40]!r}")


def _completion(data: Mapping[str, Any]) -> Finding:
    return True, repr(read_completion(data, "").text[:40])


def _ids(data: Mapping[str, Any]) -> Finding:
    return _ids_of(read_completion)(data)


def _ids_of(reader: Callable[[Mapping[str, Any], str], Any]) -> Reader:
    def read(data: Mapping[str, Any]) -> Finding:
        found = reader(data, "")
        if found.token_ids is None:
            return False, "the answer holds no ids"
        return True, f"{list(found.token_ids)}, {'with' if found.logprobs else 'without'} log-probabilities"

    return read


def _scores(server: Server, k: int) -> Reader:
    def read(data: Mapping[str, Any]) -> Finding:
        found = read_scores(server, data, IDS)
        if found.wrong_id is not None:
            return False, found.wrong_id
        if not k:
            return True, ", ".join("null" if one is None else f"{one:.3f}" for one in found.logprobs)
        most = min((len(one) for one in (found.top or [])[1:]), default=0)
        return most >= k, f"{most} a position"

    return read


def _failed(name: str, error: EndpointError) -> Capability:
    said = str(error).rpartition(" (request")[0].partition(f"{error.reason}: ")[2]
    # Without the address, which is the same for all.
    return Capability(name=name, works=False, detail=f"{error.reason}: {said.partition(': ')[2][:100]}")
