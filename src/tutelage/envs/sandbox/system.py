"""What a command sees of the machine: the system read-only, an interpreter, and nothing else of the host.

/usr /bin /lib ...   the host's, read-only
/opt/python          the interpreter that runs tutelage, without its environment's packages, read-only
/etc                 a user table and what the loader needs
/tmp                 empty, in memory, gone afterwards
/workspace           the caller's folder, the only place that can be written to and stays
"""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path
from typing import Final

WORKSPACE: Final = "/workspace"
"""Where the caller's folder is inside."""

PYTHON_HOME: Final = "/opt/python"

HOST_NAME: Final = "sandbox"

AGENT_ID: Final = 1000
"""User and group number inside, whoever runs tutelage, so that commands print the same everywhere."""

WRAPPER_ENV: Final = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "LANG": "C.UTF-8"}
"""Environment of the program that makes a sandbox. What is inside can read it: nothing of the host's is in it."""

SYSTEM_FOLDERS: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")

ETC_FILES: Final = ("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/mime.types")
"""Read-only, where the host has them. None of them tells anything about users."""

# bash says -u for the number of processes, dash -p; sizes are KiB (-v) and blocks of 512 bytes (-f) in both.
LIMITED: Final = (
    '{ ulimit -c 0; ulimit -n 256; ulimit -t "$1"; ulimit -v "$2"; ulimit -f "$3"; '
    'if [ "$4" -gt 0 ]; then ulimit -u "$4" || ulimit -p "$4"; fi; } 2>/dev/null; shift 4; "$@"; exit $?'
)
"""Shell text that sets the limits it is given (those that are tighter already stay) and runs the command. The shell stays, as the first process inside: a
command could not be that, since the kernel keeps most signals from it."""


def base_python() -> Path:
    """Installation folder of the interpreter that runs this, whatever virtual environment it is used from."""
    return Path(os.path.realpath(sys.base_prefix))


def inner_python() -> str:
    """Path of that interpreter inside a sandbox."""
    name = f"bin/python{sys.version_info.major}.{sys.version_info.minor}"
    base = base_python()
    return str(base / name) if base.is_relative_to("/usr") else f"{PYTHON_HOME}/{name}"


def base_env(python: str) -> dict[str, str]:
    """Environment variables of every command; nothing of the host's goes in."""
    # An interpreter linked to a shared library looks for it where it was installed, or takes the system's.
    library = Path(python).parent.parent / "lib"
    shared = {"LD_LIBRARY_PATH": str(library)} if sysconfig.get_config_var("Py_ENABLE_SHARED") else {}
    return (shared if not library.is_relative_to("/usr") else {}) | {
        "PATH": f"{os.path.dirname(python)}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
        "HOME": "/tmp",
        "TMPDIR": "/tmp",
        "USER": "agent",
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "TERM": "dumb",
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUTF8": "1",
        "OMP_NUM_THREADS": "1",
    }


def system_links() -> dict[str, str]:
    """Path inside -> what it links to, for system folders that are links on the host."""
    return {folder: os.readlink(folder) for folder in SYSTEM_FOLDERS if os.path.islink(folder)}


def system_folders() -> dict[str, str]:
    """Path of the host -> path inside, all read-only."""
    folders = [path for path in SYSTEM_FOLDERS if os.path.isdir(path) and not os.path.islink(path)]
    found = {path: path for path in (*folders, *ETC_FILES) if os.path.exists(path)}
    if not base_python().is_relative_to("/usr"):
        found[str(base_python())] = PYTHON_HOME
    return found


def user_files() -> dict[str, str]:
    """Path inside -> text: the users and groups there are."""
    return {
        "/etc/passwd": f"root:x:0:0:root:/tmp:/bin/sh\nagent:x:{AGENT_ID}:{AGENT_ID}:agent:/tmp:/bin/sh\n",
        "/etc/group": f"root:x:0:\nagent:x:{AGENT_ID}:\n",
    }


def counts_processes_per_sandbox() -> bool:
    """Whether the kernel counts RLIMIT_NPROC per user namespace (Linux 5.14). Before, it counts all of a user's."""
    release = os.uname().release.split("-")[0].split(".")
    return tuple(int(part) for part in release[:2]) >= (5, 14)
