"""Counts the processes below a process and their memory, from /proc. Linux only.

Resource limits bound each process, not all of them together, and the kernel does not apply the limit on the number of
processes to root. What is counted here holds for everybody. This file is also run on its own inside a sandbox, so it
imports nothing but the standard library.
"""

import os
from typing import Literal


def descendants(pid: int, most: int) -> list[int]:
    """Process ids below `pid`, itself left out, `most` + 1 at the most. A process that ends meanwhile is left out."""
    found: list[int] = []
    queue = [pid]
    while queue and len(found) <= most:
        parent = queue.pop()
        try:
            for task in os.listdir(f"/proc/{parent}/task"):
                with open(f"/proc/{parent}/task/{task}/children", "rb") as file:
                    children = [int(child) for child in file.read().split()]
                found += children
                queue += children
        except OSError:
            continue
    return found[: most + 1]


def memory_bytes(pid: int) -> int:
    """Memory that a process has to itself or shares with its kind, files not counted. 0 if it is gone."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            lines = file.read().split(b"\n")
    except OSError:
        return 0
    return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith((b"RssAnon:", b"RssShmem:")))


def excess(pid: int, processes: int, memory: int) -> Literal["processes", "memory"] | None:
    """Which bound a process and those below it break together: ``processes``, ``memory`` (bytes) or none."""
    members = [pid, *descendants(pid, processes)]
    if len(members) > processes:
        return "processes"
    return "memory" if sum(map(memory_bytes, members)) > memory else None
