from __future__ import annotations

import pytest

from tutelage.errors import PolicyError
from tutelage.policies.base import PartialTrajectory, Policy
from tutelage.policies.human import HumanPolicy
from tutelage.types import Action, Observation, Task

START = PartialTrajectory(
    trajectory_id="t",
    task=Task(task_id="hh-test", env="household", goal=""),
    steps=(),
    observation=Observation.of("You are in the middle of a room."),
    seed=0,
)


def test_a_person_sees_the_observation_and_answers_with_a_line():
    shown, prompts = [], []

    def read(prompt):
        prompts.append(prompt)
        return "  go to shelf 1 "

    policy = HumanPolicy(read=read, show=shown.append)
    assert isinstance(policy, Policy)
    assert policy.act(START) == Action.of("go to shelf 1")
    assert shown == ["You are in the middle of a room."]
    assert prompts == ["> "]


@pytest.mark.parametrize("word", ["quit", " exit "])
def test_a_person_may_leave(word):
    with pytest.raises(PolicyError, match="trajectory t, step 0: the player left"):
        HumanPolicy(read=lambda _: word, show=lambda _: None).act(START)


def test_the_end_of_the_input_ends_the_play():
    def read(_):
        raise EOFError

    with pytest.raises(PolicyError, match="the input ended"):
        HumanPolicy(read=read, show=lambda _: None).act(START)
