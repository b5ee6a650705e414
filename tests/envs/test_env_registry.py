from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import pytest

from tutelage.envs.action_formats import ThinkActionFormat
from tutelage.envs.household.env import HouseholdEnv
from tutelage.envs.registry import (
    ENVIRONMENTS,
    action_format_for,
    environment_names,
    find_environment,
    load_place,
    make_env,
)
from tutelage.envs.repo.settings import FORMATS
from tutelage.envs.search.env import ACTION_FORMAT as SEARCH_FORMAT
from tutelage.errors import ConfigError
from tutelage.tasks.registry import load_tasks
from tutelage.types import Task


def test_an_environment_is_made_by_its_name() -> None:
    task = Task(task_id="hh-1", env="household", goal="", settings={"size": "small", "game_seed": 1})
    env = make_env(task)
    assert isinstance(env, HouseholdEnv)
    assert env.task is task
    assert environment_names()[:6] == ("household", "alfworld", "shop", "search", "repo", "python")


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"task t-1: environment: unknown 'houshold'. Did you mean 'household'?"):
        make_env(Task(task_id="t-1", env="houshold", goal=""))


@pytest.mark.parametrize("name", ["json", "os.path", "no_such_package", "../x", "a b", ""])
def test_a_module_without_an_environment_is_none(name: str) -> None:
    with pytest.raises(ConfigError, match="unknown"):
        find_environment(name)


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_every_place_of_every_environment_is_there(name: str) -> None:
    spec = ENVIRONMENTS[name]
    assert spec.name == name
    places = [spec.env, spec.tasks, *spec.experts.values(), *spec.footprints.values()]
    for place in [*places, *filter(None, [spec.planner, spec.reads, spec.instructions, spec.instructions_of])]:
        assert load_place(place)


def test_the_action_format_of_a_task() -> None:
    (task,) = load_tasks("repo", "train", start=0, count=1, action_format="tool_calls")
    assert action_format_for(task) is FORMATS["tool_calls"]
    assert action_format_for(Task(task_id="s", env="search", goal="")) is SEARCH_FORMAT
    (task,) = load_tasks("household", "train", start=0, count=1)
    assert action_format_for(task) is None


def test_the_action_format_of_an_environment_that_alone_can_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "telling_world.py").write_text(
        "from tutelage.envs.action_formats import ThinkActionFormat\n"
        "from tutelage.envs.registry import EnvSpec\n"
        "from tutelage.testing import CountingEnv\n"
        "made = []\n"
        "def make(task):\n"
        "    env = CountingEnv(task)\n"
        "    env.action_format = ThinkActionFormat()\n"
        "    made.append(env)\n"
        "    return env\n"
        "ENVIRONMENT = EnvSpec(name='telling_world', summary='counts', env='telling_world:make', tasks='telling_world:x')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    try:
        task = Task(task_id="t", env="telling_world", goal="")
        assert action_format_for(task) == action_format_for(task) == ThinkActionFormat()
        assert len(import_module("telling_world").made) == 1
    finally:
        sys.modules.pop("telling_world", None)


def test_a_package_of_the_users_own_is_found_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_own_world.py").write_text(
        "from tutelage.envs.registry import EnvSpec\n"
        "from tutelage.testing import CountingEnv, counting_task\n"
        "class Tasks:\n"
        "    def load(self, split, start=0, count=None):\n"
        "        return [counting_task(f'count-{index}') for index in range(start, start + (count or 3))]\n"
        "ENVIRONMENT = EnvSpec(name='my_own_world', summary='counts', env='my_own_world:CountingEnv',"
        " tasks='my_own_world:Tasks')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    try:
        assert find_environment("my_own_world").summary == "counts"
        assert [task.task_id for task in load_tasks("my_own_world", "train", count=2)] == ["count-0", "count-1"]
    finally:
        sys.modules.pop("my_own_world", None)


def test_places_that_are_not_there_say_what_is_missing() -> None:
    with pytest.raises(ConfigError, match=r"'tutelage' is no place"):
        load_place("tutelage")
    with pytest.raises(ConfigError, match=r"no module tutelage\.nowhere"):
        load_place("tutelage.nowhere:x")
    with pytest.raises(ConfigError, match="has no 'nothing'"):
        load_place("tutelage.types:nothing")
    assert load_place("tutelage.types:Task") is import_module("tutelage.types").Task
