"""Experts and planners by name, from the environments they belong to. Each is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tutelage.envs.registry import environment_names, environment_of, find_environment, load_place, make_env
from tutelage.errors import ConfigError
from tutelage.policies.base import PartialTrajectory, Policy
from tutelage.types import Actor, Step, Task

USUAL: Final = "scripted"
"""Name in recipes for the usual expert of whichever environment is played."""
ENDPOINT: Final = "endpoint"
"""Name of an expert behind a server; its options are those of `EndpointConfig`."""
PLANNER: Final = "planner"
"""Name in recipes for the expert that reads the full state; where the environment has none, for the usual one."""


def expert_maker(name: str, env: str | None = None, where: str = "expert of an environment") -> Callable[..., Policy]:
    """What makes the expert of that name: one of `env` first, else one of any environment that is known.

    Under the name of an environment stands the expert that reads only what it shows. Raises ConfigError on an unknown
    name; `where` opens the message.
    """
    if name == ENDPOINT:
        endpoint: Callable[..., Policy] = load_place("tutelage.policies.endpoint.policy:endpoint_expert")
        return endpoint
    specs = [spec for spec in map(environment_of, (env or name, name, *environment_names())) if spec is not None]
    if env is not None and name in (USUAL, PLANNER):
        own = find_environment(env, where)
        planner = f"{own.name}_planner"
        name = planner if name == PLANNER and planner in own.experts else next(iter(own.experts), name)
    places = {expert: place for spec in reversed(specs) for expert, place in spec.experts.items()}
    if name not in places:
        raise ConfigError.unknown(where, name, [*places, *([USUAL, PLANNER] if env else [])])
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


def plan_of_expert(task: Task) -> list[str] | None:
    """What the usual expert says from the start to a win; None if it does not win.

    The planner of environments in which the expert, who reads the texts alone, wastes no step.
    """
    expert = make_expert(USUAL, env=task.env)
    env = make_env(task)
    steps: list[Step] = []
    try:
        observation = env.reset(task.seed)
        while True:
            so_far = PartialTrajectory(
                trajectory_id=task.task_id, task=task, steps=tuple(steps), observation=observation, seed=task.seed
            )
            action = expert.act(so_far)
            result = env.step(action)
            steps.append(Step(observation=observation, action=action, actor=Actor.EXPERT))
            observation = result.observation
            if result.terminated or result.truncated:
                return [step.action.text for step in steps] if result.terminated and env.reward() == 1.0 else None
    finally:
        env.close()
        expert.release(task.task_id)
