"""Action formats by name, as recipes and model folders say them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tutelage.envs.action_formats.base import ActionFormat
from tutelage.envs.action_formats.functions import FunctionFormat
from tutelage.envs.action_formats.json_object import JsonFormat
from tutelage.envs.action_formats.tags import ThinkActionFormat
from tutelage.envs.action_formats.tool_calls import ToolCallFormat
from tutelage.errors import ConfigError

_OF_CALLS: Final[dict[str, Callable[..., ActionFormat]]] = {
    "functions": FunctionFormat,
    "tool_calls": ToolCallFormat,
    "json": JsonFormat,
}

FORMAT_NAMES: Final = ("think_action", *_OF_CALLS)
"""Formats that a model may be given, whatever the environment's own is."""


def format_named(name: str, env_format: ActionFormat | None, where: str = "action format") -> ActionFormat:
    """The format of that name for an environment that reads `env_format`; None: plain commands.

    Formats of calls have those of the environment; where its actions are plain commands, the one call ``act(command=...)``.
    Raises ConfigError on an unknown name, and for plain commands in an environment of calls.
    """
    if name not in FORMAT_NAMES:
        raise ConfigError.unknown(where, name, FORMAT_NAMES)
    if name == "think_action":
        if env_format is not None:
            raise ConfigError(
                f"{where}: 'think_action' writes plain commands, but the environment takes calls "
                f"({', '.join(env_format.calls)}). Write one of: {', '.join(_OF_CALLS)}."
            )
        return ThinkActionFormat()
    plain = ThinkActionFormat() if env_format is None else env_format
    return _OF_CALLS[name](tools=plain.calls, help=plain.help)
