from __future__ import annotations

import pytest

from tutelage.envs.household.env import HouseholdEnv
from tutelage.envs.registry import ENV_NAMES, make_env
from tutelage.errors import ConfigError
from tutelage.types import Task


def test_an_environment_is_made_by_its_name() -> None:
    task = Task(task_id="hh-1", env="household", goal="", settings={"size": "small", "game_seed": 1})
    env = make_env(task)
    assert isinstance(env, HouseholdEnv)
    assert env.task is task
    assert ENV_NAMES == ("household",)


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"task t-1: environment: unknown 'houshold'. Did you mean 'household'?"):
        make_env(Task(task_id="t-1", env="houshold", goal=""))
