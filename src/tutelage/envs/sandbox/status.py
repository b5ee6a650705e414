"""What the program that makes a sandbox tells about the first process in it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess

from tutelage.envs.sandbox.supervise import kill_tree


class Status:
    """Reads JSON objects, one a line, from a descriptor: ``{"child-pid": 12}``, and later ``{"exit-code": 0}``."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self.fd = fd
        self._text = b""

    @property
    def ended(self) -> bool:
        """The command was started, and has ended by itself."""
        return "exit-code" in self._read()

    @property
    def first_process(self) -> int | None:
        """Host's number of the first process inside. None: not there yet, or there is no inside."""
        return self._read().get("child-pid")

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """Kill the first process inside, and with it all others. The direct child ends when the last one is gone."""
        pid = self.first_process
        if pid is None:
            # What is about to become the first process may still wait for a word of the direct child.
            kill_tree(process)
        # Once the direct child has ended, the number may be another process's.
        elif os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _read(self) -> dict[str, int]:
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self.fd, 4096):
                self._text += data
        found: dict[str, int] = {}
        for line in self._text.splitlines():
            found |= json.loads(line)
        return found
