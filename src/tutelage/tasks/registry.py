"""Task sets by the name of their environment, imported when first used."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any, Final

from tutelage.errors import ConfigError
from tutelage.tasks.base import TaskSet
from tutelage.types import Split, Task

TASK_SETS: Final = {"household": "tutelage.tasks.household:HouseholdTasks"}
"""Environment name -> where the class of its task set is."""


def make_task_set(env: str, **options: Any) -> TaskSet:
    """The task set of an environment. Raises ConfigError on an unknown environment or option."""
    if env not in TASK_SETS:
        raise ConfigError.unknown("tasks: environment", env, TASK_SETS)
    module, _, name = TASK_SETS[env].partition(":")
    maker = getattr(import_module(module), name)
    known = inspect.signature(maker).parameters
    for option in options:
        if option not in known:
            raise ConfigError.unknown(f"{env} tasks: option", option, known)
    task_set: TaskSet = maker(**options)
    return task_set


def load_tasks(env: str, split: Split | str, start: int = 0, count: int | None = None, **options: Any) -> list[Task]:
    """Tasks of a split. `options` go to the environment's task set, e.g. ``size="real"`` for household."""
    return make_task_set(env, **options).load(split, start=start, count=count)
