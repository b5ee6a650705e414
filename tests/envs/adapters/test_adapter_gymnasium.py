from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from tutelage.envs.adapters.gymnasium import GymnasiumEnv
from tutelage.envs.registry import make_env
from tutelage.errors import ConfigError
from tutelage.rollout.runner import make_jobs, run_rollouts
from tutelage.rollout.switch import make_rule
from tutelage.tasks.base import check_disjoint
from tutelage.tasks.registry import load_tasks
from tutelage.testing import ScriptedPolicy
from tutelage.types import Action, Actor, StopReason, Task

pytest.importorskip("gymnasium", reason="the extra 'gymnasium' is not installed")

WIN = ("go garden", "take key", "go hall", "open chest")


def task(**settings: Any) -> Task:
    return Task(task_id="g-1", env="gymnasium", goal="", settings={"id": "treasure_gym:Treasure-v0", **settings})


def test_a_text_environment_is_played_as_it_is(play: Callable[..., Any]) -> None:
    assert play(make_env(task()), WIN, seed=1) == [
        ("You are in the hall. There is a chest.", None, False, False),
        ("You are in the garden. There is a key.", 0.0, False, False),
        ("You take the key.", 0.0, False, False),
        ("You are in the hall.", 0.0, False, False),
        ("The chest is full of gold.", 1.0, True, False),
    ]


def test_its_limit_truncates(play: Callable[..., Any]) -> None:
    record = play(make_env(task()), ("look",) * 6, seed=0)
    assert record[-1] == ("Nothing happens.", 0.0, False, True)
    assert [one[3] for one in record[:-1]] == [False] * 6


def test_a_win_in_the_last_turn_is_terminated(play: Callable[..., Any]) -> None:
    record = play(make_env(task()), ("look", "look", "look", "look", "take key", "open chest"), seed=0)
    assert record[-1] == ("The chest is full of gold.", 1.0, True, False)


def test_the_users_functions_read_and_write(play: Callable[..., Any]) -> None:
    numbers = {"id": "treasure_gym:TreasureNumbers-v0", "observe": "treasure_gym:observe", "act": "treasure_gym:act"}
    env = make_env(task(**numbers, help="Go, take or open."))
    assert [message.role for message in env.reset(1).messages] == ["system", "user"]
    assert env.step(Action.of("dance")).observation.text == "Go, take or open."
    assert env.step(Action.of("go garden")).observation.text == "A game.\nYou are in the garden. There is a key."
    env.close()


def test_an_action_outside_the_action_space_is_no_action(play: Callable[..., Any]) -> None:
    record = play(make_env(task(help="Small letters.")), ("GO GARDEN", "go garden"), seed=1)
    assert [one[0] for one in record[1:]] == ["Small letters.", "You are in the garden. There is a key."]


def test_options_and_arguments_reach_it() -> None:
    closed: list[str] = []
    env = make_env(task(options={"key": "hall"}, kwargs={"closed": closed}))
    assert env.reset(1).text == "You are in the hall. There is a chest. There is a key."
    env.close()
    env.close()
    assert closed == ["closed"]


@pytest.mark.parametrize("named", [{"id": "treasure_gym:TreasureOld-v0"}, {"id": None, "make": "treasure_gym:old"}])
def test_an_interface_of_four_values_is_refused(named: dict[str, Any]) -> None:
    env = make_env(task(**named))
    env.reset(0)
    with pytest.raises(
        ConfigError, match=re.compile("step returned (a tuple of 4|4 values), expected .* tells them apart", re.S)
    ):
        env.step(Action.of("look"))
    env.close()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"id": "NoSuchGame-v0"}, "gymnasium environment NoSuchGame-v0: Environment `NoSuchGame` doesn't exist"),
        ({"id": "no_such_module:X-v0"}, "no_such_module"),
        ({"id": None, "make": "treasure_gym:foreign"}, "it is a NotOfGymnasium, expected a gymnasium.Env"),
        ({"make": "treasure_gym:old"}, "either 'id' .* or 'make'"),
        ({"id": "treasure_gym:TreasureNumbers-v0"}, r"actions are Discrete\(4\), no text. Name a function in 'act'"),
    ],
)
def test_what_cannot_be_played_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=f"task g-1: .*{message}"):
        GymnasiumEnv(task(**settings))


def test_an_observation_that_is_no_text_is_refused() -> None:
    env = GymnasiumEnv(task(id="treasure_gym:TreasureNumbers-v0", act="treasure_gym:act"))
    with pytest.raises(ConfigError, match=r"the observation is a dict, no text. Name a function in 'observe'"):
        env.reset(0)
    env.close()


def test_a_rollout_of_numbered_tasks() -> None:
    tasks = load_tasks("gymnasium", "train", count=4, id="treasure_gym:Treasure-v0", max_steps=5)
    assert [one.task_id for one in tasks[:2]] == ["gymnasium-train-000000", "gymnasium-train-000001"]
    assert [one.seed for one in tasks] == [0, 3, 6, 9]
    test = load_tasks("gymnasium", "test", count=4, id="treasure_gym:Treasure-v0", max_steps=5)
    check_disjoint(tasks, test)
    policy = ScriptedPolicy(WIN, then="look")
    summary = run_rollouts(
        make_jobs(tasks, seed=0), policies={Actor.EXPERT: policy}, rule=make_rule("expert_only"), concurrency=2
    )
    assert [(one.stop_reason, one.reward, len(one.steps)) for one in summary.trajectories] == [
        (StopReason.MAX_STEPS, 0.0, 5),
        (StopReason.COMPLETED, 1.0, 4),
        (StopReason.MAX_STEPS, 0.0, 5),
        (StopReason.COMPLETED, 1.0, 4),
    ]
