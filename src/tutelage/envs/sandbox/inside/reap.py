"""Runs one command with limits but no isolation, and ends what it leaves behind.

Called as ``reap <fd>``; the descriptor gives a JSON object: argv, env, cwd, limits (arguments of `isolate.limit`),
parent (process id of the caller), status_fd (told as by `launch`).
"""

import json
import os
import signal
import sys
import time

from . import isolate
from .watch import descendants

KILL_SECONDS = 2.0


def main() -> None:
    with os.fdopen(int(sys.argv[1])) as stream:
        spec = json.load(stream)
    isolate.die_with_parent(spec["parent"])
    isolate.adopt_orphans()
    command = os.fork()
    if command == 0:
        os.close(spec["status_fd"])
        os.setsid()
        try:
            os.chdir(spec["cwd"])
            isolate.limit(*spec["limits"])
            os.execvpe(spec["argv"][0], spec["argv"], spec["env"])
        except OSError as error:
            os.write(2, f"{spec['argv'][0]}: {error.strerror}\n".encode())
        os._exit(127)
    code = -1
    while code < 0:
        pid, status = os.waitpid(-1, 0)
        if pid == command:
            code = os.waitstatus_to_exitcode(status)
            code = code if code >= 0 else 128 - code
    _kill_rest()
    os.write(spec["status_fd"], json.dumps({"exit-code": code}).encode() + b"\n")
    os._exit(code)


def _kill_rest() -> None:
    """End what the command left, also what it starts meanwhile, for a bounded time."""
    deadline = time.monotonic() + KILL_SECONDS
    while (left := descendants(os.getpid(), 10_000)) and time.monotonic() < deadline:
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
