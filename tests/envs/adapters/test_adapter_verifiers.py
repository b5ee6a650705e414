"""Against the real package: a taskset with an environment of its own, and one of single prompts."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from tutelage.envs.adapters.verifiers import VerifiersEnv
from tutelage.envs.registry import make_env
from tutelage.errors import ConfigError, EnvError, FormatError
from tutelage.rollout.episode import Limits
from tutelage.rollout.runner import make_jobs, run_rollouts
from tutelage.rollout.switch import make_rule
from tutelage.tasks.base import check_disjoint
from tutelage.tasks.registry import load_tasks
from tutelage.testing import ScriptedPolicy
from tutelage.types import Action, Actor, StopReason, Task

pytest.importorskip("verifiers.v1", reason="the extra 'verifiers' is not installed")

WIN = ("go garden", "take key", "go hall", "open chest")
TREASURE = {"taskset": "treasure_vf", "config": {"first": 1}}


@pytest.fixture(scope="module")
def vf() -> Any:
    return pytest.importorskip("verifiers.v1")


def treasure(index: int = 0, **settings: Any) -> Task:
    return load_tasks("verifiers", "train", start=index, count=1, **TREASURE, **settings)[0]


def test_rows_are_tasks() -> None:
    task = treasure()
    assert task.task_id == "vf-treasure_vf-train-000000"
    assert task.goal == "You are in the hall. There is a chest."
    assert task.settings["data"] == {"idx": 0, "prompt": "You are in the hall. There is a chest.", "seed": 1}
    assert [
        load_tasks("verifiers", split, count=1, **TREASURE)[0].settings["data"]["idx"]
        for split in ("validation", "test")
    ] == [8, 9]


def test_the_environments_own_code_is_the_user(play: Callable[..., Any]) -> None:
    env = make_env(treasure())
    assert not env.inline
    # Won: 1; the key found: 1, with the weight 0.5.
    assert play(env, WIN, seed=0) == [
        ("You are in the hall. There is a chest.", None, False, False),
        ("You are in the garden. There is a key.", None, False, False),
        ("You take the key.", None, False, False),
        ("You are in the hall.", None, False, False),
        ("", 1.5, True, False),
    ]
    assert env.reward() == 1.5


def test_an_episode_that_is_cut_short_is_scored_as_it_is() -> None:
    env = make_env(treasure(max_steps=3))
    env.reset(0)
    env.step(Action.of("go garden"))
    env.step(Action.of("take key"))
    result = env.step(Action.of("go hall"))
    assert (result.observation.text, result.reward, result.truncated) == ("You are in the hall.", None, True)
    assert env.reward() == 0.5
    env.close()


def test_scoring_before_the_end_is_the_end() -> None:
    env = make_env(treasure())
    env.reset(0)
    env.step(Action.of("go garden"))
    assert env.reward() == 0.0
    with pytest.raises(EnvError, match="after the end of the episode"):
        env.step(Action.of("take key"))
    env.close()


def test_a_stop_of_the_task_ends_it() -> None:
    env = make_env(treasure())
    env.reset(0)
    result = env.step(Action.of("give up"))
    # What the game answered, and nobody read.
    assert (result.observation.text, result.reward, result.terminated) == ("Nothing happens.", 0.0, True)
    env.close()


def test_one_prompt_one_reply(play: Callable[..., Any]) -> None:
    task = load_tasks("verifiers", "train", count=1, taskset="sums_vf")[0]
    env = make_env(task)
    assert [(message.role, message.content) for message in env.reset(0).messages] == [
        ("system", "Answer with a number."),
        ("user", "0 + 1 = ?"),
    ]
    result = env.step(Action.of("1"))
    assert (result.observation.messages, result.reward, result.terminated) == ((), 1.25, True)
    env.close()
    assert play(make_env(task), ("I think 1",), seed=0)[-1][1] == 0.0
    assert play(make_env(task), ("7",), seed=0)[-1][1] == 0.25


def test_splits_by_settings_of_the_taskset() -> None:
    options = {"taskset": "sums_vf", "split_config": {"train": {"split": "train"}, "test": {"split": "test"}}}
    train, test = load_tasks("verifiers", "train", **options), load_tasks("verifiers", "test", **options)
    assert [len(train), len(test)] == [20, 20]
    assert test[0].settings["config"] == {"split": "test"}
    assert test[0].settings["data"]["answer"] == 101
    check_disjoint(train, test)
    check_disjoint(*(load_tasks("verifiers", split, taskset="sums_vf") for split in ("train", "validation", "test")))
    with pytest.raises(ConfigError, match="split_config: split: unknown 'validation'"):
        load_tasks("verifiers", "validation", **options)
    with pytest.raises(FormatError, match="no row 20 of split 'train'"):
        load_tasks("verifiers", "train", start=20, **options)


def test_a_rollout_in_threads_leaves_nothing() -> None:
    tasks = load_tasks("verifiers", "train", count=6, **TREASURE)
    before = threading.active_count(), len(os.listdir("/proc/self/fd"))
    summary = run_rollouts(
        make_jobs(tasks),
        policies={Actor.EXPERT: ScriptedPolicy(WIN, then="give up")},
        rule=make_rule("expert_only"),
        limits=Limits(max_steps=8),
        concurrency=3,
    )
    # Odd seeds are won in four turns; in even ones the fifth turn gives up.
    assert [one.reward for one in summary.trajectories] == [1.5, 0.0] * 3
    assert {one.stop_reason for one in summary.trajectories} == {StopReason.COMPLETED}
    assert (threading.active_count(), len(os.listdir("/proc/self/fd"))) == before


def test_code_that_fails_is_an_env_error_of_its_episode(vf: Any) -> None:
    env = VerifiersEnv(treasure())

    async def broken(task: Any, agents: Any) -> None:
        async with agents.player.interaction(task) as talk:
            await talk.turn()
            raise RuntimeError("the floor gives way")

    env._env.run = broken
    env.reset(0)
    with pytest.raises(RuntimeError, match="the floor gives way"):
        env.step(Action.of("look"))
    env.close()


def test_close_wakes_up_who_waits(vf: Any) -> None:
    import asyncio

    env = VerifiersEnv(treasure())
    waiting = threading.Event()

    async def slow(task: Any, agents: Any) -> None:
        async with agents.player.interaction(task) as talk:
            await talk.turn()
            waiting.set()
            await asyncio.sleep(60)

    env._env.run = slow
    env.reset(0)
    failed: list[Exception] = []

    def step() -> None:
        try:
            env.step(Action.of("look"))
        except EnvError as error:
            failed.append(error)

    stepping = threading.Thread(target=step)
    stepping.start()
    assert waiting.wait(5)
    started = time.monotonic()
    env.close()
    stepping.join(5)
    assert time.monotonic() - started < 2
    assert ["closed while it was played" in str(error) for error in failed] == [True]
    assert env._loop is not None
    assert env._loop.is_closed()


def test_what_is_not_supported_is_refused_with_the_reason(vf: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import sums_vf

    task = load_tasks("verifiers", "train", count=1, taskset="sums_vf")[0]

    async def in_a_box(self: Any, trace: Any, runtime: Any) -> None: ...

    async def looks_at_requests(self: Any, request: vf.Request) -> bool:
        return False

    async def rewrites(self: Any, request: vf.Request) -> None: ...

    looks_at_requests.__annotations__ = {"request": vf.Request}
    for name, value, message in (
        ("NEEDS_CONTAINER", True, "needs a container"),
        ("toolsets", classmethod(lambda cls, config: ["a tool"]), "brings tool servers"),
        ("setup", in_a_box, "'in_a_box' that works in a runtime"),
        ("looks", vf.stop(looks_at_requests), "a stop 'looks_at_requests' on something else than its trace"),
        ("rewrites", vf.intercept(rewrites), "rewrites model calls"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(sums_vf.SumTask, name, value, raising=False)
            with pytest.raises(ConfigError, match=f"task SumTask .*{message}.*Use verifiers' own loop"):
                make_env(task)
    with monkeypatch.context() as patch:
        patch.setattr(sums_vf.SumTaskset, "toolsets", classmethod(lambda cls, config: ["a tool"]))
        with pytest.raises(ConfigError, match="taskset 'sums_vf' brings tool servers"):
            make_env(task)


def test_agents_that_need_a_model_are_refused_when_they_are_asked() -> None:
    task = load_tasks("verifiers", "train", count=1, taskset="sums_vf", environment="user_sim", agent="assistant")[0]
    env = make_env(task)
    with pytest.raises(ConfigError, match=r"asks its agent 'user', which needs a model of its own; our policy plays"):
        env.reset(0)
    env.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"taskset": "no_such_taskset"}, "taskset 'no_such_taskset' cannot be loaded: .*not found"),
        ({"taskset": "json"}, "taskset 'json' cannot be loaded: .*exports no"),
        ({"taskset": "sums_vf", "config": {"splitt": "x"}}, "taskset 'sums_vf' cannot be loaded: .*splitt"),
        ({"taskset": "sums_vf", "environment": "user_sim"}, "has the agents assistant, user; name the one to play"),
        ({"taskset": "sums_vf", "agent": "player"}, "agent: unknown 'player'"),
    ],
)
def test_what_cannot_be_loaded_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=f"(?s)verifiers: .*{message}"):
        make_env(load_tasks("verifiers", "train", count=1, **options)[0])
