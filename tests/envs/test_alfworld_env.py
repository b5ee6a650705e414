from __future__ import annotations

import io
import json
import os
import shutil
import signal
import tempfile
import threading
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from tutelage.envs.alfworld import program
from tutelage.envs.alfworld.env import AlfworldEnv, DataMismatch, problem_of_task
from tutelage.envs.alfworld.process import RULES_HASH, OriginalEngine
from tutelage.envs.base import Env
from tutelage.envs.household.env import FORMAT_HELP, HouseholdEnv
from tutelage.errors import ConfigError, EnvError, FormatError, MissingExtra
from tutelage.policies.experts.household import HouseholdExpert
from tutelage.policies.experts.household_planner import plan_of_task
from tutelage.rollout.episode import run_episode
from tutelage.rollout.switch import ExpertOnly
from tutelage.supervision.footprints import footprints_of
from tutelage.tasks.alfworld import AlfworldTasks
from tutelage.tasks.household import HouseholdTasks
from tutelage.types import Action, Actor, ParseOutcome, Split, StopReason, Task

GAMES = Path(__file__).parents[1] / "fixtures" / "household" / "games"
MALFORMED = Action(text="I think", command=None, parse=ParseOutcome.MALFORMED)


def task_of(python: str | None = None, index: int = 0, **options) -> Task:
    """A generated game of the train split; with 0 it is pick_and_place_simple."""
    return AlfworldTasks(python=python, **options).load(Split.TRAIN, start=index, count=1)[0]


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture
def scratch(tmp_path, monkeypatch) -> Path:
    """Where the temporary folders of this test lie."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_an_expert_episode_reads_the_same_in_both_engines(alfworld_python, scratch):
    played = {}
    for env_of, task in ((AlfworldEnv, task_of(alfworld_python, 3)), (HouseholdEnv, task_of(None, 3))):
        env = env_of(task)
        assert isinstance(env, Env)
        trajectory = run_episode(task, env, {Actor.EXPERT: HouseholdExpert()}, ExpertOnly(), seed=0)
        assert env.reward() == 1.0
        played[env_of] = trajectory
    original, ours = played.values()
    assert original.stop_reason is StopReason.COMPLETED
    assert original.task_kind == "pick_heat_then_place_in_recep"
    assert len(original.steps) > 5
    assert original.steps == ours.steps
    assert original.final_observation == ours.final_observation
    assert (original.env, ours.env) == ("alfworld", "alfworld")
    assert [one.reads for one in footprints_of(original)] == [one.reads for one in footprints_of(ours)]
    assert list(scratch.iterdir()) == []


def test_limits_malformed_actions_and_the_older_put(alfworld_python):
    task = task_of(alfworld_python, max_steps=2)
    env = AlfworldEnv(task)
    with pytest.raises(EnvError, match="step before reset"):
        env.step(Action.of("look"))
    intro = env.reset(0)
    ours = HouseholdEnv(task)
    assert intro == ours.reset(0)
    assert env.admissible() == ours.admissible()
    first = env.step(MALFORMED)
    assert (first.observation.text, first.reward, first.terminated, first.truncated) == (FORMAT_HELP, 0.0, False, False)
    assert env.admissible() == ours.admissible()
    second = env.step(Action.of("go to\nnowhere \u00e9"))
    assert (second.observation.text, second.terminated, second.truncated) == ("Nothing happens.", False, True)
    with pytest.raises(EnvError, match=r"step 2: step before reset, after the end"):
        env.step(Action.of("look"))
    assert (env.reward(), env.state_hash()) == (0.0, None)
    env.close()
    with pytest.raises(EnvError, match="reset a second time or after close"):
        env.reset(0)

    task = task_of(alfworld_python, accept_put=True)
    plan = plan_of_task(task)
    assert plan is not None
    *commands, last = plan
    assert last.startswith("move ")
    env = AlfworldEnv(replace(task, settings={**task.settings, "max_steps": len(plan)}))
    env.reset(0)
    for command in commands:
        assert not env.step(Action.of(command)).terminated
    end = env.step(Action.of(last.replace("move ", "put ").replace(" to ", " in/on ")))
    assert (end.reward, end.terminated, end.truncated) == (1.0, True, False)
    env.close()
    assert env.reward() == 1.0


def test_a_process_that_dies_is_an_error_of_the_environment(alfworld_python, scratch):
    env = AlfworldEnv(task_of(alfworld_python))
    env.reset(0)
    env.step(Action.of("look"))
    pid = env._engine.pid
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(EnvError, match=r"task hh-small-train-000000, step 1: .* ended with exit code -9"):
        env.step(Action.of("look"))
    env.close()
    env.close()
    assert not is_running(pid)
    assert list(scratch.iterdir()) == []


def test_close_ends_a_request_of_another_thread(alfworld_python, scratch):
    env = AlfworldEnv(task_of(alfworld_python))
    errors = []

    def reset() -> None:
        try:
            env.reset(0)
        except EnvError as error:
            errors.append(str(error))

    thread = threading.Thread(target=reset)
    thread.start()
    while env._engine.pid is None:
        thread.join(0.01)
    pid = env._engine.pid
    env.close()
    thread.join(10)
    assert not thread.is_alive()
    assert len(errors) == 1
    assert not is_running(pid)
    assert list(scratch.iterdir()) == []


def test_one_process_plays_one_game_after_another(alfworld_python):
    first, second = task_of(None, 0), task_of(None, 1)
    engine = OriginalEngine(alfworld_python)
    try:
        intro = engine.load(problem_of_task(first), first.goal)
        admissible = engine.admissible
        assert engine.rules_hash == RULES_HASH
        pid = engine.pid
        assert engine.load(problem_of_task(second), second.goal) == HouseholdEnv(second).reset(0).text
        engine.step(engine.admissible[0])
        engine.load(problem_of_task(first), first.goal)
        engine.step(admissible[0])
        assert engine.reset() == intro
        assert (engine.admissible, engine.won, engine.pid) == (admissible, False, pid)
        with pytest.raises(EnvError, match="the original engine: "):
            engine.load("(define (problem nothing))", "sit")
        assert engine.pid is None
    finally:
        engine.close()


def test_a_game_folder_is_played_from_its_own_problem():
    folder = GAMES / "pick_heat_then_place_in_recep-3"
    task = Task(task_id="t", env="alfworld", goal="", settings={"root": str(GAMES), "folder": folder.name})
    assert problem_of_task(task) == (folder / "initial_state.pddl").read_text(encoding="utf-8")
    with pytest.raises(FormatError, match="no such folder"):
        problem_of_task(replace(task, settings={"root": str(GAMES), "folder": "absent"}))


def test_other_data_than_the_task_was_made_of_are_a_warning():
    task = task_of()
    assert task.settings == HouseholdTasks().load(Split.TRAIN, count=1)[0].settings
    with pytest.warns(
        DataMismatch, match=r"task hh-small-train-000000: the game has content hash \w{12}, .* of 000000"
    ):
        AlfworldEnv(replace(task, settings={**task.settings, "content_hash": "0" * 64}))


def test_a_python_that_cannot_play_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"alfworld: cannot start /nowhere/python \(No such file or directory\)"):
        AlfworldEnv(task_of("/nowhere/python")).reset(0)
    false = shutil.which("false")
    assert false is not None
    with pytest.raises(EnvError, match=r"task hh-small-train-000000, step 0: .* ended with exit code 1$"):
        AlfworldEnv(task_of(false)).reset(0)
    complaining = tmp_path / "python"
    complaining.write_text("#!/bin/sh\necho 'no room left' >&2\nexit 3\n")
    complaining.chmod(0o755)
    with pytest.raises(EnvError, match=r"ended with exit code 3: no room left$"):
        AlfworldEnv(task_of(str(complaining))).reset(0)
    with pytest.raises(ConfigError, match=r"settings: neither 'game_seed' nor 'folder'"):
        AlfworldEnv(Task(task_id="t", env="alfworld", goal=""))


@pytest.mark.skipif(find_spec("textworld") is not None, reason="alfworld is installed")
def test_the_missing_extra_is_named_in_one_line(tmp_path):
    env = AlfworldEnv(task_of())
    with pytest.raises(MissingExtra) as raised:
        env.reset(0)
    assert str(raised.value) == (
        "environment 'alfworld' needs the extra 'alfworld' (alfworld==0.4.2, textworld>=1.6.1). "
        'Run: pip install "tutelage[alfworld]"'
    )
    env.close()
    replies = io.BytesIO()
    program.serve(io.BytesIO(b'{"load": {"problem": "", "task": ""}}\n{"reset": true}\n'), replies, tmp_path)
    assert [list(json.loads(line)) for line in replies.getvalue().splitlines()] == [["missing"]]
