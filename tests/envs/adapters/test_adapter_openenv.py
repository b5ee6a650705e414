"""Against a real OpenEnv server, a process on the loopback, and against one that speaks its messages alone.

openenv-core does not go with the other packages of the tests (its gradio wants an older pillow), so its server runs where
it is installed all the same, or in the Python that TUTELAGE_OPENENV_PYTHON names.
"""

from __future__ import annotations

import importlib.util
import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from tutelage.envs.adapters.openenv import OpenEnvEnv
from tutelage.envs.registry import make_env
from tutelage.errors import ConfigError, EnvError
from tutelage.rollout.runner import make_jobs, run_rollouts
from tutelage.rollout.switch import make_rule
from tutelage.tasks.registry import load_tasks
from tutelage.testing import ScriptedPolicy
from tutelage.types import Action, Actor, StopReason, Task

pytest.importorskip("websockets", reason="the extra 'openenv' is not installed")

WIN = ("go garden", "take key", "go hall", "open chest")
FIELDS = {"action_field": "command", "observation_field": "text"}


@pytest.fixture(scope="module", params=["openenv", "messages"])
def url(request: pytest.FixtureRequest, start: Callable[..., str]) -> str:
    if request.param == "messages":
        return start("treasure_socket.py")
    python = os.environ.get("TUTELAGE_OPENENV_PYTHON") or (
        sys.executable if importlib.util.find_spec("openenv") else None
    )
    if python is None:
        pytest.skip("openenv-core is not installed; name a Python that has it in TUTELAGE_OPENENV_PYTHON")
    return start("treasure_openenv.py", python)


def task(url: str, **settings: Any) -> Task:
    return Task(task_id="o-1", env="openenv", goal="", settings={"url": url, **FIELDS, **settings})


def test_a_session_is_an_episode(url: str, play: Callable[..., Any]) -> None:
    env = make_env(task(url))
    assert not env.inline
    assert play(env, WIN, seed=1) == [
        ("You are in the hall. There is a chest.", None, False, False),
        ("You are in the garden. There is a key.", 0.0, False, False),
        ("You take the key.", 0.0, False, False),
        ("You are in the hall.", 0.0, False, False),
        ("The chest is full of gold.", 1.0, True, False),
    ]


def test_done_means_terminated_unless_the_users_function_says_otherwise(url: str, play: Callable[..., Any]) -> None:
    assert play(make_env(task(url)), ("look",) * 6, seed=0)[-1] == ("Nothing happens.", 0.0, True, False)
    told = task(url, end="treasure_openenv:kind_of_end")
    assert play(make_env(told), ("look",) * 6, seed=0)[-1] == ("Nothing happens.", 0.0, False, True)
    unknown = task(url, end="treasure_openenv:unknown_end")
    env = make_env(unknown)
    env.reset(0)
    for _ in range(5):
        env.step(Action.of("look"))
    with pytest.raises(EnvError, match="treasure_openenv:unknown_end calls this kind of end 'done', expected"):
        env.step(Action.of("look"))
    env.close()


def test_typed_actions_messages_and_arguments_of_reset(url: str) -> None:
    typed = {"act": "treasure_openenv:typed_action", "observe": "treasure_openenv:text_of"}
    env = make_env(
        task(url, action_field=None, observation_field=None, **typed, task={"key": "hall"}, help="Talk sense.")
    )
    observation = env.reset(1)
    assert [message.role for message in observation.messages] == ["system", "user"]
    assert observation.messages[1].content == "You are in the hall. There is a chest. There is a key."
    assert env.step(Action.of("nonsense")).observation.text == "Talk sense."
    assert env.step(Action.of("take key")).observation.text == "A game.\nYou take the key."
    env.close()


def test_an_environment_that_fails_is_an_env_error(url: str) -> None:
    env = make_env(task(url))
    env.reset(0)
    with pytest.raises(
        EnvError, match=r"task o-1, step 0: .*'step' was refused \(EXECUTION_ERROR: the floor gives way\)"
    ):
        env.step(Action.of("break"))
    env.close()


def test_more_episodes_than_the_server_has_room_for(url: str) -> None:
    envs = [make_env(task(url)) for _ in range(3)]
    for env in envs[:2]:
        env.reset(0)
    with pytest.raises(EnvError, match=r"CAPACITY_REACHED.*larger max_concurrent_envs"):
        envs[2].reset(0)
    for env in envs:
        env.close()


def test_a_rollout_leaves_nothing(url: str) -> None:
    tasks = load_tasks("openenv", "train", count=6, url=url, **FIELDS)
    before = threading.active_count(), len(os.listdir("/proc/self/fd"))
    summary = run_rollouts(
        make_jobs(tasks),
        policies={Actor.EXPERT: ScriptedPolicy(WIN, then="look")},
        rule=make_rule("expert_only"),
        concurrency=2,
        retries=0,
    )
    assert [one.reward for one in summary.trajectories] == [0.0, 1.0] * 3
    assert {one.stop_reason for one in summary.trajectories} == {StopReason.COMPLETED}
    assert (threading.active_count(), len(os.listdir("/proc/self/fd"))) == before


def test_a_lost_server_is_an_env_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    env = OpenEnvEnv(task(url))
    with pytest.raises(EnvError, match=r"task o-1, step 0: ws://127.0.0.1:\d+/ws: no connection \(ConnectionRefused"):
        env.reset(0)
    env.close()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"action_field": None}, "give either 'act' .* or 'action_field'"),
        ({"observe": "treasure_openenv:text_of"}, "give either 'observe' .* or 'observation_field'"),
        ({"url": "127.0.0.1:8000"}, "url is '127.0.0.1:8000'"),
    ],
)
def test_settings_that_do_not_hold_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        OpenEnvEnv(task(**{"url": "http://127.0.0.1:1", **settings}))


def test_an_act_that_gives_something_else_is_refused(url: str) -> None:
    env = OpenEnvEnv(task(url, action_field=None, act="treasure_openenv:nothing_of_the_kind"))
    env.reset(0)
    with pytest.raises(ConfigError, match="act: treasure_openenv:nothing_of_the_kind returned a list"):
        env.step(Action.of("look"))
    env.close()


def test_a_late_answer_is_an_env_error_within_the_time(url: str) -> None:
    env = make_env(task(url, timeout=0.3))
    env.reset(0)
    started = time.monotonic()
    # The last test: the server keeps the session's place until the step is over.
    with pytest.raises(EnvError, match=r"no answer to 'step' within 0\.3 s"):
        env.step(Action.of("sleep"))
    env.close()
    assert time.monotonic() - started < 3
