"""Verbs `run`, `quickstart` and `recipes`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

OutOption = Annotated[Path | None, typer.Option("--out", help="Run directory. Default: runs/<name of the recipe>.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Override a key, e.g. --set train.lr=0.001. May be given several times."
    ),
]
ForceOption = Annotated[
    bool, typer.Option("--force", help="Accept a changed recipe; do again what depends on the change.")
]
WorkersOption = Annotated[int | None, typer.Option("--workers", min=1, help="Stages side by side.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Print the final table only.")]


def run(
    recipe: Annotated[str, typer.Argument(help="A YAML file, or the name of a packaged recipe.")],
    out: OutOption = None,
    set_: SetOption = None,
    force: ForceOption = False,
    workers: WorkersOption = None,
    quiet: QuietOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the final table as JSON.")] = False,
) -> None:
    """Do everything a recipe says. A run that was interrupted goes on where it was."""
    from tutelage.cli.display import Display
    from tutelage.pipeline.run import run as run_recipe
    from tutelage.recipe import load_recipe

    loaded = load_recipe(recipe, set=set_ or [])
    with Display(quiet=quiet) as display:
        finished = run_recipe(loaded, out, force=force, workers=workers, listener=display)
    if as_json:
        import json

        from tutelage.pipeline.table import arms

        print(
            json.dumps({"run": str(finished.dir.root), "arms": [arm.to_json() for arm in arms(finished.dir, loaded)]})
        )
        return
    if loaded.evaluated:
        print(f"\n{finished.table()}\n")
    print(f"report  -> {finished.report_path}")


def quickstart(
    out: OutOption = None,
    set_: SetOption = None,
    force: ForceOption = False,
    workers: WorkersOption = None,
    quiet: QuietOption = False,
) -> None:
    """The main job: expert corrections on the household world, with the recipe that travels in the package."""
    run("household_oec", out, set_, force, workers, quiet)


def recipes(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """List the packaged recipes."""
    from tutelage.recipe import load_recipe
    from tutelage.recipe_file import find_recipe, recipe_names

    rows = [(name, load_recipe(name).description, str(find_recipe(name))) for name in recipe_names()]
    if as_json:
        import json

        print(json.dumps([{"name": name, "description": text, "file": path} for name, text, path in rows]))
        return
    width = max(len(name) for name, _, _ in rows)
    for name, text, _ in rows:
        print(f"{name:<{width}}  {text}")
