"""Does a recipe hold together? Every name it uses is defined, and every rule, filter and option can be made.

Runs when a recipe is loaded, so that nothing fails at minute nine that could have failed at once. Imports no torch.
"""

from __future__ import annotations

import difflib
import graphlib
import math
import re
from collections.abc import Iterable

from tutelage.errors import ConfigError
from tutelage.recipe import ENDPOINT_PREFIX, NAME_PATTERN, Recipe, TasksSection, TeacherSection

START = "start"
"""Name by which a recipe refers to the student before any training."""
EXPERT = "expert"
"""Name of the expert among the arms of an evaluation."""


def check_references(recipe: Recipe, where: str) -> None:
    """Raise `ConfigError` on the first thing that does not fit. where: the file, for messages."""
    _check_names(recipe, where)
    _check_rollouts(recipe, where)
    _check_models(recipe, where)
    _check_evaluation(recipe, where)
    _check_no_cycle(recipe, where)
    from tutelage.pipeline.parts import check_parts

    check_parts(recipe, where)


def _check_names(recipe: Recipe, where: str) -> None:
    for section, names in (("rollouts", recipe.rollouts), ("models", recipe.models), ("endpoints", recipe.endpoints)):
        for name in names:
            if not re.match(NAME_PATTERN, name):
                raise ConfigError(
                    f"{where}: {section}.{name}: use letters, digits, '_', '.' and '-'; it becomes a file name."
                )
            if section == "models" and name in (START, EXPERT):
                raise ConfigError(f"{where}: models.{name}: '{name}' is a reserved word. Choose another name.")


def _check_rollouts(recipe: Recipe, where: str) -> None:
    for name, rollout in recipe.rollouts.items():
        key = f"rollouts.{name}"
        if rollout.student is not None:
            _player(recipe, where, f"{key}.student", rollout.student, [*recipe.models, START])


def _check_models(recipe: Recipe, where: str) -> None:
    for name, model in recipe.models.items():
        key = f"models.{name}"
        _model_or_folder(recipe, where, f"{key}.start", model.start)
        if model.rl is not None and model.rl.teacher is not None and model.rl.teacher.model is not None:
            _teacher(recipe, where, f"{key}.rl.teacher", model.rl.teacher, recipe.rl_of(name).temperature)
        for index, part in enumerate(model.data):
            _one_of(where, f"{key}.data.{index}.source", part.source, recipe.rollouts)
            if isinstance(part.expert_steps, str):
                _one_of(where, f"{key}.data.{index}.expert_steps", part.expert_steps, recipe.rollouts)
        sources = [(part.source, part.privileged) for part in model.data]
        if any(one in sources[:index] for index, one in enumerate(sources)):
            raise ConfigError(
                f"{where}: {key}.data names a rollout twice ({', '.join(source for source, _ in sources)}); nothing is ever "
                "repeated. The same episodes may come once plain and once with a privileged context."
            )


def _check_evaluation(recipe: Recipe, where: str) -> None:
    for name in recipe.audit.arms if recipe.audit is not None else ():
        _one_of(where, "audit.arms", name, recipe.evaluated)
    if recipe.evaluate is None:
        return
    for name in recipe.evaluated:
        _player(recipe, where, "evaluate.models", name, [*recipe.models, START, EXPERT])
    if len(set(recipe.evaluated)) < len(recipe.evaluated):
        raise ConfigError(f"{where}: evaluate.models names an arm twice: {', '.join(recipe.evaluated)}.")
    if recipe.evaluate.baseline is not None:
        _one_of(where, "evaluate.baseline", recipe.evaluate.baseline, recipe.evaluated)
    if EXPERT in recipe.evaluated and recipe.expert is None:
        raise ConfigError(f"{where}: evaluate.models names 'expert', but the recipe has no 'expert'.")
    played = {f"rollouts.{name}.tasks": rollout.tasks for name, rollout in recipe.rollouts.items()}
    for name, model in recipe.models.items():
        if model.rl is not None:
            played[f"models.{name}.rl.tasks"] = model.rl.tasks
    for key, tasks in played.items():
        if _overlap(tasks, recipe.evaluate.tasks):
            raise ConfigError(
                f"{where}: {key} and evaluate.tasks share tasks of the split '{tasks.split}'. "
                "A model must be measured on tasks that it was not trained on: use another split or another stretch."
            )
    _check_curves(recipe, where)


def _check_curves(recipe: Recipe, where: str) -> None:
    """The tasks of a learning curve are not trained on, and nothing is chosen by looking at the panel."""
    assert recipe.evaluate is not None
    for name, model in recipe.models.items():
        if model.rl is None or model.rl.validation is None:
            continue
        for key, tasks in ((f"models.{name}.rl.tasks", model.rl.tasks), ("evaluate.tasks", recipe.evaluate.tasks)):
            if _overlap(model.rl.validation, tasks):
                raise ConfigError(
                    f"{where}: models.{name}.rl.validation and {key} share tasks of the split '{tasks.split}'. Use "
                    "tasks of the split 'validation'."
                )


def _player(recipe: Recipe, where: str, key: str, name: str, known: Iterable[str]) -> None:
    from tutelage.pipeline.endpoints import check_endpoint_player

    if name.startswith(ENDPOINT_PREFIX):
        check_endpoint_player(recipe, name.removeprefix(ENDPOINT_PREFIX), where, key)
    else:
        _one_of(where, key, name, known, more="endpoint:NAME" if recipe.endpoints else "")


def _teacher(recipe: Recipe, where: str, key: str, teacher: TeacherSection, temperature: float) -> None:
    from tutelage.pipeline.endpoints import check_endpoint_teacher

    assert teacher.model is not None
    if not teacher.model.startswith(ENDPOINT_PREFIX):
        _model_or_folder(recipe, where, f"{key}.model", teacher.model)
        return
    name = teacher.model.removeprefix(ENDPOINT_PREFIX)
    check_endpoint_teacher(recipe, name, teacher, temperature, where, key)


def _model_or_folder(recipe: Recipe, where: str, key: str, name: str) -> None:
    if not name.startswith("builtin:") and "/" not in name:
        _one_of(where, key, name, [*recipe.models, START], more="a folder (with a '/'), or builtin:NAME")


def _overlap(a: TasksSection, b: TasksSection) -> bool:
    end_a = math.inf if a.count is None else a.start + a.count
    end_b = math.inf if b.count is None else b.start + b.count
    return a.split == b.split and a.options == b.options and a.start < end_b and b.start < end_a


def _check_no_cycle(recipe: Recipe, where: str) -> None:
    graph: dict[str, set[str]] = {}
    for name, rollout in recipe.rollouts.items():
        graph[f"rollouts.{name}"] = {f"models.{rollout.student}"} if rollout.student in recipe.models else set()
    for name, model in recipe.models.items():
        needs = {f"rollouts.{part.source}" for part in model.data}
        teacher = model.rl.teacher.model if model.rl is not None and model.rl.teacher is not None else None
        needs |= {f"models.{one}" for one in (model.start, teacher) if one in recipe.models}
        graph[f"models.{name}"] = needs
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        raise ConfigError(f"{where}: artefacts wait for each other: {' -> '.join(reversed(error.args[1]))}.") from None


def _one_of(where: str, key: str, name: str, known: Iterable[str], more: str = "") -> None:
    options = list(known)
    if name in options:
        return
    near = difflib.get_close_matches(name, options, n=1, cutoff=0.5)
    hint = f" Did you mean '{near[0]}'?" if near else ""
    raise ConfigError(
        f"{where}: {key}: no '{name}' in this recipe.{hint} Known: {', '.join([*options, *([more] if more else [])])}."
    )
