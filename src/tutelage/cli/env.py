"""Verbs `env list`, `env check`, `env new`, `env parity` and `env generate`."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tutelage.cli.new_env import new
from tutelage.cli.parity import parity
from tutelage.errors import ConfigError

if TYPE_CHECKING:
    from tutelage.envs.registry import EnvSpec

app = typer.Typer(
    help="Environments: list them, prove them sound, begin one of your own, write games.", no_args_is_help=True
)
app.command()(new)
app.command()(parity)

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("list")
def list_(as_json: JsonOption = False) -> None:
    """The environments that a recipe can name, and the adapters through which it can play foreign ones."""
    from tutelage.envs.registry import ADAPTERS, environment_names, find_environment

    specs = [find_environment(name) for name in (*environment_names(), *ADAPTERS)]
    if as_json:
        print(json.dumps([_as_json(spec) for spec in specs], indent=2))
        return
    width = max(len(spec.name) for spec in specs)
    for spec in specs:
        parts = {"tasks": spec.sources, "experts": spec.experts, "footprints": spec.footprints}
        said = [f"{what} {', '.join(names) or 'none'}" for what, names in parts.items()]
        if spec.name in ADAPTERS:
            said = ["adapter; the environment behind it is named by options"]
        if spec.extra is not None:
            state = {True: " (installed)", False: f' (pip install "tutelage[{spec.extra}]")', None: ""}
            said.append(f"extra {spec.extra}{state[is_installed(spec.extra)]}")
        print(f"{spec.name:<{width}}  {spec.summary}\n{'':<{width}}  {'; '.join(said)}")


def _as_json(spec: EnvSpec) -> dict[str, Any]:
    from tutelage.envs.registry import ADAPTERS

    return {
        "name": spec.name,
        "summary": spec.summary,
        "adapter": spec.name in ADAPTERS,
        "sources": list(spec.sources),
        "experts": list(spec.experts),
        "footprints": list(spec.footprints),
        "extra": spec.extra,
        "installed": spec.extra is None or is_installed(spec.extra),
    }


def is_installed(extra: str) -> bool | None:
    """Whether all packages of one of tutelage's extras are there. None: tutelage names no such extra."""
    from importlib.metadata import PackageNotFoundError, requires, version

    of_extra = re.compile(rf"extra == ['\"]{re.escape(extra)}['\"]")
    try:
        wanted = [line for line in requires("tutelage") or () if of_extra.search(line)]
        for line in wanted:
            version(re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)[0])
    except PackageNotFoundError as missing:
        return None if missing.name == "tutelage" else False
    return True if wanted else None


@app.command()
def check(
    env: Annotated[str, typer.Argument(help="Name of the environment, one of your own included.")],
    options: Annotated[
        list[str] | None, typer.Option("--set", help="Option of its task set, e.g. --set size=real. May be repeated.")
    ] = None,
    tasks: Annotated[
        int | None,
        typer.Option("--tasks", min=1, help="Tasks of each split that are played. Default: 8, or 2 if steps may wait."),
    ] = None,
    episodes: Annotated[
        int, typer.Option("--episodes", min=1, help="Short episodes after which nothing may be left.")
    ] = 200,
    expert_at_least: Annotated[
        float | None, typer.Option("--expert-at-least", help="Mean reward that the expert must reach.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Prove an environment sound: one line per check with what it found. Exit code 1 if a check failed."""
    from tutelage.evaluation.env_check import check_env
    from tutelage.recipe_file import parse_override

    report = check_env(
        env,
        num_tasks=tasks,
        num_episodes=episodes,
        expert_at_least=expert_at_least,
        on_start=_tell_check if sys.stderr.isatty() else None,
        on_result=None if as_json else lambda result: print(result, flush=True),
        **dict(parse_override(one) for one in options or ()),
    )
    print(json.dumps(report.to_json(), indent=2) if as_json else report.summary())
    if not report.passed:
        raise typer.Exit(1)


def _tell_check(name: str) -> None:
    """On a terminal: what is going on, until its result takes the line."""
    print(f"      {name} ...\r", end="", file=sys.stderr, flush=True)


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
