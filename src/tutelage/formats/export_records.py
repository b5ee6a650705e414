"""The two exports that are not training data of a chat trainer: our own records, and tasks for verl."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from tutelage.errors import ConfigError, ExportError
from tutelage.formats.base import FormatLedger
from tutelage.formats.export import check_free, put_in_place
from tutelage.formats.row_files import RowWriter, iter_rows, kind_of
from tutelage.formats.write_verl import reread_verl, verl_row, verl_schema
from tutelage.store import RecordStore, read_records
from tutelage.types import StepSupervision, Task, Trajectory


def export_native(
    trajectories: Iterable[Trajectory],
    out: str | Path,
    *,
    supervise: Callable[[Trajectory], StepSupervision],
    force: bool = False,
) -> FormatLedger:
    """Our own records: the trajectories in `out`, what is learnt of each beside it in ``NAME.supervision.jsonl``.

    Nothing is lost: tokens, labels, authors and weights of any size. Read back and compared record by record.
    """
    out = Path(out)
    beside = out.with_name(f"{out.stem}.supervision.jsonl")
    kind_of(out, ("jsonl",))
    check_free(out, force=force)
    check_free(beside, force=force)
    taken = list(trajectories)
    ledger = FormatLedger(format="native")
    if not taken:
        raise ExportError(f"{out}: no trajectory came in, so there is nothing to write.")
    supervisions = [supervise(one) for one in taken]
    _store(taken, "trajectory", out)
    _store(supervisions, "step_supervision", beside)
    for trajectory, supervision in zip(taken, supervisions, strict=True):
        ledger.converted(steps=len(trajectory.steps), trained_steps=sum(supervision.step_mask))
    ledger.notes.append(f"what is learnt of each step: {beside}")
    ledger.write_beside(out)
    return ledger


def export_verl(tasks: Iterable[Task], out: str | Path, *, force: bool = False) -> FormatLedger:
    """verl's rows for reinforcement learning, one per task; each is read back and its task rebuilt and compared."""
    out = Path(out)
    kind = kind_of(out, ("parquet", "jsonl"))
    check_free(out, force=force)
    taken = list(tasks)
    if not taken:
        raise ConfigError(f"{out}: no task came in, so there is nothing to write.")

    def write(path: Path) -> None:
        with RowWriter(path, kind, verl_schema() if kind == "parquet" else None) as rows:
            for index, task in enumerate(taken):
                rows.add(verl_row(task, index))

    def prove(path: Path) -> None:
        for number, (row, task) in enumerate(zip(iter_rows(path, kind), taken, strict=True), start=1):
            if reread_verl(row) != task:
                raise ExportError(f"{out}, row {number}: rebuilds another task than {task.task_id}.")

    put_in_place(out, write, prove)
    ledger = FormatLedger(format="verl")
    for _ in taken:
        ledger.converted(rows=1)
    ledger.notes.append(
        "rows are tasks: nothing in them is trained until verl has played them with the agent loop 'tutelage'"
    )
    ledger.write_beside(out)
    return ledger


def _store(records: Sequence[Trajectory | StepSupervision], kind: str, out: Path) -> None:
    def write(path: Path) -> None:
        store: RecordStore = RecordStore(path, kind)
        for record in records:
            if not store.append(record):
                raise ConfigError(f"{out}: {record.trajectory_id} is there twice; give each round its own seed.")

    def prove(path: Path) -> None:
        for number, (found, meant) in enumerate(zip(read_records(path, kind), records, strict=True), start=1):
            if found != meant:
                raise ExportError(f"{out}, record {number} ({meant.trajectory_id}): reads back as another record.")

    put_in_place(out, write, prove)
