"""The examples run as a reader would run them."""

import re
import runpy
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_minimal_loop_runs_from_start_to_end(monkeypatch, capsys):
    example = runpy.run_path(str(EXAMPLES / "minimal_loop.py"))
    # A student this green only fails, slowly; ten steps show as much as forty.
    monkeypatch.setitem(example["play"].__globals__, "MAX_STEPS", 10)
    monkeypatch.setattr(sys, "argv", ["minimal_loop.py", "--games", "4", "--updates", "2", "--panel", "1"])
    example["main"]()
    printed = capsys.readouterr().out
    assert re.search(r"expert     4 episodes, [1-4] won", printed)
    assert re.search(r"corrected  4 drawn, [0-4] kept", printed)
    assert len(re.findall(r"success [01]\.00 on 1 unseen games", printed)) == 2
    losses = [float(loss) for loss in re.findall(r"loss (\d+\.\d+)", printed)]
    assert len(losses) == 4
    assert losses[1] < losses[0]


def test_minimal_loop_stays_a_page():
    assert len((EXAMPLES / "minimal_loop.py").read_text().splitlines()) < 200
