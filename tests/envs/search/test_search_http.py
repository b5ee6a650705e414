"""The HTTP retriever against a server that fails in every way: what is tried again, what ends at once, what is said."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from tutelage.envs.registry import make_env
from tutelage.envs.search.http_retriever import HttpRetriever
from tutelage.envs.search.passages import Passage
from tutelage.errors import ConfigError, EnvError
from tutelage.policies.scripted import ScriptedPolicy
from tutelage.rollout.episode import Limits
from tutelage.rollout.runner import make_jobs, run_rollouts
from tutelage.rollout.switch import Never
from tutelage.types import Action, Actor, StopReason, Task

DOCS = [
    {"document": {"contents": f'"Title {number}"\nText {number}'}, "score": 1.0 / number} for number in (1, 2, 3, 4)
]
PASSAGES = [Passage(f"Title {number}", f"Text {number}") for number in (1, 2, 3, 4)]

Server = Callable[[Callable[[dict[str, Any]], Any]], Any]


def answer(asked: dict[str, Any]) -> Any:
    return {"result": [DOCS for _ in asked.get("queries", ["one"])]}


def quick(url: str, **options: Any) -> HttpRetriever:
    return HttpRetriever(url, **{"timeout": 0.3, "retries": 3, "first_delay": 0.01, "longest_delay": 0.04} | options)


def task(url: str, **options: Any) -> Task:
    settings = {
        "question": "What?",
        "golden_answers": ["42"],
        "retriever": "http",
        "url": url,
        "retriever_options": {"timeout": 0.3, "retries": 2, "first_delay": 0.01, "longest_delay": 0.02} | options,
    }
    return Task(task_id="t", env="search", goal="What?", settings=settings)


def test_one_request_a_query(faulty_server: Server) -> None:
    server = faulty_server(answer)
    assert quick(server.url).search(["a", "ü"], 2) == [PASSAGES[:2], PASSAGES[:2]]
    assert server.requests == [
        {"query": "a", "topk": 2, "return_scores": True},
        {"query": "ü", "topk": 2, "return_scores": True},
    ]
    assert quick(server.url).search([], 2) == []


def test_one_request_for_all_queries(faulty_server: Server) -> None:
    server = faulty_server(answer)
    assert quick(server.url, batched=True).search(["a", "b"], 3) == [PASSAGES[:3], PASSAGES[:3]]
    assert server.requests == [{"queries": ["a", "b"], "topk": 3, "return_scores": True}]


@pytest.mark.parametrize(
    ("documents", "passages"),
    [
        ([], []),
        ([{"contents": "A\nb"}], [Passage("A", "b")]),
        ([{"document": {"title": "A", "text": "b"}, "score": 1}], [Passage("A", "b")]),
    ],
)
def test_other_forms_of_a_document(faulty_server: Server, documents: list[Any], passages: list[Passage]) -> None:
    server = faulty_server(lambda _: {"result": [documents]})
    assert quick(server.url).search(["a"], 3) == [passages]


@pytest.mark.parametrize("fault", ["500", "503", "hang", "drip", "cut", "reset"])
def test_what_may_pass_is_tried_again(faulty_server: Server, fault: str) -> None:
    server = faulty_server(answer)
    server.faults = [fault]
    assert quick(server.url).search(["a"], 1) == [PASSAGES[:1]]
    assert len(server.requests) == 2


def test_the_delays_grow_up_to_the_longest(faulty_server: Server) -> None:
    assert HttpRetriever("http://x").delays == (0.5, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0, 8.0, 8.0, 8.0)
    server = faulty_server(answer)
    server.faults = ["500", "503", "502"]
    assert quick(server.url, first_delay=0.05, longest_delay=0.1).search(["a"], 1) == [PASSAGES[:1]]
    waits = [later - earlier for earlier, later in zip(server.times, server.times[1:], strict=False)]
    assert [wait >= least for wait, least in zip(waits, (0.05, 0.1, 0.1), strict=True)] == [True] * 3


def test_a_failure_for_good_says_what_and_how_often(faulty_server: Server) -> None:
    server = faulty_server(answer)
    server.faults = ["500"] * 9
    with pytest.raises(EnvError, match=rf"{server.url}: HTTP 500 .*; given up after 4 tries"):
        quick(server.url).search(["a"], 1)
    assert len(server.requests) == 4


def test_nobody_listens() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(EnvError, match=r"Connection refused.*given up after 3 tries"):
        quick(f"http://127.0.0.1:{port}/", retries=2).search(["a"], 1)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("400", "HTTP 400"),
        ("404", "HTTP 404"),
        ("429", "HTTP 429"),
        ("<html>busy</html>", "is not of the contract"),
        ("[]", "is not of the contract"),
        ('{"results": []}', "is not of the contract"),
        ('{"result": []}', "expected 1 lists of documents"),
        ('{"result": [{"contents": "a"}]}', "dict for a query, expected a list of documents"),
        ('{"result": [["text"]]}', "str, expected the strings"),
        ('{"result": [[{"document": null}]]}', "NoneType, expected the strings"),
        ("", "is not of the contract"),
    ],
)
def test_what_will_not_pass_ends_at_once(faulty_server: Server, fault: str, message: str) -> None:
    server = faulty_server(lambda _: None) if fault == "" else faulty_server(answer)
    server.faults = [fault] if fault else []
    with pytest.raises(EnvError, match=message):
        quick(server.url).search(["a"], 1)
    assert len(server.requests) == 1


def test_closing_ends_the_wait_for_the_next_try(faulty_server: Server) -> None:
    server = faulty_server(answer)
    server.faults = ["500"] * 3
    retriever = quick(server.url, first_delay=30.0, longest_delay=30.0)
    timer = threading.Timer(0.1, retriever.close)
    timer.start()
    began = time.monotonic()
    with pytest.raises(EnvError, match="the episode is over, not tried again"):
        retriever.search(["a"], 1)
    assert time.monotonic() - began < 5
    timer.join()


@pytest.mark.parametrize(
    ("url", "options", "message"),
    [
        ("localhost:8000", {}, "expected http://host:port/path"),
        ("file:///etc/passwd", {}, "expected http://host:port/path"),
        ("http://x", {"timeout": 0}, "timeout 0"),
        ("http://x", {"retries": -1}, "retries -1"),
        ("http://x", {"first_delay": 9.0}, "first_delay <= longest_delay"),
    ],
)
def test_refused_options(url: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        HttpRetriever(url, **options)


# In the environment


def test_an_episode_with_a_server(faulty_server: Server) -> None:
    server = faulty_server(answer)
    server.faults = ["503"]
    env = make_env(task(server.url))
    assert not env.inline
    env.reset(0)
    shown = env.step(Action.of("<search>a</search>")).observation.text
    assert shown == (
        "<information>\nDoc 1: Title 1\nText 1\nDoc 2: Title 2\nText 2\nDoc 3: Title 3\nText 3\n</information>"
    )
    env.close()


def test_a_dead_server_is_an_env_error_and_never_an_observation(faulty_server: Server) -> None:
    server = faulty_server(answer)
    server.faults = ["", *["500"] * 20]
    policy = ScriptedPolicy(["<search>a</search>", "<search>b</search>", "<answer>42</answer>"])
    summary = run_rollouts(
        make_jobs([task(server.url)]),
        policies={Actor.STUDENT: policy},
        rule=Never(),
        limits=Limits(parse_retries=0),
        retries=0,
    )
    (trajectory,) = summary.trajectories
    assert trajectory.stop_reason is StopReason.ENV_ERROR
    assert trajectory.reward is None
    assert "HTTP 500" in (trajectory.error or "")
    # The step that failed is not in the record, and nothing that a model reads tells of it.
    assert [step.action.command for step in trajectory.steps] == ["<search>a</search>"]
    told = json.dumps([step.observation.text for step in trajectory.steps])
    assert "500" not in told
    assert trajectory.final_observation is not None
    assert "500" not in trajectory.final_observation.text


def test_an_option_that_the_retriever_does_not_have() -> None:
    env = make_env(task("http://x", patience=3))
    with pytest.raises(ConfigError, match=r"retriever 'http': options .*'patience'.* do not fit"):
        env.reset(0)
