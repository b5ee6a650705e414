"""Where the problem of a task comes from."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from tutelage.envs.python.generator import generate_problem
from tutelage.envs.python.problems import Problem
from tutelage.envs.python.readers import read_problems
from tutelage.errors import FormatError
from tutelage.types import Split


def problem_of(settings: Mapping[str, Any]) -> Problem:
    """The problem that the settings of a task name; see `PythonEnv` for the settings.

    Raises ConfigError for an unknown level, FormatError for a file that does not hold what it should.
    """
    if settings["source"] == "generated":
        return generate_problem(settings["level"], settings["problem_seed"], Split(settings["share"]))
    path = Path(settings["root"], settings["file"])
    problems = problems_of_file(settings["source"], str(path), settings.get("shuffle_seed", 0))
    if settings["row"] not in problems:
        raise FormatError(
            f"{path}: no problem with id {settings['row']!r}. Has the file changed? Load the tasks again."
        )
    return problems[settings["row"]]


@lru_cache(maxsize=16)
def problems_of_file(source: str, path: str, shuffle_seed: int) -> Mapping[str, Problem]:
    """Id -> problem, in the order of the file; read once in a process. Nobody changes it."""
    return read_problems(source, Path(path), shuffle_seed)
