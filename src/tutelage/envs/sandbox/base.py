"""What every sandbox does: check a request, run it within bounds, and say what came of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import ClassVar, Final

from tutelage.envs.sandbox.limits import SandboxLimits, SandboxResult
from tutelage.envs.sandbox.supervise import Finished
from tutelage.envs.sandbox.system import WORKSPACE, base_env, counts_processes_per_sandbox, inner_python
from tutelage.errors import ConfigError

CPU_SIGNALS: Final = (128 + 24, 128 + 9)
"""How a command ends that used up its processor time: SIGXCPU, or SIGKILL where it ignored that."""


class Sandbox(ABC):
    """Runs commands that reach nothing but their workspace. Calls may come from several threads at once."""

    kind: ClassVar[str]
    isolated: ClassVar[bool] = True
    """False: only limits hold, see `SandboxUnsafe`."""

    python: str = inner_python()
    """Path of the interpreter inside."""

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
        if not argv:
            raise ConfigError("sandbox: empty command, expected a program and its arguments.")
        if workspace is not None and not workspace.is_dir():
            raise ConfigError(f"sandbox: workspace {workspace} is not a folder. Make it first.")
        inside = PurePosixPath(cwd)
        if inside.is_absolute() or ".." in inside.parts:
            raise ConfigError(f"sandbox: cwd is {cwd!r}, expected a path below the workspace, without '..'.")
        for source, target in (readonly or {}).items():
            if not source.exists() or not PurePosixPath(target).is_absolute():
                raise ConfigError(f"sandbox: readonly {source} -> {target!r}, expected what exists -> absolute path.")
        finished = self._launch(
            list(argv),
            workspace=workspace,
            cwd=inside,
            stdin=stdin,
            limits=limits,
            env=base_env(self.python) | dict(env or {}),
            readonly=dict(readonly or {}),
        )
        return _result(finished, limits)

    @abstractmethod
    def _launch(
        self,
        argv: list[str],
        *,
        workspace: Path | None,
        cwd: PurePosixPath,
        stdin: bytes,
        limits: SandboxLimits,
        env: dict[str, str],
        readonly: dict[Path, str],
    ) -> Finished: ...


def limit_arguments(limits: SandboxLimits, extra_processes: int = 0) -> list[str]:
    """Arguments of `system.LIMITED`: seconds, KiB, blocks of 512 bytes, processes (0: not set)."""
    count = limits.processes + extra_processes if counts_processes_per_sandbox() else 0
    return [str(limits.cpu_seconds), str(limits.memory_mb << 10), str(limits.file_mb << 11), str(count)]


def _result(finished: Finished, limits: SandboxLimits) -> SandboxResult:
    stdout, cut_stdout = finished.stdout.text()
    stderr, cut_stderr = finished.stderr.text()
    code: int | None = finished.return_code if finished.return_code >= 0 else 128 - finished.return_code
    stopped = finished.stopped
    if stopped is None and code in CPU_SIGNALS and finished.cpu_seconds >= limits.cpu_seconds * 0.9:
        stopped = "cpu"
    return SandboxResult(
        exit_code=None if stopped else code,
        stdout=stdout,
        stderr=stderr,
        timed_out=stopped == "timeout",
        output_cut=cut_stdout or cut_stderr,
        seconds=finished.seconds,
        killed_by=stopped,
    )
