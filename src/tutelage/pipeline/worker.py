"""Worker processes: one Python with torch loaded, doing one stage after the other.

Parent and worker speak JSON lines: stage ids go in by the worker's standard input, events come back by a pipe of their own.
A plain child process, not multiprocessing: a user's script then needs no ``__main__`` guard. The worker inherits the lock of
the run directory, and ends by itself when its parent is gone.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import traceback
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from tutelage.errors import MENDABLE, MissingExtra, StoreError, TutelageError
from tutelage.run_dir import RunDir

DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
OF_EXTRA_TRAIN = ("torch", "transformers", "tokenizers", "accelerate", "peft", "safetensors")

SINGLE_THREADED = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_OFFLINE": "1",
}


class Worker:
    """The parent's side of one worker process."""

    def __init__(self, run: RunDir, lock_fd: int, events: queue.Queue[tuple[Worker, dict[str, Any]]]) -> None:
        reading, writing = os.pipe()
        with run.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tutelage.pipeline.worker", str(run.root), str(writing)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                pass_fds=(writing, lock_fd),
                # Its own session: Ctrl-C in the terminal reaches the parent alone, which then stops the workers.
                start_new_session=True,
                env={**os.environ, **SINGLE_THREADED},
            )
        os.close(writing)
        self.stage: str | None = None
        """Id of the stage it is at. None: idle."""
        self._interrupted = False
        self._reader = threading.Thread(
            target=self._read, args=(os.fdopen(reading, encoding="utf-8"), events), daemon=True
        )
        self._reader.start()

    def start(self, stage: str) -> None:
        assert self._process.stdin is not None
        self.stage = stage
        with contextlib.suppress(BrokenPipeError):  # A dead worker is reported by its reader.
            self._process.stdin.write((json.dumps(stage) + "\n").encode())
            self._process.stdin.flush()

    def _read(self, pipe: IO[str], events: queue.Queue[tuple[Worker, dict[str, Any]]]) -> None:
        with pipe:
            for line in pipe:
                if line.endswith("\n"):  # A worker that is killed may leave half a line.
                    events.put((self, json.loads(line)))
        events.put((self, {"event": "ended", "code": self._process.wait()}))

    def interrupt(self) -> None:
        """Ask it to stop what it does; it stores what it has."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            self._interrupted = True

    def close(self, seconds: float) -> None:
        """End it: in order if it does so within `seconds`, else by force."""
        try:
            if (
                not self._interrupted
            ):  # A busy worker takes a closed line for the death of its parent, and ends at once.
                self._close_line()
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._close_line()
        self._reader.join(1.0)

    def _close_line(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()


def main(root: str, event_fd: int) -> None:
    """The worker's side: do the stages that come in, until the parent closes the line."""
    from tutelage.pipeline.plan import plan
    from tutelage.pipeline.stage import do_stage

    pipe = os.fdopen(event_fd, "w", encoding="utf-8")
    stages: queue.Queue[str | None] = queue.Queue()
    busy = threading.Event()
    threading.Thread(target=_listen, args=(stages, busy), daemon=True).start()
    run = RunDir(Path(root))

    def send(event: str, **fields: Any) -> None:
        pipe.write(json.dumps({"event": event, **fields}) + "\n")
        pipe.flush()

    def tell(done: int, total: int | None = None, text: str = "") -> None:
        send("progress", done=done, total=total, text=text)

    try:
        work = plan(run.recipe(), run)
        while (wanted := stages.get()) is not None:
            busy.set()
            try:
                send("done", record=asdict(do_stage(work[wanted], run, tell)))
            except Exception as error:
                traceback.print_exc()
                send("failed", **describe_error(error, str(run.root)))
            busy.clear()
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def _listen(stages: queue.Queue[str | None], busy: threading.Event) -> None:
    for line in sys.stdin:
        stages.put(json.loads(line))
    if busy.is_set():
        # The parent is gone in the middle of a stage; every stage can be cut anywhere.
        os._exit(1)
    stages.put(None)


def describe_error(error: BaseException, where: str = "") -> dict[str, Any]:
    """What the parent needs to know of an error."""
    error = explained(error, where) or error
    return {"type": type(error).__name__, "message": str(error), "is_mendable": isinstance(error, MENDABLE)}


def explained(error: BaseException, where: str = "") -> TutelageError | None:
    """A full disk or a missing package as an error that tells what to do; None for any other error.

    where: the folder that is written into, for the message. safetensors and torch report a full disk in exceptions of
    their own, with the system's words inside.
    """
    if isinstance(error, TutelageError):
        return None
    if isinstance(error, ModuleNotFoundError) and (error.name or "").split(".")[0] in OF_EXTRA_TRAIN:
        return MissingExtra("a student", "train")
    if getattr(error, "errno", None) in DISK_FULL or any(f"os error {one})" in str(error) for one in DISK_FULL):
        return StoreError(
            f"{where}{': ' if where else ''}{error}\n"
            "Nothing more could be written there. Make room and run again: what was written before is kept."
        )
    return explained(error.__context__, where) if error.__context__ is not None else None


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
