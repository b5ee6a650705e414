"""The account of requests in files: sums, torn lines, several writers, budgets."""

from __future__ import annotations

from pathlib import Path

import pytest

from tutelage.errors import EpisodeBudgetSpent, RunBudgetSpent, StoreError
from tutelage.policies.endpoint.config import EndpointConfig
from tutelage.policies.endpoint.ledger import (
    EndpointUsage,
    RequestLedger,
    RequestRecord,
    Try,
    read_requests,
    usage_by_endpoint,
)


def config_of(**options: float) -> EndpointConfig:
    return EndpointConfig(name="gpt", url="http://h", model="m", price_prompt=1.0, price_completion=1.0, **options)  # type: ignore[arg-type]


def record(name: str, *outcomes: str, episode: str = "", tokens: int = 10, cost: float = 0.25) -> RequestRecord:
    tries = tuple(Try(outcome=one, status=200 if one == "answered" else 500, seconds=0.5) for one in outcomes)
    answered = outcomes[-1] == "answered"
    return RequestRecord(
        request_id=name,
        kind="chat",
        outcome=outcomes[-1],
        tries=tries,
        episode=episode,
        prompt_tokens=tokens if answered else 0,
        completion_tokens=2 if answered else 0,
        cost=cost if answered else 0.0,
        seconds=1.0,
    )


def test_the_account_adds_up():
    records = [record("a", "answered"), record("b", "server", "timeout", "answered"), record("c", "server", "server")]
    assert EndpointUsage.of(iter(records)) == EndpointUsage(
        requests=3,
        answered=2,
        failed={"server": 1},
        retries=3,
        faults={"server": 3, "timeout": 1},
        prompt_tokens=20,
        completion_tokens=4,
        cost=0.5,
        seconds=3.0,
    )


def test_two_writers_share_one_account(tmp_path: Path):
    config = config_of(max_run_requests=3)
    one, two = RequestLedger(config, tmp_path), RequestLedger(config, tmp_path)
    for ledger, name in ((one, "a"), (two, "b"), (one, "c")):
        ledger.admit("")
        ledger.finish("", record(name, "answered"))
    with pytest.raises(RunBudgetSpent, match="3 requests"):
        two.admit("")
    assert one.spent().tokens == two.spent().tokens == 36
    assert usage_by_endpoint(tmp_path)["gpt"].requests == 3


def test_a_torn_line_costs_itself_and_nothing_else(tmp_path: Path):
    ledger = RequestLedger(config_of(), tmp_path)
    ledger.admit("")
    ledger.finish("", record("a", "answered"), {"text": "A"})
    path = tmp_path / "gpt.requests.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:37])
    again = RequestLedger(config_of(), tmp_path)
    assert again.spent().requests == 1
    again.admit("")
    again.finish("", record("b", "answered"), {"text": "B"})
    assert [one.request_id for one in read_requests(path)] == ["a", "b"]
    assert RequestLedger(config_of(), tmp_path).spent().requests == 2
    assert again.answer("a") == {"text": "A"}
    assert again.answer("b") == {"text": "B"}
    assert again.answer("c") is None


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        ({"max_episode_requests": 2}, "2 requests, max_episode_requests is 2"),
        ({"max_episode_tokens": 20}, "24 tokens, max_episode_tokens is 20"),
        ({"max_episode_cost": 0.5}, "0.5 cost, max_episode_cost is 0.5"),
    ],
)
def test_the_limits_of_an_episode_outlive_the_process(tmp_path: Path, limit: dict[str, float], words: str):
    for name in ("a", "b"):
        ledger = RequestLedger(config_of(**limit), tmp_path)
        ledger.admit("e1")
        ledger.finish("e1", record(name, "answered", episode="e1"))
    with pytest.raises(EpisodeBudgetSpent, match=words):
        RequestLedger(config_of(**limit), tmp_path).admit("e1")
    RequestLedger(config_of(**limit), tmp_path).admit("e2")


def test_what_is_in_flight_counts_as_a_request():
    ledger = RequestLedger(config_of(max_run_requests=1))
    ledger.admit("e")
    with pytest.raises(RunBudgetSpent, match="0 requests and 1 in flight"):
        ledger.admit("e")
    ledger.finish("e", None)  # called off before it was sent
    ledger.admit("e")


def test_a_ledger_that_cannot_be_written_says_so(tmp_path: Path):
    (tmp_path / "file").write_text("")
    ledger = RequestLedger(config_of(), tmp_path / "file" / "folder")
    with pytest.raises(StoreError, match="cannot be read"):
        ledger.admit("")
    with pytest.raises(StoreError, match="cannot write"):
        ledger.finish("", record("a", "answered"))
