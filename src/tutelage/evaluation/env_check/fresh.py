"""The part of a check that must not happen in this process: acting again where nothing is left over, and counting leftovers.

The fresh process has another hash seed, its own folder for temporary files, and a mark in its process environment by
which whatever it starts can be found again. Request and answer are files that only the two of them see.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tutelage.envs.registry import make_env
from tutelage.evaluation.env_check.leftovers import Leftovers, count_leftovers, end_processes, processes_with_mark
from tutelage.evaluation.env_check.play import Recording, Seen, replay
from tutelage.policies.registry import USUAL, make_expert
from tutelage.tasks.base import manifest_line
from tutelage.tasks.registry import make_task_set
from tutelage.types import Split

MARK: Final = "TUTELAGE_ENV_CHECK"
"""Environment variable that marks the fresh process and all that come of it."""
END_SECONDS: Final = 20.0
"""How long the fresh process may take to end once it has answered."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """What the fresh process is to do."""

    env: str
    options: Mapping[str, Any]
    num_tasks: int
    splits: tuple[Split, ...]
    """Those whose manifest is wanted."""
    replayed: tuple[Recording, ...]
    """Episodes to act again, and to count leftovers with."""
    asked: tuple[Recording, ...]
    """Episodes at whose steps the expert is asked again."""
    num_episodes: int


@dataclass(kw_only=True)
class Answer:
    """What it found. A part that failed is a text: the error."""

    replayed: list[list[Seen]] | str = "not reached"
    """Per episode, what the reset and each step showed."""
    asked: list[list[str]] | str = "not reached"
    """Per episode, the text of the expert's action at each step."""
    manifest: list[str] | str = "not reached"
    """Its lines."""
    leftovers: Leftovers | str = "not reached"
    ended: str = ""
    """How the process itself ended, if not in order."""
    orphans: list[str] = field(default_factory=list)
    """Processes that outlived it; they have been ended."""


def ask_fresh_process(request: Request) -> Answer:
    """Start it, wait for its answer, and make sure that nothing of it stays."""
    with tempfile.TemporaryDirectory(prefix="tutelage-env-check-") as folder:
        root = Path(folder)
        (root / "tmp").mkdir()
        (root / "request").write_bytes(pickle.dumps(request))
        mark = uuid.uuid4().hex
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path),
            "PYTHONHASHSEED": "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1",
            "TMPDIR": str(root / "tmp"),
            MARK: mark,
        }
        with (root / "log").open("wb") as log:
            process = subprocess.Popen(
                # Not -m: records are pickled under this module's own name.
                [sys.executable, "-c", f"from {__name__} import main; main({folder!r})"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )
        try:
            ended = _wait(process, root / "answer")
        finally:
            if process.poll() is None:  # It hangs, or Ctrl-C ended the waiting.
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            orphans = end_processes(processes_with_mark(MARK, mark))
        answer = pickle.loads((root / "answer").read_bytes()) if (root / "answer").exists() else Answer()
        assert isinstance(answer, Answer)
        answer.orphans = orphans
        if ended:
            words = (root / "log").read_text(encoding="utf-8", errors="replace").strip().splitlines()
            answer.ended = f"{ended}{': ' + words[-1] if words else ''}"
        return answer


def _wait(process: subprocess.Popen[bytes], answer: Path) -> str:
    """Until it ends, or for a while after its last answer. How it ended, if not in order."""
    while process.poll() is None and not _is_whole(answer):
        time.sleep(0.02)
    try:
        code = process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        return f"it did not end within {END_SECONDS:g} s"
    return f"it ended with exit code {code}" if code else ""


def _is_whole(answer: Path) -> bool:
    return answer.with_suffix(".done").exists()


def main(folder: str) -> None:
    """The fresh process's side."""
    root = Path(folder)
    request: Request = pickle.loads((root / "request").read_bytes())
    answer = Answer()

    def do(part: str, work: Callable[[], Any]) -> None:
        try:
            found = work()
        except Exception as error:
            found = "".join(traceback.format_exception_only(error)).strip()
        setattr(answer, part, found)
        # After each part, so that one that takes the process down leaves the others.
        (root / "answer.new").write_bytes(pickle.dumps(answer))
        (root / "answer.new").rename(root / "answer")

    do("manifest", lambda: _manifest(request))
    do("asked", lambda: [_ask_expert(request.env, one) for one in request.asked])
    # In the reverse order: what an episode leaves behind in the process must not matter to the next.
    do("replayed", lambda: [_act_again(one) for one in reversed(request.replayed)][::-1])
    if request.replayed:
        do("leftovers", lambda: count_leftovers(request.replayed, request.num_episodes))
    (root / "answer.done").touch()


def _manifest(request: Request) -> list[str]:
    task_set = make_task_set(request.env, **request.options)
    return [
        manifest_line(task)
        for split in request.splits
        for task in task_set.load(split, start=0, count=request.num_tasks)
    ]


def _ask_expert(env: str, recording: Recording) -> list[str]:
    expert = make_expert(USUAL, env=env)
    return [expert.act(so_far).text for so_far in recording.asks()]


def _act_again(recording: Recording) -> list[Seen]:
    env = make_env(recording.task)
    try:
        return list(replay(env, recording))
    finally:
        env.close()
