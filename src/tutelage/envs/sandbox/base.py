"""What every sandbox does: check a request, run it within bounds, and say what came of it."""

from __future__ import annotations

import contextlib
import os
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import ClassVar, Final

from tutelage.envs.sandbox.limits import SandboxLimits, SandboxResult, Stop
from tutelage.envs.sandbox.process_bound import ProcessBound
from tutelage.envs.sandbox.status import Status
from tutelage.envs.sandbox.supervise import Finished, supervise
from tutelage.envs.sandbox.system import WORKSPACE, WRAPPER_ENV, base_env, counts_processes_per_sandbox, inner_python
from tutelage.errors import ConfigError, EnvError

CPU_SIGNALS: Final = (128 + 24, 128 + 9)
"""How a command ends that used up its processor time: SIGXCPU, or SIGKILL where it ignored that."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """One command, checked."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    workspace: Path | None
    cwd: PurePosixPath
    limits: SandboxLimits
    readonly: Mapping[Path, str]
    builds_sandboxes: bool = False
    """True: the command is our own code. It may make name spaces and mounts inside, has no limits, and outlives the
    thread that starts it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Prepared:
    """A command of the host that runs a request."""

    argv: tuple[str, ...]
    fds: tuple[int, ...]
    """Descriptors that it inherits."""
    status: Status
    extra_processes: int
    """Processes of the sandbox itself below it."""


class Sandbox(ABC):
    """Runs commands that reach nothing but their workspace. Calls may come from several threads at once."""

    kind: ClassVar[str]
    isolated: ClassVar[bool] = True
    """False: only limits hold, see `SandboxUnsafe`."""

    @property
    def python(self) -> str:
        """Path, inside, of the interpreter that runs tutelage."""
        return inner_python()

    def workspace_path(self, workspace: Path) -> str:
        """Where a workspace is inside."""
        return WORKSPACE

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
        """Run a command until it ends or breaks a limit; then everything it started is dead too.

        workspace: folder that is read and written as /workspace. None: the command has only its private /tmp.
        cwd: working directory, relative to the workspace (to /tmp without one).
        env: variables added to a fixed small set; nothing of the host's environment is passed on.
        readonly: folders or files of the host -> where they are inside, e.g. ``{Path("site"): "/opt/site"}``.

        A workspace is the agent's when the command is over. Read it without following links (`os.lstat`,
        `O_NOFOLLOW`): a link in it may point to any file of the host.

        Raises ConfigError for paths that do not fit, EnvError if the sandbox itself could not be set up.
        """
        request = Request(
            argv=tuple(argv),
            env=base_env(self.python) | dict(env or {}),
            workspace=workspace,
            cwd=PurePosixPath(cwd),
            limits=limits,
            readonly=dict(readonly or {}),
        )
        _check(request)
        with self.prepared(request) as prepared:
            finished = supervise(
                prepared.argv,
                limits=limits,
                kill=prepared.status.kill,
                first_process=lambda: prepared.status.first_process,
                stdin=stdin,
                pass_fds=prepared.fds,
                extra_processes=prepared.extra_processes,
                workspace=workspace,
            )
            if finished.stopped is None and not prepared.status.ended:
                message = finished.stderr.text()[0].strip()
                raise EnvError(f"sandbox '{self.kind}' could not be set up: {message or 'it gave no message'}.")
        return _result(finished, limits)

    def start(
        self, argv: Sequence[str], fds: Sequence[int], readonly: Mapping[Path, str], bound: ProcessBound
    ) -> subprocess.Popen[bytes]:
        """Start code of our own that builds sandboxes inside this one; it inherits `fds` and ends by itself.

        bound: on all of its processes; whoever waits for its end removes it.
        """
        request = Request(
            argv=tuple(argv),
            env=base_env(self.python),
            workspace=None,
            cwd=PurePosixPath("."),
            limits=SandboxLimits(),
            readonly=readonly,
            builds_sandboxes=True,
        )
        with self.prepared(request) as prepared:
            return subprocess.Popen(
                bound.wrap(prepared.argv),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env=WRAPPER_ENV,
                pass_fds=(*prepared.fds, *fds),
                start_new_session=True,
            )

    @contextlib.contextmanager
    def prepared(self, request: Request) -> Iterator[Prepared]:
        """What to execute for a request; its descriptors are open while the context is."""
        with contextlib.ExitStack() as files:
            status_fd, status_end = os.pipe()
            files.callback(os.close, status_fd)
            files.callback(os.close, status_end)
            if request.builds_sandboxes:
                # Nobody reads how our own code fares, and a pipe without a reader would kill who writes to it.
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, status_end)
                os.close(nowhere)
            yield self._prepare(request, Status(status_fd), status_end, files)

    @abstractmethod
    def _prepare(self, request: Request, status: Status, status_fd: int, files: contextlib.ExitStack) -> Prepared:
        """What to execute. It tells on `status_fd`, see `Status`. Descriptors opened are closed by `files`."""
        ...


def limit_arguments(limits: SandboxLimits, extra_processes: int = 0) -> list[int]:
    """Seconds, KiB, blocks of 512 bytes, processes (0: not set): the arguments of `LIMITED` and of `isolate.limit`."""
    count = limits.processes + extra_processes if counts_processes_per_sandbox() else 0
    return [limits.cpu_seconds, limits.memory_mb << 10, limits.file_mb << 11, count]


def out_of_cpu(code: int, cpu_seconds: float, limits: SandboxLimits) -> Stop | None:
    """``cpu`` if a command that ended with this code used up its processor time."""
    return "cpu" if code in CPU_SIGNALS and cpu_seconds >= 0.9 * limits.cpu_seconds else None


def file_with(data: bytes, files: contextlib.ExitStack) -> int:
    """A descriptor of a file in memory, at its beginning."""
    fd = os.memfd_create("sandbox")
    files.callback(os.close, fd)
    with os.fdopen(os.dup(fd), "wb") as stream:
        stream.write(data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _check(request: Request) -> None:
    if not request.argv:
        raise ConfigError("sandbox: empty command, expected a program and its arguments.")
    if request.workspace is not None and not request.workspace.is_dir():
        raise ConfigError(f"sandbox: workspace {request.workspace} is not a folder. Make it first.")
    if request.cwd.is_absolute() or ".." in request.cwd.parts:
        raise ConfigError(f"sandbox: cwd is '{request.cwd}', expected a path below the workspace, without '..'.")
    texts = [str(request.cwd), *request.argv, *request.env, *request.env.values(), *request.readonly.values()]
    if any("\0" in text for text in texts):
        raise ConfigError("sandbox: a NUL character in the command, its cwd, env or readonly; expected none.")
    for source, target in request.readonly.items():
        if not source.exists() or not PurePosixPath(target).is_absolute():
            raise ConfigError(f"sandbox: readonly {source} -> {target!r}, expected what exists -> absolute path.")


def _result(finished: Finished, limits: SandboxLimits) -> SandboxResult:
    stdout, cut_stdout = finished.stdout.text()
    stderr, cut_stderr = finished.stderr.text()
    code = finished.return_code if finished.return_code >= 0 else 128 - finished.return_code
    stopped = finished.stopped or out_of_cpu(code, finished.cpu_seconds, limits)
    return SandboxResult(
        exit_code=None if stopped else code,
        stdout=stdout,
        stderr=stderr,
        timed_out=stopped == "timeout",
        output_cut=cut_stdout or cut_stderr,
        seconds=finished.seconds,
        killed_by=stopped,
    )
