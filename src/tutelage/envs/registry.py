"""Environments by name, and where the parts of each are. A part is imported when it is first used.

An `EnvSpec` names parts of later stages too (experts, footprints) as import paths, so that all of an environment stands
in one place while imports still point one way.

A name is looked for among tutelage's own environments, then among the entry points of installed packages (group
``tutelage.envs``), then as an importable package with an attribute ``ENVIRONMENT``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from tutelage.envs.action_formats.base import ActionFormat, action_format_of
from tutelage.envs.base import Env
from tutelage.errors import ConfigError
from tutelage.types import Task

ENTRY_POINTS: Final = "tutelage.envs"


@dataclass(frozen=True, kw_only=True, slots=True)
class EnvSpec:
    """One environment. Places are ``package.module:name``."""

    name: str
    summary: str
    """What it is, in a few words."""
    env: str
    """Callable Task -> Env."""
    tasks: str
    """Callable (**options) -> TaskSet."""
    experts: Mapping[str, str] = field(default_factory=dict)
    """Name in recipes -> callable (**options) -> Policy. The first is the usual one."""
    planner: str | None = None
    """Callable Task -> shortest list of commands that wins, or None. It reads the full state."""
    footprints: Mapping[str, str] = field(default_factory=dict)
    """Kind of footprints -> its extractor; see `supervision.footprints`."""
    reads: str | None = None
    """Callable Action -> whether it only reads; see `selection.reads`. None: no action is said to."""
    instructions: str | None = None
    """A text that tells a language model the rules before the first observation."""
    instructions_of: str | None = None
    """Callable (Task, own_format) -> the instructions for one task; `own_format` False: without how an action is written,
    for a model that has another way. None: `instructions` for every task. See `envs.instructions`."""
    extra: str | None = None
    """The extra that it cannot do without."""
    sources: Sequence[str] = ("generated",)
    """Where its tasks can come from: values of the task set's option `source`, where it has one."""
    expert_reward: float = 0.95
    """Mean reward that its usual expert reaches at least; `tutelage env check` holds it to that."""
    student: str | None = None
    """A student of the package that was warmed up for it, ``builtin:NAME``. None: students start untrained."""
    random_player: str | None = None
    """Who plays its random play; see `policies.random_players`. None: any admissible command."""
    vocabulary: str | None = None
    """Callable () -> vocabulary of a new tiny student. None: one is mined from the texts of random play."""
    open_words: str | None = None
    """Callable () -> the words that name things, for a mined vocabulary. None: those that few texts have."""


_HOUSEHOLD_FOOTPRINTS: Final = "tutelage.supervision.footprints.household"
_HOUSEHOLD_INSTRUCTIONS: Final = "tutelage.envs.household.instructions"
_HOUSEHOLD_VOCABULARY: Final = "tutelage.training.household_tokenizer:HouseholdVocabulary"
_PLAN_OF_EXPERT: Final = "tutelage.policies.registry:plan_of_expert"
_HOUSEHOLD_STUDENT: Final = "builtin:household_tiny"

ENVIRONMENTS: Final[dict[str, EnvSpec]] = {
    "household": EnvSpec(
        name="household",
        summary="the ALFWorld text game, as an engine of our own",
        sources=("generated", "folder"),
        env="tutelage.envs.household.env:HouseholdEnv",
        tasks="tutelage.tasks.household:HouseholdTasks",
        experts={
            "household": "tutelage.policies.experts.household:HouseholdExpert",
            "household_planner": "tutelage.policies.experts.household_planner:PlannerPolicy",
        },
        planner="tutelage.policies.experts.household_planner:plan_of_task",
        footprints={
            "text": f"{_HOUSEHOLD_FOOTPRINTS}:household_footprints",
            "needs": f"{_HOUSEHOLD_FOOTPRINTS}_needs:needed_household_footprints",
            "exact": f"{_HOUSEHOLD_FOOTPRINTS}_exact:exact_household_footprints",
            "causal": f"{_HOUSEHOLD_FOOTPRINTS}_exact:causal_household_footprints",
        },
        reads="tutelage.selection.reads:reads_household",
        instructions=f"{_HOUSEHOLD_INSTRUCTIONS}:INSTRUCTIONS",
        instructions_of=f"{_HOUSEHOLD_INSTRUCTIONS}:instructions_of",
        student=_HOUSEHOLD_STUDENT,
        vocabulary=_HOUSEHOLD_VOCABULARY,
    ),
    "alfworld": EnvSpec(
        name="alfworld",
        summary="the original ALFWorld text game, played by textworld",
        sources=("generated", "folder"),
        env="tutelage.envs.alfworld.env:AlfworldEnv",
        tasks="tutelage.tasks.alfworld:AlfworldTasks",
        experts={"alfworld": "tutelage.policies.experts.household:HouseholdExpert"},
        planner="tutelage.policies.experts.household_planner:plan_of_task",
        footprints={
            "text": f"{_HOUSEHOLD_FOOTPRINTS}:household_footprints",
            "needs": f"{_HOUSEHOLD_FOOTPRINTS}_needs:needed_household_footprints",
        },
        reads="tutelage.selection.reads:reads_household",
        instructions=f"{_HOUSEHOLD_INSTRUCTIONS}:INSTRUCTIONS",
        instructions_of=f"{_HOUSEHOLD_INSTRUCTIONS}:instructions_of",
        extra="alfworld",
        student=_HOUSEHOLD_STUDENT,
        vocabulary=_HOUSEHOLD_VOCABULARY,
    ),
    "shop": EnvSpec(
        name="shop",
        summary="a web shop in text, with the pages and the score of WebShop",
        env="tutelage.envs.shop.env:ShopEnv",
        tasks="tutelage.tasks.shop:ShopTasks",
        sources=("generated", "files"),
        experts={"shop": "tutelage.policies.experts.shop:ShopExpert"},
        planner=_PLAN_OF_EXPERT,
        footprints={"text": "tutelage.supervision.footprints.shop:shop_footprints"},
        reads="tutelage.selection.reads:reads_shop",
        instructions="tutelage.envs.shop.env:INSTRUCTIONS",
        instructions_of="tutelage.envs.shop.env:instructions_of",
        random_player="tutelage.policies.random_players:shop_random",
        open_words="tutelage.envs.shop.vocabulary:open_words",
        extra="shop",
    ),
    "search": EnvSpec(
        name="search",
        summary="multi-hop questions, answered by searching passages",
        env="tutelage.envs.search.env:SearchEnv",
        tasks="tutelage.tasks.search:SearchTasks",
        sources=("generated", "files"),
        experts={"search": "tutelage.policies.experts.search:SearchExpert"},
        planner=_PLAN_OF_EXPERT,
        footprints={"text": "tutelage.supervision.footprints.search:search_footprints"},
        instructions="tutelage.envs.search.env:INSTRUCTIONS",
        instructions_of="tutelage.envs.search.env:instructions_of",
        random_player="tutelage.policies.random_players:search_random",
        open_words="tutelage.envs.search.names:open_words",
        extra="search",
    ),
    "repo": EnvSpec(
        name="repo",
        summary="software tasks: a repository, an issue, hidden tests, in a sandbox",
        env="tutelage.envs.repo.env:RepoEnv",
        tasks="tutelage.tasks.repo:RepoTasks",
        sources=("embedded", "rows"),
        experts={"repo": "tutelage.policies.experts.repo:RepoExpert"},
        planner=_PLAN_OF_EXPERT,
        footprints={"text": "tutelage.supervision.footprints.repo:repo_footprints"},
        reads="tutelage.selection.reads:reads_repo",
        instructions="tutelage.envs.repo.env:INSTRUCTIONS",
        instructions_of="tutelage.envs.repo.instructions:instructions_of_task",
        random_player="tutelage.policies.random_players:repo_random",
        extra="repo",
    ),
    "python": EnvSpec(
        name="python",
        summary="problems to be answered with the help of a Python tool, in a sandbox",
        env="tutelage.envs.python.env:PythonEnv",
        tasks="tutelage.tasks.python:PythonTasks",
        sources=("generated", "aime", "math", "gpqa", "lcb"),
        experts={"python": "tutelage.policies.experts.python:PythonExpert"},
        planner=_PLAN_OF_EXPERT,
        footprints={"text": "tutelage.supervision.footprints.python:python_footprints"},
        instructions="tutelage.envs.python.env:INSTRUCTIONS",
        instructions_of="tutelage.envs.python.env:instructions_of",
        random_player="tutelage.policies.random_players:python_random",
        open_words="tutelage.envs.python.templates:open_words",
    ),
}
"""Environments of tutelage itself, in the order in which they are listed."""

_ADAPTERS: Final = "tutelage.envs.adapters"
_ADAPTER_TASKS: Final = "tutelage.tasks.adapters"
_ADAPTER_FOOTPRINTS: Final = {"exact": "tutelage.supervision.footprints.adapters:adapter_footprints"}

ADAPTERS: Final[dict[str, EnvSpec]] = {
    "gymnasium": EnvSpec(
        name="gymnasium",
        summary="a text environment of Gymnasium",
        env=f"{_ADAPTERS}.gymnasium:GymnasiumEnv",
        tasks=f"{_ADAPTER_TASKS}:GymnasiumTasks",
        footprints=_ADAPTER_FOOTPRINTS,
        extra="gymnasium",
    ),
    "verifiers": EnvSpec(
        name="verifiers",
        summary="a taskset or environment of verifiers",
        env=f"{_ADAPTERS}.verifiers:VerifiersEnv",
        tasks=f"{_ADAPTER_TASKS}:VerifiersTasks",
        footprints=_ADAPTER_FOOTPRINTS,
        extra="verifiers",
    ),
    "openenv": EnvSpec(
        name="openenv",
        summary="an environment on an OpenEnv server",
        env=f"{_ADAPTERS}.openenv:OpenEnvEnv",
        tasks=f"{_ADAPTER_TASKS}:OpenEnvTasks",
        footprints=_ADAPTER_FOOTPRINTS,
        extra="openenv",
    ),
    "http": EnvSpec(
        name="http",
        summary="an environment behind plain HTTP",
        env=f"{_ADAPTERS}.http:HttpEnv",
        tasks=f"{_ADAPTER_TASKS}:HttpTasks",
        footprints=_ADAPTER_FOOTPRINTS,
    ),
}
"""Names by which foreign environments are played. None is an environment of itself: each needs to be told which one."""


def environment_of(name: str) -> EnvSpec | None:
    """The environment of that name. None: there is none."""
    return ENVIRONMENTS.get(name) or ADAPTERS.get(name) or _installed().get(name) or _importable(name)


def find_environment(name: str, where: str = "environment") -> EnvSpec:
    """The environment of that name. Raises ConfigError on an unknown one; `where` opens the message."""
    found = environment_of(name)
    if found is None:
        raise ConfigError.unknown(where, name, [*environment_names(), *ADAPTERS])
    return found


def environment_names() -> tuple[str, ...]:
    """Names of tutelage's own environments and of installed ones, in the order in which they are listed."""
    return tuple(dict.fromkeys([*ENVIRONMENTS, *sorted(_installed())]))


def make_env(task: Task) -> Env:
    """The environment that plays a task. Raises ConfigError on an unknown name, and what the environment raises."""
    env: Env = _class_of(task.env, task.task_id)(task)
    return env


def action_format_for(task: Task) -> ActionFormat | None:
    """The format in which a task's environment reads actions. None: its actions are plain commands.

    Known without making the environment where its class has the attribute `action_format`, or, if that is a matter of the
    task, a static method ``format_of(task)``. Otherwise one is made and closed again, once per process.
    """
    made = _class_of(task.env, task.task_id)
    of_task: Callable[[Task], ActionFormat | None] | None = getattr(made, "format_of", None)
    if of_task is not None:
        return of_task(task)
    if hasattr(made, "action_format"):
        return action_format_of(made)
    if task.env not in _FOUND_FORMATS:
        env = made(task)
        _FOUND_FORMATS[task.env] = action_format_of(env)
        env.close()
    return _FOUND_FORMATS[task.env]


def load_place(place: str) -> Any:
    """What stands at ``package.module:name``. Raises ConfigError where nothing does."""
    module, colon, name = place.partition(":")
    if not (module and colon and name):
        raise ConfigError(f"{place!r} is no place; write package.module:name.")
    try:
        return getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        # Only the module itself: one that it imports is another matter, and keeps its own message.
        if error.name is None or not (module == error.name or module.startswith(f"{error.name}.")):
            raise
        raise ConfigError(f"{place}: no module {error.name}. Install its package, or run where it lies.") from None
    except AttributeError:
        raise ConfigError(f"{place}: module {module} has no {name!r}.") from None


_FOUND_FORMATS: Final[dict[str, ActionFormat | None]] = {}
"""By name of environment, where only the environment itself can tell."""


@lru_cache(maxsize=64)
def _class_of(name: str, task_id: str = "") -> Callable[[Task], Env]:
    made: Callable[[Task], Env] = load_place(find_environment(name, f"task {task_id}: environment").env)
    return made


@lru_cache(maxsize=1)
def _installed() -> dict[str, EnvSpec]:
    """Environments that installed packages offer. One that cannot be loaded is an error of whoever asks for it."""
    found = {}
    for point in entry_points(group=ENTRY_POINTS):
        spec = point.load()
        if isinstance(spec, EnvSpec):
            found[spec.name] = spec
    return found


def _importable(name: str) -> EnvSpec | None:
    if not all(part.isidentifier() for part in name.split(".")):
        return None
    try:
        found = find_spec(name)
    except (ImportError, ValueError):
        return None
    if found is None:
        return None
    if found.origin is None and "." not in name:
        # A folder without code: the project around the package, as `env new` writes it, seen from above.
        projects = [
            folder for folder in found.submodule_search_locations or () if Path(folder, name, "__init__.py").exists()
        ]
        sys.path.extend(projects)
    spec = getattr(import_module(name), "ENVIRONMENT", None)
    return spec if isinstance(spec, EnvSpec) else None
