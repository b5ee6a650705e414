"""`run`: a whole recipe into a run directory, independent stages side by side."""

from __future__ import annotations

import contextlib
import queue
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tutelage.errors import ConfigError, FormatError, StoreError, TutelageError
from tutelage.pipeline.plan import plan
from tutelage.pipeline.stage import Stage, command_for, do_stage, is_done, stage_id
from tutelage.pipeline.worker import Worker, explained
from tutelage.recipe import Recipe, load_recipe
from tutelage.run_dir import RunDir, RunLock, StageRecord, read_json, versions

STOP_SECONDS = 10.0
"""How long an interrupted worker may take to store what it has."""


@dataclass(frozen=True, kw_only=True)
class Event:
    """Something a user may want to see while a run goes on."""

    stage: str
    """Id of the stage, or empty for the run as a whole."""
    state: Literal["started", "progress", "done", "skipped", "note"]
    done: int = 0
    total: int | None = None
    text: str = ""
    record: StageRecord | None = None


Listener = Callable[[Event], None]


class StageError(TutelageError):
    """A stage of a run failed in a worker process, by no fault of the user's; the traceback is in log.txt."""

    def __init__(self, stage: str, message: str, run: RunDir) -> None:
        super().__init__(
            f"stage {stage}: {message}\nThe traceback is in {run.log_path}. What was finished is kept: run it again to go on."
        )
        self.stage = stage


class Run:
    """A finished or unfinished run, to look at."""

    def __init__(self, root: str | Path) -> None:
        self.dir = RunDir(root)
        self.recipe = self.dir.recipe()

    def __repr__(self) -> str:
        states = self.states()
        return f"Run({str(self.dir.root)!r}, {len(states) - len(self.unfinished())} of {len(states)} stages done)"

    @property
    def report_path(self) -> Path:
        return self.dir.report_path

    def states(self) -> dict[str, str]:
        """Stage id -> ``done``, ``started`` or ``waiting``."""
        records = {stage: self.dir.record(stage) for stage in plan(self.recipe, self.dir)}
        return {stage: record.state if record else "waiting" for stage, record in records.items()}

    def unfinished(self) -> list[str]:
        """Ids of the stages that are not done."""
        return [stage for stage, state in self.states().items() if state != "done"]

    def table(self) -> str:
        """The table of the evaluation as plain text, and a line for each endpoint that was asked."""
        from tutelage.pipeline.endpoints import run_usage
        from tutelage.pipeline.table import arms, plain_table
        from tutelage.reports.endpoint_section import endpoint_line

        lines = [endpoint_line(name, usage) for name, usage in run_usage(self.dir.root).items()]
        return "\n".join([plain_table(arms(self.dir, self.recipe)), *([""] if lines else []), *lines])


def run(
    recipe: Recipe | str | Path,
    out: str | Path | None = None,
    *,
    set: Iterable[str] | Mapping[str, Any] = (),
    force: bool = False,
    workers: int | None = None,
    listener: Listener | None = None,
) -> Run:
    """Do everything a recipe says, or what is left of it.

    recipe: a `Recipe`, a file, or the name of a packaged recipe.
    set: overrides of a file or a packaged recipe; see `load_recipe`.
    out: the run directory, by default ``runs/<name of the recipe>``. One that exists is resumed.
    force: accept a recipe that differs from the one the directory was begun with; what depends on the change is done again.
    workers: stages side by side; by default what the recipe says.
    """
    assert not (set and isinstance(recipe, Recipe)), "set belongs to load_recipe where a Recipe is given"
    if not isinstance(recipe, Recipe):
        recipe = load_recipe(recipe, set=set)
    directory = RunDir(out if out is not None else Path("runs") / recipe.name)
    tell = listener or (lambda event: None)
    with directory.lock() as lock:
        changed = directory.adopt_recipe(recipe, force=force)
        if lock.killed_holder:
            _note(directory, tell, f"the last run here ({lock.killed_holder}) was cut off; going on where it was")
        if changed:
            _note(directory, tell, f"recipe changed: {', '.join(changed)}; what depends on it is done again")
        if other := _other_versions(directory):
            _note(directory, tell, f"this run was begun with {other}; stages that are done are kept as they are")
        stages = plan(recipe, directory)
        directory.log(f"begin: {len(stages)} stages")
        try:
            num_workers = workers or recipe.workers
            if num_workers == 1:
                _run_here(stages, directory, recipe, tell)
            else:
                _run_in_workers(stages, directory, recipe, tell, lock, num_workers)
        finally:
            with contextlib.suppress(OSError, StoreError):  # A full disk must not hide the error that told of it.
                directory.write_summary(recipe, list(stages))
        directory.log("end")
    return Run(directory.root)


def run_stage(
    root: str | Path, kind: str, name: str = "", *, again: bool = False, listener: Listener | None = None
) -> StageRecord:
    """Do one stage of a run directory, e.g. ``run_stage("runs/x", "train", "corrected")``. The stages it needs must be done."""
    directory = RunDir(root)
    recipe = directory.recipe()
    with directory.lock():
        stages = plan(recipe, directory)
        wanted = stage_id(kind, name)
        if wanted not in stages:
            known = [stage.name for stage in stages.values() if stage.kind == kind]
            if not known:
                raise ConfigError(f"{directory.recipe_path}: this recipe has no stage '{kind}'.")
            raise ConfigError.unknown(f"{directory.root}: {kind}", name, known)
        try:
            _do_here(stages[wanted], directory, listener or (lambda event: None), again=again)
        finally:
            with contextlib.suppress(OSError, StoreError):
                directory.write_summary(recipe, list(stages))
        record = directory.record(wanted)
        assert record is not None
        return record


def _other_versions(run: RunDir) -> str:
    """The versions of packages that the run was begun with and that differ now, in words; empty if none does."""
    if not run.summary_path.is_file():
        return ""
    before, current = read_json(run.summary_path).get("versions", {}), versions()
    return ", ".join(f"{name} {version}" for name, version in before.items() if current.get(name) != version)


def _note(run: RunDir, tell: Listener, text: str) -> None:
    run.log(text)
    tell(Event(stage="", state="note", text=text))


def _note_other_tasks(stage: Stage, run: RunDir, tell: Listener) -> None:
    """Say that a stage played other tasks or other data before: its results are not to be compared with the new ones."""
    before = run.record(stage.id)
    if before is not None and before.manifest and before.manifest != stage.manifest:
        _note(
            run,
            tell,
            f"{stage.id}: its tasks or their data have changed (manifest {before.manifest[:12]}, now "
            f"{stage.manifest[:12]}); it is done again, and what was made from the former ones with it",
        )


def _run_here(stages: dict[str, Stage], run: RunDir, recipe: Recipe, tell: Listener) -> None:
    for stage in stages.values():
        _do_here(stage, run, tell)
        run.write_summary(recipe, list(stages))


def _do_here(stage: Stage, run: RunDir, tell: Listener, *, again: bool = False) -> None:
    if not again and is_done(stage, run):
        tell(Event(stage=stage.id, state="skipped", record=run.record(stage.id)))
        return
    _note_other_tasks(stage, run, tell)
    run.log(f"{stage.id}: started")
    tell(Event(stage=stage.id, state="started"))

    def progress(done: int, total: int | None = None, text: str = "") -> None:
        tell(Event(stage=stage.id, state="progress", done=done, total=total, text=text))

    try:
        record = do_stage(stage, run, progress, again=again)
    except Exception as error:
        if (better := explained(error, str(run.root))) is not None:
            raise better from error
        raise
    run.log(f"{stage.id}: done in {record.seconds:.1f} s")
    tell(Event(stage=stage.id, state="done", record=record))


def _run_in_workers(
    stages: dict[str, Stage], run: RunDir, recipe: Recipe, tell: Listener, lock: RunLock, num_workers: int
) -> None:
    waiting = dict(stages)
    events: queue.Queue[tuple[Worker, dict[str, Any]]] = queue.Queue()
    workers: list[Worker] = []
    seconds_to_end = 0.0
    try:
        while waiting or any(worker.stage for worker in workers):
            _hand_out(waiting, workers, num_workers, run, tell, lock, events)
            if not any(worker.stage for worker in workers):
                continue
            worker, event = events.get()
            _take(worker, event, stages, run, recipe, tell)
        seconds_to_end = STOP_SECONDS
    except BaseException:
        for worker in workers:
            worker.interrupt()
        seconds_to_end = STOP_SECONDS
        raise
    finally:
        deadline = time.monotonic() + seconds_to_end
        try:
            for worker in workers:
                worker.close(max(0.0, deadline - time.monotonic()))
        except KeyboardInterrupt:  # The second Ctrl-C: at once.
            for worker in workers:
                worker.close(0.0)
            raise


def _hand_out(
    waiting: dict[str, Stage],
    workers: list[Worker],
    num_workers: int,
    run: RunDir,
    tell: Listener,
    lock: RunLock,
    events: queue.Queue[tuple[Worker, dict[str, Any]]],
) -> None:
    """Give every idle worker a stage whose needs are done; start workers only when there is work for them."""
    running = {worker.stage for worker in workers if worker.stage}
    for stage in list(waiting.values()):
        if any(need in waiting or need in running for need in stage.needs):
            continue
        if is_done(stage, run):
            del waiting[stage.id]
            tell(Event(stage=stage.id, state="skipped", record=run.record(stage.id)))
            continue
        worker = next((one for one in workers if one.stage is None), None)
        if worker is None:
            if len(workers) == num_workers:
                return
            worker = Worker(run, lock.fd, events)
            workers.append(worker)
        del waiting[stage.id]
        running.add(stage.id)
        _note_other_tasks(stage, run, tell)
        run.log(f"{stage.id}: started")
        tell(Event(stage=stage.id, state="started"))
        worker.start(stage.id)


def _take(
    worker: Worker, event: dict[str, Any], stages: dict[str, Stage], run: RunDir, recipe: Recipe, tell: Listener
) -> None:
    """One message of a worker."""
    stage = worker.stage or ""
    match event["event"]:
        case "progress":
            tell(Event(stage=stage, state="progress", done=event["done"], total=event["total"], text=event["text"]))
        case "done":
            record = StageRecord(**event["record"])
            worker.stage = None
            run.log(f"{stage}: done in {record.seconds:.1f} s")
            run.write_summary(recipe, list(stages))
            tell(Event(stage=stage, state="done", record=record))
        case "failed" if event["is_mendable"]:
            mendable = {one.__name__: one for one in (ConfigError, FormatError, StoreError)}
            raise mendable.get(event["type"], ConfigError)(f"stage {stage}: {event['message']}")
        case "failed":
            raise StageError(stage, f"{event['type']}: {event['message']}", run)
        case "ended":
            raise StageError(
                stage,
                f"its worker process ended with code {event['code']} (killed, or out of memory). "
                f"Alone in this process it may show more: {command_for(stage, run)}",
                run,
            )
