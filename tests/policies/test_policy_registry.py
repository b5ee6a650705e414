from __future__ import annotations

import pytest

from tutelage.envs.registry import make_env
from tutelage.errors import ConfigError
from tutelage.policies.experts.household import HouseholdExpert
from tutelage.policies.registry import make_expert, shortest_commands
from tutelage.tasks.registry import load_tasks
from tutelage.types import Action


def test_an_expert_is_made_by_the_name_of_its_environment():
    expert = make_expert("household", search="list", skip=True)
    assert isinstance(expert, HouseholdExpert)
    assert (expert.search, expert.skip) == ("list", True)
    assert expert.version == "household_expert-1/list/skip"


def test_an_unknown_environment_is_refused_with_a_suggestion():
    with pytest.raises(ConfigError, match=r"unknown 'houshold'\. Did you mean 'household'"):
        make_expert("houshold")


def test_an_unknown_option_is_refused():
    with pytest.raises(ConfigError, match=r"expert of 'household': options \['order'\] do not fit"):
        make_expert("household", order="list")


def test_scripted_is_the_usual_expert_of_the_environment():
    assert isinstance(make_expert("scripted", env="household", search="list"), HouseholdExpert)
    with pytest.raises(ConfigError, match="unknown 'scripted'"):
        make_expert("scripted")


def test_an_environment_may_be_played_by_the_expert_of_another():
    assert isinstance(make_expert("household", env="alfworld"), HouseholdExpert)


def test_the_planner_is_the_one_that_sees_all_or_else_the_usual_expert():
    assert type(make_expert("planner", env="household")).__name__ == "PlannerPolicy"
    assert type(make_expert("planner", env="search")).__name__ == "SearchExpert"


def test_a_plan_wins_the_task():
    task = load_tasks("search", "train", count=1)[0]
    plan = shortest_commands(task)
    assert plan is not None
    env = make_env(task)
    env.reset(task.seed)
    assert [env.step(Action.of(one)).terminated for one in plan] == [False] * (len(plan) - 1) + [True]
    assert env.reward() == 1.0
    env.close()
