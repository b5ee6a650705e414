"""Task sets by the name of their environment, imported when first used."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from tutelage.envs.registry import find_environment, load_place
from tutelage.errors import ConfigError
from tutelage.tasks.base import TaskSet
from tutelage.types import Split, Task


def task_set_maker(env: str, where: str = "tasks: environment") -> Callable[..., TaskSet]:
    """The class of an environment's task set. Raises ConfigError on an unknown environment; `where` opens the message."""
    maker: Callable[..., TaskSet] = load_place(find_environment(env, where).tasks)
    return maker


def make_task_set(env: str, **options: Any) -> TaskSet:
    """The task set of an environment. Raises ConfigError on an unknown environment or option."""
    maker = task_set_maker(env)
    known = inspect.signature(maker).parameters
    for option in options:
        if option not in known:
            raise ConfigError.unknown(f"{env} tasks: option", option, known)
    return maker(**options)


def load_tasks(env: str, split: Split | str, start: int = 0, count: int | None = None, **options: Any) -> list[Task]:
    """Tasks of a split. `options` go to the environment's task set, e.g. ``size="real"`` for household."""
    return make_task_set(env, **options).load(split, start=start, count=count)
