"""Random play of any environment, as texts for the vocabulary and the warm-up of a new student. No expert plays here."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator

from tutelage.envs.registry import make_env
from tutelage.policies.base import PartialTrajectory
from tutelage.policies.random_players import random_player_of
from tutelage.training.random_play import Play
from tutelage.types import Action, Actor, Step, Task, stable_hash


def env_play(task: Task, *, seed: int = 0) -> Play:
    """One random play of a task. Same arguments, same play.

    Raises ConfigError where the environment has no random player.
    """
    rng = random.Random(stable_hash("random play", seed, task.task_id))
    env = make_env(task)
    steps: list[Step] = []
    replies: list[str] = []
    try:
        observation = env.reset(task.seed)
        player = random_player_of(task.env, env)
        intro = observation.text
        while True:
            so_far = PartialTrajectory(
                trajectory_id=task.task_id, task=task, steps=tuple(steps), observation=observation, seed=task.seed
            )
            action = Action.of(player(so_far, env.admissible(), rng))
            result = env.step(action)
            steps.append(Step(observation=observation, action=action, actor=Actor.STUDENT))
            observation = result.observation
            replies.append(observation.text)
            if result.terminated or result.truncated:
                return Play(intro, tuple(step.action.text for step in steps), tuple(replies))
    finally:
        env.close()


def play_texts(tasks: Iterable[Task], *, seed: int = 0) -> Iterator[str]:
    """One text per task: all observations and actions of a random play, each on lines of its own."""
    for task in tasks:
        play = env_play(task, seed=seed)
        turns = [part for pair in zip(play.commands, play.replies, strict=True) for part in pair]
        yield "\n".join([play.intro, *turns])
