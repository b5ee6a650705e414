"""`import tutelage` and `tutelage --help` take under 0.7 s."""

from __future__ import annotations

import resource
import subprocess
import sys

LIMIT_SECONDS = 0.7


def cpu_seconds(*arguments: str) -> float:
    """Processor time of the fastest of three runs: the wall clock of a busy machine says nothing about us."""
    times = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    return min(times)


def test_import_is_quick() -> None:
    assert cpu_seconds("-c", "import tutelage") < LIMIT_SECONDS


def test_help_is_quick() -> None:
    assert cpu_seconds("-m", "tutelage", "--help") < LIMIT_SECONDS
