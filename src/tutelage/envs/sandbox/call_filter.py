"""The system calls a sandboxed process may not make, as a filter program of the kernel (seccomp, classic BPF).

Left out are calls that make memory which no limit counts (memfd, System V segments), that pass messages past the file system, that make new name spaces or
mounts, that look into other processes, and rarely used doors into the kernel. A denied call fails with EPERM; `clone3`,
whose arguments a filter cannot see, with ENOSYS, on which the C library falls back to `clone`.
"""

from __future__ import annotations

import os
import struct
from functools import lru_cache
from typing import Final

CLONE_NEWUSER: Final = 0x10000000

ARCHITECTURES: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

CALLS: Final[dict[str, tuple[int, int]]] = {
    "shmget": (29, 194),
    "msgget": (68, 186),
    "semget": (64, 190),
    "mq_open": (240, 180),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "mount_setattr": (442, 442),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "open_by_handle_at": (304, 265),
    "fanotify_init": (300, 262),
    "quotactl": (179, 60),
    "swapon": (167, 224),
    "reboot": (169, 142),
    "kexec_load": (246, 104),
    "init_module": (175, 105),
    "finit_module": (313, 273),
}
"""Name -> numbers on x86_64 and aarch64."""

CLONE: Final = (56, 220)
CLONE3: Final = (435, 435)
X32_BIT: Final = 0x40000000
"""Calls of the x32 interface of x86_64 are numbered from here; they would pass under other numbers."""

EPERM: Final = 1
ENOSYS: Final = 38

ALLOW: Final = 0x7FFF0000
ERRNO: Final = 0x00050000
KILL: Final = 0x80000000

LOAD: Final = 0x20
EQUAL: Final = 0x15
AT_LEAST: Final = 0x35
ANY_BIT: Final = 0x45
RETURN: Final = 0x06

CALL_AT: Final = 0
ARCHITECTURE_AT: Final = 4
FIRST_ARGUMENT_AT: Final = 16
"""Offsets in the kernel's `seccomp_data`; both architectures are little-endian."""


@lru_cache(maxsize=1)
def call_filter() -> bytes:
    """Instructions of 8 bytes each, as `bwrap --seccomp` and `prctl` take them. Empty on machines that we do not know."""
    machine = os.uname().machine
    if machine not in ARCHITECTURES:
        return b""
    column = list(ARCHITECTURES).index(machine)
    program = [
        _step(LOAD, ARCHITECTURE_AT),
        _step(EQUAL, ARCHITECTURES[machine], yes=1),
        _step(RETURN, KILL),
        _step(LOAD, CALL_AT),
    ]
    if machine == "x86_64":
        program += [_step(AT_LEAST, X32_BIT, no=1), _step(RETURN, ERRNO | EPERM)]
    program += [_step(EQUAL, CLONE3[column], no=1), _step(RETURN, ERRNO | ENOSYS)]
    for numbers in CALLS.values():
        program += [_step(EQUAL, numbers[column], no=1), _step(RETURN, ERRNO | EPERM)]
    program += [
        _step(EQUAL, CLONE[column], no=3),
        _step(LOAD, FIRST_ARGUMENT_AT),
        _step(ANY_BIT, CLONE_NEWUSER, no=1),
        _step(RETURN, ERRNO | EPERM),
        _step(RETURN, ALLOW),
    ]
    return b"".join(program)


def _step(code: int, value: int, *, yes: int = 0, no: int = 0) -> bytes:
    """One instruction: `yes` and `no` are how many to skip after a comparison."""
    return struct.pack("<HBBI", code, yes, no, value)
