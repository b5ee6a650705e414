"""How an episode of the repo environment is played: the settings of a task besides its problem."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from tutelage.envs.action_formats import ActionFormat, FunctionFormat, ToolCallFormat
from tutelage.envs.repo.editor import EDIT_PARAMETERS
from tutelage.envs.repo.problem import SOURCE_SETTINGS
from tutelage.envs.sandbox.limits import SandboxLimits
from tutelage.errors import ConfigError

DEFAULT_MAX_STEPS: Final = 75

TOOLS: Final[dict[str, tuple[str, ...]]] = {"bash": ("command",), "edit": EDIT_PARAMETERS, "submit": ()}

ACTION_FORMATS: Final = ("functions", "tool_calls")

OTHER_SETTINGS: Final = ("content_hash", "action_format")

_FUNCTION_HELP: Final = (
    "No call was found in that reply. End it with exactly one call of bash, edit or submit, such as\n"
    "<function=bash>\n<parameter=command>\nls\n</parameter>\n</function>"
)
_TOOL_CALL_HELP: Final = (
    "No call was found in that reply. End it with exactly one call of bash, edit or submit, such as\n"
    '<tool_call>\n{"name": "bash", "arguments": {"command": "ls"}}\n</tool_call>'
)

_DESCRIPTIONS: Final = {
    "bash": "Run a shell command in the repository. The working directory is kept between calls, variables are not.",
    "edit": (
        "Look at a file or change it. Needs `command` and `path`, and by command: view may have first_line and last_line; "
        "create file_text; str_replace old_str and new_str; insert insert_line and insert_text; undo nothing more. "
        "undo takes back only what edit itself changed."
    ),
    "submit": "End the task; the tests are run on what is there.",
}

FORMATS: Final[dict[str, ActionFormat]] = {
    "functions": FunctionFormat(tools=TOOLS, help=_FUNCTION_HELP, descriptions=_DESCRIPTIONS),
    "tool_calls": ToolCallFormat(tools=TOOLS, help=_TOOL_CALL_HELP, descriptions=_DESCRIPTIONS),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class PlaySettings:
    """Settings with defaults; all may stand in the settings of a task."""

    max_steps: int = DEFAULT_MAX_STEPS
    review: bool = False
    """The first submit shows the changes and asks for a second one."""
    auto_submit: bool = False
    """At the last step the tree is judged though nobody submitted. The last observation says so."""
    bash_seconds: float = 60.0
    output_chars: int = 16_000
    memory_mb: int = 512
    disk_mb: int = 256
    check_seconds: float = 120.0
    """Wall clock of the tests that decide the reward."""
    git: bool = False
    """The workspace is a git repository with one commit, made afresh: there is no history."""
    sandbox: str = "auto"
    """``bubblewrap``, ``unshare``, ``rlimit`` or ``auto``; see `make_sandbox`."""
    allow_unsafe: bool = False
    image: str = ""
    """Container image in which commands and tests run, instead of a sandbox on this machine."""
    engine: str = "docker"
    image_folder: str = "/testbed"
    """Where the image expects the repository."""
    image_python: str = "python"
    """The interpreter inside, with pytest, e.g. ``/opt/miniconda3/envs/testbed/bin/python``."""
    pytest_arguments: tuple[str, ...] = ()
    """More arguments for the tests that decide the reward; the repository's own `addopts` are not used."""

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> PlaySettings:
        """Raises ConfigError on an unknown setting, or a value that cannot be."""
        known = {field.name for field in fields(cls)}
        for name in settings:
            if name not in known and name not in SOURCE_SETTINGS and name not in OTHER_SETTINGS:
                raise ConfigError.unknown("repo task settings", name, [*known, *SOURCE_SETTINGS, *OTHER_SETTINGS])
        chosen = {name: value for name, value in settings.items() if name in known}
        if "pytest_arguments" in chosen:
            chosen["pytest_arguments"] = tuple(chosen["pytest_arguments"])
        found = cls(**chosen)
        if found.max_steps < 1:
            raise ConfigError(f"repo task settings: max_steps is {found.max_steps}, expected at least 1.")
        return found

    @property
    def bash_limits(self) -> SandboxLimits:
        return SandboxLimits(
            seconds=self.bash_seconds,
            cpu_seconds=max(1, round(self.bash_seconds)),
            memory_mb=self.memory_mb,
            disk_mb=self.disk_mb,
            output_chars=self.output_chars,
        )


def action_format_named(name: str) -> ActionFormat:
    """The action format of that name. Raises ConfigError on an unknown one."""
    if name not in FORMATS:
        raise ConfigError.unknown("repo task settings: action_format", name, FORMATS)
    return FORMATS[name]
