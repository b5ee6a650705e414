"""What the checks share: the environment's parts, its tasks, and the episodes that were played once for all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from tutelage.envs.action_formats import ActionFormat, action_format_of
from tutelage.envs.base import Env
from tutelage.envs.registry import EnvSpec, make_env
from tutelage.errors import ConfigError, FormatError, MissingExtra
from tutelage.evaluation.env_check.fresh import Answer, Request, ask_fresh_process
from tutelage.evaluation.env_check.play import (
    Recording,
    no_op,
    nonsense,
    of_policy,
    play,
    random_player,
    step_limit,
    then,
)
from tutelage.evaluation.env_check.report import Skip
from tutelage.policies.base import Policy
from tutelage.policies.registry import USUAL, make_expert
from tutelage.tasks.registry import make_task_set
from tutelage.types import Action, Split, Task

NO_OP: Final = "no-op"
NONSENSE_PLAYER: Final = "nonsense"
RANDOM: Final = "random"
EXPERT: Final = "expert"
TAKE_OVER: Final = "expert after random"

INLINE_TASKS: Final = 8
OTHER_TASKS: Final = 2

AIMLESS_STEPS: Final = 25
"""Most steps of an episode in which no expert acts."""
STEPS_BEFORE_EXPERT: Final = 4
"""Random steps before the expert takes over; no more than a quarter of the episode's."""
ENDLESS_STEPS: Final = 200
"""Most steps of an expert's episode where a task states no limit."""
SLACK: Final = 5
"""Steps beyond its limit that an environment is given before its episode is called endless."""


@dataclass(kw_only=True)
class Case:
    """One environment under examination."""

    spec: EnvSpec
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of the task set."""
    num_tasks: int | None = None
    """Tasks of each split. None: `INLINE_TASKS`, or `OTHER_TASKS` where a step may wait."""
    num_episodes: int = 200
    """Episodes after which nothing may be left."""
    expert_at_least: float | None = None
    """Mean reward that the expert must reach. None: what the environment says of itself."""

    @cached_property
    def panels(self) -> dict[Split, list[Task]]:
        """The first tasks of each split that the task set has. Raises what it raises if it has none."""
        panels: dict[Split, list[Task]] = {}
        problems: list[Exception] = []
        task_set = make_task_set(self.spec.name, **self.options)
        for split in Split:
            try:
                panels[split] = task_set.load(split, start=0, count=self.count)
            except (ConfigError, FormatError) as error:
                problems.append(error)
        if not any(panels.values()):
            raise problems[0] if problems else ConfigError(f"{self.spec.name} tasks: no split holds a task.")
        return {split: panel for split, panel in panels.items() if panel}

    @cached_property
    def count(self) -> int:
        """Tasks of each split."""
        if self.num_tasks is not None:
            return self.num_tasks
        task_set = make_task_set(self.spec.name, **self.options)
        for split in Split:
            try:
                first = task_set.load(split, start=0, count=1)
            except (ConfigError, FormatError):
                continue
            if first:
                return INLINE_TASKS if self.is_inline(first[0]) else OTHER_TASKS
        return INLINE_TASKS

    def is_inline(self, task: Task) -> bool:
        """Whether the runner plays the environment in its own thread."""
        env = self.make_env(task)
        try:
            return env.inline
        finally:
            env.close()

    @property
    def tasks(self) -> list[Task]:
        """Those of all splits, one split after the other."""
        return [task for panel in self.panels.values() for task in panel]

    @property
    def few_tasks(self) -> list[Task]:
        """One of each split."""
        return [panel[0] for panel in self.panels.values()]

    @cached_property
    def action_format(self) -> ActionFormat | None:
        """How actions are written. None: as plain commands."""
        env = make_env(self.tasks[0])
        try:
            return action_format_of(env)
        finally:
            env.close()

    def make_env(self, task: Task) -> Env:
        return make_env(task)

    @property
    def has_expert(self) -> bool:
        return bool(self.spec.experts)

    def make_expert(self) -> Policy:
        """The usual expert, new. Raises `Skip` where the environment has none."""
        if not self.has_expert:
            raise Skip("the environment names no expert")
        return make_expert(USUAL, env=self.spec.name)

    # Episodes

    @cached_property
    def played(self) -> dict[str, list[Recording] | Exception]:
        """Player -> its episodes on every task, or what went wrong."""
        played: dict[str, list[Recording] | Exception] = {}
        names = [*([EXPERT] if self.has_expert else []), NO_OP, NONSENSE_PLAYER, RANDOM]
        for name in [*names, *([TAKE_OVER] if self.has_expert else [])]:
            try:
                played[name] = [self._play(name, task, played) for task in self.tasks]
            except MissingExtra:
                raise
            except Exception as error:  # The environment is somebody else's code; the check `policies` reports it.
                played[name] = error
        return played

    def recordings(self, *players: str) -> list[Recording]:
        """The episodes of some players, all of them by default; those of players that failed are left out.

        Raises `Skip` if none is left.
        """
        found = self._found(*players)
        if not found:
            raise Skip("no episode could be played for it (see the check 'policies')")
        return found

    def some_recordings(self) -> list[Recording]:
        """For checks that act again: one of the expert's and one random episode of each split."""
        few = {task.task_id for task in self.few_tasks}
        return [one for one in self.recordings(EXPERT, RANDOM) if one.task.task_id in few and one.actions]

    def _found(self, *players: str) -> list[Recording]:
        return [
            recording
            for name, episodes in self.played.items()
            if not isinstance(episodes, Exception) and (not players or name in players)
            for recording in episodes
        ]

    def _play(self, name: str, task: Task, played: Mapping[str, list[Recording] | Exception]) -> Recording:
        limit = step_limit(task) or ENDLESS_STEPS
        random = random_player(_actions(played.get(EXPERT), task))
        if name == EXPERT:
            chosen = of_policy(self.make_expert())
        elif name == TAKE_OVER:
            chosen = then(random, max(1, min(STEPS_BEFORE_EXPERT, limit // 4)), of_policy(self.make_expert()))
        else:
            limit = min(limit, AIMLESS_STEPS - SLACK)
            chosen = {NO_OP: no_op, NONSENSE_PLAYER: nonsense(self.action_format), RANDOM: random}[name]
        return play(name, chosen, self.make_env(task), task, cap=limit + SLACK)

    # The same in a fresh process

    @cached_property
    def fresh(self) -> Answer:
        """What a process found that knows nothing of this one."""
        request = Request(
            env=self.spec.name,
            options=dict(self.options),
            num_tasks=self.count,
            splits=tuple(self.panels),
            replayed=tuple(self._found(EXPERT, RANDOM)),
            asked=tuple(self._found(EXPERT)),
            num_episodes=self.num_episodes,
        )
        return ask_fresh_process(request)


def _actions(episodes: Iterable[Recording] | Exception | None, task: Task) -> list[Action]:
    """The actions of some episodes, for an aimless player of a task to draw from: of other tasks, where there are any."""
    if episodes is None or isinstance(episodes, Exception):
        return []
    every = list(episodes)
    others = [recording for recording in every if recording.task.task_id != task.task_id]
    return [action for recording in others or every for action in recording.actions]
