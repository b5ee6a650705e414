"""Commands in a container image, for repositories that need more than an interpreter: one container per command.

For users who have an engine with docker's command line (docker, podman). The command lines are tested; with a real engine
this is untested.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from tutelage.envs.repo.tree import Tree, read_tar
from tutelage.envs.sandbox.base import Prepared, Request, Sandbox
from tutelage.envs.sandbox.limits import SandboxLimits, SandboxResult
from tutelage.envs.sandbox.status import Status
from tutelage.envs.sandbox.supervise import kill_process
from tutelage.errors import ConfigError, EnvError

ENGINE_FAILED: Final = 125
"""Exit status of the engine's own failures."""

ENGINE_PROCESSES: Final = 64
"""Threads of the engine's command, which are not the container's."""

OF_THE_IMAGE: Final = frozenset(("PATH", "HOME", "TMPDIR", "USER", "LD_LIBRARY_PATH"))
"""Variables that an image sets itself."""


class ContainerSandbox(Sandbox):
    """A sandbox that runs each command in a fresh container of `image`, without network.

    folder: where the workspace is inside, since images install a repository at a fixed place.
    python: the interpreter inside; pytest must be installed for it.
    """

    kind = "container"

    def __init__(self, image: str, *, engine: str = "docker", folder: str = "/testbed", python: str = "python") -> None:
        self.image = image
        self.engine = engine
        self.folder = folder
        self._python = python

    @property
    def python(self) -> str:
        return self._python

    def workspace_path(self, workspace: Path) -> str:
        return self.folder

    def run(
        self,
        argv: Sequence[str],
        *,
        workspace: Path | None = None,
        cwd: str = ".",
        stdin: bytes = b"",
        limits: SandboxLimits = SandboxLimits(),
        env: Mapping[str, str] | None = None,
        readonly: Mapping[Path, str] | None = None,
    ) -> SandboxResult:
        """As `Sandbox.run`. Raises EnvError where the engine itself fails."""
        result = super().run(argv, workspace=workspace, cwd=cwd, stdin=stdin, limits=limits, env=env, readonly=readonly)
        if result.exit_code == ENGINE_FAILED:
            raise EnvError(f"{self.engine} could not run {self.image}: {result.stderr.strip()[-500:]}")
        return result

    def _prepare(self, request: Request, status: Status, status_fd: int, files: contextlib.ExitStack) -> Prepared:
        name = f"tutelage-{secrets.token_hex(8)}"
        argv = container_argv(request, self.image, engine=self.engine, folder=self.folder, name=name)
        ends = _EndsContainer(status.fd, self.engine, name)
        return Prepared(argv=tuple(argv), fds=(), status=ends, extra_processes=ENGINE_PROCESSES)


def container_argv(request: Request, image: str, *, engine: str, folder: str, name: str) -> list[str]:
    """The engine's command line for a request: no network, no capabilities, only the workspace and /tmp writable."""
    limits = request.limits
    command = [engine, "run", "--rm", "--interactive", "--init", "--name", name, "--network", "none"]
    command += ["--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--read-only"]
    command += ["--tmpfs", f"/tmp:size={limits.memory_mb}m,mode=1777", "--user", f"{os.getuid()}:{os.getgid()}"]
    command += ["--memory", f"{limits.memory_mb}m", "--memory-swap", f"{limits.memory_mb}m"]
    command += [
        "--pids-limit",
        str(limits.processes + 1),
        "--ulimit",
        f"cpu={limits.cpu_seconds}",
        "--ulimit",
        "core=0",
    ]
    command += ["--ulimit", f"fsize={limits.file_mb << 20}"]
    for source, target in request.readonly.items():
        command += ["--volume", f"{source.absolute()}:{target}:ro"]
    if request.workspace is not None:
        command += ["--volume", f"{request.workspace.absolute()}:{folder}"]
    home = folder if request.workspace is not None else "/tmp"
    command += ["--workdir", str(PurePosixPath(home, request.cwd)), "--env", "HOME=/tmp"]
    for variable, value in sorted(request.env.items()):
        if variable not in OF_THE_IMAGE:
            command += ["--env", f"{variable}={value}"]
    return [*command, "--entrypoint", request.argv[0], image, *request.argv[1:]]


class _EndsContainer(Status):
    """A container has no first process of ours; it is ended by its name."""

    def __init__(self, fd: int, engine: str, name: str) -> None:
        super().__init__(fd)
        self._engine = engine
        self._name = name

    @property
    def ended(self) -> bool:
        """True: the engine's exit status tells whether the command was started."""
        return True

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        subprocess.run([self._engine, "kill", self._name], capture_output=True, check=False, timeout=30)
        kill_process(process)


def image_tree(image: str, *, engine: str = "docker", folder: str = "/testbed") -> Tree:
    """The repository as it is in an image; its history is left out. Raises ConfigError where the engine fails."""
    name = _engine(engine, "create", image).decode().strip()
    try:
        with tempfile.NamedTemporaryFile(suffix=".tar") as file:
            file.write(_engine(engine, "cp", f"{name}:{folder}/.", "-"))
            file.flush()
            return read_tar(Path(file.name))
    finally:
        _engine(engine, "rm", "--force", name)


def _engine(engine: str, *arguments: str) -> bytes:
    try:
        done = subprocess.run([engine, *arguments], capture_output=True, check=False)
    except FileNotFoundError:
        raise ConfigError(
            f"repo: the container engine '{engine}' is not there. Install it, or play tasks without images."
        ) from None
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip()
        raise ConfigError(f"repo: {engine} {arguments[0]} failed with exit status {done.returncode}: {said}")
    return done.stdout
