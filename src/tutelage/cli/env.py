"""Verbs `env list`, `env parity` and `env generate`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from tutelage.cli.parity import parity
from tutelage.errors import ConfigError

app = typer.Typer(help="Environments: list them, compare with the original, write games.", no_args_is_help=True)
app.command()(parity)

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("list")
def list_(as_json: JsonOption = False) -> None:
    """The environments that a recipe can name."""
    from tutelage.envs.registry import environment_names

    if as_json:
        print(json.dumps(list(environment_names())))
        return
    for name in environment_names():
        print(name)


@app.command()
def generate(
    env: Annotated[str, typer.Argument(help="Name of the environment.")],
    out: Annotated[Path, typer.Option("--out", help="Folder that the games are written into, one folder each.")],
    count: Annotated[int, typer.Option("--count", min=1)] = 10,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the first game; the others count up from it.")] = 0,
    size: Annotated[str, typer.Option("--size", help="small or real")] = "small",
    task_type: Annotated[str | None, typer.Option("--type", help="Only this task type.")] = None,
) -> None:
    """Write generated games as folders of the released form."""
    from tutelage.envs.household.generator import generate_game
    from tutelage.envs.household.writer import write_game

    if env != "household":
        raise ConfigError.unknown("env generate", env, ["household"])
    for one in range(seed, seed + count):
        game = generate_game(one, size=size, task_type=task_type)
        write_game(game, out / game.goal.task_type / f"{size}-{one:06d}")
    print(f"{count} games -> {out}")
