"""From a model folder to its renderer."""

from __future__ import annotations

from pathlib import Path

from tutelage.errors import ConfigError, MissingExtra
from tutelage.rendering.base import Renderer


def load_renderer(model_dir: str | Path) -> Renderer:
    """The renderer of the tokenizer in a model folder. Needs the extra `train`.

    Raises ConfigError if the folder has no tokenizer, RenderError if its format is not known.
    """
    folder = Path(model_dir)
    if not (folder / "tokenizer.json").is_file():
        raise ConfigError(
            f"{folder}: no tokenizer.json, expected a model folder. Make a student with `tutelage student new`, "
            "or write builtin:household_tiny for the one that comes with tutelage."
        )
    try:
        from tutelage.rendering.role_tokens import RoleTokenRenderer
    except ModuleNotFoundError as error:
        raise MissingExtra(f"the tokenizer of {folder}", "train") from error
    return RoleTokenRenderer.from_folder(folder)
