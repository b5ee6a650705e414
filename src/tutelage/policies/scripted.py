"""Policies without a mind: a fixed list, random commands, repetition. For tests, checks, and warm-up data."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from tutelage.errors import ConfigError, PolicyError
from tutelage.policies.base import PartialTrajectory, Policy, SingleActPolicy
from tutelage.types import Action, stable_hash

INVALID_COMMANDS: Final = ("", "open", "go to", "eat apple", "put x in/on y")
"""What `RandomPolicy` says when it is to be wrong."""

QUIET_VERBS: Final = ("look", "inventory", "help", "examine", "close")
"""First words of commands that help nobody; `RandomPolicy` chooses them rarely."""


class ScriptedPolicy(SingleActPolicy):
    """Plays a fixed list: the i-th command at step i of the trajectory, whoever made the steps before.

    then: the command for every step after the list. None: such a step is a `PolicyError`.
    """

    def __init__(self, commands: Sequence[str], *, then: str | None = None, name: str = "scripted") -> None:
        self.name = name
        self.version = f"{name}-1"
        self.commands = tuple(commands)
        self.then = then

    def act(self, so_far: PartialTrajectory) -> Action:
        index = len(so_far.steps)
        if index < len(self.commands):
            return Action.of(self.commands[index])
        if self.then is None:
            raise PolicyError(
                f"trajectory {so_far.trajectory_id}, step {index}: the script has {len(self.commands)} commands. "
                "Give it more, or a command for the time after (then=...)",
                role=self.name,
            )
        return Action.of(self.then)


class RandomPolicy(SingleActPolicy):
    """Draws a verb, then one of its commands; sometimes says something that no environment takes.

    commands_of: the commands to draw from at a point of a trajectory, e.g. those an environment admits.
    invalid: probability of one of `INVALID_COMMANDS` in [0, 1].
    quiet: probability in [0, 1] that a verb of `QUIET_VERBS` takes part in the draw at all.

    The draw depends on `seed`, the seed of the trajectory and the step index alone.
    """

    def __init__(
        self,
        commands_of: Callable[[PartialTrajectory], Sequence[str]],
        *,
        invalid: float = 0.1,
        quiet: float = 0.2,
        seed: int = 0,
    ) -> None:
        self.name = "random"
        self.version = f"random-1/invalid={invalid}/quiet={quiet}/seed={seed}"
        self.invalid = invalid
        self.quiet = quiet
        self.seed = seed
        self._commands_of = commands_of

    def act(self, so_far: PartialTrajectory) -> Action:
        rng = random.Random(stable_hash("random policy", self.seed, so_far.seed, len(so_far.steps)))
        if rng.random() < self.invalid:
            return Action.of(rng.choice(INVALID_COMMANDS))
        by_verb: dict[str, list[str]] = {}
        for command in self._commands_of(so_far):
            by_verb.setdefault(command.partition(" ")[0], []).append(command)
        if not by_verb:
            return Action.of(rng.choice(INVALID_COMMANDS))
        verbs = [verb for verb in sorted(by_verb) if verb not in QUIET_VERBS or rng.random() < self.quiet]
        return Action.of(rng.choice(by_verb[rng.choice(verbs or sorted(by_verb))]))


class LoopingPolicy(SingleActPolicy):
    """Acts like another policy for `start` steps, then repeats the last `period` actions for ever.

    Example, start 3, period 2: a b c b c b c ...
    """

    def __init__(self, base: Policy, *, start: int, period: int = 1) -> None:
        if not 1 <= period <= start:
            raise ConfigError(
                f"looping policy: start is {start} and period {period}; expected 1 <= period <= start, "
                "since only actions that were made can be repeated"
            )
        self.name = "looping"
        self.version = f"looping-1/start={start}/period={period}/{base.version}"
        self.start = start
        self.period = period
        self._base = base

    def act(self, so_far: PartialTrajectory) -> Action:
        index = len(so_far.steps)
        if index < self.start:
            return self._base.act(so_far)
        # The ids and probabilities belong to the step that sampled them, not to its echo.
        return replace(
            so_far.steps[index - self.period].action, token_ids=None, rollout_logprobs=None, call=None, attempts=()
        )

    def release(self, trajectory_id: str) -> None:
        self._base.release(trajectory_id)
