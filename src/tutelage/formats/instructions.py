"""Episodes with the text that opens a language model's conversation, as training data of other tools needs it.

Stored episodes hold what the environment said. A student is told the instructions by its renderer, another trainer's
student must find them in its rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache

from tutelage.envs.registry import environment_of, load_place
from tutelage.errors import ConfigError
from tutelage.types import Message, Observation, Trajectory

AUTO = "auto"


def with_instructions(trajectories: Iterable[Trajectory], instructions: str) -> Iterator[Trajectory]:
    """The episodes, each with a system message at the front of its first observation.

    instructions: the text, or ``auto``, the own one of each episode's environment. An episode that has a system message
    already stays as it is. Raises ConfigError under ``auto`` for an environment without a text.
    """
    for trajectory in trajectories:
        yield _with_text(trajectory, _text_of(trajectory.env) if instructions == AUTO else instructions)


def _with_text(trajectory: Trajectory, text: str) -> Trajectory:
    if not trajectory.steps:
        return trajectory
    first = trajectory.steps[0]
    if any(message.role == "system" for message in first.observation.messages):
        return trajectory
    opened = Observation(messages=(Message(role="system", content=text), *first.observation.messages))
    return replace(trajectory, steps=(replace(first, observation=opened), *trajectory.steps[1:]))


@lru_cache(maxsize=16)
def _text_of(env: str) -> str:
    spec = environment_of(env)
    if spec is None or spec.instructions is None:
        raise ConfigError(
            f"export: --instructions auto, but the environment '{env}' has no text of its own. Give a text, or leave it out."
        )
    return str(load_place(spec.instructions))
