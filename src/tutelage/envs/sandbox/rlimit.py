"""No isolation: a clean environment, limits, and an end to whatever the command started. The last resort."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from tutelage.envs.sandbox.base import Prepared, Request, Sandbox, file_with, limit_arguments
from tutelage.envs.sandbox.inside.watch import descendants
from tutelage.envs.sandbox.status import Status
from tutelage.envs.sandbox.supervise import kill_process
from tutelage.envs.sandbox.system import base_python
from tutelage.envs.sandbox.unshare import INSIDE, script
from tutelage.errors import ConfigError

KILL_SECONDS: Final = 2.0
"""How long a command that keeps starting processes is chased."""


class RlimitSandbox(Sandbox):
    """Limits only. A command sees the whole host as its user does, and works in the workspace where that lies.

    `readonly` folders cannot be shown at another place, so they must be asked for where they are.
    """

    kind = "rlimit"
    isolated = False

    @property
    def python(self) -> str:
        return str(base_python() / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}")

    def workspace_path(self, workspace: Path) -> str:
        return str(workspace.absolute())

    def _prepare(self, request: Request, status: Status, status_fd: int, files: contextlib.ExitStack) -> Prepared:
        for path, target in request.readonly.items():
            if str(path.absolute()) != target:
                raise ConfigError(
                    f"sandbox 'rlimit': {path} cannot be shown at {target}. Install bubblewrap, or ask for it where it is."
                )
        workspace = request.workspace or Path("/tmp")
        spec = {
            "argv": request.argv,
            "env": dict(request.env),
            "cwd": str(workspace.absolute() / request.cwd),
            # The kernel would count all processes of the user, not those of the command: no limit on their number.
            "limits": [*limit_arguments(request.limits)[:3], 0],
            "status_fd": status_fd,
            "parent": os.getpid(),
        }
        fd = file_with(json.dumps(spec).encode(), files)
        argv = (sys.executable, *script("reap", INSIDE.parent), str(fd))
        return Prepared(argv=argv, fds=(fd, status_fd), status=_KillsAll(status.fd), extra_processes=0)


class _KillsAll(Status):
    """Kills all descendants, since no process space ends them together."""

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        # Its orphans become children of the direct child, so that one must stay until none is left.
        deadline = time.monotonic() + KILL_SECONDS
        while (left := descendants(process.pid, 10_000)) and time.monotonic() < deadline:
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.001)
        kill_process(process)
