"""A case: a task, a script that fails at it in one way, and the category that this way has."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import cycle, islice
from typing import Any

import tutelage as t
from tutelage.errors import ContextOverflow
from tutelage.policies.base import PartialTrajectory, Policy, SingleActPolicy
from tutelage.types import Action, FailureCategory, ParseOutcome, Task

Script = Generator[Action, PartialTrajectory, None]
"""Yields an action, is sent what came of it."""

Play = Callable[[PartialTrajectory], Script]


@dataclass(frozen=True)
class Case:
    """One constructed failure."""

    name: str
    label: FailureCategory
    task: Task
    play: Play
    max_chars: int | None = None
    """Characters of observations that fit into the player's window. None: no bound."""


class CasePolicy(SingleActPolicy):
    """Plays one case, once."""

    def __init__(self, case: Case) -> None:
        self.name = case.name
        self.version = f"{case.name}-1"
        self._case = case
        self._script: Script | None = None

    def act(self, so_far: PartialTrajectory) -> Action:
        seen = sum(len(step.observation.text) for step in so_far.steps) + len(so_far.observation.text)
        if self._case.max_chars is not None and seen > self._case.max_chars:
            raise ContextOverflow(f"{seen} characters", trajectory_ids=(so_far.trajectory_id,), role="student")
        if self._script is None:
            self._script = self._case.play(so_far)
            return next(self._script)
        return self._script.send(so_far)


@lru_cache(maxsize=32)
def tasks(env: str, count: int, options: tuple[tuple[str, Any], ...] = ()) -> Sequence[Task]:
    return tuple(t.load_tasks(env, "validation", count=count, **dict(options)))


def repeat(*commands: str | Action) -> Play:
    """These commands in turn, without end."""

    def play(so_far: PartialTrajectory) -> Script:
        for command in cycle(commands):
            yield command if isinstance(command, Action) else Action.of(command)

    return play


def once(*actions: str | Action, then: str | Action) -> Play:
    """These actions, then one without end."""

    def play(so_far: PartialTrajectory) -> Script:
        for action in [*actions, *islice(cycle([then]), 200)]:
            yield action if isinstance(action, Action) else Action.of(action)

    return play


def prose(so_far: PartialTrajectory) -> Script:
    """Replies in which no action can be read."""
    for number in range(200):
        yield Action(text=f"I think that I should look further, remark {number}.", parse=ParseOutcome.MALFORMED)


def expert_until(
    expert: Policy, stop: Callable[[Action], bool], after: Callable[[PartialTrajectory, Action], Script]
) -> Play:
    """The expert's play up to the first action for which `stop` holds, which `after` replaces."""

    def play(so_far: PartialTrajectory) -> Script:
        while True:
            action = expert.act(so_far)
            if stop(action):
                yield from after(so_far, action)
                return
            so_far = yield action

    return play


def texts(so_far: PartialTrajectory) -> list[str]:
    """All that was seen."""
    return [*(step.observation.text for step in so_far.steps), so_far.observation.text]
