"""Which steps did nothing, by each environment's own words."""

from __future__ import annotations

from tutelage.envs.registry import make_env
from tutelage.policies.scripted import ScriptedPolicy
from tutelage.rollout.episode import run_episode
from tutelage.rollout.switch import make_rule
from tutelage.supervision.effects import ineffective_steps
from tutelage.tasks.registry import load_tasks
from tutelage.testing import make_trajectory
from tutelage.types import Actor, Trajectory


def played(env: str, commands: list[str]) -> Trajectory:
    task = load_tasks(env, "train", count=1)[0]
    return run_episode(
        task,
        make_env(task),
        {Actor.EXPERT: ScriptedPolicy(commands, then=commands[-1])},
        make_rule("expert_only"),
        seed=0,
    )


def test_a_click_on_what_is_not_there_does_nothing():
    trajectory = played("shop", ["click[no such thing]", "search[red]", "click[back to search]", "click[buy now]"])
    assert ineffective_steps(trajectory)[:4] == [True, False, False, True]


def test_without_footprints_the_usual_reply_tells():
    assert ineffective_steps(make_trajectory("ss")) == [False, False]


def test_an_episode_without_steps_has_none():
    assert ineffective_steps(make_trajectory("")) == []
    assert ineffective_steps(make_trajectory("", env="shop")) == []
