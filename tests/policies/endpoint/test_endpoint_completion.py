"""Answers of servers, in the shapes that are met, as completions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutelage.policies.endpoint.completion import (
    ToolCall,
    WrongAnswer,
    read_chat,
    read_completion,
    read_llama_cpp,
    read_sglang,
)


def chat(message: Any, **choice: Any) -> dict[str, Any]:
    return {
        "model": "m",
        "choices": [{"message": message, "finish_reason": "stop", **choice}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2},
    }


def test_content_is_a_string_null_or_parts():
    assert read_chat(chat({"content": "hi"}), "r").text == "hi"
    assert read_chat(chat({"content": None}), "r").text == ""
    parts = [{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]
    assert read_chat(chat({"content": parts}), "r").text == "ab"


def test_calls_keep_their_strings_and_an_object_becomes_one():
    calls = [
        {"id": "x", "function": {"name": "f", "arguments": '{"a": 1,}'}},
        {"function": {"name": "g", "arguments": {"b": "é"}}},
    ]
    read = read_chat(chat({"content": None, "tool_calls": calls}, finish_reason="tool_calls"), "r")
    assert read.tool_calls == (
        ToolCall(call_id="x", name="f", arguments='{"a": 1,}'),
        ToolCall(call_id="call_1", name="g", arguments='{"b": "é"}'),
    )
    assert read.finish_reason == "tool_calls"
    for none in ({}, {"tool_calls": None}, {"tool_calls": []}):
        assert read_chat(chat({"content": "x", **none}), "r").tool_calls == ()


def test_how_an_answer_ended():
    assert read_chat(chat({"content": "x"}, finish_reason="length"), "r").cut
    assert read_chat(chat({"content": ""}, finish_reason="content_filter"), "r").refused
    refused = read_chat(chat({"content": None, "refusal": "I will not."}), "r")
    assert (refused.finish_reason, refused.text, refused.refused) == ("refusal", "I will not.", True)
    assert read_chat(chat({"content": "x"}, finish_reason=None), "r").finish_reason == "stop"
    assert read_chat(chat({"content": "x"}, finish_reason={"type": "length"}), "r").cut


def test_reasoning_beside_the_content():
    assert read_chat(chat({"content": "x", "reasoning_content": "because"}), "r").reasoning == "because"
    assert read_chat(chat({"content": "x", "reasoning": "because"}), "r").reasoning == "because"


def test_usage_that_is_not_told_is_none_and_not_zero():
    data = chat({"content": "x"})
    assert (read_chat(data, "r").prompt_tokens, read_chat(data, "r").completion_tokens) == (3, 2)
    del data["usage"]
    assert (read_chat(data, "r").prompt_tokens, read_chat(data, "r").completion_tokens) == (None, None)


def test_ids_and_log_probabilities_of_vllm():
    logprobs = {"content": [{"token": "a", "logprob": -0.5}, {"token": "b", "logprob": -1}]}
    data = {**chat({"content": "ab"}, token_ids=[5, 6], logprobs=logprobs), "prompt_token_ids": [1, 2, 3]}
    read = read_chat(data, "r")
    assert (read.token_ids, read.logprobs, read.prompt_token_ids) == ((5, 6), (-0.5, -1.0), (1, 2, 3))
    choice = {"text": "ab", "token_ids": [5, 6], "prompt_token_ids": [1], "logprobs": {"token_logprobs": [-0.5, -1]}}
    read = read_completion({"choices": [choice]}, "r")
    assert (read.token_ids, read.logprobs, read.prompt_token_ids) == ((5, 6), (-0.5, -1.0), (1,))


def test_log_probabilities_without_ids_are_nobodys():
    assert read_completion({"choices": [{"text": "ab", "logprobs": {"token_logprobs": [-0.5]}}]}, "r").logprobs is None


def test_sglang_and_llama_cpp():
    meta = {
        "finish_reason": {"type": "length", "length": 2},
        "prompt_tokens": 4,
        "completion_tokens": 2,
        "output_token_logprobs": [[-0.1, 7, None], [-0.2, 8, None]],
    }
    read = read_sglang({"text": "ab", "meta_info": meta}, "r")
    assert (read.token_ids, read.logprobs, read.cut, read.prompt_tokens) == ((7, 8), (-0.1, -0.2), True, 4)
    told = [{"id": 7, "token": "a", "logprob": -0.1, "top_logprobs": []}]
    data = {
        "content": "a",
        "tokens": [7],
        "completion_probabilities": told,
        "tokens_evaluated": 4,
        "tokens_predicted": 1,
    }
    read = read_llama_cpp({**data, "stop_type": "eos"}, "r")
    assert (read.token_ids, read.logprobs, read.finish_reason, read.completion_tokens) == ((7,), (-0.1,), "stop", 1)
    assert read_llama_cpp({**data, "stop_type": "limit"}, "r").cut


@pytest.mark.parametrize(
    ("reader", "data"),
    [
        (read_chat, {}),
        (read_chat, {"choices": []}),
        (read_chat, {"choices": [{"text": "x"}]}),
        (read_chat, chat({"content": 3})),
        (read_chat, chat({"content": "x", "tool_calls": [{"id": "1"}]})),
        (read_chat, chat({"content": "x"}, token_ids=[1, "2"])),
        (read_completion, {"choices": [{"text": None}]}),
        (read_completion, {"choices": [{"text": "ab", "token_ids": [1, 2], "logprobs": {"token_logprobs": [-0.5]}}]}),
        (read_completion, {"choices": [{"text": "a", "token_ids": [1], "logprobs": {"token_logprobs": [float("-inf")]}}]}),
        (read_sglang, {"text": "x"}),
        (read_llama_cpp, {"error": "no"}),
    ],
)  # fmt: skip
def test_what_is_no_answer_is_said(reader: Any, data: dict[str, Any]):
    with pytest.raises(WrongAnswer):
        reader(data, "r")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["choices", "message", "content", "tool_calls", "usage", "text", "meta_info", "token_ids", "logprobs"]), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(st.dictionaries(st.sampled_from(["choices", "text", "meta_info", "content", "usage"]), json_values, max_size=4))
def test_any_json_is_an_answer_or_one_of_the_errors_that_the_client_reads_as_malformed(data: dict[str, Any]):
    for reader in (read_chat, read_completion, read_sglang, read_llama_cpp):
        try:
            found = reader(data, "r")
        except (WrongAnswer, KeyError, TypeError, AttributeError, IndexError):
            continue
        assert isinstance(found.text, str)
