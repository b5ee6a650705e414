"""Equality of mathematical answers, by math-verify in a process of its own.

An answer can be an expression that takes for ever to simplify, and math-verify guards against that with a signal, which
works in the main thread only. So one process is kept for it, and ended if it does not reply.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import subprocess
import sys
import threading
from functools import lru_cache
from importlib.util import find_spec
from typing import Final

from tutelage.errors import EnvError, MissingExtra

SECONDS: Final = 20.0
"""For one comparison; the process gives up by itself earlier."""

START_SECONDS: Final = 120.0

LONGEST_ANSWER: Final = 2_000
"""Characters of an answer that is compared; a longer one is no answer."""


def math_equal(key: str, answer: str) -> bool | None:
    """Whether an answer equals the key. None: nothing can be read out of it.

    An answer that cannot be compared in time is not equal. Raises MissingExtra without math-verify.

    Example: ``math_equal("\\\\frac{1}{2}", "0.5")`` is True.
    """
    if len(answer) > LONGEST_ANSWER:
        return None
    return _comparer().compare(key, answer)


@lru_cache(maxsize=1)
def _comparer() -> _Comparer:
    if find_spec("math_verify") is None:
        raise MissingExtra("comparing answers that are no whole numbers", "math")
    comparer = _Comparer()
    atexit.register(comparer.close)
    return comparer


class _Comparer:
    """Our side of the process; see `math_process`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def compare(self, key: str, answer: str) -> bool | None:
        with self._lock:
            process = self._process or self._start()
            assert process.stdin is not None
            process.stdin.write(json.dumps([key, answer]).encode() + b"\n")
            process.stdin.flush()
            reply = self._read(process, SECONDS)
            if not reply:
                self.close()
                return False
            found: bool | None = json.loads(reply)
            return found

    def close(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    stream.close()

    def _start(self) -> subprocess.Popen[bytes]:
        module = "tutelage.envs.python.math_process"
        self._process = process = subprocess.Popen(
            [sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        if self._read(process, START_SECONDS) != b"ready\n":
            self.close()
            raise EnvError(f"the process that compares answers did not start. Try: python -m {module}")
        return process

    @staticmethod
    def _read(process: subprocess.Popen[bytes], seconds: float) -> bytes:
        """A line; empty if none comes in time, or the process has ended."""
        assert process.stdout is not None
        line = b""
        while not line.endswith(b"\n"):
            if not select.select([process.stdout], [], [], seconds)[0]:
                return b""
            data = os.read(process.stdout.fileno(), 4096)
            if not data:
                return b""
            line += data
        return line
