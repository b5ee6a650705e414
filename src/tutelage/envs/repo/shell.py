"""The tool `bash`: one command in a fresh shell, in the working directory that the last one ended in.

Every reply ends with one line in brackets that says how the command ended, where the shell is unless at the top, and
which files changed:

    [exit status 1]
    [exit status 0; working directory src; changed a.py, +new.py, -gone.py]
    [stopped: ran longer than 60 s]
"""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from tutelage.envs.repo.workspace import Change, shown
from tutelage.envs.sandbox.limits import SandboxLimits, SandboxResult
from tutelage.envs.sandbox.system import WORKSPACE

TOPS: Final = (WORKSPACE, "/testbed")
"""Where the workspace is inside: of sandboxes, and of the usual images."""

MOST_CHANGES: Final = 40
"""Changed files that a reply names."""

# All on one line, so that line numbers in messages are those of the command. Descriptor 3 takes the directory in which
# the shell ends; the command's own stderr goes where its stdout goes, in the order of writing.
SHELL: Final = (
    'exec 3>&2 2>&1; trap \'printf "%s %s" "$2" "$(pwd -P)" >&3\' EXIT; cd -- "$1" 2>/dev/null || cd -- "$3"; '
    'COMMAND=$(cat; printf x); exec </dev/null; eval "${COMMAND%x}"'
)

_DURATION: Final = re.compile(
    r"(?m)^(=* ?(?:no tests ran|\d+ [a-z]+(?:, \d+ [a-z]+)*)) in \d+\.\d\ds(?: \(\d+:\d\d:\d\d\))?( ?=*)$"
)
_ADDRESS: Final = re.compile(r" at 0x[0-9a-f]{6,16}>")

_FOOTER: Final = re.compile(
    r"(?:^|\n)\[(?:exit status (?P<status>\d+)|stopped: [^;\]\n]*)"
    r"(?:; working directory (?P<directory>\"(?:[^\"\\]|\\.)*\"|[^;\]\n]+))?"
    r"(?:; changed (?P<changed>[^\n]*))?\]\s*$"
)
_NAME: Final = re.compile(r"([+-]?)(\"(?:[^\"\\]|\\.)*\"|[^\s,\"]+)")


@dataclass(frozen=True, slots=True)
class Ending:
    """What the last line of a reply says."""

    status: int | None
    """None: the command was stopped."""
    directory: str
    """Working directory below the top; empty at the top."""
    changed: tuple[str, ...]
    """Paths that were written or made."""
    gone: tuple[str, ...]
    """Paths that were removed."""


def shell_command(directory: str, root: str) -> tuple[list[str], str]:
    """The program and its arguments, for a working directory below the root; and the mark that `directory_of` wants."""
    mark = secrets.token_hex(8)
    return ["bash", "--noprofile", "--norc", "-c", SHELL, "bash", f"{root}/{directory}", mark, root], mark


def directory_of(result: SandboxResult, mark: str, root: str, before: str) -> str:
    """The working directory after a command; the one before it where the shell told none, or one outside."""
    found = result.stderr.rpartition(f"{mark} ")
    if not found[1]:
        return before
    path = PurePosixPath(found[2].rstrip("\n"))
    if not path.is_relative_to(root):
        return ""
    return "" if str(path) == root else str(path.relative_to(root))


def path_below(text: str, directory: str) -> str:
    """A path as an agent wrote it, relative to the top; one that leads out of it stays absolute or begins with ``..``.

    Example, directory ``src``: ``../a.py`` and ``/workspace/a.py`` are both ``a.py``
    """
    path = os.path.normpath(os.path.join(directory, text))
    for top in TOPS:
        if path == top or path.startswith(f"{top}/"):
            return path[len(top) + 1 :] or "."
    return path


def steady(text: str) -> str:
    """Output of programs without what differs from run to run: the seconds of pytest's summary, addresses of objects.

    Zero bytes, which no chat format carries, become U+FFFD, as other bytes that are no text have before.

    Example: ``1 failed, 3 passed in 0.12s`` -> ``1 failed, 3 passed in 0.00s``
    """
    return _ADDRESS.sub(" at 0x0>", _DURATION.sub(r"\1 in 0.00s\2", text)).replace("\0", "\ufffd")


def ending(result: SandboxResult, limits: SandboxLimits, directory: str, changes: Sequence[Change]) -> str:
    """The last line of a reply. changes: as of `Workspace.changes`."""
    said = f"exit status {result.exit_code}" if result.killed_by is None else f"stopped: {_stopped(result, limits)}"
    if directory:
        said += f"; working directory {shown(directory)}"
    if changes:
        named = [sign + shown(path) for sign, path in changes[:MOST_CHANGES]]
        more = len(changes) - len(named)
        said += f"; changed {', '.join(named)}" + (f" and {more} more" if more else "")
    return f"[{said}]"


def read_ending(reply: str) -> Ending | None:
    """What the last line of a reply says. None: it is not a reply of `bash`."""
    match = _FOOTER.search(reply)
    if match is None:
        return None
    named = _NAME.findall(re.sub(r" and \d+ more$", "", match["changed"] or ""))
    return Ending(
        status=None if match["status"] is None else int(match["status"]),
        directory=_unquoted(match["directory"] or ""),
        changed=tuple(_unquoted(name) for sign, name in named if sign != "-"),
        gone=tuple(_unquoted(name) for sign, name in named if sign == "-"),
    )


def _unquoted(name: str) -> str:
    try:
        return str(json.loads(name)) if name.startswith('"') else name
    except ValueError:
        return name


def _stopped(result: SandboxResult, limits: SandboxLimits) -> str:
    words = {
        "timeout": f"ran longer than {limits.seconds:g} s",
        "cpu": f"used more than {limits.cpu_seconds} s of processor time",
        "memory": f"used more than {limits.memory_mb} MiB of memory",
        "processes": f"started more than {limits.processes} processes",
        "output": "wrote too much",
        "disk": f"wrote more than {limits.disk_mb} MiB to the disk",
    }
    return words[result.killed_by or "timeout"]
