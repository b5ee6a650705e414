"""Random players know how actions are written, and nothing of what is asked."""

from __future__ import annotations

import random

import pytest

from tutelage.envs.registry import make_env
from tutelage.envs.repo.settings import action_format_named
from tutelage.errors import ConfigError
from tutelage.policies.base import PartialTrajectory
from tutelage.policies.random_players import (
    any_admissible,
    python_random,
    random_player_of,
    repo_random,
    search_random,
    shop_random,
)
from tutelage.tasks.registry import load_tasks
from tutelage.testing import CountingEnv, counting_task
from tutelage.types import Action, Observation, ParsedCall, Task

FUNCTIONS = action_format_named("functions")


def so_far(text: str, goal: str = "") -> PartialTrajectory:
    task = Task(task_id="t", env="counting", goal=goal)
    return PartialTrajectory(trajectory_id="t", task=task, steps=(), observation=Observation.of(text), seed=0)


def draws(player, text: str, admissible=None, goal: str = "", number: int = 200) -> set[str]:
    rng = random.Random(0)
    return {player(so_far(text, goal), admissible, rng) for _ in range(number)}


def test_any_admissible_command_comes_up_and_no_other():
    commands = ("go to desk 1", "go to desk 2", "look")
    assert draws(any_admissible, "", commands) == set(commands)
    assert draws(any_admissible, "", ()) == {""}


def test_the_shopper_searches_words_of_the_wish_and_clicks_what_is_there():
    searches = draws(
        shop_random, "", ("search[...]",), goal="buy a red mug with size: small, and price lower than 10 dollars"
    )
    assert all(one.startswith("search[") and set(one[7:-1].split()) <= {"buy", "a", "red", "mug"} for one in searches)
    clicks = ("click[back to search]", "click[b001]", "click[buy now]")
    assert draws(shop_random, "", clicks) == set(clicks)


def test_the_searcher_looks_for_names_first():
    assert draws(search_random, "Question: Who is Irma Sorel married to? Lena Abel.") == {
        "<search>Irma Sorel</search>",
        "<search>Lena Abel</search>",
    }
    assert draws(search_random, "who?") == {"<search>Nobody</search>"}


def test_the_calculator_uses_numbers_of_the_text():
    for one in draws(python_random, "3 boxes of 12"):
        assert one.startswith("<python>print(")
        assert one.endswith(")</python>")
        terms = one[len("<python>print(") : -len(")</python>")].split()
        assert set(terms[::2]) <= {"3", "12"}
        assert set(terms[1::2]) <= {"+", "-", "*", "//", "%"}


@pytest.mark.parametrize("name", ["household", "shop", "search", "python"])
def test_every_environment_has_random_play(name: str):
    task = load_tasks(name, "train", count=1)[0]
    env = make_env(task)
    env.reset(task.seed)
    assert callable(random_player_of(name, env))
    env.close()


def test_an_environment_without_listed_commands_and_without_a_player_is_refused():
    env = CountingEnv(counting_task())
    assert random_player_of("counting", env) is any_admissible
    env.admissible = lambda: None  # type: ignore[method-assign]
    with pytest.raises(ConfigError, match="names no random player"):
        random_player_of("counting", env)


def test_the_programmer_looks_at_files_of_the_texts():
    texts = draws(repo_random, "2 tests of shop/prices.py fail")
    assert FUNCTIONS.write(ParsedCall(name="bash", arguments={"command": "cat shop/prices.py"})) in texts
    assert FUNCTIONS.write(ParsedCall(name="submit")) in texts
    assert all(FUNCTIONS.apply(Action.of(text)).call is not None for text in texts)
