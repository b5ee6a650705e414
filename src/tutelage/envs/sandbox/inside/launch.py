"""Builds a sandbox out of Linux name spaces and runs one command in it, as bubblewrap does.

Called as ``launch <fd>``; the descriptor gives a JSON object:

  folders   [[path of the host, path inside, may be written], ...]; what the host lacks is left out
  links     [[path inside, what it points to], ...]
  files     {path inside: text}
  tmp_bytes, cwd, host_name
  user      user and group number inside
  argv, env
  limits    arguments of `isolate.limit`, or null for none
  filter    system-call filter, base64
  keep      true: capabilities stay, for a process that builds sandboxes of its own inside

Tells on descriptor `status_fd` what bubblewrap's --json-status-fd tells: ``{"child-pid": ..}``, ``{"exit-code": ..}``.
"""

import base64
import contextlib
import fcntl
import json
import os
import socket
import struct
import sys
from typing import Any

from . import isolate

DEVICES = ("null", "zero", "full", "random", "urandom")
SHARED_MEMORY = 64 << 20
SIOCSIFFLAGS = 0x8914
IFF_UP = 1

SPACES = isolate.CLONE_NEWNS | isolate.CLONE_NEWPID | isolate.CLONE_NEWNET | isolate.CLONE_NEWIPC | isolate.CLONE_NEWUTS

NOSUID_NODEV = isolate.MS_NOSUID | isolate.MS_NODEV


def main() -> None:
    with os.fdopen(int(sys.argv[1])) as stream:
        spec = json.load(stream)
    _enter_spaces(spec["user"])
    if not spec["keep"]:
        isolate.die_with_parent(spec["parent"])
    first = os.fork()
    if first == 0:
        try:
            _first_process(spec)
        except BaseException as error:
            os.write(2, f"{type(error).__name__}: {error}\n".encode())
        os._exit(125)
    _tell(spec, {"child-pid": first})
    _, status = os.waitpid(first, 0)
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)


def _enter_spaces(user: int) -> None:
    uid, gid = os.getuid(), os.getgid()
    isolate.unshare(isolate.CLONE_NEWUSER)
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {uid} 1"), ("gid_map", f"{user} {gid} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
    isolate.unshare(SPACES)


def _first_process(spec: dict[str, Any]) -> None:
    """Process 1 of the new process space: builds the file system, starts the command, waits for it."""
    isolate.die_with_parent(0)  # the parent stands outside of the process space and shows as 0
    _build_root(spec)
    socket.sethostname(spec["host_name"])
    _loopback_up()
    if not spec["keep"]:
        isolate.drop_capabilities()
    status_fd = spec["status_fd"]
    command = os.fork()
    if command == 0:
        os.close(status_fd)
        os.setsid()
        _become(spec)
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == command:
            code = os.waitstatus_to_exitcode(status)
            code = code if code >= 0 else 128 - code
            _tell(spec, {"exit-code": code})
            os._exit(code)


def _become(spec: dict[str, Any]) -> None:
    try:
        os.chdir(spec["cwd"])
        if spec["limits"] is not None:
            isolate.limit(*spec["limits"])
        isolate.filter_calls(base64.b64decode(spec["filter"]))
        os.execvpe(spec["argv"][0], spec["argv"], spec["env"])
    except FileNotFoundError as error:
        os.write(2, f"{spec['argv'][0]}: {error.strerror}\n".encode())
        os._exit(127)
    except OSError as error:
        os.write(2, f"{spec['argv'][0]}: {error}\n".encode())
        os._exit(126)


def _build_root(spec: dict[str, Any]) -> None:
    isolate.mount("none", "/", None, isolate.MS_REC | isolate.MS_PRIVATE)
    # A file system of our own at /tmp, with the old root below it: so sources under the host's /tmp stay reachable.
    isolate.mount("tmpfs", "/tmp", "tmpfs", NOSUID_NODEV, "mode=755,size=16m")
    os.mkdir("/tmp/new")
    os.mkdir("/tmp/old")
    isolate.mount("/tmp/new", "/tmp/new", None, isolate.MS_BIND)
    isolate.pivot_root("/tmp", "/tmp/old")
    os.chdir("/")
    for path, target in spec["links"]:
        _parent(path)
        os.symlink(target, f"/new{path}")
    for path, text in spec["files"].items():
        _parent(path)
        with open(f"/new{path}", "w") as file:
            file.write(text)
    _devices()
    os.mkdir("/new/proc")
    isolate.mount("proc", "/new/proc", "proc", NOSUID_NODEV | isolate.MS_NOEXEC)
    isolate.make_readonly("/new/proc")
    os.makedirs("/new/tmp", exist_ok=True)
    isolate.mount("tmpfs", "/new/tmp", "tmpfs", NOSUID_NODEV, f"mode=1777,size={spec['tmp_bytes']},nr_inodes=100000")
    for source, target, writable in spec["folders"]:
        _bind(f"/old{source}", target, writable)
    os.chdir("/new")
    isolate.pivot_root(".", ".")
    isolate.unmount(".")
    os.chdir("/")
    isolate.mount("none", "/", None, isolate.MS_BIND | isolate.MS_RDONLY | NOSUID_NODEV | 32)


def _bind(source: str, target: str, writable: bool) -> None:
    if not os.path.lexists(source):
        return
    _parent(target)
    if os.path.isdir(source):
        os.makedirs(f"/new{target}", exist_ok=True)
    else:
        with open(f"/new{target}", "a"):
            pass
    isolate.mount(source, f"/new{target}", None, isolate.MS_BIND | isolate.MS_REC)
    if not writable:
        isolate.make_readonly(f"/new{target}")


def _parent(path: str) -> None:
    os.makedirs(os.path.dirname(f"/new{path}"), exist_ok=True)


def _devices() -> None:
    os.mkdir("/new/dev")
    for name in DEVICES:
        with open(f"/new/dev/{name}", "w"):
            pass
        isolate.mount(f"/old/dev/{name}", f"/new/dev/{name}", None, isolate.MS_BIND)
    for name, target in (("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")):
        os.symlink(target, f"/new/dev/{name}")
    os.mkdir("/new/dev/shm")
    isolate.mount("tmpfs", "/new/dev/shm", "tmpfs", NOSUID_NODEV, f"mode=1777,size={SHARED_MEMORY}")


def _loopback_up() -> None:
    """A command may talk to itself over 127.0.0.1; nobody else is on this network."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as channel:
        fcntl.ioctl(channel, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", IFF_UP))


def _tell(spec: dict[str, Any], what: dict[str, int]) -> None:
    os.write(spec["status_fd"], json.dumps(what).encode() + b"\n")
