"""Runs Python cells in a sandbox, each call in a fresh process. Fast: see `inside.zygote`."""

from __future__ import annotations

import atexit
import base64
import contextlib
import json
import os
import socket
import subprocess
import threading
import time
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

from tutelage.envs.sandbox.base import Sandbox, file_with, limit_arguments, out_of_cpu
from tutelage.envs.sandbox.call_filter import call_filter
from tutelage.envs.sandbox.choose import Kind, make_sandbox
from tutelage.envs.sandbox.limits import OVERHEAD_MB, SandboxLimits, SandboxResult
from tutelage.envs.sandbox.process_bound import ProcessBound
from tutelage.envs.sandbox.pump import Pump, open_pipes
from tutelage.envs.sandbox.supervise import kill_tree
from tutelage.envs.sandbox.unshare import INSIDE, script
from tutelage.errors import EnvError

PYTHON_LIMITS: Final = SandboxLimits(
    seconds=10, cpu_seconds=2, memory_mb=512, file_mb=16, processes=32, output_chars=8_000, keep_tail=False
)
"""Limits of one call. Only the beginning of the output is kept, so that it does not depend on speed."""

READ_BY_THEMSELVES: Final = "/opt/tutelage"
"""Where the modules of `inside` are inside."""

START_SECONDS: Final = 30.0
GRACE: Final = 10.0
"""Seconds beyond its limit after which a call without an outcome counts as lost."""

TICK: Final = 0.5

MOST_PROCESSES: Final = 1024
"""Of all calls together: the bound that the kernel keeps. A single call is ended at `SandboxLimits.processes`."""


class PythonRunner:
    """Runs cells; several threads may call at once.

    The first call starts an interpreter in a sandbox, which is copied for every call; it ends with `close`, or with
    this process. With a sandbox that does not isolate, each call starts an interpreter of its own.
    """

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self._lock = threading.Lock()
        self._zygote: _Zygote | None = None

    def run(self, cells: Sequence[str], *, stdin: bytes = b"", limits: SandboxLimits = PYTHON_LIMITS) -> SandboxResult:
        """Run cells in one namespace, in a fresh process. Only the last one's output counts.

        stderr ends with the last line of the traceback of an exception, which gives exit code 1.
        Raises EnvError if the sandbox failed, not if the cells did.
        """
        if not self.sandbox.isolated:
            payload = json.dumps(list(cells)).encode()
            argv = [self.sandbox.python, *script("cells", INSIDE.parent)]
            return self.sandbox.run(argv, stdin=b"%d\n%s%s" % (len(payload), payload, stdin), limits=limits)
        try:
            return self._started().run(cells, stdin, limits)
        except _Gone:
            # It was killed from outside, e.g. because the machine ran out of memory. Once more, with a new one.
            self.close()
        try:
            return self._started().run(cells, stdin, limits)
        except _Gone:
            raise EnvError("the Python sandbox ended twice during a call; is the machine short of memory?") from None

    def close(self) -> None:
        """End the interpreter. A later call starts a new one."""
        with self._lock:
            zygote, self._zygote = self._zygote, None
        if zygote is not None and zygote.owner == os.getpid():
            zygote.close()

    def _started(self) -> _Zygote:
        with self._lock:
            if self._zygote is not None and self._zygote.owner != os.getpid():
                self._zygote.leave()
                self._zygote = None
            if self._zygote is None:
                self._zygote = _Zygote(self.sandbox)
            return self._zygote


@lru_cache(maxsize=8)
def shared_runner(kind: Kind | str = "auto", allow_unsafe: bool = False) -> PythonRunner:
    """One runner for all of this process; its interpreter ends with the process. Raises as `make_sandbox`."""
    runner = PythonRunner(make_sandbox(kind, allow_unsafe))
    atexit.register(runner.close)
    return runner


class _Gone(Exception):
    """The interpreter that is to be copied has ended."""


class _Zygote:
    """The host's side of `inside.zygote`."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.owner = os.getpid()
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            encoded = base64.b64encode(call_filter()).decode()
            argv = [sandbox.python, *script("zygote", READ_BY_THEMSELVES), str(theirs.fileno()), encoded]
            readonly = {INSIDE: f"{READ_BY_THEMSELVES}/inside"}
            self._bound = ProcessBound(MOST_PROCESSES)
            self._process = sandbox.start(argv, [theirs.fileno()], readonly, self._bound)
        self._control.settimeout(START_SECONDS)
        try:
            ready = self._control.recv(16) == b"ready"
        except TimeoutError:
            ready = False
        if not ready:
            self.close()
            raise EnvError(f"sandbox '{sandbox.kind}': the Python interpreter inside did not start.")

    def run(self, cells: Sequence[str], stdin: bytes, limits: SandboxLimits) -> SandboxResult:
        start = time.monotonic()
        channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with channel:
            with theirs:
                child_ends, ours = open_pipes()
                try:
                    with contextlib.ExitStack() as files:
                        source = file_with(json.dumps(list(cells)).encode(), files)
                        self._send(limits, [source, *child_ends, theirs.fileno()])
                except OSError:
                    for fd in ours:
                        os.close(fd)
                    raise _Gone from None
                finally:
                    for fd in child_ends:
                        os.close(fd)
            with Pump(*ours, end_fd=channel.fileno(), stdin=stdin, limits=limits) as pump:
                cancelled = False
                while not pump.round(TICK):
                    if pump.flooded and not cancelled:
                        channel.shutdown(socket.SHUT_WR)
                        cancelled = True
                    if time.monotonic() - start > limits.seconds + GRACE:
                        raise EnvError("a call of the Python sandbox gave no outcome.")
                pump.drain()
                outcome = channel.recv(4096)
                if not outcome:
                    raise _Gone
        return _result(json.loads(outcome), pump, limits, time.monotonic() - start)

    def leave(self) -> None:
        """Let go of it in a process that was forked from the owner; it goes on for the owner."""
        self._control.close()
        self._process.returncode = 0  # nobody here may wait for it

    def close(self) -> None:
        self._control.close()
        try:
            self._process.wait(GRACE)
        except subprocess.TimeoutExpired:
            kill_tree(self._process)
            self._process.wait()
        self._bound.remove()

    def _send(self, limits: SandboxLimits, fds: list[int]) -> None:
        call = {
            "seconds": limits.seconds,
            "processes": limits.processes,
            "tmp_bytes": limits.memory_mb << 20,
            "total_bytes": (limits.memory_mb + OVERHEAD_MB) << 20,
            # Calls share a user namespace, so the kernel would count the processes of all of them.
            "limits": [*limit_arguments(limits)[:3], 0],
        }
        socket.send_fds(self._control, [json.dumps(call).encode()], fds)


def _result(outcome: dict[str, Any], pump: Pump, limits: SandboxLimits, seconds: float) -> SandboxResult:
    stdout, cut_stdout = pump.stdout.text()
    stderr, cut_stderr = pump.stderr.text()
    stopped = outcome["stopped"] or out_of_cpu(outcome["code"], outcome["cpu"], limits)
    if stopped is None and not outcome["begun"]:
        raise EnvError(f"a call of the Python sandbox could not be set up: {stderr.strip()}")
    return SandboxResult(
        exit_code=None if stopped else outcome["code"],
        stdout=stdout,
        stderr=stderr,
        timed_out=stopped == "timeout",
        output_cut=cut_stdout or cut_stderr,
        seconds=seconds,
        killed_by=stopped,
    )
