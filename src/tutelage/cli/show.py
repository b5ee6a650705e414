"""Verb `show`: one trajectory or one training sample, coloured by who acted and what is trained."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from tutelage.cli.stored import IdOption, IndexOption, RunArgument, pick, trajectories_of
from tutelage.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import Console

    from tutelage.run_dir import RunDir
    from tutelage.types import Trajectory

COLOURS = {"student": "cyan", "expert": "green"}


def show(
    run: RunArgument,
    name: Annotated[
        str | None, typer.Argument(help="A rollout, an arm of the evaluation, or with --tokens a model.")
    ] = None,
    index: IndexOption = 0,
    id_: IdOption = None,
    mask: Annotated[str, typer.Option("--mask", help="Whose steps are marked as trained.")] = "expert_steps",
    tokens: Annotated[
        bool, typer.Option("--tokens", help="Show a training sample of a model, token by token.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the record as JSON.")] = False,
) -> None:
    """Print a trajectory: who acted, what the environment replied, which steps are trained."""
    from rich.console import Console

    from tutelage.run_dir import RunDir
    from tutelage.store import to_json

    console = Console(highlight=False, soft_wrap=True)
    if tokens:
        _show_sample(console, RunDir(run), name, index, id_, as_json)
        return
    path, directory = trajectories_of(run, name)
    trajectory = pick(path, "trajectory", index, id_)
    if as_json:
        print(json.dumps(to_json(trajectory)))
        return
    verdicts = _verdicts(directory, name, trajectory.trajectory_id)
    _show_trajectory(console, trajectory, mask, verdicts)


def _verdicts(run: RunDir | None, name: str | None, trajectory_id: str) -> list[str]:
    from tutelage.store import read_records

    if run is None or name is None or not run.verdicts_path(name).is_file():
        return []
    verdicts = [v for v in read_records(run.verdicts_path(name), "verdict") if v.trajectory_id == trajectory_id]
    return [f"{v.filter}: {v.reason}{f' at steps {v.span[0]} to {v.span[1]}' if v.span else ''}" for v in verdicts]


def _show_trajectory(console: Console, trajectory: Trajectory, mask: str, verdicts: list[str]) -> None:
    from rich.text import Text

    from tutelage.supervision.step_masks import STEP_MASKS

    if mask not in STEP_MASKS:
        raise ConfigError.unknown("show: --mask", mask, STEP_MASKS)
    trained = STEP_MASKS[mask](trajectory).step_mask
    reward = "not scored" if trajectory.reward is None else f"reward {trajectory.reward:g}"
    print_text = console.print
    print_text(Text(trajectory.trajectory_id, style="bold"))
    print_text(Text(f"{trajectory.goal or trajectory.task_id}   {trajectory.stop_reason.value}, {reward}"))
    for event in trajectory.switch_events:
        print_text(Text(f"step {event.step_index}: the {event.actor.value} takes over ({event.reason})"))
    for verdict in verdicts:
        print_text(Text(verdict))
    print_text(
        Text(f"* trained under {mask}   "),
        Text("student", style=COLOURS["student"]),
        Text("expert", style=COLOURS["expert"]),
    )
    for index, step in enumerate(trajectory.steps):
        print_text(Text(step.observation.text, style="dim"))
        command = step.action.command if step.action.command is not None else f"{step.action.text!r} (no command)"
        mark = "*" if trained[index] else " "
        line = Text(f"{index:>3} {mark} {step.actor.value:<7} > {command}", style=f"bold {COLOURS[step.actor.value]}")
        print_text(line)
    if trajectory.final_observation is not None:
        print_text(Text(trajectory.final_observation.text, style="dim"))
    if trajectory.error:
        print_text(Text(trajectory.error, style="red"))


def _show_sample(
    console: Console, run: RunDir, name: str | None, index: int, wanted: str | None, as_json: bool
) -> None:
    from tutelage.pipeline.parts import start_folder
    from tutelage.pipeline.student_text import student_renderer
    from tutelage.store import to_json
    from tutelage.supervision.describe import describe_sample

    recipe = run.recipe()
    if name not in recipe.models:
        raise ConfigError.unknown(f"show --tokens {run.root}", name or "(no model named)", recipe.models)
    sample = pick(run.samples_path(name), "training_sample", index, wanted)
    if as_json:
        print(json.dumps(to_json(sample)))
        return
    folder = start_folder(recipe, recipe.models[name].start, run)
    console.print(describe_sample(sample, student_renderer(recipe, folder)))
    console.print("[cyan]student[/] [green]expert[/] [bright_black]template[/] [reverse]trained[/]")
