"""Environments by name. Each is imported when it is first made, so that none costs anything unused."""

from __future__ import annotations

from importlib import import_module
from typing import Final

from tutelage.envs.base import Env
from tutelage.errors import ConfigError
from tutelage.types import Task

ENVS: Final = {"household": "tutelage.envs.household.env:HouseholdEnv"}
"""Name -> where its class is."""

ENV_NAMES: Final = tuple(sorted(ENVS))


def make_env(task: Task) -> Env:
    """The environment that plays a task. Raises ConfigError on an unknown name, and what the environment raises."""
    if task.env not in ENVS:
        raise ConfigError.unknown(f"task {task.task_id}: environment", task.env, ENV_NAMES)
    module, _, name = ENVS[task.env].partition(":")
    env: Env = getattr(import_module(module), name)(task)
    return env
