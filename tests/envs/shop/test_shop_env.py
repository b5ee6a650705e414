"""The shop as an environment: one purchase, its limits, and what all episodes of a process share."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from tutelage.envs.base import Env, ReportsProgress, Snapshotting
from tutelage.envs.registry import make_env
from tutelage.envs.shop.env import FORMAT_HELP, INSTRUCTIONS, ShopEnv, catalogue_of
from tutelage.envs.shop.pages import Place
from tutelage.errors import ConfigError, EnvError
from tutelage.types import Action, ParseOutcome, Task

MALFORMED = Action(text="I would like a rug", parse=ParseOutcome.MALFORMED)

GOAL: dict[str, Any] = {
    "item_id": "B00026",
    "instruction": "buy low sodium dairy free cookies with flavor: maple, and price lower than 40.00 dollars",
    "attributes": ["low sodium", "dairy free"],
    "options": ["maple"],
    "price_upper": 40.0,
}
BUY = ("search[low sodium dairy free cookies]", "click[b00026]", "click[maple]", "click[buy now]")


def make_task(**settings: Any) -> Task:
    usual = {"catalogue_seed": 0, "num_products": 100, "goal": GOAL}
    return Task(task_id="shop-test", env="shop", goal=GOAL["instruction"], settings=usual | settings)


def started(**settings: Any) -> ShopEnv:
    env = ShopEnv(make_task(**settings))
    env.reset(0)
    return env


def test_it_is_an_environment_that_runs_in_line() -> None:
    env = make_env(make_task())
    assert isinstance(env, ShopEnv)
    assert isinstance(env, Env)
    assert isinstance(env, Snapshotting)
    assert isinstance(env, ReportsProgress)
    assert env.inline


def test_buying_what_was_asked_for_terminates_with_score_one() -> None:
    env = ShopEnv(make_task())
    first = env.reset(0)
    assert first.text == f"WebShop [SEP] Instruction: [SEP] {GOAL['instruction']} [SEP] Search"
    progress = [env.progress()]
    for command in BUY:
        result = env.step(Action.of(command))
        progress.append(env.progress())
        assert not result.truncated
        assert result.terminated == (command == BUY[-1])
        assert result.reward == (1.0 if command == BUY[-1] else 0.0)
    assert result.observation.text == "Thank you for shopping with us! [SEP] Your score (min 0.0, max 1.0) [SEP] 1.0"
    # Wanted are 2 attributes, 1 option, the price; one part more is the purchase itself.
    assert progress == [0.0, 0.0, 3 / 5, 4 / 5, 1.0]
    assert env.reward() == 1.0
    with pytest.raises(EnvError, match="after the end"):
        env.step(Action.of("click[back to search]"))


def test_a_purchase_may_be_worth_less() -> None:
    env = started()
    for command in (BUY[0], BUY[1], BUY[3]):
        result = env.step(Action.of(command))
    assert (result.reward, result.terminated) == (3 / 4, True)
    assert env.progress() == 4 / 5
    # Another type of product is worth nothing, whatever else it has.
    env = started()
    for command in ("search[low sodium pasta]", "click[next >]", "click[< prev]"):
        text = env.step(Action.of(command)).observation.text
    other = next(string for string in text.split(" [SEP] ") if string.startswith("B0") and string != "B00026")
    assert env.site.catalogue[other].query != "cookies"
    env.step(Action.of(f"click[{other}]"))
    assert env.step(Action.of("click[buy now]")).reward == 0.0


def test_a_malformed_action_costs_a_step_and_an_impossible_one_shows_the_page_again() -> None:
    env = started(max_steps=4)
    page = env.site.text(env.place)
    result = env.step(MALFORMED)
    assert (result.observation.text, result.reward, env.life.num_steps, env.place) == (FORMAT_HELP, 0.0, 1, Place())
    for command in ("click[search]", "hello"):
        result = env.step(Action.of(command))
        assert (result.observation.text, result.truncated) == (page, False)
    result = env.step(Action.of("search[rug]"))
    assert (result.terminated, result.truncated, env.reward()) == (False, True, 0.0)
    with pytest.raises(EnvError):
        env.step(Action.of("search[rug]"))


def test_a_purchase_at_the_last_step_is_terminated() -> None:
    env = started(max_steps=len(BUY))
    result = [env.step(Action.of(command)) for command in BUY][-1]
    assert (result.terminated, result.truncated, result.reward) == (True, False, 1.0)


def test_fifteen_steps_if_nothing_is_said() -> None:
    env = started()
    assert [env.step(MALFORMED).truncated for _ in range(15)] == [False] * 14 + [True]


def test_single_use_and_close() -> None:
    env = ShopEnv(make_task())
    with pytest.raises(EnvError, match="step before reset"):
        env.step(Action.of("search[rug]"))
    env.reset(0)
    with pytest.raises(EnvError, match="reset a second time"):
        env.reset(0)
    moment = env.snapshot()
    env.close()
    env.close()
    with pytest.raises(EnvError):
        env.step(Action.of("search[rug]"))
    with pytest.raises(EnvError, match="restore after close"):
        env.restore(moment)
    assert env.reward() == 0.0
    with pytest.raises(TypeError, match="restore got a int"):
        ShopEnv(make_task()).restore(3)


def test_snapshots_go_back_to_before_the_purchase() -> None:
    env = started(max_steps=4)
    for command in BUY[:2]:
        env.step(Action.of(command))
    moment, admissible, state = env.snapshot(), env.admissible(), env.state_hash()
    assert env.step(Action.of(BUY[3])).terminated
    env.restore(moment)
    assert (env.reward(), env.life.num_steps, env.admissible(), env.state_hash()) == (0.0, 2, admissible, state)
    env.step(Action.of(BUY[2]))
    assert env.step(Action.of(BUY[3])).reward == 1.0


def test_states_are_told_apart() -> None:
    env = started()
    states = [env.state_hash()]
    for command in (*BUY[:3], "click[berry]", "click[features]"):
        env.step(Action.of(command))
        states.append(env.state_hash())
    assert len(set(states)) == len(states)
    assert states[0] == started().state_hash()


def test_all_episodes_share_one_catalogue() -> None:
    envs = [started() for _ in range(64)]
    assert len({id(env.site.catalogue) for env in envs}) == 1
    assert envs[0].site.catalogue is catalogue_of(make_task().settings)


def test_settings_reach_the_shop() -> None:
    env = started(page_size=3, strict_search=False, show_chosen=True, show_attributes=True)
    assert (env.site.page_size, env.site.strict_search) == (3, False)
    assert (env.site.show_chosen, env.site.show_attributes) == (True, True)


def test_goals_may_hold_a_map_of_options() -> None:
    env = started(goal=GOAL | {"options": {"flavor": "maple"}})
    assert [env.step(Action.of(command)).reward for command in BUY][-1] == 1.0


def test_a_changed_catalogue_or_goal_is_noticed() -> None:
    with pytest.raises(EnvError, match="content hash"):
        ShopEnv(make_task(content_hash="0" * 64))
    with pytest.raises(ConfigError, match="neither 'catalogue_seed' nor 'root'"):
        ShopEnv(replace(make_task(), settings={"goal": GOAL}))
    with pytest.raises(ConfigError, match="target 'B99999' is not among the 100 products"):
        ShopEnv(make_task(goal=GOAL | {"item_id": "B99999"}))
    with pytest.raises(ConfigError, match="goal"):
        ShopEnv(replace(make_task(), settings={"catalogue_seed": 0}))


def test_the_instructions_speak_of_what_there_is() -> None:
    assert "search[" in INSTRUCTIONS
    assert "click[buy now]" in INSTRUCTIONS
    assert all(
        button in INSTRUCTIONS for button in ("< Prev", "Next >", "Description", "Features", "Reviews", "Buy Now")
    )


def test_same_task_and_actions_same_bytes_in_another_process() -> None:
    code = f"""
from tutelage.envs.shop.env import ShopEnv
from tutelage.types import Action, Task
settings = {make_task().settings!r}
env = ShopEnv(Task(task_id="shop-test", env="shop", goal="", settings=settings))
texts = [env.reset(0).text] + [env.step(Action.of(c)).observation.text for c in {BUY!r}]
print(repr((texts, env.state_hash())))
"""
    env = ShopEnv(make_task())
    texts = [env.reset(0).text] + [env.step(Action.of(command)).observation.text for command in BUY]
    ran = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONHASHSEED": "3"}, capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == repr((texts, env.state_hash()))
