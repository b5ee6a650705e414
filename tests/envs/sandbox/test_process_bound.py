"""The kernel keeps a bound on processes, whoever asks for more."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tutelage.envs.sandbox.process_bound import ProcessBound

FORKS = """
import os, time
made = 0
try:
    for _ in range(60):
        if os.fork() == 0:
            time.sleep(1)
            os._exit(0)
        made += 1
except BlockingIOError:
    pass
print(made)
"""


@pytest.fixture
def bound():
    made = ProcessBound(20)
    if not made.holds:
        pytest.skip("this process may make no control group with the controller pids")
    yield made
    made.remove()


def test_more_processes_than_the_bound_cannot_be_made(bound: ProcessBound) -> None:
    done = subprocess.run(bound.wrap([sys.executable, "-c", FORKS]), capture_output=True, text=True, check=True)
    assert 10 <= int(done.stdout) <= 19


def test_the_command_is_the_same_process_and_the_group_goes_away(bound: ProcessBound) -> None:
    process = subprocess.Popen(
        bound.wrap([sys.executable, "-c", "import os; print(os.getpid())"]), stdout=subprocess.PIPE
    )
    assert process.communicate()[0] == b"%d\n" % process.pid
    folder = bound._folder
    assert folder is not None
    bound.remove()
    assert not folder.exists()
    bound.remove()
    assert bound.wrap(["true"]) == ("true",)


def test_groups_of_a_process_that_was_killed_are_taken_away_by_the_next(bound: ProcessBound) -> None:
    assert bound._folder is not None
    left = bound._folder.with_name(
        "tutelage-4194305-0"
    )  # no process has this number: it is above the largest possible one
    left.mkdir()
    subprocess.run(
        [
            sys.executable,
            "-c",
            "from tutelage.envs.sandbox.process_bound import ProcessBound; ProcessBound(9).remove()",
        ],
        check=True,
    )
    assert not left.exists()
