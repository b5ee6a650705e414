"""A Python interpreter, inside a sandbox, that makes a fresh sandboxed copy of itself for every call.

Forking costs a few milliseconds, starting an interpreter behind a new wall ten times as much. A call is as far apart from
the others as if it had a sandbox of its own: own process and mount space, own /tmp, no capabilities, its own limits.
This process never runs code of an agent, and no call can see or signal it.

Called as ``zygote <fd> <filter>``: a socket that gives calls, and the system-call filter, base64. A call is a JSON object
(seconds, processes, tmp_bytes, total_bytes, limits, see `isolate.limit`) with five descriptors: the cells (a file, JSON), stdin,
stdout, stderr, and a socket on which the outcome is told: ``{"begun": true, "code": 0, "stopped": null, "cpu": 0.1}``;
`begun` is false if the call could not be walled off, and so ran nothing. The caller's shutting down its end of that socket stops the call. No more calls: the process ends, and all calls with it.
"""

import base64
import collections
import contextlib
import datetime
import decimal
import fractions
import functools
import gc
import heapq
import itertools
import json
import math
import os
import re
import select
import signal
import socket
import statistics
import string
import sys
import time
from typing import Any

from . import isolate
from .cells import run_cells
from .watch import excess

PRELOADED = (collections, datetime, decimal, fractions, functools, heapq, itertools, math, re, statistics, string)
"""What problems are solved with: loaded once, so that importing it costs a call nothing."""

TICK = 0.02
MESSAGE_BYTES = 4096
NUM_FDS = 5
MOST_FDS = 4096
TEMPORARY_FILES = 20_000
SHARED_MEMORY = 16 << 20


class Call:
    """One call that runs."""

    def __init__(self, call: dict[str, Any], pid: int, channel: socket.socket, begun: int) -> None:
        self.call = call
        self.pid = pid
        self.channel = channel
        self.begun = begun
        """A pipe that holds a byte once the wall stands and the cells begin."""
        self.deadline = time.monotonic() + call["seconds"]
        self.ended = os.pidfd_open(pid)
        self.stopped: str | None = None

    def stop(self, why: str) -> None:
        """Kill its first process, and so all others. `ended` tells when the last one is gone."""
        if self.stopped is None:
            self.stopped = why
            os.kill(self.pid, signal.SIGKILL)

    def look(self) -> None:
        """Stop it if it breaks a limit."""
        if self.stopped is None:
            late = time.monotonic() >= self.deadline
            why = "timeout" if late else excess(self.pid, self.call["processes"], self.call["total_bytes"])
            if why is not None:
                self.stop(why)

    def finish(self) -> None:
        """Tell the outcome."""
        _, status, usage = os.wait4(self.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        outcome = {
            "begun": bool(os.read(self.begun, 1)),
            "code": code if code >= 0 else 128 - code,
            "stopped": self.stopped,
            "cpu": usage.ru_utime + usage.ru_stime,
        }
        with contextlib.suppress(OSError):
            self.channel.send(json.dumps(outcome).encode())
        self.channel.close()
        os.close(self.ended)
        os.close(self.begun)


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    program = base64.b64decode(sys.argv[2])
    own_processes = os.open("/proc/self/ns/pid", os.O_RDONLY)
    gc.collect()
    gc.freeze()
    control.send(b"ready")
    calls: dict[int, Call] = {}
    poll = select.poll()
    poll.register(control, select.POLLIN)
    next_look = 0.0
    while True:
        ready = {fd for fd, _ in poll.poll(1000 * TICK if calls else None)}
        if control.fileno() in ready:
            message, fds, _, _ = socket.recv_fds(control, MESSAGE_BYTES, NUM_FDS)
            if not message:
                os._exit(0)
            started = _start(json.loads(message), fds, program, own_processes)
            calls[started.ended] = calls[started.channel.fileno()] = started
            poll.register(started.ended, select.POLLIN)
            poll.register(started.channel, select.POLLIN)
        for fd in ready & calls.keys():
            call = calls.get(fd)
            if call is None:
                continue  # it has ended in this round
            if fd != call.ended:
                poll.unregister(fd)
                call.stop("output")
                continue
            for known in (call.ended, call.channel.fileno()):
                del calls[known]
                with contextlib.suppress(KeyError):
                    poll.unregister(known)
            call.finish()
        if time.monotonic() >= next_look:
            for running in set(calls.values()):
                running.look()
            next_look = time.monotonic() + TICK


def _start(call: dict[str, Any], fds: list[int], program: bytes, own_processes: int) -> Call:
    begun, begin = os.pipe()
    # The next child is process 1 of a new process space; then children are ours again.
    isolate.unshare(isolate.CLONE_NEWPID)
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = _be_the_call(call, fds, program, begin)
        except BaseException as error:
            os.write(2, f"{type(error).__name__}: {error}\n".encode())
        os._exit(code)
    isolate.enter(own_processes, isolate.CLONE_NEWPID)
    for fd in (*fds[:4], begin):
        os.close(fd)
    return Call(call, pid, socket.socket(fileno=fds[4]), begun)


def _be_the_call(call: dict[str, Any], fds: list[int], program: bytes, begin: int) -> int:
    """The first and mostly only process of a call: it loses every privilege, then runs the cells."""
    isolate.die_with_parent(0)  # the parent stands outside of the process space and shows as 0
    cells, stdin, stdout, stderr, _ = fds
    with open(cells, "rb") as file:
        source = json.loads(file.read())
    for fd, target in ((stdin, 0), (stdout, 1), (stderr, 2), (begin, 3)):
        os.dup2(fd, target)
    os.closerange(4, MOST_FDS)
    _private_mounts(call["tmp_bytes"])
    os.setsid()
    isolate.drop_capabilities()
    isolate.limit(*call["limits"])
    isolate.filter_calls(program)
    os.write(3, b"!")
    os.close(3)
    return run_cells(source)


def _private_mounts(tmp_bytes: int) -> None:
    isolate.unshare(isolate.CLONE_NEWNS)
    flags = isolate.MS_NOSUID | isolate.MS_NODEV
    isolate.mount("tmpfs", "/tmp", "tmpfs", flags, f"mode=1777,size={tmp_bytes},nr_inodes={TEMPORARY_FILES}")
    isolate.mount("tmpfs", "/dev/shm", "tmpfs", flags, f"mode=1777,size={SHARED_MEMORY},nr_inodes={TEMPORARY_FILES}")
    # No process table: what stands there belongs to the outer process space.
    isolate.mount("tmpfs", "/proc", "tmpfs", flags | isolate.MS_RDONLY, "mode=555,size=4k,nr_inodes=1")
    os.chdir("/tmp")
