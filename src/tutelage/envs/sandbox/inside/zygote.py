"""A Python interpreter, inside a sandbox, that makes a fresh sandboxed copy of itself for every call.

Forking costs a few milliseconds, starting an interpreter behind a new wall ten times as much. A call is as far apart from
the others as if it had a sandbox of its own: own process and mount space, own /tmp, no capabilities, its own limits.
This process never runs code of an agent, and no call can see or signal it.

Called as ``zygote <fd> <filter>``: a socket that gives calls, and the system-call filter, base64. A call is a JSON object
(seconds, processes, memory_bytes, limits, see `isolate.limit`) with five descriptors: the cells (a file, JSON), stdin,
stdout, stderr, and a socket on which the outcome is told: ``{"code": 0, "stopped": null, "cpu": 0.1}``. The caller's
shutting down its end of that socket stops the call. No more calls: the process ends, and all calls with it.

    zygote -> supervisor of a call -> process 1 of its process space -> the process that runs the cells
"""

import base64
import collections
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
TEMPORARY_FILES = 20_000
SHARED_MEMORY = 16 << 20


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    program = base64.b64decode(sys.argv[2])
    zygote = os.getpid()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # supervisors leave no zombies
    gc.collect()
    gc.freeze()
    control.send(b"ready")
    while True:
        message, fds, _, _ = socket.recv_fds(control, MESSAGE_BYTES, NUM_FDS)
        if not message:
            os._exit(0)
        if os.fork() == 0:
            control.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            try:
                isolate.die_with_parent(zygote)
                _supervise(json.loads(message), fds, program)
            except BaseException as error:
                os.write(2, f"{type(error).__name__}: {error}\n".encode())
            os._exit(1)
        for fd in fds:
            os.close(fd)


def _supervise(call: dict[str, Any], fds: list[int], program: bytes) -> None:
    """Watch one call to its end and tell the outcome."""
    deadline = time.monotonic() + call["seconds"]
    isolate.unshare(isolate.CLONE_NEWPID)
    first = os.fork()
    if first == 0:
        try:
            _first_process(call, fds, program)
        except BaseException as error:
            os.write(2, f"{type(error).__name__}: {error}\n".encode())
        os._exit(125)
    for fd in fds[:4]:
        os.close(fd)
    channel = socket.socket(fileno=fds[4])
    stopped = _watch(first, channel, call, deadline)
    if stopped is not None:
        os.kill(first, signal.SIGKILL)
    _, status, usage = os.wait4(first, 0)
    code = os.waitstatus_to_exitcode(status)
    outcome = {"code": code, "stopped": stopped, "cpu": usage.ru_utime + usage.ru_stime}
    channel.send(json.dumps(outcome).encode())
    os._exit(0)


def _watch(first: int, channel: socket.socket, call: dict[str, Any], deadline: float) -> str | None:
    """Wait until the first process ends (None), the caller gives up, or a limit is broken (its name)."""
    ended = os.pidfd_open(first)
    poll = select.poll()
    poll.register(ended, select.POLLIN)
    poll.register(channel, select.POLLIN)
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            return "timeout"
        ready = {fd for fd, _ in poll.poll(1000 * min(TICK, left))}
        if ended in ready:
            return None
        if ready:
            return "output"
        broken = excess(first, call["processes"], call["memory_bytes"])
        if broken is not None:
            return broken


def _first_process(call: dict[str, Any], fds: list[int], program: bytes) -> None:
    """Process 1 of the call's process space. It loses every privilege, starts the cells, and waits for them."""
    isolate.die_with_parent(0)  # the supervisor stands outside of the process space and shows as 0
    cells, stdin, stdout, stderr, _ = fds
    with open(cells, "rb") as file:
        source = json.loads(file.read())
    for fd, target in ((stdin, 0), (stdout, 1), (stderr, 2)):
        os.dup2(fd, target)
    os.closerange(3, 256)
    _private_mounts(call["memory_bytes"])
    os.setsid()
    isolate.drop_capabilities()
    isolate.filter_calls(program)
    runner = os.fork()
    if runner == 0:
        isolate.limit(*call["limits"])
        os._exit(run_cells(source))
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == runner:
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)


def _private_mounts(memory_bytes: int) -> None:
    isolate.unshare(isolate.CLONE_NEWNS)
    flags = isolate.MS_NOSUID | isolate.MS_NODEV
    isolate.mount("tmpfs", "/tmp", "tmpfs", flags, f"mode=1777,size={memory_bytes},nr_inodes={TEMPORARY_FILES}")
    isolate.mount("tmpfs", "/dev/shm", "tmpfs", flags, f"mode=1777,size={SHARED_MEMORY},nr_inodes={TEMPORARY_FILES}")
    # No process table: what stands there belongs to the outer process space.
    isolate.mount("tmpfs", "/proc", "tmpfs", flags | isolate.MS_RDONLY, "mode=555,size=4k,nr_inodes=1")
    os.chdir("/tmp")
