"""From sections of a recipe to the objects that do the work: tasks, policies, rules, filters."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from tutelage.analysis.credit_signals import SIGNALS
from tutelage.envs.registry import load_place
from tutelage.errors import ConfigError
from tutelage.pipeline.endpoints import EXPERT_NAME, Endpoints, check_endpoint_expert, endpoint_config
from tutelage.pipeline.stage import stage_id
from tutelage.pipeline.student_text import student_format, student_renderer
from tutelage.policies.base import Policy
from tutelage.policies.privileged import PRIVILEGED_CONTEXTS, PrivilegedContext, make_context, with_privileged_context
from tutelage.policies.registry import expert_maker
from tutelage.recipe import ENDPOINT_PREFIX, DataSection, Named, Recipe, RolloutSection, TasksSection, TeacherSection
from tutelage.recipe_checks import EXPERT, START
from tutelage.recipe_file import build_named, check_options
from tutelage.rendering.context import CONTEXT_RULES, ContextRule
from tutelage.rollout.episode import Limits
from tutelage.rollout.switch import SWITCH_RULES, SwitchRule, make_rule
from tutelage.run_dir import RunDir, hash_files
from tutelage.selection.filters import FILTERS, HasExpertSteps, NoRepetition, make_filter
from tutelage.supervision.divergence import DIVERGENCES
from tutelage.supervision.step_credit import step_weights
from tutelage.supervision.step_masks import STEP_MASKS
from tutelage.tasks.registry import load_tasks, make_task_set, task_set_maker
from tutelage.training.rl_config import DISTILL_LOSS_OPTIONS
from tutelage.types import Actor, Task, Trajectory, stable_hash

if TYPE_CHECKING:
    from tutelage.policies.local import LocalPolicy

AUGMENTATIONS = {
    "object_renaming": "tutelage.training.augment:ObjectRenaming",
    "renaming": "tutelage.training.augment:Renaming",
}
"""Name in recipes -> where the class is; its first argument is the model folder."""


DIVERGENCE_OPTIONS = ("direction", "k")


def check_parts(recipe: Recipe, where: str) -> None:
    """Make every rule, filter and option of a recipe once, so that a wrong one is found at once."""
    check_options(where, "env", recipe.env.options, _task_options(recipe.env.name, where))
    sections = {f"rollouts.{name}.tasks": one.tasks for name, one in recipe.rollouts.items()}
    if recipe.evaluate is not None:
        sections["evaluate.tasks"] = recipe.evaluate.tasks
    for name, model in recipe.models.items():
        if model.rl is not None:
            key = f"models.{name}.rl"
            sections[f"{key}.tasks"] = model.rl.tasks
            if model.rl.validation is not None:
                sections[f"{key}.validation"] = model.rl.validation
            if model.rl.teacher is not None:
                _check_teacher(recipe, model.rl.teacher, where, f"{key}.teacher")
                if model.rl.teacher.prove is not None:
                    sections[f"{key}.teacher.prove"] = model.rl.teacher.prove
    for key, section in sections.items():
        check_options(where, key, section.options, _task_options(recipe.env.name, where))
        try:
            make_task_set(recipe.env.name, **{**recipe.env.options, **section.options})
        except (ConfigError, TypeError, ValueError) as error:
            raise ConfigError(f"{where}: env, {key}: {error}") from None
    for signal in (recipe.audit.signals or ()) if recipe.audit is not None else ():
        if signal not in SIGNALS:
            raise ConfigError.unknown(f"{where}: audit.signals", signal, SIGNALS)
    if recipe.expert is not None:
        _check_expert(recipe, recipe.expert, where)
    rule = context_rule(recipe, where)
    if recipe.student.action_format is not None:
        student_format(recipe, where)
    for name, rollout in recipe.rollouts.items():
        _check_roles(recipe, name, rollout, where)
        filters(recipe, rollout, where)
    for name, model in recipe.models.items():
        for key, mask in [("mask", model.mask), *((f"data.{i}.mask", part.mask) for i, part in enumerate(model.data))]:
            if mask is not None and mask not in STEP_MASKS:
                raise ConfigError.unknown(f"{where}: models.{name}.{key}", mask, STEP_MASKS)
        for index, part in enumerate(model.data):
            if part.privileged is not None:
                privileged_context(recipe, part.privileged, f"{where}: models.{name}.data.{index}.privileged")
        if model.layout == "whole" and not rule.extends_prefix:
            raise ConfigError(
                f"{where}: models.{name}.layout is 'whole', but the context '{recipe.student.context.name}' is shortened as the "
                "episode goes on, so that one sample cannot hold it. Write layout: per_step."
            )
        if (augment := recipe.augment_of(name)) is not None:
            if augment.name not in AUGMENTATIONS:
                raise ConfigError.unknown(f"{where}: augment (of {name})", augment.name, [*AUGMENTATIONS, "none"])
            check_options(where, "augment", augment.options, load_place(AUGMENTATIONS[augment.name]))


def task_set(recipe: Recipe, section: TasksSection) -> list[Task]:
    """The tasks of a section."""
    options = {**recipe.env.options, **section.options}
    return load_tasks(recipe.env.name, section.split, start=section.start, count=section.count, **options)


def make_expert(recipe: Recipe, named: Named, where: str = "recipe") -> Policy:
    """The expert that a recipe names, e.g. ``{name: household, search: list}``."""
    maker = expert_maker(named.name, recipe.env.name, f"{where}: expert")
    policy: Policy = build_named(where, "expert", named.name, named.options, {named.name: maker})
    return policy


def _check_expert(recipe: Recipe, named: Named, where: str) -> None:
    if named.name == EXPERT_NAME:
        check_endpoint_expert(recipe, named, where)
    else:
        make_expert(recipe, named, where)


def expert_policy(recipe: Recipe, named: Named, endpoints: Endpoints) -> Policy:
    """The expert that a recipe names, in this process or behind an endpoint."""
    if named.name != EXPERT_NAME:
        return make_expert(recipe, named)
    expert: Policy = endpoints.expert(named, seed=seed_of(recipe, "expert"))
    return expert


def switch_rule(named: Named, where: str = "recipe", key: str = "switch") -> SwitchRule:
    """The switch rule that a recipe names; an option may be a rule itself."""
    if named.name in SWITCH_RULES:
        check_options(where, key, named.options, SWITCH_RULES[named.name])
    try:
        return make_rule(named.name, **named.options)
    except ConfigError as error:
        raise ConfigError(f"{where}: {key}: {error}") from None


def _check_roles(recipe: Recipe, name: str, rollout: RolloutSection, where: str) -> None:
    rule = switch_rule(rollout.switch, where, f"rollouts.{name}.switch")
    if Actor.STUDENT in rule.roles and rollout.student is None:
        raise ConfigError(
            f"{where}: rollouts.{name}.student is missing: under the rule '{rule.name}' a student acts. "
            f"Name one of: {', '.join([*recipe.models, START])}."
        )
    if rollout.expert is not None:
        _check_expert(recipe, rollout.expert, where)
    if Actor.EXPERT in rule.roles and recipe.expert is None and rollout.expert is None:
        raise ConfigError(
            f"{where}: rollouts.{name}: under the rule '{rule.name}' an expert acts, but the recipe names none in 'expert'."
        )


def _check_teacher(recipe: Recipe, teacher: TeacherSection, where: str, key: str) -> None:
    """Make all that a teacher section names, without a model."""
    if teacher.context is not None:
        privileged_context(recipe, teacher.context, f"{where}: {key}.context")
    try:
        step_weights(teacher.step_weights.name, **teacher.step_weights.options)
    except ConfigError as error:
        raise ConfigError(f"{where}: {key}.step_weights: {error}") from None
    for what, named, known, options in (
        ("divergence", teacher.divergence, DIVERGENCES, DIVERGENCE_OPTIONS),
        ("loss", teacher.loss, DISTILL_LOSS_OPTIONS, DISTILL_LOSS_OPTIONS.get(teacher.loss.name, ())),
    ):
        if named.name not in known:
            raise ConfigError.unknown(f"{where}: {key}.{what}", named.name, known)
        for option in named.options:
            if option not in options:
                raise ConfigError.unknown(f"{where}: {key}.{what}, option", option, options)


def privileged_context(recipe: Recipe, named: Named, where: str = "recipe") -> PrivilegedContext:
    """What a recipe's ``{name: plan}`` tells. A plan of the expert's comes from the recipe's expert."""
    if named.name not in PRIVILEGED_CONTEXTS:
        raise ConfigError.unknown(where, named.name, PRIVILEGED_CONTEXTS)
    options = named.options
    scripted = recipe.expert is not None and recipe.expert.name != EXPERT_NAME
    if named.name == "plan" and scripted and options.get("source", "expert") == "expert":
        assert recipe.expert is not None
        options = {**options, "expert": make_expert(recipe, recipe.expert)}
    try:
        return make_context(named.name, **options)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None


def with_context(recipe: Recipe, part: DataSection, trajectories: Sequence[Trajectory]) -> tuple[list[Trajectory], int]:
    """The episodes as a model saw them that was told more, where the part of a mix says so; and how many were not.

    An episode of which the context has nothing to tell is left out and counted.
    """
    if part.privileged is None:
        return list(trajectories), 0
    context = privileged_context(recipe, part.privileged)
    by_id = {task.task_id: task for task in task_set(recipe, recipe.rollouts[part.source].tasks)}
    texts = [context.text(by_id[one.task_id], one, trajectories) for one in trajectories]
    told = [
        with_privileged_context(one, text) for one, text in zip(trajectories, texts, strict=True) if text is not None
    ]
    return told, len(texts) - len(told)


def context_rule(recipe: Recipe, where: str = "recipe") -> ContextRule:
    named = recipe.student.context
    rule: ContextRule = build_named(where, "student.context", named.name, named.options, CONTEXT_RULES)
    return rule


def filters(recipe: Recipe, rollout: RolloutSection, where: str = "recipe") -> list[Any]:
    """The filters of a rollout, in the recipe's order: the same for all.

    Where the student plays alone, its own steps are the trained ones, and there are no expert steps to ask for.
    """
    student_only = Actor.EXPERT not in switch_rule(rollout.switch, where).roles
    made = []
    for name, options in recipe.select.items():
        if student_only and name == HasExpertSteps.name:
            continue
        if student_only and name == NoRepetition.name:
            options = {"trained": Actor.STUDENT, **options}
        if name in FILTERS:
            check_options(where, f"select.{name}", options, FILTERS[name])
        try:
            made.append(make_filter(name, **options))
        except ConfigError as error:
            raise ConfigError(f"{where}: select: {error}") from None
    return made


def limits(recipe: Recipe, policies: Container[Actor]) -> Limits:
    """The recipe's limits; without an expert, the end of what the student may do is the end of the episode."""
    return recipe.limits if Actor.EXPERT in policies else replace(recipe.limits, on_student_limit="end")


def augmentation(named: Named | None, model_dir: Path) -> Callable[..., Any] | None:
    """What changes the token ids of a sample at each use, for the vocabulary of a model folder."""
    if named is None:
        return None
    made: Callable[..., Any] = load_place(AUGMENTATIONS[named.name])(model_dir, **named.options)
    return made


def seed_of(recipe: Recipe, *what: str) -> int:
    """A seed for one use, drawn from the recipe's seed, so that two rollouts on the same tasks do not draw alike."""
    return stable_hash(recipe.seed, *what) % 2**31


def start_folder(recipe: Recipe, start: str, run: RunDir) -> Path:
    """The model folder that a name stands for: a model of the recipe, ``start``, ``builtin:...`` or a path."""
    if start in recipe.models or (start == START and not isinstance(recipe.start, str)):
        return run.model_dir(start)
    from tutelage.students import student_path

    named = recipe.start if start == START else start
    assert isinstance(named, str)
    return student_path(named)


def start_needs(recipe: Recipe, start: str) -> tuple[str, ...]:
    """The stage that makes a start. None is needed for one that lies outside of the run."""
    if start in recipe.models:
        return (stage_id("train", start),)
    return (stage_id("new", START),) if start == START and not isinstance(recipe.start, str) else ()


def start_settings(recipe: Recipe, start: str, run: RunDir) -> dict[str, Any]:
    """What identifies a start in a stage's settings: its files, unless a stage of this run makes them."""
    if start_needs(recipe, start):
        return {"start": start}
    if start.startswith(ENDPOINT_PREFIX):
        return {"start": start, "endpoint": endpoint_config(recipe, start.removeprefix(ENDPOINT_PREFIX)).identity}
    folder = start_folder(recipe, start, run)
    changed = max((file.stat().st_mtime_ns for file in folder.rglob("*")), default=0)
    return {"start": start, "files": _hash_folder(folder, changed)}


@lru_cache(maxsize=16)
def _hash_folder(folder: Path, changed: int) -> str:
    """A model of some size takes a second to read, and many stages ask. changed: time of its newest file."""
    return hash_files([folder])


def student(recipe: Recipe, model: str, run: RunDir, endpoints: Endpoints, *, temperature: float, seed: int) -> Policy:
    """A model of the recipe as a policy in this process, on one thread; or one behind an endpoint."""
    if model.startswith(ENDPOINT_PREFIX):
        name = model.removeprefix(ENDPOINT_PREFIX)
        player: Policy = endpoints.player(name, context_rule=context_rule(recipe), temperature=temperature, seed=seed)
        return player
    return policy_of(recipe, start_folder(recipe, model, run), name=model, temperature=temperature, seed=seed)


def policy_of(recipe: Recipe, folder: Path, *, name: str, temperature: float, seed: int) -> LocalPolicy:
    """A model folder as a policy that reads and writes as the recipe's student does."""
    from tutelage.policies.local import LocalPolicy

    section = recipe.student
    return LocalPolicy(
        folder,
        temperature=temperature,
        max_action_tokens=section.max_action_tokens,
        max_context=section.max_context,
        context_rule=context_rule(recipe),
        seed=seed,
        name=name,
        num_threads=1,
        dtype=section.dtype,
        renderer=student_renderer(recipe, folder),
        action_format=student_format(recipe),
    )


def arm_policy(recipe: Recipe, arm: str, run: RunDir, endpoints: Endpoints) -> Policy:
    """Who plays an arm of the evaluation."""
    assert recipe.evaluate is not None
    if arm == EXPERT:
        assert recipe.expert is not None
        return expert_policy(recipe, recipe.expert, endpoints)
    return student(
        recipe, arm, run, endpoints, temperature=recipe.evaluate.temperature, seed=seed_of(recipe, "evaluate")
    )


def _task_options(env: str, where: str) -> Callable[..., Any]:
    return task_set_maker(env, f"{where}: env.name")


def plain(section: BaseModel) -> dict[str, Any]:
    """A section as plain data, for a stage's settings."""
    return section.model_dump(mode="json")
