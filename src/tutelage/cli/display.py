"""What a user sees while stages run: live bars on a terminal, one line per event elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any

from tutelage.pipeline.run import Event
from tutelage.run_dir import StageRecord

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

SECONDS_BETWEEN_LINES = 15.0
"""Without a terminal, how often a long stage says how far it is."""


class Display:
    """A listener of a run. Use as a context manager."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.quiet = quiet
        self._progress: Progress | None = None
        self._bars: dict[str, TaskID] = {}
        self._said: dict[str, float] = {}

    def __enter__(self) -> Display:
        if not self.quiet and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import (
                BarColumn,
                MofNCompleteColumn,
                Progress,
                TextColumn,
                TimeElapsedColumn,
                TimeRemainingColumn,
            )

            self._progress = Progress(
                TextColumn("{task.description:<28}"),
                BarColumn(bar_width=30),
                MofNCompleteColumn(),
                TextColumn("{task.fields[text]}"),
                TimeElapsedColumn(),
                TimeRemainingColumn(),
                console=Console(stderr=True),
            )
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    def __call__(self, event: Event) -> None:
        if self.quiet:
            return
        match event.state:
            case "note":
                self._print(f"note: {event.text}")
            case "skipped":
                self._print(f"{event.stage:<28} done before")
            case "started":
                self._begin(event.stage)
            case "progress":
                self._advance(event)
            case "done":
                assert event.record is not None
                self._end(event.stage)
                self._print(f"{event.stage:<28} {describe(event.stage, event.record)}")

    def _print(self, line: str) -> None:
        if self._progress is not None:
            self._progress.console.print(line, markup=False, highlight=False, soft_wrap=True)
        else:
            print(line, file=sys.stderr, flush=True)

    def _begin(self, stage: str) -> None:
        if self._progress is not None:
            self._bars[stage] = self._progress.add_task(stage, total=None, text="")
        else:
            self._said[stage] = time.monotonic()

    def _advance(self, event: Event) -> None:
        if self._progress is not None:
            self._progress.update(self._bars[event.stage], completed=event.done, total=event.total, text=event.text)
        elif time.monotonic() - self._said[event.stage] >= SECONDS_BETWEEN_LINES:
            self._said[event.stage] = time.monotonic()
            self._print(f"{event.stage:<28} {event.done} of {event.total or '?'} {event.text}")

    def _end(self, stage: str) -> None:
        if self._progress is not None:
            self._progress.remove_task(self._bars.pop(stage))


def describe(stage: str, record: StageRecord) -> str:
    """What a finished stage did, in one line."""
    summary = record.summary
    kind = stage.partition(":")[0]
    seconds = f"{record.seconds:.1f} s"
    if kind == "rollout":
        reasons = "  ".join(f"{count} {reason}" for reason, count in summary["stop_reasons"].items())
        switched = f"expert acted in {summary['switched']}" if summary["switched"] else "expert never acted"
        mean = (
            f" (mean switch {summary['mean_switch']:.1f})" if summary["student_steps"] and summary["switched"] else ""
        )
        text = f"{summary['trajectories']} episodes  {reasons}  {switched}{mean}"
    elif kind == "select":
        drops = "  ".join(f"{count} {reason}" for reason, count in summary["dropped"].items())
        text = f"{summary['drawn']} in  {summary['kept']} kept  dropped: {drops or 'none'}"
    elif kind == "build":
        tokens = sum(summary["trained_tokens"].values())
        text = f"{summary['num_samples']} samples  {tokens} of {summary['total_tokens']} tokens trained"
    elif kind == "train":
        text = _training(summary)
    elif kind == "evaluate":
        text = f"{summary['solved']} of {summary['tasks']} solved"
    elif kind == "audit":
        best = f"best signal {summary['best']} ({summary['rho']:.2f})" if summary["best"] else "nothing to compare"
        text = f"{summary['kept']} of {summary['trajectories']} episodes count  {best}"
    else:
        text = "written"
    return f"{text}  {seconds}"


def _training(summary: dict[str, Any]) -> str:
    start = f"{summary['updates']} updates  {summary['trained_tokens']} trained tokens"
    if "final_loss" in summary:
        return f"{start}  last loss {summary['final_loss']:.3f}"
    lines = [f"{start}  {summary['num_episodes']} episodes  {summary['env_steps']} steps"]
    if summary["teacher_tokens"]:
        lines.append(f"{summary['teacher_tokens']} tokens read by the teacher")
    if "proof" in summary:
        lines.append(summary["proof"])
    return "  ".join(lines)


class Bar:
    """One bar for one piece of work that is no stage."""

    def __init__(self, name: str, total: int) -> None:
        self._display = Display()
        self._name = name
        self._total = total

    def __enter__(self) -> Bar:
        self._display.__enter__()
        self._display(Event(stage=self._name, state="started"))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._display.__exit__(kind, error, traceback)

    def __call__(self, done: int, text: str = "") -> None:
        self._display(Event(stage=self._name, state="progress", done=done, total=self._total, text=text))
