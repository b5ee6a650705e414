"""The household environment: the port's rules over the engine's texts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tutelage.envs.base import Env, ReportsProgress, Snapshotting, StepResult
from tutelage.envs.household.engine import Engine
from tutelage.envs.household.env import FORMAT_HELP, HouseholdEnv, game_of
from tutelage.envs.household.game import Game
from tutelage.envs.household.generator import generate_game
from tutelage.envs.household.writer import write_game
from tutelage.errors import ConfigError, EnvError
from tutelage.types import Action, Observation, ParseOutcome, Task

MALFORMED = Action(text="I think the apple is gone", parse=ParseOutcome.MALFORMED)

SEED = 6
"""A pick_and_place_simple game whose winning commands stand below."""


def make_task(**settings: Any) -> Task:
    return Task(
        task_id="hh-small-train-000000",
        env="household",
        goal="as in the game",
        settings={"size": "small", "game_seed": SEED, "task_type": "pick_and_place_simple"} | settings,
    )


def winning_commands(game: Game) -> list[str]:
    """go, open, take, go, open, move: read off the engine's full state."""
    engine = Engine(game)
    types = dict(zip(engine.object_names, (o.type for o in game.objects), strict=True))
    receptacles = dict(zip(engine.receptacle_names, game.receptacles, strict=True))
    item = next(name for name, kind in types.items() if kind == game.goal.object_type)
    source = engine.containers(item)[0]
    target = next(name for name, r in receptacles.items() if r.type == game.goal.receptacle_type)
    commands = []
    for place, act in ((source, f"take {item} from {source}"), (target, f"move {item} to {target}")):
        commands += [f"go to {place}", *([f"open {place}"] if receptacles[place].openable else []), act]
    return commands


def test_it_is_an_environment_that_runs_in_line() -> None:
    env = HouseholdEnv(make_task())
    assert isinstance(env, Env)
    assert env.inline


def test_a_win_terminates_with_reward_one_and_the_engine_speaks() -> None:
    game = game_of(make_task().settings)
    commands = winning_commands(game)
    env, engine = HouseholdEnv(make_task()), Engine(game)
    assert env.reset(0) == Observation.of(engine.reset())
    assert env.reward() == 0.0
    for command in commands:
        assert env.admissible() == engine.admissible()
        result = env.step(Action.of(command))
        won = command == commands[-1]
        assert result == StepResult(
            observation=Observation.of(engine.step(command)),
            reward=1.0 if won else 0.0,
            terminated=won,
            truncated=False,
        )
        assert env.state_hash() == engine.state_hash()
    assert env.reward() == 1.0


def test_the_limit_truncates_without_reward() -> None:
    env = HouseholdEnv(make_task(max_steps=3))
    env.reset(0)
    results = [env.step(Action.of("look")) for _ in range(3)]
    assert [result.truncated for result in results] == [False, False, True]
    assert not any(result.terminated for result in results)
    assert env.reward() == 0.0


def test_a_win_on_the_last_allowed_step_is_terminated() -> None:
    commands = winning_commands(game_of(make_task().settings))
    env = HouseholdEnv(make_task(max_steps=len(commands)))
    env.reset(0)
    last = [env.step(Action.of(command)) for command in commands][-1]
    assert (last.terminated, last.truncated, last.reward) == (True, False, 1.0)


def test_the_default_limit_is_fifty() -> None:
    env = HouseholdEnv(make_task())
    env.reset(0)
    results = [env.step(Action.of("inventory")) for _ in range(50)]
    assert [result.truncated for result in results] == [False] * 49 + [True]


def test_a_malformed_action_costs_a_step_and_changes_nothing() -> None:
    env = HouseholdEnv(make_task(max_steps=2))
    env.reset(0)
    before = env.state_hash()
    assert env.step(MALFORMED) == StepResult(
        observation=Observation.of(FORMAT_HELP), reward=0.0, terminated=False, truncated=False
    )
    assert env.state_hash() == before
    assert env.step(MALFORMED).truncated


def test_an_impossible_command_is_an_ordinary_observation() -> None:
    env = HouseholdEnv(make_task())
    env.reset(0)
    before = env.state_hash()
    result = env.step(Action.of("take moon 1 from sky 1"))
    assert result.observation.text == "Nothing happens."
    assert env.state_hash() == before


def test_put_is_understood_only_where_the_task_says_so() -> None:
    commands = winning_commands(game_of(make_task().settings))
    item, target = commands[-1].removeprefix("move ").split(" to ")
    for accept_put in (False, True):
        env = HouseholdEnv(make_task(accept_put=accept_put))
        env.reset(0)
        for command in commands[:-1]:
            env.step(Action.of(command))
        assert env.step(Action.of(f"put {item} in/on {target}")).terminated == accept_put


def test_it_plays_one_episode_only() -> None:
    env = HouseholdEnv(make_task(max_steps=1))
    with pytest.raises(EnvError, match=r"task hh-small-train-000000, step 0: step before reset"):
        env.step(Action.of("look"))
    env.reset(0)
    with pytest.raises(EnvError, match="reset a second time"):
        env.reset(0)
    env.step(Action.of("look"))
    with pytest.raises(EnvError, match=r"step 1: step before reset, after the end"):
        env.step(Action.of("look"))


def test_close_ends_it_on_every_path_and_may_be_repeated() -> None:
    unused, played = HouseholdEnv(make_task()), HouseholdEnv(make_task())
    unused.close()
    with pytest.raises(EnvError):
        unused.reset(0)
    played.reset(0)
    played.close()
    played.close()
    with pytest.raises(EnvError):
        played.step(Action.of("look"))
    assert played.reward() == 0.0


def test_episodes_of_one_task_share_the_game_but_not_the_state() -> None:
    first, second = HouseholdEnv(make_task()), HouseholdEnv(make_task())
    assert first.engine.game is second.engine.game
    first.reset(0)
    second.reset(1)
    start = second.state_hash()
    for command in winning_commands(first.engine.game)[:-1]:
        first.step(Action.of(command))
    assert second.state_hash() == start != first.state_hash()


def test_a_game_on_disk_plays_as_the_game_that_was_written(tmp_path: Path) -> None:
    game = generate_game(SEED, task_type="pick_and_place_simple")
    write_game(game, tmp_path / "task" / "trial")
    settings = {"folder": "task/trial", "root": str(tmp_path), "content_hash": game.content_hash}
    env = HouseholdEnv(Task(task_id="hh-task.trial", env="household", goal=game.task, settings=settings))
    assert env.reset(0).text == Engine(game).reset()


def test_a_game_that_is_not_the_tasks_is_refused() -> None:
    with pytest.raises(EnvError, match="the task was made of 0123456789ab"):
        HouseholdEnv(make_task(content_hash="0123456789abcdef"))


def test_settings_without_a_game_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"neither 'game_seed' nor 'folder' in \['size'\]"):
        HouseholdEnv(Task(task_id="hh-x", env="household", goal="", settings={"size": "small"}))


def test_going_back_undoes_everything_that_came_later() -> None:
    commands = winning_commands(game_of(make_task().settings))
    env = HouseholdEnv(make_task(max_steps=len(commands)))
    env.reset(0)
    moments, replies = [], []
    for command in commands:
        moments.append((env.snapshot(), env.state_hash(), env.progress()))
        replies.append(env.step(Action.of(command)))
    assert replies[-1].terminated
    for index, (moment, state, progress) in enumerate(moments):
        env.restore(moment)
        assert (env.state_hash(), env.progress(), env.life.num_steps) == (state, progress, index)
        assert [env.step(Action.of(command)) for command in commands[index:]] == replies[index:]
    env.close()
    with pytest.raises(EnvError, match="restore after close"):
        env.restore(moments[0][0])
    with pytest.raises(TypeError, match="expected what snapshot"):
        env.restore("start")


def test_it_offers_what_the_audit_can_use() -> None:
    env = HouseholdEnv(make_task())
    assert isinstance(env, Snapshotting)
    assert isinstance(env, ReportsProgress)
