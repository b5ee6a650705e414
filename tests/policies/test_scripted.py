from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from tutelage.errors import ConfigError, PolicyError
from tutelage.policies.base import PartialTrajectory, Policy
from tutelage.policies.scripted import INVALID_COMMANDS, LoopingPolicy, RandomPolicy, ScriptedPolicy
from tutelage.types import Action, Actor, Observation, ParseOutcome, Step, Task

START = PartialTrajectory(
    trajectory_id="t",
    task=Task(task_id="hh-test", env="household", goal=""),
    steps=(),
    observation=Observation.of("hello"),
    seed=3,
)


def after(so_far, action):
    step = Step(observation=so_far.observation, action=action, actor=Actor.STUDENT)
    return replace(so_far, steps=(*so_far.steps, step))


def played(policy, num_steps, so_far=START):
    said = []
    for _ in range(num_steps):
        action = policy.act(so_far)
        said.append(action.text)
        so_far = after(so_far, action)
    return said


def test_a_script_is_played_by_the_step_index_whoever_acted_before():
    policy = ScriptedPolicy(["a", "b", "c"])
    assert isinstance(policy, Policy)
    assert played(policy, 3) == ["a", "b", "c"]
    assert policy.act(after(after(START, Action.of("x")), Action.of("y"))).command == "c"


def test_after_the_script_comes_the_given_command_or_an_error():
    assert played(ScriptedPolicy(["a"], then="look"), 3) == ["a", "look", "look"]
    with pytest.raises(PolicyError, match="step 1: the script has 1 commands"):
        played(ScriptedPolicy(["a"]), 2)


COMMANDS = ["go to a", "go to b", "go to c", "take x", "look", "inventory"]


def drawn(policy, num_seeds=4000):
    return Counter(policy.act(replace(START, seed=seed)).text for seed in range(num_seeds))


def test_random_play_draws_verbs_evenly_and_errs_as_often_as_asked():
    counts = drawn(RandomPolicy(lambda _: COMMANDS, invalid=0.1, quiet=0.0))
    invalid = sum(counts[command] for command in INVALID_COMMANDS)
    assert 0.08 < invalid / 4000 < 0.12
    assert counts["look"] == counts["inventory"] == 0
    # Two verbs, 45 % each; the first has three commands.
    assert 0.42 < counts["take x"] / 4000 < 0.48
    assert all(0.13 < counts[f"go to {letter}"] / 4000 < 0.17 for letter in "abc")


def test_quiet_verbs_take_part_as_often_as_asked():
    counts = drawn(RandomPolicy(lambda _: COMMANDS, invalid=0.0, quiet=1.0))
    assert all(0.22 < counts[command] / 4000 < 0.28 for command in ("take x", "look", "inventory"))
    assert drawn(RandomPolicy(lambda _: ["look"], invalid=0.0, quiet=0.0), 5) == {"look": 5}


def test_random_play_depends_on_seeds_and_step_alone():
    policy = RandomPolicy(lambda _: COMMANDS, seed=1)
    assert played(policy, 30) == played(RandomPolicy(lambda _: COMMANDS, seed=1), 30)
    assert played(policy, 30) != played(RandomPolicy(lambda _: COMMANDS, seed=2), 30)
    assert played(policy, 30) != played(policy, 30, replace(START, seed=4))


def test_random_play_without_commands_is_invalid_play():
    assert played(RandomPolicy(lambda _: [], invalid=0.0), 1)[0] in INVALID_COMMANDS


def test_looping_repeats_the_last_period():
    assert played(LoopingPolicy(ScriptedPolicy("abc"), start=3, period=2), 8) == list("abcbcbcb")
    assert played(LoopingPolicy(ScriptedPolicy("abc"), start=3), 6) == list("abcccc")


def test_looping_repeats_malformed_replies_but_not_their_probabilities():
    reply = Action(text="??", parse=ParseOutcome.MALFORMED, token_ids=(5, 6), rollout_logprobs=(-0.1, -0.2))
    echo = LoopingPolicy(ScriptedPolicy("a"), start=1).act(after(START, reply))
    assert echo == Action(text="??", parse=ParseOutcome.MALFORMED)


@pytest.mark.parametrize(("start", "period"), [(0, 1), (2, 3), (2, 0)])
def test_looping_needs_something_to_repeat(start, period):
    with pytest.raises(ConfigError, match="expected 1 <= period <= start"):
        LoopingPolicy(ScriptedPolicy("a"), start=start, period=period)
