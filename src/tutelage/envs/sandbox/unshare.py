"""Isolation made by ourselves with Linux name spaces, where bubblewrap is not installed. See `inside.launch`."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import sys
from pathlib import Path, PurePosixPath
from typing import Final

from tutelage.envs.sandbox.base import Prepared, Request, Sandbox, file_with, limit_arguments
from tutelage.envs.sandbox.call_filter import call_filter
from tutelage.envs.sandbox.status import Status
from tutelage.envs.sandbox.system import AGENT_ID, HOST_NAME, WORKSPACE, system_folders, system_links, user_files

INSIDE: Final = Path(__file__).parent / "inside"
"""Package of the modules that run by themselves."""


def script(module: str, folder: str | Path) -> tuple[str, ...]:
    """Interpreter options that run `main` of a module of the package `inside`, which is in `folder`."""
    code = f"import sys; sys.path.insert(0, {str(folder)!r}); from inside.{module} import main; main()"
    return ("-s", "-S", "-P", "-B", "-c", code)


class UnshareSandbox(Sandbox):
    """Needs Linux 5.12 and user namespaces. Starts slower than bubblewrap: an interpreter builds the sandbox."""

    kind = "unshare"

    def _prepare(self, request: Request, status: Status, status_fd: int, files: contextlib.ExitStack) -> Prepared:
        folders = [[source, target, False] for source, target in system_folders().items()]
        folders += [[str(path.absolute()), target, False] for path, target in request.readonly.items()]
        home = "/tmp"
        if request.workspace is not None:
            home = WORKSPACE
            folders.append([str(request.workspace.absolute()), WORKSPACE, True])
        own = request.builds_sandboxes
        spec = {
            "folders": folders,
            "links": list(system_links().items()),
            "files": user_files(),
            "tmp_bytes": request.limits.memory_mb << 20,
            "cwd": str(PurePosixPath(home, request.cwd)),
            "host_name": HOST_NAME,
            "argv": request.argv,
            "env": dict(request.env),
            "limits": None if own else limit_arguments(request.limits, extra_processes=1),
            "filter": "" if own else base64.b64encode(call_filter()).decode(),
            "keep": own,
            # A program started under another number than 0 would lose its capabilities.
            "user": 0 if own else AGENT_ID,
            "status_fd": status_fd,
            "parent": os.getpid(),
        }
        fd = file_with(json.dumps(spec).encode(), files)
        argv = (sys.executable, *script("launch", INSIDE.parent), str(fd))
        return Prepared(argv=argv, fds=(fd, status_fd), status=status, extra_processes=1)
