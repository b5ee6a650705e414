"""`tutelage evaluate --games`: a model or the expert on a folder of real games, without a run directory."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tutelage.cli.display import Display
from tutelage.errors import StoreError
from tutelage.evaluation.run import evaluate
from tutelage.pipeline.run import Event
from tutelage.pipeline.table import Arm, plain_table
from tutelage.run_dir import StageRecord, now, write_json
from tutelage.store import RecordStore
from tutelage.tasks.household import HouseholdTasks
from tutelage.types import Actor

if TYPE_CHECKING:
    from tutelage.policies.base import Policy


def evaluate_games(
    games: Path,
    *,
    model: str | None,
    temperature: float,
    max_steps: int,
    count: int | None,
    seed: int,
    out: Path | None,
    as_json: bool,
) -> None:
    """Play every game below a folder and print the table. model None: the household expert plays."""
    found = HouseholdTasks(source="folder", root=games, max_steps=max_steps)
    tasks = [task for split in found.splits for task in found.load(split)][:count]
    if found.skipped:
        print(f"note: {found.report()}", file=sys.stderr)
    policy = _player(model, temperature, seed)
    store = _store(out / "trajectories.jsonl", policy, temperature, max_steps, seed) if out is not None else None
    stage = f"evaluate:{policy.name}"
    with Display() as display:
        display(Event(stage=stage, state="started"))
        result, summary = evaluate(
            policy,
            tasks,
            role=Actor.EXPERT if model is None else Actor.STUDENT,
            seed=seed,
            store=store,
            on_progress=lambda done, total: display(
                Event(stage=stage, state="progress", done=done, total=total, text="episodes")
            ),
        )
        record = StageRecord(
            state="done",
            inputs="",
            seconds=summary.seconds,
            finished_at=now(),
            summary={"tasks": result.num_tasks, "solved": result.overall.num_solved},
        )
        display(Event(stage=stage, state="done", record=record))
    if out is not None:
        write_json(out / "result.json", result.to_json())
    if as_json:
        print(json.dumps(result.to_json()))
        return
    arm = Arm(name=policy.name, rows=result.rows, trajectories=None, expert_steps=None, trained_tokens=None)
    print(plain_table([arm]))
    if out is not None:
        print(f"\n-> {out / 'trajectories.jsonl'}")


def _store(path: Path, policy: Policy, temperature: float, max_steps: int, seed: int) -> RecordStore:
    """The file of trajectories; one that another player or other settings wrote is refused."""
    settings = {"player": policy.version, "temperature": temperature, "max_steps": max_steps, "seed": seed}
    store: RecordStore = RecordStore(path, "trajectory", header={"settings": settings})
    if (found := store.header.get("settings")) != settings:
        raise StoreError(f"{path}: was played with {found}, now it is {settings}. Choose another folder with --out.")
    return store


def _player(model: str | None, temperature: float, seed: int) -> Policy:
    if model is None:
        from tutelage.policies.experts.household import HouseholdExpert

        return HouseholdExpert()
    from tutelage.policies.student_file import taught_policy
    from tutelage.students import student_path

    folder = student_path(model)
    return taught_policy(folder, None, temperature=temperature, seed=seed, name=folder.name)
