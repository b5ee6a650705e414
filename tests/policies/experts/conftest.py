"""Playing household games with policies, from a game record and without the rollout machinery."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tutelage.envs.household.engine import Engine
from tutelage.policies.base import PartialTrajectory
from tutelage.types import Action, Actor, Observation, Step, Task


def partial_of(texts, *, trajectory_id="t", seed=0):
    """A trajectory from [intro, command, reply, command, reply, ...]."""
    intro, *rest = texts
    observation, steps = Observation.of(intro), []
    for command, reply in zip(rest[::2], rest[1::2], strict=True):
        steps.append(Step(observation=observation, action=Action.of(command), actor=Actor.STUDENT))
        observation = Observation.of(reply)
    task = Task(task_id="hh-test", env="household", goal="")
    return PartialTrajectory(
        trajectory_id=trajectory_id, task=task, steps=tuple(steps), observation=observation, seed=seed
    )


class Play:
    """One game under way."""

    def __init__(self, game, seed=0):
        self.engine = Engine(game)
        self.so_far = partial_of([self.engine.reset()], trajectory_id=f"{game.game_id}/{seed}", seed=seed)

    def do(self, command, actor=Actor.EXPERT):
        step = Step(observation=self.so_far.observation, action=Action.of(command), actor=actor)
        reply = Observation.of(self.engine.step(command))
        self.so_far = replace(self.so_far, steps=(*self.so_far.steps, step), observation=reply)

    def run(self, policy, limit):
        """Up to `limit` steps of a policy; returns how many it took."""
        for count in range(limit):
            if self.engine.won:
                return count
            self.do(policy.act(self.so_far).command)
        return limit


@pytest.fixture(name="partial_of", scope="session")
def partial_of_fixture():
    return partial_of


@pytest.fixture(name="play", scope="session")
def play_fixture():
    return Play
