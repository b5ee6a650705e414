"""Verb `graph`: which step of a stored episode used what an earlier one had produced."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tutelage.cli.show import COLOURS
from tutelage.cli.stored import IdOption, IndexOption, RunArgument, pick, trajectories_of
from tutelage.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from tutelage.analysis.episode_graph import EpisodeGraph

PIPE_WIDTH = 1000
"""Columns where no terminal sets them: no line is broken."""


def graph(
    run: RunArgument,
    name: Annotated[str | None, typer.Argument(help="A rollout, or an arm of the evaluation.")] = None,
    index: IndexOption = 0,
    id_: IdOption = None,
    weights: Annotated[
        str, typer.Option("--weights", help="Step weights whose structural credit is shown, e.g. degree.")
    ] = "graphopd",
    writer: Annotated[
        str, typer.Option("--writer", help="Which earlier writer of a key counts: last, any or first.")
    ] = "",
    out: Annotated[Path | None, typer.Option("--out", help="Write a picture: FILE.svg or FILE.html.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the graph as JSON.")] = False,
) -> None:
    """Print the dependency graph of an episode: what each step read and wrote, and its structural credit."""
    from rich.console import Console

    from tutelage.analysis.episode_graph import episode_graph
    from tutelage.store import to_json

    if out is not None and out.suffix not in (".svg", ".html"):
        raise ConfigError(f"graph: --out {out}: expected a name that ends in .svg or .html.")
    path, _ = trajectories_of(run, name)
    episode = episode_graph(pick(path, "trajectory", index, id_), weights, writer=writer)
    if out is not None:
        _write(out, episode)
    if as_json:
        print(json.dumps(to_json(episode.graph)))
        return
    _print(Console(highlight=False, width=None if sys.stdout.isatty() else PIPE_WIDTH), episode, weights)
    if out is not None:
        print(f"picture  -> {out}")


def _write(out: Path, episode: EpisodeGraph) -> None:
    from tutelage.reports.graph_figure import graph_figure, graph_page, standalone
    from tutelage.store import write_atomic

    if out.suffix == ".html":
        text = graph_page(episode)
    else:
        text = standalone(graph_figure(episode, heading=True))
    write_atomic(out, text.encode())


def _print(console: Console, episode: EpisodeGraph, weights: str) -> None:
    from rich.measure import Measurement
    from rich.text import Text

    from tutelage.supervision.dependency_graph import num_isolated

    trajectory, found = episode.trajectory, episode.graph
    reward = "not scored" if trajectory.reward is None else f"reward {trajectory.reward:g}"
    console.print(Text(trajectory.trajectory_id, style="bold"), soft_wrap=True)
    console.print(
        Text(f"{trajectory.goal or trajectory.task_id}   {trajectory.stop_reason.value}, {reward}"), soft_wrap=True
    )
    console.print(
        Text(
            f"{found.num_steps} steps, {len(found.edges)} edges, density {found.density:.3f}, {num_isolated(found)} without "
            f"an edge; the {found.writer_rule} writer of a key counts"
        ),
        soft_wrap=True,
    )
    for fallback in sorted(episode.chosen.fallbacks):
        console.print(Text(f"note: {fallback.value}", style="yellow"))
    table = _table(episode, keys_below=False)
    unbounded = console.options.update(width=PIPE_WIDTH)
    if Measurement.get(console, unbounded, table).maximum > console.width:
        table = _table(episode, keys_below=True)
    console.print(table)
    console.print(Text(f"* chosen by {weights} without a teacher's divergence"))


def _table(episode: EpisodeGraph, *, keys_below: bool) -> Table:
    """One row per step. keys_below: what was read and written stands under the command, for narrow terminals."""
    from rich.table import Table
    from rich.text import Text

    from tutelage.reports.graph_figure import command_of, signed

    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("step", "actor", "command", "effect", "degree", "l_graph", "*"):
        table.add_column(title, justify="right" if title in ("step", "degree", "l_graph") else "left")
    if not keys_below:
        table.add_column("read (step that wrote it: keys)")
        table.add_column("written")
    for index, step in enumerate(episode.trajectory.steps):
        footprint = episode.footprints[index]
        command = Text(command_of(step), style="bold")
        read, written = Text(_read(episode, index)), Text(", ".join(sorted(footprint.writes)) or "-")
        if keys_below:
            command = Text.assemble(command, ("\nread ", "dim"), read, ("\nwrote ", "dim"), written)
        table.add_row(
            str(index),
            Text(step.actor.value, style=COLOURS[step.actor.value]),
            command,
            footprint.effect.value,
            str(episode.degree[index]),
            signed(episode.aptitude.l_graph[index]),
            "*" if episode.chosen.step_mask[index] else "",
            *([] if keys_below else [read, written]),
        )
    return table


def _read(episode: EpisodeGraph, index: int) -> str:
    """Keys by the steps that wrote them, last those that none wrote. Example: ``2: location:fridge 1; -: holding:egg 1``"""
    by_source: dict[int, list[str]] = {}
    alone = []
    for key in sorted(episode.footprints[index].reads):
        sources = episode.sources[index].get(key, ())
        for source in sources:
            by_source.setdefault(source, []).append(key)
        if not sources:
            alone.append(key)
    parts = [f"{source}: {', '.join(by_source[source])}" for source in sorted(by_source)]
    return "; ".join(parts + [f"-: {', '.join(alone)}"] * bool(alone)) or "-"
