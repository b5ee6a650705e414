"""What episodes leave behind in a process: threads, child processes, open descriptors, temporary files. Linux only.

Counts after the first episodes are compared with counts after all of them: what is made once (a cache, a shared engine)
is no leftover, what grows with the episodes is.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tutelage.errors import PolicyError
from tutelage.evaluation.env_check.play import MALFORMED, Recording, with_max_steps
from tutelage.policies.base import PartialTrajectory, SingleActPolicy
from tutelage.rollout.episode import Limits
from tutelage.rollout.runner import Job, run_rollouts
from tutelage.rollout.switch import ExpertOnly
from tutelage.types import Action, Actor

PROC: Final = Path("/proc")

FIRST_EPISODES: Final = 9
"""Episodes before the first count; they may make what is made once."""
SHORT: Final = 6
"""Most steps of an episode here."""
PATIENCE_SECONDS: Final = 1.5
"""How long what is on its way out may take."""


@dataclass(frozen=True, kw_only=True)
class Leftovers:
    """What was there after all episodes and not after the first ones."""

    num_episodes: int
    endings: dict[str, int]
    """Stop reason -> number of episodes."""
    grown: dict[str, list[str]]
    """Kind -> what came to stay, as far as it has names. Kinds without any are left out."""


class ActsAgain(SingleActPolicy):
    """Acts the first recording of each task again. fail_at: the step at which it fails instead; None: never."""

    def __init__(self, recordings: Sequence[Recording], *, fail_at: int | None = None) -> None:
        self.name = "acts_again"
        self.version = "acts_again-1"
        self._fail_at = fail_at
        self._actions: dict[str, tuple[Action, ...]] = {}
        for one in recordings:
            self._actions.setdefault(one.task.task_id, one.actions)

    def act(self, so_far: PartialTrajectory) -> Action:
        index = len(so_far.steps)
        if index == self._fail_at:
            raise PolicyError("fails here on purpose", role=self.name)
        actions = self._actions[so_far.task.task_id]
        return actions[index] if index < len(actions) else MALFORMED


def count_leftovers(recordings: Sequence[Recording], num_episodes: int) -> Leftovers:
    """Play short episodes in this process and count. A third end by themselves or by the runner's limit, a third by the
    environment's own limit, a third by a failing policy; the runner closes all of them."""
    endings: Counter[str] = Counter()
    first = min(FIRST_EPISODES, num_episodes)
    endings += _play(recordings, range(first))
    before = _after_a_while(None)
    endings += _play(recordings, range(first, num_episodes))
    after = _after_a_while(before)
    return Leftovers(num_episodes=num_episodes, endings=dict(endings), grown=_grown(before, after))


def _play(recordings: Sequence[Recording], numbers: range) -> Counter[str]:
    endings: Counter[str] = Counter()
    for third in range(3):
        # The expert's recording of a task comes before the random one; one third is random play.
        again = list(reversed(recordings)) if third == 1 else recordings
        jobs = []
        for number in numbers[third::3]:
            task = recordings[number // 3 % len(recordings)].task
            jobs.append(Job(with_max_steps(task, 2) if third == 1 else task, sample_index=number))
        summary = run_rollouts(
            jobs,
            policies={Actor.EXPERT: ActsAgain(again, fail_at=1 if third == 2 else None)},
            rule=ExpertOnly(),
            limits=Limits(max_steps=SHORT, parse_retries=0),
            concurrency=4,
            retries=0,
        )
        endings += Counter({reason.value: number for reason, number in summary.stop_reasons.items()})
    return endings


# Counting

There = dict[str, Counter[str]]
"""Kind -> what is there, by a name that says what it is -> how often."""


def _after_a_while(before: There | None) -> There:
    """What is there now; if it is more than before, what is left of it when patience ends."""
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        gc.collect()
        now = _there()
        if before is None or not _grown(before, now) or time.monotonic() >= until:
            return now
        time.sleep(0.05)


def _there() -> There:
    return {
        "threads": Counter(thread.name for thread in threading.enumerate()) + _nameless_threads(),
        "processes": Counter(_command(pid) for pid in _descendants()),
        "descriptors": Counter(_descriptors()),
        "temporary files": Counter(
            name for _, folders, files in os.walk(tempfile.gettempdir()) for name in (*folders, *files)
        ),
    }


def _grown(before: There, after: There) -> dict[str, list[str]]:
    grown = {}
    for kind, now in after.items():
        # By number: a descriptor that was closed while another was opened is no growth.
        more = now.total() - before[kind].total()
        if more > 0:
            new = sorted((now - before[kind]).elements())
            grown[kind] = new[-more:]
    return grown


def _nameless_threads() -> Counter[str]:
    """Threads that Python does not know of, as compiled code starts them."""
    known = {thread.native_id for thread in threading.enumerate()}
    return Counter("native thread" for name in os.listdir(PROC / "self" / "task") if int(name) not in known)


def _descriptors() -> Iterator[str]:
    for name in os.listdir(PROC / "self" / "fd"):
        with contextlib.suppress(OSError):  # The one that lists the folder is closed by now.
            target = os.readlink(PROC / "self" / "fd" / name)
            yield target.partition(":")[0] if target.startswith(("pipe:", "socket:")) else target


def _descendants() -> list[int]:
    parents = {pid: parent for pid in _pids() if (parent := _parent(pid)) is not None}
    found = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return sorted(found - {os.getpid()})


def processes_with_mark(variable: str, value: str) -> list[int]:
    """Processes that were started with this environment variable, whoever their parent is now."""
    mark = f"{variable}={value}".encode()
    found = []
    for pid in _pids():
        with contextlib.suppress(OSError):  # Ended meanwhile, or not ours to look into.
            if mark in (PROC / str(pid) / "environ").read_bytes().split(b"\0"):
                found.append(pid)
    return [pid for pid in found if pid != os.getpid()]


def end_processes(pids: Sequence[int]) -> list[str]:
    """End processes and say what they were."""
    ended = [f"{_command(pid)} (pid {pid})" for pid in pids]
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    return ended


def _pids() -> list[int]:
    return [int(name) for name in os.listdir(PROC) if name.isdigit()] if PROC.is_dir() else []


def _parent(pid: int) -> int | None:
    try:
        # The name in brackets may hold anything, so the fields are counted from its end.
        return int((PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()[1])
    except (OSError, IndexError):
        return None


def _command(pid: int) -> str:
    try:
        words = (PROC / str(pid) / "cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return "process"
    return " ".join(words).strip()[:80] or "process"
