"""The examples run as a reader would run them."""

import re
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_minimal_loop_runs_from_start_to_end():
    command = [
        sys.executable,
        "-W",
        "error",
        EXAMPLES / "minimal_loop.py",
        "--games",
        "4",
        "--updates",
        "2",
        "--panel",
        "1",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "expert     4 episodes, 4 won" in done.stdout
    assert re.search(r"corrected  4 drawn, [0-4] kept", done.stdout)
    assert len(re.findall(r"success [01]\.00 on 1 unseen games", done.stdout)) == 2
    losses = [float(loss) for loss in re.findall(r"loss (\d+\.\d+)", done.stdout)]
    assert len(losses) == 4
    assert losses[1] < losses[0]


def test_minimal_loop_stays_a_page():
    assert len((EXAMPLES / "minimal_loop.py").read_text().splitlines()) < 200
