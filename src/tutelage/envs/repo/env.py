"""The repo environment: one software task, one episode, one sandboxed workspace.

In: a `Task` whose settings name a problem (`problem`) and how it is played (`PlaySettings`). Out: the replies of the tools
`bash`, `edit` and `submit`; 1.0 if the hidden tests pass on the final tree, else 0.0, None if they could not be run.
"""

from __future__ import annotations

import os
import tempfile
import threading
import weakref
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Final

from tutelage.envs.action_formats import ActionFormat
from tutelage.envs.base import StepResult
from tutelage.envs.lifetime import Lifetime
from tutelage.envs.repo.check import CHECK_LIMITS, remove_folder
from tutelage.envs.repo.container import ContainerSandbox
from tutelage.envs.repo.editor import Editor
from tutelage.envs.repo.instructions import instructions_of
from tutelage.envs.repo.judge import Judgement, judge
from tutelage.envs.repo.patch import make_patch
from tutelage.envs.repo.problem import Problem, content_hash_of, problem_of
from tutelage.envs.repo.settings import PlaySettings, action_format_named
from tutelage.envs.repo.shell import directory_of, ending, shell_command, steady
from tutelage.envs.repo.toolbox import Toolbox
from tutelage.envs.repo.tree import GIT_ENV, Tree, run_git
from tutelage.envs.repo.workspace import CLOCK_START, Workspace
from tutelage.envs.sandbox.base import Sandbox
from tutelage.envs.sandbox.choose import make_sandbox
from tutelage.errors import EnvError, FormatError
from tutelage.types import Action, Observation, ParsedCall, Task

INSTRUCTIONS: Final = instructions_of("functions")
"""What a language model is told before the first observation; `instructions_of` has the other format."""

SUBMITTED: Final = "Submitted."
AUTO_SUBMITTED: Final = "[no steps are left; submitted as it is]"
REVIEW: Final = "These are your changes. Submit again to end the task, or go on working.\n\n"
TOO_BIG: Final = "[the workspace holds more than {max_mb} MiB; the episode ends]"

_STEADY_ENV: Final = {
    **{name: value for name, value in GIT_ENV.items() if name.startswith(("GIT_AUTHOR", "GIT_COMMITTER"))},
    "TIME_STYLE": "+",
}
"""Commits of an agent have the same ids in every run, and `ls -l` shows no times."""


@lru_cache(maxsize=8)
def shared_sandbox(kind: str, allow_unsafe: bool) -> Sandbox:
    """One sandbox for all episodes of a process; it is tried once."""
    return make_sandbox(kind, allow_unsafe)


class RepoEnv:
    """One episode of one software task. The seed of `reset` changes nothing: the task alone decides.

    The workspace is a folder in the host's temporary folder until `close`. A command that runs when the episode is
    closed from another thread goes on to its own end or limit; then the folder is removed.
    """

    inline = False

    def __init__(self, task: Task) -> None:
        """Raises ConfigError on settings that cannot be. Everything slow is left to `reset`."""
        self.task = task
        self.settings = PlaySettings.of(task.settings)
        self.action_format = self.format_of(task)
        self.judgement: Judgement | None = None
        """What the tests said. None: they were not run, or could not be."""
        self.auto_submitted = False
        """The final tree was judged because the steps were over, not because somebody submitted."""
        self.check_error = ""
        """Why the tests could not be run."""
        self._directory = ""
        self._submitting = False
        self.life = Lifetime(task, self.settings.max_steps)
        self._lock = threading.Lock()
        self._remove: weakref.finalize[..., RepoEnv] | None = None

    @staticmethod
    def format_of(task: Task) -> ActionFormat:
        """Raises ConfigError on an unknown one."""
        return action_format_named(str(task.settings.get("action_format", "functions")))

    def reset(self, seed: int) -> Observation:
        """Raises ConfigError, FormatError (see `problem_of`), or EnvError if the problem is not the one of the task."""
        self.life.begin(ready=False)
        try:
            with self._lock:
                self._set_up(problem_of(self.task.settings))
                self.life.ready()
        finally:
            self._remove_if_closed()
        return Observation.of(self.problem.statement)

    def step(self, action: Action) -> StepResult:
        self.life.check_step()
        try:
            with self._lock:
                return self._step(self.action_format.apply(action))
        finally:
            self._remove_if_closed()

    def reward(self) -> float | None:
        """1.0 if the task was submitted and solved, 0.0 if not; None if the tests could not be run."""
        if self.check_error:
            return None
        return 1.0 if self.judgement is not None and self.judgement.solved else 0.0

    def admissible(self) -> None:
        """The list is open."""
        return

    def state_hash(self) -> str:
        """Of paths and contents in the workspace."""
        return self._workspace.state_hash()

    def progress(self) -> float | None:
        """Share of the tests that pass. None: not judged yet."""
        if self.judgement is None:
            return None
        return self.judgement.num_passed / self.judgement.num_tests

    def patch(self) -> bytes:
        """What was changed so far, in git's format, e.g. as the answer to a benchmark."""
        return make_patch(self.problem.tree, self._final_tree() or Tree({}))

    def close(self) -> None:
        """Remove the workspace; again is harmless."""
        self.life.close()
        # While a command runs in another thread, that thread removes the folder afterwards.
        self._remove_if_closed()

    def _remove_if_closed(self) -> None:
        if self.life.closed and self._lock.acquire(blocking=False):
            try:
                if self._remove is not None:
                    self._remove()
            finally:
                self._lock.release()

    def _set_up(self, problem: Problem) -> None:
        expected = self.task.settings.get("content_hash")
        found = content_hash_of(self.task.settings)
        if expected is not None and found != expected:
            raise EnvError(
                f"the problem has content hash {found[:12]}, the task was made of {expected[:12]}.\n"
                "  Its files have changed since. Load the tasks again and start a new run.",
                task_id=self.task.task_id,
            )
        self.problem = problem
        settings = self.settings
        folder = Path(tempfile.mkdtemp(prefix="tutelage-repo-"))
        self._remove = weakref.finalize(self, remove_folder, folder)
        self._scratch, tools, work = folder, folder / "tools", folder / "work"
        tools.mkdir()
        work.mkdir()
        self._sandbox: Sandbox
        if settings.image:
            self._sandbox = ContainerSandbox(
                settings.image, engine=settings.engine, folder=settings.image_folder, python=settings.image_python
            )
        else:
            self._sandbox = shared_sandbox(settings.sandbox, settings.allow_unsafe)
        self._toolbox = Toolbox(self._sandbox, tools)
        self._workspace = Workspace(work, problem.tree, settings.disk_mb)
        if settings.git:
            _make_repository(work)
        self._root = self._sandbox.workspace_path(work)
        self._editor = Editor(self._workspace, self._root, settings.output_chars)

    def _step(self, action: Action) -> StepResult:
        call = action.call
        terminated = False
        if action.command is None or call is None:
            text = self.action_format.help
        elif call.name == "submit":
            text, terminated = self._submit()
        else:
            text = self._bash(call) if call.name == "bash" else self._edit(call)
        truncated = self.life.count_step(terminated, truncated=self._workspace.too_big)
        if truncated and self.settings.auto_submit and not self._workspace.too_big:
            self._judge()
            self.auto_submitted = True
            text += f"\n{AUTO_SUBMITTED}"
        return StepResult(
            observation=Observation.of(text),
            reward=self.reward() if terminated or truncated else None,
            terminated=terminated,
            truncated=truncated,
        )

    # Tools

    def _bash(self, call: ParsedCall) -> str:
        command = call.arguments.get("command")
        if command is None or not str(command).strip():
            return "Error: bash needs 'command'."
        argv, mark = shell_command(self._directory, self._root)
        limits = self.settings.bash_limits
        result = self._sandbox.run(
            argv,
            workspace=self._workspace.folder,
            stdin=str(command).encode("utf-8", "surrogateescape"),
            limits=limits,
            env=self._toolbox.env | _STEADY_ENV,
            readonly=self._toolbox.readonly,
        )
        changes = self._workspace.changes(self.life.num_steps + 1)
        self._directory = directory_of(result, mark, self._root, self._directory)
        output = steady(result.stdout)
        parts = [output if output.endswith("\n") or not output else f"{output}\n"]
        parts.append(ending(result, limits, self._directory, changes))
        if self._workspace.too_big:
            parts.append(f"\n{TOO_BIG.format(max_mb=self.settings.disk_mb)}")
        return "".join(parts)

    def _edit(self, call: ParsedCall) -> str:
        text = self._editor.run(call.arguments, self._directory)
        self._workspace.changes(self.life.num_steps + 1)
        return text

    def _submit(self) -> tuple[str, bool]:
        if self.settings.review and not self._submitting:
            self._submitting = True
            patch = self.patch().decode("utf-8", "replace")
            limit = self.settings.output_chars
            return REVIEW + (patch[:limit] or "(nothing was changed)"), False
        self._judge()
        return SUBMITTED, True

    def _judge(self) -> None:
        final = self._final_tree()
        if final is None:
            return
        limits = replace(CHECK_LIMITS, seconds=self.settings.check_seconds)
        try:
            self.judgement = judge(
                self.problem,
                final,
                sandbox=self._sandbox,
                toolbox=self._toolbox,
                scratch=self._scratch,
                limits=limits,
                arguments=self.settings.pytest_arguments,
            )
        except EnvError as error:
            self.check_error = str(error)

    def _final_tree(self) -> Tree | None:
        """None: too large to be looked at, which solves nothing."""
        try:
            return self._workspace.tree()
        except FormatError:
            return None


def _make_repository(folder: Path) -> None:
    """One commit of everything, with fixed dates."""
    run_git(["init", "--quiet", "--template=", "--initial-branch=main", "."], folder)
    run_git(["add", "--all", "--force", "."], folder)
    run_git(["commit", "--quiet", "--allow-empty", "--message", "start"], folder)
    # Otherwise their times would tell the host's clock.
    for parent, _, files in os.walk(folder / ".git", topdown=False):
        for name in (*files, ""):
            os.utime(os.path.join(parent, name), (CLOCK_START, CLOCK_START))
    os.utime(folder, (CLOCK_START, CLOCK_START))
