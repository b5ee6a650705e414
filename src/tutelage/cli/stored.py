"""Which stored record a command line means: a run directory and a name, or a file; then a position or an id."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tutelage.errors import ConfigError

if TYPE_CHECKING:
    from tutelage.run_dir import RunDir

RunArgument = Annotated[Path, typer.Argument(help="Run directory, a folder in it, or a trajectories.jsonl.")]
IndexOption = Annotated[int, typer.Option("--index", min=0, help="Position in the file.")]
IdOption = Annotated[str | None, typer.Option("--id", help="Trajectory id, or the beginning of one.")]


def trajectories_of(run: Path, name: str | None) -> tuple[Path, RunDir | None]:
    """The file that is meant, and the run directory it is in."""
    from tutelage.run_dir import RunDir

    if run.is_file():
        return run, None
    if run.suffix == ".jsonl":
        raise ConfigError(
            f"{run}: no such file. Give the trajectories.jsonl of a rollout, or a run directory and a name."
        )
    if name is None and (run / "trajectories.jsonl").is_file():
        return run / "trajectories.jsonl", None
    directory = RunDir(run)
    recipe = directory.recipe()
    known = [*recipe.rollouts, *recipe.evaluated]
    if name is None:
        raise ConfigError(f"{run}: name a part of the run, one of: {', '.join(known)}.")
    if name in recipe.rollouts:
        path = directory.trajectories_path(name)
    elif name in recipe.evaluated:
        path = directory.evaluation_trajectories_path(name)
    else:
        raise ConfigError.unknown(f"{run}: part", name, known)
    if not path.is_file():
        raise ConfigError(f"{path}: not there yet. Run: tutelage run {directory.recipe_path} --out {run}")
    return path, directory


def pick(path: Path, kind: str, index: int, wanted: str | None) -> Any:
    """The record with the wanted id, or with an id that begins so; without one, the record at a position."""
    from tutelage.store import RecordStore

    store: RecordStore = RecordStore(path, kind)
    ids = list(store.ids)
    if wanted is not None:
        found = [one for one in ids if one == wanted] or [one for one in ids if one.startswith(wanted)]
        if len(found) != 1:
            raise ConfigError(
                f"{path}: {len(found)} ids begin with '{wanted}', expected one. The first ids here: {', '.join(ids[:3])}."
            )
        return store[found[0]]
    if index >= len(ids):
        raise ConfigError(f"{path}: holds {len(ids)} records, there is no --index {index}.")
    return store[ids[index]]
