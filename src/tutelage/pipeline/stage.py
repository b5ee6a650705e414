"""One stage of a run: what it needs, what decides its result, what it writes, and how it is done exactly once."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tutelage.errors import StoreError
from tutelage.run_dir import RunDir, StageRecord, hash_files, hash_json, now, remove


class Tell(Protocol):
    """How a stage says how far it is: ``tell(12, 300, "episodes")``. total None: not known."""

    def __call__(self, done: int, total: int | None = None, text: str = "") -> None: ...


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A piece of work that reads files and writes files."""

    kind: str
    """``new``, ``rollout``, ``select``, ``build``, ``train``, ``evaluate``, ``audit``, ``compare`` or ``report``."""
    name: str
    """The artefact: a rollout, a model, an arm. Empty for the two stages that a run has once."""
    needs: tuple[str, ...]
    """Ids of the stages whose files it reads."""
    settings: Any
    """Plain data: everything beside the needed stages that decides the result."""
    outputs: tuple[Path, ...]
    """Files and folders that it writes and nobody else does."""
    scratch: tuple[Path, ...] = ()
    """What lies there only while it is unfinished."""
    resumes: bool
    """True: after an interruption it goes on from what it had written. False: it is short and starts again."""
    act: Callable[[Tell], dict[str, Any]]
    """Does the work; returns figures for tables."""

    @property
    def id(self) -> str:
        return stage_id(self.kind, self.name)

    @property
    def manifest(self) -> str:
        """Hash of the tasks that it plays, with their data. Empty: it plays none."""
        return str(self.settings.get("manifest", "")) if isinstance(self.settings, dict) else ""

    def inputs(self, run: RunDir) -> str:
        """Hash of the settings and of what the needed stages wrote. These must be done."""
        needed = {}
        for need in self.needs:
            record = run.record(need)
            if record is None or record.state != "done":
                raise StoreError(
                    f"{run.root}: {self.id} needs {need}, which is not finished. Run: {command_for(need, run)}"
                )
            needed[need] = record.outputs
        return hash_json({"settings": self.settings, "needs": needed})


def stage_id(kind: str, name: str = "") -> str:
    """``train:corrected``, or the kind alone."""
    return f"{kind}:{name}" if name else kind


def command_for(stage: str, run: RunDir) -> str:
    """The command that runs one stage."""
    kind, _, name = stage.partition(":")
    if kind in ("new", "audit"):
        return f"tutelage run {run.recipe_path} --out {run.root}"
    verb = "report" if kind == "compare" else kind
    return " ".join(part for part in ("tutelage", verb, str(run.root), name) if part)


def is_done(stage: Stage, run: RunDir) -> bool:
    """Finished, with the inputs it would have now, and its files are there."""
    record = run.record(stage.id)
    if record is None or record.state != "done":
        return False
    needed = [run.record(need) for need in stage.needs]
    if any(one is None or one.state != "done" for one in needed):
        return False
    return record.inputs == stage.inputs(run) and all(path.exists() for path in stage.outputs)


def do_stage(stage: Stage, run: RunDir, tell: Tell, *, again: bool = False) -> StageRecord:
    """Do a stage unless it is done; go on with it if it was interrupted; start afresh if its inputs are new.

    again: do it from the start even if it is done.
    """
    if not again and is_done(stage, run):
        done = run.record(stage.id)
        assert done is not None
        return done
    inputs = stage.inputs(run)
    before = run.record(stage.id)
    goes_on = (
        stage.resumes and not again and before is not None and before.state == "started" and before.inputs == inputs
    )
    if not goes_on:
        # What lies there was made from other inputs, or may be half a file.
        for path in (*stage.outputs, *stage.scratch):
            remove(path)
    started = StageRecord(
        state="started",
        inputs=inputs,
        started_at=before.started_at if goes_on and before else now(),
        goes=before.goes + 1 if goes_on and before else 1,
        manifest=stage.manifest,
    )
    run.write_record(stage.id, started)
    clock = time.perf_counter()
    summary = stage.act(tell)
    record = StageRecord(
        state="done",
        inputs=inputs,
        outputs=hash_files(list(stage.outputs)),
        summary=summary,
        started_at=started.started_at,
        finished_at=now(),
        seconds=round(time.perf_counter() - clock, 3),
        goes=started.goes,
        manifest=started.manifest,
    )
    run.write_record(stage.id, record)
    return record
