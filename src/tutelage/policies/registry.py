"""Experts and planners by name, from the environments they belong to. Each is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tutelage.envs.registry import environment_names, environment_of, find_environment, load_place
from tutelage.errors import ConfigError
from tutelage.policies.base import Policy
from tutelage.types import Task

USUAL: Final = "scripted"
"""Name in recipes for the usual expert of whichever environment is played."""


def expert_maker(name: str, env: str | None = None, where: str = "expert of an environment") -> Callable[..., Policy]:
    """What makes the expert of that name: one of `env` first, else one of any environment that is known.

    Under the name of an environment stands the expert that reads only what it shows. Raises ConfigError on an unknown
    name; `where` opens the message.
    """
    specs = [spec for spec in map(environment_of, (env or name, name, *environment_names())) if spec is not None]
    if name == USUAL and env is not None and specs:
        name = next(iter(specs[0].experts), name)
    places = {expert: place for spec in reversed(specs) for expert, place in spec.experts.items()}
    if name not in places:
        raise ConfigError.unknown(where, name, [*places, *([USUAL] if env else [])])
    maker: Callable[..., Policy] = load_place(places[name])
    return maker


def make_expert(name: str, *, env: str | None = None, **options: Any) -> Policy:
    """The scripted expert of that name, e.g. ``make_expert("household", search="list")``.

    An unknown name or option is a `ConfigError`. With `env`, the name `scripted` is that environment's usual expert.
    """
    maker = expert_maker(name, env)
    try:
        return maker(**options)
    except TypeError as error:
        raise ConfigError(f"expert of '{name}': options {sorted(options)} do not fit: {error}") from error


def shortest_commands(task: Task) -> list[str] | None:
    """A shortest list of commands that wins the task from its start; None if it cannot be won.

    Raises ConfigError where the environment has no planner.
    """
    place = find_environment(task.env, f"task {task.task_id}: environment").planner
    if place is None:
        raise ConfigError(
            f"task {task.task_id}: environment '{task.env}' has no planner, so no shortest plan is known."
        )
    plan: list[str] | None = load_place(place)(task)
    return plan
