"""How a recipe's student reads and writes: its instructions, its action format, its renderer.

One function makes the renderer for acting, sample building, reinforcement learning and the display of samples, so that all
of them show the student the same tokens.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Final

from tutelage.envs.action_formats import (
    ActionFormat,
    FunctionFormat,
    JsonFormat,
    ThinkActionFormat,
    ToolCallFormat,
    text_in,
)
from tutelage.envs.instructions import instructions_for
from tutelage.envs.registry import action_format_for
from tutelage.errors import ConfigError
from tutelage.recipe import Recipe
from tutelage.rendering.base import Renderer
from tutelage.rendering.load import load_renderer
from tutelage.tasks.registry import load_tasks
from tutelage.types import Split, Task

_OF_CALLS: Final[dict[str, Callable[..., ActionFormat]]] = {
    "functions": FunctionFormat,
    "tool_calls": ToolCallFormat,
    "json": JsonFormat,
}

STUDENT_FORMATS: Final = ("think_action", *_OF_CALLS)
"""Names of action formats that a recipe may give its student."""


def student_renderer(recipe: Recipe, folder: Path) -> Renderer:
    """The renderer of a model folder, with the instructions and the action format that the recipe gives its student."""
    from tutelage.rendering.role_tokens import has_role_tokens

    chat = not has_role_tokens(folder)
    action_format = student_format(recipe) or (env_format(recipe) if chat else None)
    return load_renderer(
        folder,
        instructions=student_instructions(recipe, chat=chat),
        # Small students of ours are shown bare commands unless a format is named.
        text_of=None if action_format is None else partial(text_in, action_format),
        enable_thinking=recipe.student.enable_thinking,
    )


def student_instructions(recipe: Recipe, *, chat: bool) -> str | None:
    """What stands before the first observation. ``auto``: the environment's own text for a chat model, else nothing."""
    wanted = recipe.student.instructions
    if wanted == "none" or (wanted == "auto" and not chat):
        return None
    return wanted if wanted != "auto" else instructions_for(_a_task(recipe), action_format=student_format(recipe))


def student_format(recipe: Recipe, where: str = "recipe") -> ActionFormat | None:
    """The format that the recipe names for its student. None: it writes as the environment reads.

    Formats of calls have those of the environment; where its actions are plain commands, the one call ``act(command=...)``.
    """
    name = recipe.student.action_format
    if name is None:
        return None
    if name not in STUDENT_FORMATS:
        raise ConfigError.unknown(f"{where}: student.action_format", name, STUDENT_FORMATS)
    spoken = env_format(recipe)
    if name == "think_action":
        if spoken is not None:
            raise ConfigError(
                f"{where}: student.action_format 'think_action' writes plain commands, but {recipe.env.name} takes calls "
                f"({', '.join(spoken.calls)}). Write one of: {', '.join(_OF_CALLS)}."
            )
        return ThinkActionFormat()
    plain = ThinkActionFormat() if spoken is None else spoken
    return _OF_CALLS[name](tools=plain.calls, help=plain.help)


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
