"""Texts of training episodes of an environment, for the vocabulary of a new student.

The usual expert plays training tasks, here and there interrupted by a random admissible command, so that pages which it
never opens are seen too.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from tutelage.envs.registry import make_env
from tutelage.errors import ConfigError
from tutelage.policies.base import PartialTrajectory, Policy
from tutelage.policies.registry import USUAL, make_expert
from tutelage.types import Action, Actor, Observation, Step, Task, stable_hash

RANDOM_SHARE = 0.2
"""Chance that a step is a random admissible command, where the environment lists them."""


def episode_texts(tasks: list[Task], *, seed: int = 0) -> Iterator[str]:
    """One text per task: all observations and actions, each on lines of its own."""
    if not tasks:
        raise ConfigError("vocabulary: no tasks to play; ask for at least one.")
    expert = make_expert(USUAL, env=tasks[0].env)
    for task in tasks:
        yield "\n".join(_play(task, expert, random.Random(stable_hash("texts", seed, task.task_id))))


def _play(task: Task, expert: Policy, rng: random.Random) -> Iterator[str]:
    env = make_env(task)
    steps: list[Step] = []
    try:
        observation: Observation = env.reset(task.seed)
        yield observation.text
        while True:
            so_far = PartialTrajectory(
                trajectory_id=task.task_id, task=task, steps=tuple(steps), observation=observation, seed=task.seed
            )
            admissible = env.admissible()
            action = (
                Action.of(rng.choice(admissible)) if admissible and rng.random() < RANDOM_SHARE else expert.act(so_far)
            )
            result = env.step(action)
            steps.append(Step(observation=observation, action=action, actor=Actor.EXPERT))
            observation = result.observation
            yield action.text
            yield observation.text
            if result.terminated or result.truncated:
                return
    finally:
        env.close()
        expert.release(task.task_id)
