"""The tokenizer of the model behind an endpoint, from a folder on this machine."""

from __future__ import annotations

from pathlib import Path

from tutelage.errors import ConfigError
from tutelage.policies.endpoint.config import EndpointConfig
from tutelage.rendering.base import Renderer


def renderer_of(config: EndpointConfig) -> Renderer:
    """Maps texts and ids as the server's model does. Raises ConfigError where the config names no tokenizer."""
    from tutelage.rendering.load import load_renderer

    return load_renderer(tokenizer_folder(config))


def tokenizer_folder(config: EndpointConfig) -> Path:
    """The folder of the tokenizer that a config names. Raises ConfigError where it names none."""
    from tutelage.students import BUILTIN, student_path

    if config.tokenizer is None:
        raise ConfigError(
            f"endpoint '{config.name}': needs a tokenizer, since token ids are sent. Name a model folder with that of the "
            "server's model: tokenizer: models/NAME."
        )
    if config.tokenizer.startswith(BUILTIN):
        return student_path(config.tokenizer)
    return Path(config.tokenizer)
