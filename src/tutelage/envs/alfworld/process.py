"""The original engine in a process of its own, at the end of two pipes.

In: the text of a game's problem, its task sentence, commands. Out: its texts. The engine keeps its state in a loaded C
library and is not safe in threads, hence one process per live game; it dies with `close`, and also when this
process does. Everything that it writes goes into a folder of its own, so that two engines started at once share no file.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from tutelage.errors import ConfigError, EnvError, MissingExtra

PROGRAM: Final = Path(__file__).with_name("program.py")

RULES_HASH: Final = "b31aba11946fc2ab1de1808344889afe9a702a97e0959326bbf139361a1c5a27"
"""`program.rules_hash` of alfworld 0.4.2, whose texts the household engine is checked against."""

COMPLAINTS: Final = "stderr"
"""Name of the file that the process writes its complaints to."""
WAIT_SECONDS: Final = 10.0
"""How long the end of a killed process is waited for."""


class OriginalEngine:
    """One process of the original engine. It plays one game at a time; `load` starts the process where none runs.

    Read `feedback`, `admissible` (sorted, without repeats) and `won` after `load`, `reset` and `step`.

    python: a Python interpreter that has alfworld and textworld; None takes the running one.
    `close` may come from another thread while a request is under way, which then ends as an EnvError.
    """

    def __init__(self, python: str | Path | None = None) -> None:
        self.python = sys.executable if python is None else str(python)
        self.feedback = ""
        self.admissible: tuple[str, ...] = ()
        self.won = False
        self.rules_hash = ""
        """Of the installed alfworld, see `RULES_HASH`; empty before the first game."""
        self.task_id = ""
        self.num_steps = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self._lock = threading.Lock()

    @property
    def pid(self) -> int | None:
        """Of the process; None while none runs."""
        return None if self._process is None else self._process.pid

    def load(self, problem: str, task: str, task_id: str = "") -> str:
        """Start a game; returns its intro. task_id: for error messages.

        Raises MissingExtra where the packages are not installed (ConfigError where another Python was named), EnvError
        where the engine refuses or dies.
        """
        self.task_id, self.num_steps = task_id, 0
        with self._lock:  # `close` finds either no process or one that it can kill, never one being made.
            if self._process is None:
                self._start()
        answer = self._ask({"load": {"problem": problem, "task": task}})
        self.rules_hash = str(answer["rules"])
        return self._take(answer)

    def reset(self) -> str:
        """Start the same game again; returns its intro."""
        self.num_steps = 0
        return self._take(self._ask({"reset": True}))

    def step(self, command: str) -> str:
        """Do one command and return the game's answer."""
        answer = self._ask({"step": command})
        self.num_steps += 1
        return self._take(answer)

    def _take(self, answer: dict[str, Any]) -> str:
        self.feedback, self.won = str(answer["feedback"]), bool(answer["won"])
        self.admissible = tuple(answer["admissible"])
        return self.feedback

    def close(self) -> None:
        """Kill the process and remove its files; again is harmless."""
        with self._lock:
            process, scratch = self._process, self._scratch
            self._process = self._scratch = None
        if process is not None:
            # The engine has nothing to save, and asking it would wait for the request under way.
            process.kill()
            process.wait(WAIT_SECONDS)
            for pipe in (process.stdin, process.stdout):
                assert pipe is not None
                with suppress(OSError):  # A request that was never read is still to be flushed.
                    pipe.close()
        if scratch is not None:
            scratch.cleanup()

    def _start(self) -> None:
        scratch = tempfile.TemporaryDirectory(prefix="tutelage-alfworld-")
        # The engine loads a copy of its library from the temporary folder, and alfworld makes its data folder when it
        # is imported. Both are put out of the way of other processes, which makes a lock around them needless.
        own = {"TMPDIR": scratch.name, "ALFWORLD_DATA": scratch.name, "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
        try:
            with Path(scratch.name, COMPLAINTS).open("wb") as complaints:
                process = subprocess.Popen(
                    [self.python, "-W", "ignore", str(PROGRAM), scratch.name],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=complaints,
                    env={**os.environ, **own},
                    start_new_session=True,  # Ctrl-C is for us; we end the engine.
                )
        except OSError as error:
            scratch.cleanup()
            raise ConfigError(
                f"alfworld: cannot start {self.python} ({error.strerror}). Give a Python that has the packages "
                "alfworld and textworld, or none for the running one."
            ) from None
        self._process, self._scratch = process, scratch

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        process = self._process
        if process is None:
            raise EnvError("the original engine is closed", task_id=self.task_id, step=self.num_steps)
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except (OSError, ValueError):  # A broken pipe; ValueError where `close` has closed it.
            line = b""
        if not line.endswith(b"\n"):
            raise EnvError(self._last_words(process), task_id=self.task_id, step=self.num_steps)
        answer: dict[str, Any] = json.loads(line)
        if "feedback" in answer:
            return answer
        self.close()
        if "missing" not in answer:
            raise EnvError(f"the original engine: {answer['error']}", task_id=self.task_id, step=self.num_steps)
        if self.python == sys.executable:
            raise MissingExtra("environment 'alfworld'", "alfworld")
        raise ConfigError(
            f"alfworld: {self.python} cannot play the original ({answer['missing']}). "
            "Install alfworld==0.4.2 and textworld there, or give another Python."
        )

    def _last_words(self, process: subprocess.Popen[bytes]) -> str:
        """Why there was no answer; the process is gone afterwards."""
        scratch = self._scratch
        try:
            code = f"with exit code {process.wait(WAIT_SECONDS)}"
        except subprocess.TimeoutExpired:
            code = "without an answer"
        complaint = ""
        if scratch is not None:
            with suppress(OSError):
                lines = Path(scratch.name, COMPLAINTS).read_text(encoding="utf-8", errors="replace").splitlines()
                complaint = f": {lines[-1]}" if lines else ""
        self.close()
        return f"the process of the original engine ended {code}{complaint}"
