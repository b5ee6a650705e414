"""The client against a server that fails by plan: which failures are tried again, how long, under which id."""

from __future__ import annotations

import gc
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tutelage.errors import EndpointError, EpisodeBudgetSpent, MissingExtra, RunBudgetSpent
from tutelage.policies.endpoint import EndpointClient, EndpointConfig
from tutelage.policies.endpoint.ledger import read_requests
from tutelage.testing.fault_drill import EXPECTED, fault_drill
from tutelage.testing.fault_server import FAULTS, FaultServer

HELLO = [{"role": "user", "content": "hello"}]


def client_of(server: FaultServer, folder: Path | None = None, **options: Any) -> EndpointClient:
    settings = {
        "model": "fake",
        "first_delay": 0.001,
        "longest_delay": 0.01,
        "try_seconds": 0.3,
        "max_tries": 3,
        **options,
    }
    return EndpointClient(EndpointConfig(url=server.url, **settings), folder=folder)


def test_an_answer_with_its_usage_and_one_line_in_the_ledger(tmp_path: Path):
    with FaultServer(reply=lambda body: body["messages"][0]["content"].upper()) as server:
        client = client_of(server, tmp_path, price_prompt=2.0, price_completion=10.0)
        answer = client.chat(HELLO, seed=3, episode="e1")
        client.close()
    assert (answer.text, answer.finish_reason, answer.model) == ("HELLO", "stop", "fake")
    assert (answer.prompt_tokens, answer.completion_tokens, answer.reused) == (9, 1, False)
    assert server.bodies == [
        {"model": "fake", "messages": HELLO, "max_tokens": 512, "temperature": 0.0, "top_p": 1.0, "seed": 3}
    ]
    [record] = read_requests(tmp_path / "endpoint.requests.jsonl")
    assert (record.request_id, record.kind, record.outcome, record.episode) == (
        answer.request_id,
        "chat",
        "answered",
        "e1",
    )
    assert [one.outcome for one in record.tries] == ["answered"]
    assert record.cost == pytest.approx(9 * 2e-6 + 1 * 10e-6)
    assert server.answered == {answer.request_id: 1}


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_tried_again_under_the_same_id_and_then_given_up(fault: str):
    with FaultServer(faults={fault: 1.0}, drip_seconds=0.2, late_seconds=0.5) as server:
        client = client_of(server, try_seconds=0.1)
        with pytest.raises(EndpointError) as error:
            client.chat(HELLO)
        usage = client.usage()
        client.close()
    assert error.value.reason == EXPECTED[fault]
    assert "given up after 3 tries" in str(error.value)
    assert [seen.played for seen in server.seen.values()] == [dict.fromkeys(range(3), fault)]
    assert (usage.requests, usage.answered, usage.retries) == (1, 0, 2)
    assert usage.faults == {EXPECTED[fault]: 3}


def test_5000_requests_through_all_faults_none_lost_none_double(tmp_path: Path):
    result = fault_drill(5000, folder=tmp_path)
    assert result.disagreements == ()
    assert (result.num_results, result.num_ids, result.ledger_lines) == (5000, 5000, 5000)
    assert result.answered + result.given_up == 5000
    assert result.mixed_up == 0
    assert set(result.played) >= {*FAULTS, "answered"}
    assert result.answers_sent == result.answered + result.answers_unread


def test_a_slow_drip_does_not_outlive_the_deadline():
    with FaultServer(faults={"drip": 1.0}, drip_seconds=0.03) as server:
        client = client_of(server, try_seconds=60.0, deadline_seconds=0.3)
        began = time.monotonic()
        with pytest.raises(EndpointError, match="after the deadline") as error:
            client.chat(HELLO)
        client.close()
    assert error.value.reason == "timeout"
    assert time.monotonic() - began < 1.0


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (401, {"error": {"message": "no"}}, "auth"),
        (403, {"error": "forbidden"}, "auth"),
        (404, {"error": {"message": "model 'x' does not exist"}}, "not_found"),
        (400, {"error": {"message": "temperature: too high"}}, "bad_request"),
        (422, {"detail": "Unexpected fields"}, "bad_request"),
        (307, {}, "bad_request"),
        (400, {"error": {"message": "This model's maximum context length is 4096 tokens."}}, "context_overflow"),
        (400, {"error": {"type": "exceed_context_size_error", "message": "the request exceeds the available context size"}},
         "context_overflow"),
        (400, {"message": "The input (9 tokens) is longer than the model's context length (8 tokens)."}, "context_overflow"),
        (429, {"error": {"code": "insufficient_quota", "message": "You exceeded your current quota"}}, "quota"),
        (402, {}, "quota"),
    ],
)  # fmt: skip
def test_what_will_not_pass_ends_at_once(status: int, body: dict, reason: str):
    with FaultServer(status=(status, body)) as server:
        client = client_of(server)
        with pytest.raises(EndpointError) as error:
            client.chat(HELLO)
        client.close()
    assert (error.value.reason, error.value.status) == (reason, status)
    assert [seen.played for seen in server.seen.values()] == [{0: "refused"}]


def test_nobody_there_is_a_transport_error_after_all_tries():
    client = EndpointClient(
        EndpointConfig(url="http://127.0.0.1:9", model="m", max_tries=2, first_delay=0.0, longest_delay=0.0)
    )
    with pytest.raises(EndpointError, match="given up after 2 tries") as error:
        client.chat(HELLO)
    client.close()
    assert error.value.reason == "transport"


def test_a_stored_answer_is_not_paid_twice(tmp_path: Path):
    with FaultServer() as server:
        first = client_of(server, tmp_path)
        told = first.chat(HELLO, draw="a")
        first.close()
        again = client_of(server, tmp_path)
        assert again.chat(HELLO, draw="a").reused
        assert again.chat(HELLO, draw="a").text == told.text
        other = again.chat(HELLO, draw="b")
        again.close()
    assert not other.reused
    assert sum(server.answered.values()) == 2
    assert again.usage().requests == 2


def test_the_run_budget_counts_over_resumes_and_stops_the_run(tmp_path: Path):
    with FaultServer() as server:
        for number in range(3):
            client = client_of(server, tmp_path, max_run_requests=3)
            client.chat([{"role": "user", "content": str(number)}])
            client.close()
        client = client_of(server, tmp_path, max_run_requests=3)
        with pytest.raises(RunBudgetSpent, match="3 requests, max_run_requests is 3"):
            client.chat(HELLO)
        client.close()
        more = client_of(server, tmp_path, max_run_requests=4)
        assert more.chat(HELLO).text
        more.close()
    assert sum(server.answered.values()) == 4


def test_a_budget_of_requests_is_exact_between_threads(tmp_path: Path):
    def ask(number: int) -> str:
        try:
            return client.chat([{"role": "user", "content": str(number)}]).text
        except RunBudgetSpent:
            return "spent"

    with FaultServer(delay=0.005) as server:
        client = client_of(server, tmp_path, max_run_requests=10, concurrency=16)
        with ThreadPoolExecutor(16) as threads:
            results = list(threads.map(ask, range(40)))
        client.close()
    assert results.count("spent") == 30
    assert sum(server.answered.values()) == 10


def test_an_episode_has_a_budget_of_its_own():
    with FaultServer() as server:
        client = client_of(server, max_episode_tokens=15)
        client.chat(HELLO, episode="a")  # 9 and 2 tokens
        client.chat(HELLO, episode="a", draw="2")  # known only afterwards
        with pytest.raises(EpisodeBudgetSpent, match="episode a: 22 tokens, max_episode_tokens is 15"):
            client.chat(HELLO, episode="a", draw="3")
        client.chat(HELLO, episode="b")
        client.close()


def test_requests_are_sent_no_faster_than_the_limit():
    with FaultServer() as server:
        client = client_of(server, requests_per_minute=600.0)  # 60 at once, then 10 a second
        began = time.monotonic()
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(lambda one: client.chat(HELLO, draw=str(one)), range(63)))
        client.close()
    assert 0.25 <= time.monotonic() - began < 2.0


def test_an_episode_that_is_over_calls_its_requests_off_and_tries_no_more():
    with FaultServer(faults={"hang": 1.0}) as server:
        client = client_of(server, try_seconds=0.6)
        reasons: list[str] = []

        def ask() -> None:
            try:
                client.chat(HELLO, episode="a")
            except EndpointError as error:
                reasons.append(error.reason)

        thread = threading.Thread(target=ask)
        thread.start()
        while not server.seen:
            time.sleep(0.005)
        client.cancel("a")
        thread.join(0.3)
        assert reasons == ["cancelled"]
        client.close()
    assert client.usage().failed == {"cancelled": 1}
    assert client.usage().faults == {"timeout": 1}


def test_an_answer_that_comes_after_the_call_off_is_kept_for_a_resume(tmp_path: Path):
    with FaultServer(delay=0.2) as server:
        client = client_of(server, tmp_path, try_seconds=5.0)

        def ask() -> None:
            with pytest.raises(EndpointError, match="cancelled"):
                client.chat(HELLO, episode="a")

        thread = threading.Thread(target=ask)
        thread.start()
        time.sleep(0.1)
        client.cancel("a")
        thread.join(1.0)
        client.close()
        again = client_of(server, tmp_path)
        assert again.chat(HELLO, episode="b").reused
        again.close()
    assert sum(server.answered.values()) == 1


def test_closing_leaves_no_thread_and_the_client_starts_anew():
    before = threading.active_count()
    with FaultServer() as server:
        client = client_of(server)
        client.chat(HELLO)
        client.close()
        client.close()
        assert client.chat(HELLO).text
        client.close()
    assert threading.active_count() == before


def test_a_key_at_the_edge_of_a_long_message_is_not_cut_and_left(monkeypatch: pytest.MonkeyPatch):
    secret = "sk-test-0123456789abcdef"
    monkeypatch.setenv("TUTELAGE_TEST_KEY", secret)
    for length in (270, 285, 297):
        with FaultServer(status=(400, {"error": {"message": "x" * length + secret}})) as server:
            client = client_of(server, api_key_env="TUTELAGE_TEST_KEY")
            with pytest.raises(EndpointError) as error:
                client.chat(HELLO)
            client.close()
        assert "sk-test" not in str(error.value)


def test_a_forgotten_client_leaves_no_thread():
    before = threading.active_count()
    with FaultServer() as server:
        client = client_of(server)
        client.chat(HELLO)
        del client
        gc.collect()
    assert threading.active_count() == before


def test_the_id_goes_as_user_too_where_that_is_wanted():
    with FaultServer(faults={"500": 0.7}, seed=3) as server:
        client = client_of(server, send_user=True, max_tries=20)
        answer = client.chat(HELLO)
        client.close()
    assert len(server.bodies) > 1
    assert {body["user"] for body in server.bodies} == {answer.request_id} == set(server.seen)


def test_further_keys_are_sent_and_null_takes_one_out():
    with FaultServer() as server:
        client = client_of(server, extra_body={"max_tokens": None, "max_completion_tokens": 9, "top_k": -1})
        client.chat(HELLO)
        client.close()
    [body] = server.bodies
    assert "max_tokens" not in body
    assert (body["max_completion_tokens"], body["top_k"]) == (9, -1)


def test_without_its_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "httpx", None)
    client = EndpointClient(EndpointConfig(url="http://127.0.0.1:9", model="m"))
    with pytest.raises(
        MissingExtra, match=r'an endpoint needs the extra .serve.* Run: pip install "tutelage\[serve\]"'
    ):
        client.chat(HELLO)


def test_the_key_is_sent_and_stands_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    secret = "sk-test-0123456789abcdef"
    monkeypatch.setenv("TUTELAGE_TEST_KEY", secret)
    with FaultServer(key=secret, reply=lambda body: f"I was told {secret}") as server:
        client = client_of(server, tmp_path, api_key_env="TUTELAGE_TEST_KEY")
        answer = client.chat(HELLO)
        server.key = "another"  # The refusal repeats what was sent.
        with pytest.raises(EndpointError) as error:
            client.chat(HELLO, draw="2")
        shown = [repr(client), repr(client.config), repr(answer), str(error.value), repr(error.value.__dict__)]
        client.close()
    assert answer.text == "I was told <key>"
    assert error.value.reason == "auth"
    written = [path.read_text() for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) == 2
    assert not [text for text in [*shown, *written] if secret in text]
