"""Verb `env parity`: our household engine against the original, recorded or live."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tutelage.errors import ConfigError

if TYPE_CHECKING:
    from tutelage.envs.household.parity import ParityReport
    from tutelage.evaluation.env_parity import EpisodeParity


def parity(
    env: Annotated[str, typer.Argument(help="Name of the environment.")],
    transcripts: Annotated[
        Path | None,
        typer.Option("--transcripts", help="Recorded play of the original, .jsonl or .jsonl.gz. Without it: live."),
    ] = None,
    games: Annotated[Path | None, typer.Option("--games", help="Folder of the games that were or are played.")] = None,
    generated: Annotated[int, typer.Option("--generated", min=0, help="Live: how many generated games.")] = 0,
    size: Annotated[str, typer.Option("--size", help="Live: small, real or both, of generated games.")] = "both",
    seed: Annotated[int, typer.Option("--seed", help="Live: first generated game, and of random commands.")] = 0,
    random_steps: Annotated[int, typer.Option("--random-steps", min=0, help="Live: random commands a game.")] = 25,
    python: Annotated[
        str | None, typer.Option("--python", help="Live: the Python that has alfworld, if not this one.")
    ] = None,
    log: Annotated[
        Path | None, typer.Option("--log", help="Live: JSONL file of episodes; play goes on from it.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare our engine with the original, text by text. Exit code 1 at a difference."""
    from dataclasses import asdict

    from tutelage.envs.household.parity import check_transcripts

    if env != "household":
        raise ConfigError.unknown("env parity", env, ["household"])
    if transcripts is not None:
        if games is None:
            raise ConfigError(
                "env parity: --transcripts without --games. Give the folder of the games that were played."
            )
        report = check_transcripts(transcripts, games)
    else:
        report = _live(games, generated, size, seed, random_steps, python, log)
    if as_json:
        print(json.dumps(asdict(report)))
    else:
        _print(report)
    if report.num_differences:
        raise typer.Exit(1)


def _live(
    games: Path | None, generated: int, size: str, seed: int, random_steps: int, python: str | None, log: Path | None
) -> ParityReport:
    from tutelage.envs.household.rooms import SIZES
    from tutelage.evaluation.env_parity import PlaySettings, folder_tasks, generated_tasks, play_both

    if size != "both" and size not in SIZES:
        raise ConfigError.unknown("env parity: --size", size, [*SIZES, "both"])
    tasks = [] if games is None else folder_tasks(games)
    tasks += generated_tasks(generated, seed, SIZES if size == "both" else (size,))
    if not tasks:
        raise ConfigError("env parity: nothing to play. Give --games FOLDER, --generated COUNT, or --transcripts FILE.")
    done = 0

    def show(episode: EpisodeParity) -> None:
        nonlocal done
        done += 1
        if sys.stderr.isatty():
            print(f"\r{done} of {2 * len(tasks)} episodes", end="", file=sys.stderr)

    report = play_both(
        tasks, PlaySettings(seed=seed, random_steps=random_steps), python=python, log=log, on_episode=show
    )
    if sys.stderr.isatty():
        print(file=sys.stderr)
    return report


def _print(report: ParityReport) -> None:
    print(
        f"{report.num_episodes} episodes of {report.num_games} games, {report.num_steps} steps, "
        f"{report.num_differences} differences"
    )
    for one in report.first_differences:
        print(f"\n{one.game} episode {one.episode} step {one.step} {one.command!r}: {one.field}")
        print(f"  original: {one.expected!r}\n  ours:     {one.got!r}")
