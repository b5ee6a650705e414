"""Verb `env new`: write an environment of the user's own, small and working, to be changed piece by piece."""

from __future__ import annotations

import keyword
from importlib import invalidate_caches
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Final

import typer

from tutelage.errors import ConfigError

TEMPLATES: Final = Path(__file__).parent / "templates" / "environment"
"""Files with ``@name@`` for the name, each ending in ``.txt`` so that no tool takes them for code of this package."""
NAME: Final = "@name@"
RESERVED: Final = ("tests", "test", "recipe")
"""Names that would stand in the way of the files beside the package."""


def new(
    name: Annotated[str, typer.Argument(help="Name of the environment, and of its Python package.")],
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder to write; it must not exist. Default: NAME.")
    ] = None,
) -> None:
    """Write a small working environment with tasks, expert, footprints, tests and a recipe: the start for your own."""
    root = Path(name) if out is None else out
    written = write_environment(name, root)
    for path in written:
        print(path)
    print(f"\nNext: cd {root}, then tutelage env check {name}, python -m pytest, tutelage run recipe.yaml")


def write_environment(name: str, root: Path) -> list[Path]:
    """Write the files of a new environment below `root` and return their paths, sorted.

    Raises ConfigError for a name that cannot be taken, and where `root` is there already.
    """
    _check_name(name)
    if root.exists():
        raise ConfigError(f"env new: {root} is there already and is left as it is. Choose another folder with --out.")
    texts = {
        root / path.relative_to(TEMPLATES).with_suffix("").as_posix().replace("package", name): path.read_text("utf-8")
        for path in sorted(TEMPLATES.rglob("*.txt"))
    }
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace(NAME, name), encoding="utf-8")
    invalidate_caches()  # Else this process may go on to hold that there is no such package.
    return sorted(texts)


def _check_name(name: str) -> None:
    from tutelage.envs.registry import environment_names

    if not (name.isascii() and name.isidentifier() and name == name.lower()) or keyword.iskeyword(name):
        raise ConfigError(
            f"env new: {name!r} cannot be the name of a Python package. Use lower-case letters, digits and '_', "
            "beginning with a letter, e.g. my_world."
        )
    if name in environment_names():
        raise ConfigError(f"env new: there is an environment '{name}' already. Choose another name.")
    # A folder of that name without an __init__.py counts for Python as a package too, but nothing is taken by it.
    found = find_spec(name) if name not in RESERVED else None
    if name in RESERVED or (found is not None and found.origin is not None):
        where = "" if found is None else f" ({found.origin})"
        raise ConfigError(f"env new: the module '{name}' is taken{where}. Choose another name.")
