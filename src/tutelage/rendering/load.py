"""From a model folder to its renderer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tutelage.errors import ConfigError, MissingExtra
from tutelage.rendering.base import Renderer
from tutelage.types import Action


def load_renderer(
    model_dir: str | Path,
    *,
    instructions: str | None = None,
    text_of: Callable[[Action], str] | None = None,
    tools: Sequence[Mapping[str, Any]] | None = None,
    enable_thinking: bool | None = None,
) -> Renderer:
    """The renderer of the tokenizer in a model folder. Needs the extra `train`.

    A folder whose tokenizer has the tokens of the role-token format is a small student of ours; any other one is rendered
    by its chat template. `instructions` open every conversation, as a system message where the format has them.
    `text_of`: the text of an action that the model did not sample, in the model's own action format; None: the bare
    command. `tools` (OpenAI schemas) and `enable_thinking` are told to a template that asks for them.

    Raises ConfigError if the folder has no tokenizer or cannot be told one of these, RenderError if its format cannot be
    rendered without loss.
    """
    folder = Path(model_dir)
    if not (folder / "tokenizer.json").is_file():
        raise ConfigError(
            f"{folder}: no tokenizer.json, expected a model folder. Make a student with `tutelage student new`, "
            "or write builtin:household_tiny for the one that comes with tutelage."
        )
    try:
        from tutelage.rendering.chat_folder import chat_renderer
        from tutelage.rendering.chat_template import read_template
        from tutelage.rendering.role_tokens import RoleTokenRenderer, has_role_tokens
    except ModuleNotFoundError as error:
        raise MissingExtra(f"the tokenizer of {folder}", "train") from error
    source = read_template(folder)
    options = {"tools": tools, "enable_thinking": enable_thinking}
    if source is not None and not has_role_tokens(folder):
        return chat_renderer(folder, source, options, instructions=instructions, text_of=text_of)
    if given := [name for name, value in options.items() if value is not None]:
        raise ConfigError(f"{folder}: {' and '.join(given)} given, but the role-token format has no place for them.")
    return RoleTokenRenderer.from_folder(folder, instructions=instructions, text_of=text_of)
