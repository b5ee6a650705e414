"""Linux calls that put a process behind a wall: name spaces, mounts, capabilities, system-call filter, limits.

Each raises OSError with the name of the call. Numbers are those of the kernel's headers.
"""

import ctypes
import os
import resource
import signal

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY = 1
MS_NOSUID = 2
MS_NODEV = 4
MS_NOEXEC = 8
MS_BIND = 4096
MS_REC = 16384
MS_PRIVATE = 1 << 18
MNT_DETACH = 2

PR_SET_PDEATHSIG = 1
PR_SET_SECCOMP = 22
PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_CLEAR_ALL = 4
SECCOMP_MODE_FILTER = 2

SYS_MOUNT_SETATTR = 442
SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
AT_FDCWD = -100
AT_RECURSIVE = 0x8000
MOUNT_ATTR_RDONLY_NOSUID_NODEV = 1 | 2 | 4

NUM_CAPABILITIES = 64
CAPABILITY_VERSION_3 = 0x20080522

_libc = ctypes.CDLL(None, use_errno=True)


def unshare(flags: int) -> None:
    _check("unshare", _libc.unshare(flags))


def enter(space: int, kind: int) -> None:
    """Enter a name space, given as a descriptor; for a process space, children do."""
    _check("setns", _libc.setns(space, kind))


def mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    arguments = [None if text is None else os.fsencode(text) for text in (source, target, kind, data)]
    result = _libc.mount(arguments[0], arguments[1], arguments[2], ctypes.c_ulong(flags), arguments[3])
    _check(f"mount on {target}", result)


def unmount(target: str) -> None:
    _check(f"umount of {target}", _libc.umount2(os.fsencode(target), MNT_DETACH))


def make_readonly(target: str) -> None:
    """Make a mount and those below it read-only, without set-uid programs and devices. Linux 5.12."""
    attributes = (ctypes.c_uint64 * 4)(MOUNT_ATTR_RDONLY_NOSUID_NODEV, 0, 0, 0)
    size = ctypes.c_size_t(ctypes.sizeof(attributes))
    call = ctypes.c_long(SYS_MOUNT_SETATTR)
    result = _libc.syscall(call, AT_FDCWD, os.fsencode(target), AT_RECURSIVE, ctypes.byref(attributes), size)
    _check(f"mount_setattr of {target}", result)


def pivot_root(new: str, old: str) -> None:
    machine = os.uname().machine
    if machine not in SYS_PIVOT_ROOT:
        raise OSError(0, f"pivot_root is not known for machine {machine}")
    call = ctypes.c_long(SYS_PIVOT_ROOT[machine])
    _check("pivot_root", _libc.syscall(call, os.fsencode(new), os.fsencode(old)))


def die_with_parent(parent: int) -> None:
    """Be killed when the parent, process `parent`, ends; at once if it has ended already."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def adopt_orphans() -> None:
    """Become the parent of descendants whose parents end."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def drop_capabilities() -> None:
    """Give up every privilege for good, also that of set-uid programs."""
    _prctl(PR_SET_NO_NEW_PRIVS, 1)
    _prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    for capability in range(NUM_CAPABILITIES):
        if _libc.prctl(PR_CAPBSET_DROP, ctypes.c_ulong(capability), 0, 0, 0) != 0:
            break  # the kernel knows no more capabilities, or we may not
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    sets = (ctypes.c_uint32 * 6)()
    _check("capset", _libc.capset(ctypes.byref(header), ctypes.byref(sets)))


def filter_calls(program: bytes) -> None:
    """Install a system-call filter; see `tutelage.envs.sandbox.call_filter`. Empty: none is known for this machine."""
    if not program:
        return
    code = ctypes.create_string_buffer(program, len(program))

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_void_p)]

    structure = Program(len(program) // 8, ctypes.addressof(code))
    _prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.addressof(structure))


def limit(seconds: int, memory_kb: int, file_blocks: int, processes: int) -> None:
    """Resource limits, in the units of `ulimit`; `processes` 0 leaves that one out."""
    _lower(resource.RLIMIT_CORE, 0, 0)
    _lower(resource.RLIMIT_NOFILE, 256, 256)
    _lower(resource.RLIMIT_CPU, seconds, seconds + 1)
    _lower(resource.RLIMIT_AS, memory_kb << 10, memory_kb << 10)
    _lower(resource.RLIMIT_FSIZE, file_blocks << 9, file_blocks << 9)
    if processes:
        _lower(resource.RLIMIT_NPROC, processes, processes)


def _lower(what: int, soft: int, hard: int) -> None:
    """Set a limit, or leave it where it is if it is tighter already."""
    ceiling = resource.getrlimit(what)[1]
    if ceiling != resource.RLIM_INFINITY:
        soft, hard = min(soft, ceiling), min(hard, ceiling)
    resource.setrlimit(what, (soft, hard))


def _prctl(option: int, argument: int, second: int = 0) -> None:
    values = [ctypes.c_ulong(value) for value in (argument, second, 0, 0)]
    _check(f"prctl {option}", _libc.prctl(option, *values))


def _check(call: str, result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")
