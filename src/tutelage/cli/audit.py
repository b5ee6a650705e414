"""Verb `audit`: does credit per step agree with what happens when the step is taken away?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from tutelage.errors import ConfigError

if TYPE_CHECKING:
    from tutelage.analysis.credit_audit import AuditResult
    from tutelage.cli.display import Display
    from tutelage.supervision.replay_impact import Intervention
    from tutelage.types import StepAptitude, Task, Trajectory


def audit(
    run: Annotated[Path, typer.Argument(help="Run directory, a folder in it, or a trajectories.jsonl.")],
    name: Annotated[
        str | None, typer.Argument(help="A rollout, or an arm of the evaluation, of a run directory.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="Folder for rows, tables, picture and summary.")] = Path("audit"),
    games: Annotated[
        Path | None, typer.Option("--games", help="Folder of real games that the trajectories were played on.")
    ] = None,
    max_steps: Annotated[
        int | None,
        typer.Option(
            "--max-steps", min=1, help="Step limit of the episodes. Default: the run's, or what the file shows."
        ),
    ] = None,
    accept_put: Annotated[bool, typer.Option("--accept-put", help="The episodes understood `put O in/on R`.")] = False,
    signals: Annotated[
        str | None, typer.Option("--signals", help="Names with commas between them, or 'all'. Default: the usual ones.")
    ] = None,
    divergence: Annotated[
        Path | None, typer.Option("--divergence", help="Stored step_aptitude records of a teacher.")
    ] = None,
    intervention: Annotated[str, typer.Option("--intervention", help="omit or noop")] = "omit",
    count: Annotated[int | None, typer.Option("--count", min=1, help="Only the first so many trajectories.")] = None,
    split_half: Annotated[
        int | None,
        typer.Option("--split-half", help="Seed of two halves of the tasks: choose on one, prove on the other."),
    ] = None,
    closed_loop: Annotated[
        int, typer.Option("--closed-loop", min=0, help="On so many trajectories, let --model go on after each step.")
    ] = 0,
    model: Annotated[str | None, typer.Option("--model", help="Model folder of the closed loop.")] = None,
    temperature: Annotated[float, typer.Option("--temperature", min=0.0, help="Of --model.")] = 0.4,
    seed: Annotated[int, typer.Option("--seed", help="Of the random controls, the bootstrap and the closed loop.")] = 0,
    workers: Annotated[int, typer.Option("--workers", min=1, help="Processes side by side.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Replay stored episodes without each of their steps; rank what matters; compare with every credit signal."""
    from tutelage.analysis.credit import score_cases
    from tutelage.analysis.credit_audit import run_audit
    from tutelage.analysis.credit_tables import make_tables, plain_table
    from tutelage.cli.display import Display
    from tutelage.reports.audit import Audit, count_line, write_audit

    how = _intervention(intervention)
    if closed_loop and model is None:
        raise ConfigError(
            "audit: --closed-loop needs --model, the student that goes on. Give the folder of its weights."
        )
    names = _signals(signals)
    path, trajectories, options = _read(run, name, count)
    root = _games(options)
    limit = max_steps or options.pop("max_steps", None) or _longest_cut(trajectories)
    options |= ({"accept_put": True} if accept_put else {}) | ({"max_steps": limit} if limit else {})
    tasks = _tasks(trajectories, games or root, options)
    with Display(quiet=as_json) as display:
        result = run_audit(
            trajectories,
            tasks,
            signals=names,
            aptitudes=_aptitudes(divergence),
            intervention=how,
            seed=seed,
            workers=workers,
            on_progress=_teller(display, "replay"),
        )
        if closed_loop:
            student = _Student(str(model), temperature, seed)
            tell = _teller(display, "closed loop")
            result = _with_closed_loop(result, trajectories, tasks, closed_loop, student, out, tell)
    scores = score_cases(result.cases, seed=seed)
    if not scores.cases:
        raise ConfigError(_nothing(path, len(trajectories), result.rejected, scores.left_out))
    found = Audit(
        title=f"Replay audit of {path}",
        command=f"tutelage audit {run}{f' {name}' if name else ''}",
        result=result,
        scores=scores,
        tables=make_tables(scores, split_seed=split_half),
        settings={"intervention": how, "seed": seed, "split_half": split_half, "max_steps": limit},
    )
    write_audit(out, found)
    if as_json:
        print((out / "audit.json").read_text(encoding="utf-8"), end="")
    else:
        print(f"{plain_table(found.tables)}\n\n{count_line(found)}\n-> {out}")


def _nothing(path: Path, number: int, rejected: Mapping[str, int], left_out: Mapping[str, int]) -> str:
    reasons = ", ".join(f"{count} {reason}" for reason, count in {**rejected, **left_out}.items())
    remedy = (
        "Rejected ones were played on other games or under other settings: look at --games, --max-steps, --accept-put."
        if rejected
        else "Give longer episodes: at least five steps, of which some matter more than others."
    )
    return f"{path}: nothing to compare; of {number} trajectories: {reasons}.\n  {remedy}"


def _intervention(name: str) -> Intervention:
    from tutelage.supervision.replay_impact import INTERVENTIONS

    for one in INTERVENTIONS:
        if one == name:
            return one
    raise ConfigError.unknown("audit: --intervention", name, INTERVENTIONS)


def _signals(names: str | None) -> tuple[str, ...]:
    from tutelage.analysis.credit_signals import DEFAULT_SIGNALS, SIGNALS, check_signals

    if names is None:
        return check_signals(DEFAULT_SIGNALS)
    return check_signals(SIGNALS if names == "all" else [one.strip() for one in names.split(",") if one.strip()])


def _teller(display: Display, stage: str) -> Callable[[int, int], None]:
    from tutelage.pipeline.run import Event

    display(Event(stage=stage, state="started"))
    return lambda done, total: display(
        Event(stage=stage, state="progress", done=done, total=total, text="trajectories")
    )


def _read(run: Path, name: str | None, count: int | None) -> tuple[Path, list[Trajectory], dict[str, Any]]:
    """The file that is meant, what counts in it, and the task options of its run."""
    from tutelage.cli.stored import trajectories_of
    from tutelage.rollout.summary import latest_attempts
    from tutelage.store import RecordStore

    path, directory = trajectories_of(run, name)
    options: dict[str, Any] = {}
    if directory is not None:
        recipe = directory.recipe()
        options = {**recipe.env.options}
        if recipe.env.name != "household":
            raise ConfigError(f"{run}: environment '{recipe.env.name}'; the audit replays household episodes.")
    found = latest_attempts(RecordStore(path, "trajectory"))
    if not found:
        raise ConfigError(f"{path}: holds no trajectory. Run the rollout that writes it first.")
    if foreign := sorted({one.env for one in found} - {"household"}):
        raise ConfigError(
            f"{path}: trajectories of environment '{foreign[0]}'; the audit replays household episodes.\n"
            "  For another environment call tutelage.supervision.replay_impact.replay_impact with its make_env."
        )
    return path, found[:count], options


def _games(options: dict[str, Any]) -> Path | None:
    """Where a run took its games from, if not out of the generator. Takes out of the options what an id says."""
    root = options.pop("root", None)
    options.pop("source", None)
    options.pop("size", None)
    return None if root is None else Path(root)


def _tasks(trajectories: list[Trajectory], games: Path | None, options: dict[str, Any]) -> dict[str, Task]:
    from tutelage.tasks.lookup import household_tasks

    return household_tasks((one.task_id for one in trajectories), games=games, options=options)


def _longest_cut(trajectories: list[Trajectory]) -> int | None:
    """The step limit that the file shows: how long the episodes are that ended by it. None: none did."""
    from tutelage.types import StopReason

    return max((len(one.steps) for one in trajectories if one.stop_reason is StopReason.MAX_STEPS), default=None)


def _aptitudes(path: Path | None) -> dict[str, StepAptitude]:
    """Trajectory id -> what a teacher made of it."""
    from tutelage.store import read_records

    if path is None:
        return {}
    found: dict[str, StepAptitude] = {}
    for one in read_records(path, "step_aptitude"):
        if one.trajectory_id in found and found[one.trajectory_id].config_id != one.config_id:
            raise ConfigError(
                f"{path}: two aptitudes of trajectory {one.trajectory_id}, by '{found[one.trajectory_id].config_id}' and "
                f"'{one.config_id}'. Give a file with one."
            )
        found[one.trajectory_id] = one
    return found


class _Student(NamedTuple):
    """Who goes on in the closed loop."""

    model: str
    temperature: float
    seed: int


def _with_closed_loop(
    result: AuditResult,
    trajectories: list[Trajectory],
    tasks: dict[str, Task],
    number: int,
    student: _Student,
    out: Path,
    on_progress: Callable[[int, int], None],
) -> AuditResult:
    """The cases with the closed-loop impact on `number` of them, drawn by the seed."""
    from tutelage.analysis.closed_loop import closed_loop_impact
    from tutelage.envs.household.env import DEFAULT_MAX_STEPS
    from tutelage.policies.student_file import taught_policy
    from tutelage.students import student_path
    from tutelage.types import stable_hash

    counting = [case.trajectory_id for case in result.cases if case.left_out is None]
    chosen = set(sorted(counting, key=lambda one: stable_hash(student.seed, one))[:number])
    loops = closed_loop_impact(
        [one for one in trajectories if one.trajectory_id in chosen],
        tasks,
        taught_policy(student_path(student.model), None, temperature=student.temperature, seed=student.seed),
        max_steps=max(task.settings.get("max_steps", DEFAULT_MAX_STEPS) for task in tasks.values()),
        path=out / "continuations.jsonl",
        on_progress=on_progress,
    )
    cases = tuple(
        replace(case, closed_loop=loops[case.trajectory_id].impact) if case.trajectory_id in loops else case
        for case in result.cases
    )
    return replace(result, cases=cases)
