"""How a recipe's student reads and writes: its instructions, its action format, its renderer.

One function makes the renderer for acting, sample building, reinforcement learning and the display of samples, so that all
of them show the student the same tokens.
"""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from tutelage.envs.action_formats import ActionFormat
from tutelage.envs.action_formats.named import format_named
from tutelage.envs.instructions import instructions_for
from tutelage.envs.registry import action_format_for
from tutelage.policies.student_file import StudentText
from tutelage.recipe import Recipe
from tutelage.rendering.base import Renderer
from tutelage.tasks.registry import load_tasks
from tutelage.types import Split, Task


def student_renderer(recipe: Recipe, folder: Path) -> Renderer:
    """The renderer of a model folder, with the instructions and the action format that the recipe gives its student."""
    return student_text(recipe, folder).renderer(folder, env_format(recipe))


def student_text(recipe: Recipe, folder: Path) -> StudentText:
    """What the recipe teaches a model folder to read and write.

    Instructions ``auto`` are the environment's own text for a chat model, and none for a small student of ours.
    """
    from tutelage.rendering.role_tokens import has_role_tokens

    section = recipe.student
    instructions: str | None = section.instructions
    if instructions == "none" or (instructions == "auto" and has_role_tokens(folder)):
        instructions = None
    elif instructions == "auto":
        instructions = instructions_for(_a_task(recipe), action_format=student_format(recipe))
    return StudentText(
        instructions=instructions, action_format=section.action_format, enable_thinking=section.enable_thinking
    )


def student_format(recipe: Recipe, where: str = "recipe") -> ActionFormat | None:
    """The format that the recipe names for its student. None: it writes as the environment reads."""
    name = recipe.student.action_format
    return None if name is None else format_named(name, env_format(recipe), f"{where}: student.action_format")


def env_format(recipe: Recipe) -> ActionFormat | None:
    """How the recipe's environment reads actions. None: plain commands."""
    return action_format_for(_a_task(recipe))


def _a_task(recipe: Recipe) -> Task:
    """The first training task: what formats and instructions are about does not differ within a recipe."""
    return _first_task(recipe.env.name, json.dumps(recipe.env.options, sort_keys=True, default=str))


@lru_cache(maxsize=16)
def _first_task(env_name: str, options: str) -> Task:
    named: dict[str, Any] = json.loads(options)
    return load_tasks(env_name, Split.TRAIN, start=0, count=1, **named)[0]
