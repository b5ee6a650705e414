"""Log-probabilities of prompts from each kind of server, against the scorer in this process."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutelage.errors import ConfigError, TeacherError
from tutelage.policies.base import ScoreFailure, Scorer, ScoreRequest, TokenScores
from tutelage.policies.endpoint import EndpointConfig, EndpointScorer
from tutelage.policies.endpoint.completion import WrongAnswer
from tutelage.policies.endpoint.prompt_scores import read_scores
from tutelage.policies.scorer import LocalScorer
from tutelage.testing.fault_server import FaultServer, hash_logprobs

TINY = "builtin:household_tiny"


def scorer_of(server: FaultServer, kind: str = "vllm", **options: Any) -> EndpointScorer:
    settings = {"model": "fake", "tokenizer": TINY, "max_tries": 2, "first_delay": 0.0, "longest_delay": 0.0, **options}
    return EndpointScorer(EndpointConfig(url=server.url, server=kind, **settings))


def request_of(ids: Sequence[int], positions: Sequence[int], name: str = "r") -> ScoreRequest:
    return ScoreRequest(request_id=name, token_ids=np.array(ids), positions=np.array(positions))


@pytest.fixture(scope="module")
def local() -> LocalScorer:
    return LocalScorer(TINY)


def oracle(local: LocalScorer) -> Callable[[Sequence[int]], list[float | None]]:
    def logprobs(ids: Sequence[int]) -> list[float | None]:
        [scored] = local.score([request_of(ids, range(1, len(ids)))])
        assert isinstance(scored, TokenScores)
        return [None, *scored.logprobs.astype(float).tolist()]

    return logprobs


@pytest.mark.parametrize("kind", ["vllm", "sglang", "openai", "llama_cpp"])
def test_each_shape_gives_what_the_scorer_in_this_process_gives(local: LocalScorer, kind: str):
    rng = np.random.default_rng(0)
    requests = [
        request_of(rng.integers(6, 500, length), np.sort(rng.choice(np.arange(1, length), size=3, replace=False)), str(length))
        for length in (5, 9, 30)
    ]  # fmt: skip
    with FaultServer(logprobs=oracle(local)) as server:
        scorer = scorer_of(server, kind)
        assert isinstance(scorer, Scorer)
        assert scorer.vocabulary_id == local.vocabulary_id
        found = scorer.score(requests)
        scorer.client.close()
    for mine, theirs in zip(found, local.score(requests), strict=True):
        assert isinstance(mine, TokenScores)
        assert isinstance(theirs, TokenScores)
        assert mine.request_id == theirs.request_id
        np.testing.assert_allclose(mine.logprobs, theirs.logprobs, atol=1e-5)


@pytest.mark.parametrize("kind", ["vllm", "sglang"])
def test_most_probable_ids_come_sorted_and_exactly_k(local: LocalScorer, kind: str):
    def top(ids: Sequence[int], k: int) -> list[dict[int, float]]:
        [scored] = local.score([request_of(ids, range(1, len(ids)))], "topk", k=k)
        assert isinstance(scored, TokenScores)
        assert scored.top_ids is not None
        assert scored.top_logprobs is not None
        listed = [
            dict(zip(a.tolist(), b.tolist(), strict=True))
            for a, b in zip(scored.top_ids, scored.top_logprobs, strict=True)
        ]
        return [{}, *listed]

    request = request_of([7, 30, 8, 90, 12], [2, 4])
    with FaultServer(logprobs=oracle(local), top_logprobs=top) as server:
        scorer = scorer_of(server, kind)
        [mine] = scorer.score([request], "topk", k=4)
        scorer.client.close()
    [theirs] = local.score([request], "topk", k=4)
    assert isinstance(mine, TokenScores)
    assert isinstance(theirs, TokenScores)
    assert mine.top_ids is not None
    np.testing.assert_array_equal(mine.top_ids, theirs.top_ids)
    np.testing.assert_allclose(mine.top_logprobs, theirs.top_logprobs, atol=1e-5)


def test_a_response_of_one_token_sits_at_its_own_position():
    with FaultServer() as server:  # K3: prompt of 4 ids, response of 1
        scorer = scorer_of(server)
        [found] = scorer.score([request_of([9, 8, 7, 6, 5], [4])])
        scorer.client.close()
    assert isinstance(found, TokenScores)
    assert found.logprobs.tolist() == [hash_logprobs([9, 8, 7, 6, 5])[4]]


@pytest.mark.parametrize("kind", ["vllm", "sglang", "openai"])
def test_one_number_too_few_fails_that_request_alone(kind: str):
    with FaultServer(faults={"wrong_length": 0.5}, seed=1) as server:
        scorer = scorer_of(server, kind)
        found = scorer.score([request_of([one, 2, 3], [1, 2], str(one)) for one in range(20)])
        scorer.client.close()
    failed = [one for one in found if isinstance(one, ScoreFailure)]
    assert {one.reason for one in failed} == {"malformed_answer"}
    assert 0 < len(failed) < 20
    assert all("2 log-probabilities for 3 token ids" in one.detail for one in failed)
    for number, one in enumerate(found):
        if isinstance(one, TokenScores):
            assert one.logprobs.tolist() == hash_logprobs([number, 2, 3])[1:]


def test_what_cannot_be_scored_is_named_and_the_others_are():
    def logprobs(ids: Sequence[int]) -> list[float | None]:
        return [None, float("-inf" if ids[1] == 66 else "nan" if ids[1] == 67 else "-1")] + [-2.0] * (len(ids) - 2)

    with FaultServer(logprobs=logprobs, max_context=10) as server:
        scorer = scorer_of(server, max_context=100)
        found = scorer.score(
            [request_of([1, 66, 3], [1, 2]), request_of([1, 67, 3], [1]), request_of(range(12), [1]),
             request_of(range(100), [1]), request_of([1, 2, 3], [1, 2]), request_of([1, 2], [])]
        )  # fmt: skip
        scorer.client.close()
    reasons = [one.reason if isinstance(one, ScoreFailure) else one.logprobs.tolist() for one in found]
    assert reasons == ["not_finite", "not_finite", "too_long", "too_long", [-1.0, -2.0], []]


def test_a_refused_key_is_a_failure_of_each_request_not_of_the_run():
    with FaultServer(key="something-long-enough") as server:
        scorer = scorer_of(server)
        found = scorer.score([request_of([1, 2], [1]), request_of([1, 3], [1])])
        scorer.client.close()
    assert [one.reason for one in found if isinstance(one, ScoreFailure)] == ["auth", "auth"]


def test_a_server_that_scores_other_ids_is_caught():
    entries = [None, {"9": {"logprob": -0.5}, "3": {"logprob": -1.2}}]
    answer = {"choices": [{"prompt_logprobs": entries}]}
    assert read_scores("vllm", answer, [5, 9]).logprobs == [None, -0.5]
    assert read_scores("vllm", answer, [5, 3]).logprobs == [None, -1.2]
    assert read_scores("vllm", answer, [5, 4]).wrong_id == "position 1: sent id 4, the server scored [3, 9]"
    sglang = {"meta_info": {"input_token_logprobs": [[None, 5, None], [-0.5, 9, None]]}}
    assert read_scores("sglang", sglang, [5, 9]).logprobs == [None, -0.5]
    assert read_scores("sglang", sglang, [5, 8]).wrong_id == "position 1: sent id 8, the server scored 9"
    echo = {"choices": [{"logprobs": {"tokens": ["token_id:5", "token_id:9"], "token_logprobs": [None, -0.5]}}]}
    assert read_scores("openai", echo, [5, 9]).logprobs == [None, -0.5]
    assert read_scores("openai", echo, [5, 8]).wrong_id == "position 1: sent id 8, the server scored 9"


def test_positions_shifted_by_one_are_caught_by_the_first_number():
    shifted = {"choices": [{"prompt_logprobs": [{"5": {"logprob": -0.1}}, {"9": {"logprob": -0.5}}]}]}
    with pytest.raises(WrongAnswer, match="shifted"):
        read_scores("vllm", shifted, [5, 9])
    echo = {"choices": [{"logprobs": {"token_logprobs": [-0.1, -0.5]}}]}
    with pytest.raises(WrongAnswer, match="shifted"):
        read_scores("openai", echo, [5, 9])


@given(st.lists(st.integers(0, 999), min_size=1, max_size=20), st.integers(0, 30))
def test_only_one_number_for_each_id_is_taken(ids: list[int], length: int):
    numbers: list[float | None] = [None, *[-1.0] * (length - 1)] if length else []
    meta = {"input_token_logprobs": [[one, ids[min(index, len(ids) - 1)], None] for index, one in enumerate(numbers)]}
    if length == len(ids):
        assert read_scores("sglang", {"meta_info": meta}, ids).logprobs == numbers
    else:
        with pytest.raises(WrongAnswer, match=f"{length} log-probabilities for {len(ids)} token ids"):
            read_scores("sglang", {"meta_info": meta}, ids)


@pytest.mark.parametrize("kind", ["vllm", "sglang"])
def test_a_server_finds_its_own_log_probabilities_again(local: LocalScorer, kind: str):
    from tutelage.policies.endpoint.tokenizer import renderer_of

    renderer = renderer_of(EndpointConfig(url="http://h", model="m", tokenizer=TINY))
    with FaultServer(logprobs=oracle(local), decode=renderer.decode) as server:
        scorer = scorer_of(server, kind)
        assert scorer.self_score() < 1e-6
        scorer.client.close()


def test_a_server_with_another_temperature_is_refused_with_the_first_positions():
    calls = itertools.count()

    def logprobs(ids: Sequence[int]) -> list[float | None]:
        warm = 1.5 if next(calls) % 3 == 2 else 1.0  # of three calls, the last scores a prompt
        return [None if one is None else one * warm for one in hash_logprobs(ids)]

    with FaultServer(logprobs=logprobs, decode=lambda ids: "") as server:
        scorer = scorer_of(server)
        with pytest.raises(
            TeacherError,
            match=r"does not find its own log-probabilities again: .* First: sample 0, position 4: sampled -",
        ):
            scorer.self_score()
        scorer.client.close()


def test_a_server_whose_ids_mean_other_texts_is_refused():
    with FaultServer(decode=lambda ids: "another text") as server:
        scorer = scorer_of(server)
        with pytest.raises(TeacherError, match="are the text 'another text' there, and"):
            scorer.self_score()
        scorer.client.close()


def test_a_server_that_gives_no_such_numbers_cannot_be_a_scorer():
    with pytest.raises(ConfigError, match="gives no log-probabilities of a prompt"):
        EndpointScorer(EndpointConfig(url="http://h", model="m", server="transformers", tokenizer=TINY))
    with pytest.raises(ConfigError, match="needs a tokenizer"):
        EndpointScorer(EndpointConfig(url="http://h", model="m", server="vllm"))
    scorer = EndpointScorer(EndpointConfig(url="http://h", model="m", server="openai", tokenizer=TINY))
    with pytest.raises(TeacherError, match="access 'full' is not one of sampled"):
        scorer.score([], "full")
