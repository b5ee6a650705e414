"""What a user sees while stages run: lines in a pipe, bars on a terminal, nothing when quiet."""

from __future__ import annotations

import io
from typing import Any

import pytest

from tutelage.cli import display
from tutelage.cli.display import Bar, Display, describe
from tutelage.pipeline.run import Event
from tutelage.run_dir import StageRecord

ROLLOUT: dict[str, Any] = {
    "trajectories": 500,
    "stop_reasons": {"completed": 487, "max_steps": 11, "timeout": 2},
    "switched": 391,
    "mean_switch": 9.42,
    "student_steps": 4000,
    "expert_steps": 3000,
}


def record(**summary: Any) -> StageRecord:
    return StageRecord(state="done", inputs="", summary=summary, seconds=1.26)


EVENTS = [
    Event(stage="", state="note", text="the last run here was cut off"),
    Event(stage="rollout:first", state="skipped", record=record()),
    Event(stage="rollout:corrections", state="started"),
    Event(stage="rollout:corrections", state="progress", done=120, total=500, text="episodes"),
    Event(stage="rollout:corrections", state="done", record=record(**ROLLOUT)),
]


@pytest.mark.parametrize(
    ("stage", "summary", "line"),
    [
        (
            "rollout:corrections",
            ROLLOUT,
            "500 episodes  487 completed  11 max_steps  2 timeout  expert acted in 391 (mean switch 9.4)  1.3 s",
        ),
        ("rollout:first", ROLLOUT | {"student_steps": 0}, "expert acted in 391  1.3 s"),
        ("rollout:alone", ROLLOUT | {"switched": 0, "mean_switch": None}, "expert never acted  1.3 s"),
        (
            "select:corrections",
            {"drawn": 500, "kept": 430, "dropped": {"not_successful": 60, "no_expert_steps": 10}},
            "500 in  430 kept  dropped: 60 not_successful  10 no_expert_steps  1.3 s",
        ),
        ("select:first", {"drawn": 5, "kept": 5, "dropped": {}}, "5 in  5 kept  dropped: none  1.3 s"),
        (
            "build:corrected",
            {"num_samples": 12, "trained_tokens": {"e": 500, "s": 9}, "total_tokens": 2070},
            "12 samples  509 of 2070 tokens trained  1.3 s",
        ),
        (
            "train:corrected",
            {"updates": 4, "trained_tokens": 627, "final_loss": 0.5},
            "4 updates  627 trained tokens  last loss 0.500  1.3 s",
        ),
        ("evaluate:corrected", {"solved": 3, "tasks": 6}, "3 of 6 solved  1.3 s"),
        ("report", {}, "written  1.3 s"),
    ],
)
def test_a_finished_stage_in_one_line(stage: str, summary: dict[str, Any], line: str) -> None:
    assert describe(stage, record(**summary)).endswith(line)


def test_lines_in_a_pipe(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(display, "SECONDS_BETWEEN_LINES", 0.0)
    with Display() as shown:
        for event in EVENTS:
            shown(event)
    note, skipped, progress, done = capsys.readouterr().err.splitlines()
    assert note == "note: the last run here was cut off"
    assert skipped.split() == ["rollout:first", "done", "before"]
    assert progress.split() == ["rollout:corrections", "120", "of", "500", "episodes"]
    assert done.startswith("rollout:corrections          500 episodes")


def test_bars_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stderr", terminal)
    with Display() as shown:
        for event in EVENTS[:-1]:
            shown(event)
    assert "120/500" in terminal.getvalue()
    assert "note: the last run here was cut off" in terminal.getvalue()


def test_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    with Display(quiet=True) as shown:
        for event in EVENTS:
            shown(event)
    assert capsys.readouterr().err == ""


def test_a_bar_alone(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(display, "SECONDS_BETWEEN_LINES", 0.0)
    with Bar("pretrain", 100) as bar:
        bar(40, "loss 0.5")
    assert capsys.readouterr().err.split() == ["pretrain", "40", "of", "100", "loss", "0.5"]
