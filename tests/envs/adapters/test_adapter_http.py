from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from tutelage.envs.adapters.http import HttpEnv
from tutelage.envs.adapters.json_connection import JsonConnection, ServerFault
from tutelage.envs.registry import make_env
from tutelage.errors import ConfigError, EnvError
from tutelage.rollout.runner import make_jobs, run_rollouts
from tutelage.rollout.switch import make_rule
from tutelage.tasks.registry import load_tasks
from tutelage.testing import ScriptedPolicy
from tutelage.types import Action, Actor, ParseOutcome, StopReason, Task

WIN = ("go garden", "take key", "go hall", "open chest")
RESET = {"episode_id": 1, "observation": "Go."}
STEP = {"observation": "On.", "reward": None, "terminated": False, "truncated": False}


def task(url: str, **settings: Any) -> Task:
    return Task(task_id="h-1", env="http", goal="", settings={"url": url, "retries": 2, **settings})


@contextmanager
def answering(*answers: Any) -> Iterator[tuple[str, list[str]]]:
    """A server that answers request after request with what is listed, and notes the requests.

    An answer is an object, (status, text), a number of seconds to be silent, or "drop".
    """
    requests: list[str] = []
    script = list(answers)
    listening = socket.create_server(("127.0.0.1", 0))
    threads: dict[threading.Thread, socket.socket] = {}
    stopping = threading.Event()

    def serve(connection: socket.socket) -> None:
        with connection, connection.makefile("rwb") as file:
            while line := file.readline():
                length = 0
                while (header := file.readline().strip()) != b"":
                    name, _, value = header.partition(b":")
                    length = int(value) if name.lower() == b"content-length" else length
                requests.append(f"{line.split()[1].decode()} {file.read(length).decode()}")
                answer = script.pop(0) if script else {}
                if answer == "drop":
                    return
                if isinstance(answer, float):
                    stopping.wait(answer)
                    return
                status, text = answer if isinstance(answer, tuple) else (200, json.dumps(answer))
                head = f"HTTP/1.1 {status} x\r\nContent-Length: {len(text)}\r\n\r\n"
                file.write(f"{head}{text}".encode())
                file.flush()

    def accept() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            thread = threading.Thread(target=serve, args=(connection,))
            threads[thread] = connection
            thread.start()

    accepting = threading.Thread(target=accept)
    accepting.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", requests
    finally:
        stopping.set()
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        accepting.join()
        for thread, connection in threads.items():
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            thread.join()


def paths(requests: list[str]) -> list[str]:
    return [request.partition(" ")[0] for request in requests]


def test_an_environment_in_another_process_is_played(start: Callable[[str], str], play: Callable[..., Any]) -> None:
    url = start("treasure_http.py")
    env = make_env(task(url))
    assert not env.inline
    assert play(env, WIN, seed=1) == [
        ("You are in the hall. There is a chest.", None, False, False),
        ("You are in the garden. There is a key.", 0.0, False, False),
        ("You take the key.", 0.0, False, False),
        ("You are in the hall.", 0.0, False, False),
        ("The chest is full of gold.", 1.0, True, False),
    ]
    assert (env.reward(), env.admissible(), env.state_hash()) == (1.0, None, None)
    assert play(make_env(task(url)), ("look",) * 6, seed=0)[-1] == ("Nothing happens.", 0.0, False, True)
    counting = JsonConnection(url, timeout=5, retries=0)
    assert counting.post("/count", {}) == {"live": 0}
    counting.close()


def test_a_rollout_in_threads(start: Callable[[str], str]) -> None:
    tasks = load_tasks("http", "train", count=6, url=start("treasure_http.py"))
    assert tasks[1].settings["task"] == {"id": "http-train-000001", "split": "train", "index": 1}
    policy = ScriptedPolicy(WIN, then="look")
    summary = run_rollouts(
        make_jobs(tasks), policies={Actor.EXPERT: policy}, rule=make_rule("expert_only"), concurrency=6
    )
    assert [one.reward for one in summary.trajectories] == [0.0, 1.0] * 3
    assert [one.error for one in summary.trajectories] == [None] * 6


def test_a_lost_server_is_an_env_error_without_a_reward() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    summary = run_rollouts(
        make_jobs([task(url, retries=1)]),
        policies={Actor.EXPERT: ScriptedPolicy(WIN)},
        rule=make_rule("expert_only"),
        retries=0,
    )
    found = summary.trajectories[0]
    assert (found.stop_reason, found.reward) == (StopReason.ENV_ERROR, None)
    assert found.error is not None
    assert found.error.startswith(f"EnvError: task h-1, step 0: {url}/reset: no connection (ConnectionRefusedError")


def test_reset_is_repeated_after_a_failure_of_the_server() -> None:
    with answering((503, "busy"), "drop", RESET) as (url, requests):
        env = HttpEnv(task(url))
        assert env.reset(3).text == "Go."
        env.close()
    assert requests[:3] == ['/reset {"task": null, "seed": 3}'] * 3
    assert requests[3:] == ['/close {"episode_id": 1}']


def test_repetitions_are_bounded() -> None:
    with answering(*[(500, "broken")] * 9) as (url, requests):
        env = HttpEnv(task(url))
        with pytest.raises(EnvError, match=r"task h-1, step 0: .*/reset: status 500, broken"):
            env.reset(0)
        env.close()
    assert paths(requests) == ["/reset"] * 3


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("drop", r"/step: the connection was lost \(RemoteDisconnected"),
        ((500, '{"error": "x"}'), '/step: status 500, {"error": "x"}'),
        ((302, ""), "/step: status 302, an empty body"),
        ((200, "<html>"), "/step: the answer is no JSON: <html>"),
        ((200, "[" * 9999), "/step: the answer is no JSON: "),
        ((200, '{"reward": NaN}'), "/step: the answer is no JSON"),
        ([1], "/step: the answer is a list, expected an object"),
        ({"observation": "x"}, "/step: the answer has no 'reward', only observation"),
        ({**STEP, "observation": 7}, "the observation is a int: 7"),
        ({**STEP, "reward": "much"}, "the reward is a str: 'much'"),
        ({**STEP, "terminated": 1}, "'terminated' is a int: 1, expected true or false"),
        ({**STEP, "truncated": "time"}, "'truncated' is a str: 'time'.* another kind cannot be recorded"),
        ({"observation": "x", "reward": 1, "done": True}, "/step: the answer has no 'terminated', only done"),
        ({**STEP, "info": []}, "'info' is a list"),
    ],
)
def test_a_step_that_fails_is_an_env_error_and_never_repeated(answer: Any, message: str) -> None:
    with answering(RESET, answer, {}) as (url, requests):
        env = HttpEnv(task(url))
        env.reset(0)
        with pytest.raises(EnvError, match=f"task h-1, step 0: .*{message}"):
            env.step(Action.of("go"))
        with pytest.raises(EnvError, match="after a failure"):
            env.step(Action.of("go"))
        env.close()
    assert paths(requests).count("/step") == 1


def test_a_late_server_is_an_env_error_within_the_time() -> None:
    with answering(RESET, 30.0, {}) as (url, requests):
        env = HttpEnv(task(url, timeout=0.2))
        env.reset(0)
        started = time.monotonic()
        with pytest.raises(EnvError, match=r"/step: no answer within 0\.2 s"):
            env.step(Action.of("go"))
        env.close()
        assert time.monotonic() - started < 2
    assert paths(requests) == ["/reset", "/step", "/close"]


def test_close_wakes_up_who_waits() -> None:
    with answering(RESET, 30.0, {}) as (url, requests):
        env = HttpEnv(task(url))
        env.reset(0)
        failed: list[Exception] = []

        def step() -> None:
            try:
                env.step(Action.of("go"))
            except EnvError as error:
                failed.append(error)

        stepping = threading.Thread(target=step)
        stepping.start()
        while "/step" not in paths(requests):
            time.sleep(0.01)
        env.close()
        stepping.join(5)
        assert not stepping.is_alive()
    assert len(failed) == 1
    assert paths(requests)[-1] == "/close"


def test_a_connection_that_the_server_dropped_meanwhile_is_made_again() -> None:
    with answering((200, json.dumps(RESET)), STEP) as (url, requests):
        env = HttpEnv(task(url))
        env.reset(0)
        # As a server does whose patience with an idle connection is over.
        env._server._connection.sock.shutdown(socket.SHUT_RD)
        assert env.step(Action.of("go")).observation.text == "On."
        env.close()
    assert paths(requests) == ["/reset", "/step", "/close"]


def test_a_malformed_action_is_not_sent() -> None:
    with answering(RESET, STEP) as (url, requests):
        env = HttpEnv(task(url, help="Say go."))
        env.reset(0)
        result = env.step(Action(text="hm", parse=ParseOutcome.MALFORMED))
        assert (result.observation.text, result.reward) == ("Say go.", None)
        env.step(Action.of("go"))
        env.close()
    assert requests[1] == '/step {"episode_id": 1, "action": "go"}'


def test_terminated_wins_over_truncated() -> None:
    with answering(RESET, {**STEP, "reward": 1, "terminated": True, "truncated": True}) as (url, _):
        env = HttpEnv(task(url))
        env.reset(0)
        result = env.step(Action.of("go"))
        assert (result.reward, result.terminated, result.truncated) == (1.0, True, False)
        env.close()


def test_close_says_so_when_the_server_is_gone_and_not_twice() -> None:
    with answering(RESET) as (url, _):
        env = HttpEnv(task(url))
        env.reset(0)
    with pytest.raises(EnvError, match="/close: no connection"):
        env.close()
    env.close()


def test_a_path_before_the_requests_is_kept() -> None:
    with answering(RESET) as (url, requests):
        env = HttpEnv(task(f"{url}/worlds/"))
        env.reset(0)
        env.close()
    assert paths(requests) == ["/worlds/reset", "/worlds/close"]


@pytest.mark.parametrize("url", ["127.0.0.1:80", "ftp://x", "http://", ""])
def test_a_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="expected something like http"):
        HttpEnv(task(url))


def test_a_task_without_a_url_is_refused() -> None:
    with pytest.raises(ConfigError, match="name no 'url'"):
        HttpEnv(Task(task_id="h-1", env="http", goal=""))


def test_an_answer_that_is_too_long_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tutelage.envs.adapters.json_connection.MAX_BYTES", 100)
    with answering({"observation": "x" * 200}) as (url, _):
        connection = JsonConnection(url, timeout=5, retries=0)
        with pytest.raises(ServerFault, match="longer than 100 bytes"):
            connection.post("/step", {})
        connection.close()
