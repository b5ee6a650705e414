"""Experts and planners by the name of their environment. Each is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tutelage.errors import ConfigError
from tutelage.policies.base import Policy
from tutelage.types import Task


def _household(**options: Any) -> Policy:
    from tutelage.policies.experts.household import HouseholdExpert

    return HouseholdExpert(**options)


def _household_planner() -> Policy:
    from tutelage.policies.experts.household_planner import PlannerPolicy

    return PlannerPolicy()


EXPERTS: Final[dict[str, Callable[..., Policy]]] = {
    "household": _household,
    "household_planner": _household_planner,
}
"""Name in recipes -> expert. Under the name of an environment stands the one that reads only what it shows; a planner
reads the full state."""


def make_expert(env_name: str, **options: Any) -> Policy:
    """The scripted expert of an environment.

    options: those of the expert, e.g. ``search="list"`` for household. An unknown name or option is a `ConfigError`.
    """
    make = EXPERTS.get(env_name)
    if make is None:
        raise ConfigError.unknown("expert of an environment", env_name, EXPERTS)
    try:
        return make(**options)
    except TypeError as error:
        raise ConfigError(f"expert of '{env_name}': options {sorted(options)} do not fit: {error}") from error


def _household_plan(task: Task) -> list[str] | None:
    from tutelage.envs.household.env import HouseholdEnv
    from tutelage.policies.experts.household_planner import shortest_plan

    env = HouseholdEnv(task)
    env.reset(task.seed)
    return shortest_plan(env.engine)


PLANNERS: Final[dict[str, Callable[[Task], list[str] | None]]] = {"household": _household_plan}
"""Name of the environment -> its planner, which reads the full state."""


def shortest_commands(task: Task) -> list[str] | None:
    """A shortest list of commands that wins the task from its start; None if it cannot be won.

    Raises ConfigError where the environment has no planner.
    """
    plan = PLANNERS.get(task.env)
    if plan is None:
        raise ConfigError.unknown("planner of an environment", task.env, PLANNERS)
    return plan(task)
