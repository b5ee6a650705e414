"""One verb per stage: each takes a run directory and an artefact of its recipe, reads files and writes files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from tutelage.errors import ConfigError

RunArgument = Annotated[Path, typer.Argument(help="Run directory.")]
AgainOption = Annotated[bool, typer.Option("--again", help="Do it from the start even if it is done.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def rollout(
    run: RunArgument,
    name: Annotated[str, typer.Argument(help="A rollout of the recipe.")],
    again: AgainOption = False,
    as_json: JsonOption = False,
) -> None:
    """Play the episodes of one rollout: tasks -> trajectories."""
    _stage(run, "rollout", name, again, as_json)


def select(
    run: RunArgument,
    name: Annotated[str, typer.Argument(help="A rollout of the recipe.")],
    again: AgainOption = False,
    as_json: JsonOption = False,
) -> None:
    """Judge the trajectories of a rollout: trajectories -> verdicts and a ledger."""
    _stage(run, "select", name, again, as_json)


def build(
    run: RunArgument,
    name: Annotated[str, typer.Argument(help="A model of the recipe.")],
    again: AgainOption = False,
    as_json: JsonOption = False,
) -> None:
    """Make the training samples of a model: kept trajectories -> samples."""
    _stage(run, "build", name, again, as_json)


def train(
    run: RunArgument,
    name: Annotated[str, typer.Argument(help="A model of the recipe.")],
    again: AgainOption = False,
    as_json: JsonOption = False,
) -> None:
    """Train a model: samples -> a model folder."""
    _stage(run, "train", name, again, as_json)


def report(run: RunArgument) -> None:
    """Compare the arms and write report.html from the files of a run directory, also of an unfinished run."""
    from tutelage.pipeline.run import Run
    from tutelage.reports.html import write_report

    unfinished = [stage for stage in Run(run).unfinished() if stage not in ("compare", "report")]
    if unfinished:
        print(
            f"note: the run is not finished, so the page is not whole; missing: {', '.join(unfinished)}",
            file=sys.stderr,
        )
        print(write_report(run))
        return
    recipe = Run(run).recipe
    if recipe.evaluate is not None and recipe.evaluate.baseline is not None:
        _stage(run, "compare", "", again=True, as_json=False, quiet=True)
    _stage(run, "report", "", again=True, as_json=False, quiet=True)
    print(Run(run).report_path)


def evaluate(
    run: Annotated[Path | None, typer.Argument(help="Run directory. Not needed with --games.")] = None,
    name: Annotated[str | None, typer.Argument(help="An arm of the recipe: a model, 'start' or 'expert'.")] = None,
    again: AgainOption = False,
    games: Annotated[
        Path | None, typer.Option("--games", help="Folder of real ALFWorld games to play instead.")
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", help="Model folder or builtin:NAME that plays --games.")
    ] = None,
    expert: Annotated[bool, typer.Option("--expert", help="Let the household expert play --games.")] = False,
    temperature: Annotated[float, typer.Option("--temperature", min=0.0, help="With --games. 0 is greedy.")] = 0.0,
    max_steps: Annotated[int, typer.Option("--max-steps", min=1, help="With --games.")] = 50,
    count: Annotated[int | None, typer.Option("--count", min=1, help="With --games: only the first ones.")] = None,
    seed: Annotated[int, typer.Option("--seed", help="With --games.")] = 0,
    out: Annotated[
        Path | None, typer.Option("--out", help="With --games: folder for trajectories.jsonl and result.json.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure an arm of a run on its panel, or any player on a folder of real games."""
    if games is None:
        if run is None or name is None:
            raise ConfigError("evaluate: name a run directory and an arm, or a folder of games with --games FOLDER.")
        _stage(run, "evaluate", name, again, as_json)
        return
    if run is not None:
        raise ConfigError(f"evaluate: --games plays a folder of games; leave out the run directory '{run}'.")
    if (model is None) == (not expert):
        raise ConfigError("evaluate --games: say who plays, with either --model FOLDER or --expert.")
    from tutelage.cli.games import evaluate_games

    evaluate_games(
        games,
        model=model,
        temperature=temperature,
        max_steps=max_steps,
        count=count,
        seed=seed,
        out=out,
        as_json=as_json,
    )


def _stage(run: Path, kind: str, name: str, again: bool, as_json: bool, quiet: bool = False) -> None:
    from tutelage.cli.display import Display
    from tutelage.pipeline.run import run_stage

    with Display(quiet=quiet) as display:
        record = run_stage(run, kind, name, again=again, listener=display)
    if as_json:
        import json

        print(json.dumps({"stage": f"{kind}:{name}", "seconds": record.seconds, **record.summary}))
