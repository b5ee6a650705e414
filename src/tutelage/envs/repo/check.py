"""Runs the tests of a tree in a fresh copy, in a sandbox, and reads a report that the tree's code cannot easily forge.

What counts is the sealed report of `inside/check.py`: no exit code, no output, no file. Test files and test configuration
are the caller's; see `guarded_tree` for what is taken of a tree that an agent left behind.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tutelage.envs.repo.toolbox import Toolbox
from tutelage.envs.repo.tree import Tree
from tutelage.envs.sandbox.base import Sandbox
from tutelage.envs.sandbox.limits import SandboxLimits
from tutelage.errors import EnvError

CHECK_LIMITS: Final = SandboxLimits(
    seconds=120, cpu_seconds=60, memory_mb=1024, output_chars=2_000_000, keep_tail=False
)

PASSED: Final = ("passed", "xfailed")
"""Outcomes of a test that count as passed. A skipped test has not passed."""

TEST_FOLDERS: Final = ("test", "tests", "testing")
TEST_CONFIGURATION: Final = frozenset(
    (
        "conftest.py",
        "pytest.ini",
        ".pytest.ini",
        "pytest.toml",
        ".pytest.toml",
        "tox.ini",
        "setup.cfg",
        "pyproject.toml",
    )
)
START_FILES: Final = frozenset(("sitecustomize.py", "usercustomize.py"))
"""Files that an interpreter runs by itself when it starts."""

SHADOWED: Final = sys.stdlib_module_names | {"pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments", "py"}
"""Modules that a tree must not bring along unless it always had."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TestRun:
    """What came of running tests."""

    outcomes: Mapping[str, str]
    """Test id -> outcome. Empty where the run did not come to its end."""
    trouble: str = ""
    """Why the whole run counts as failed, e.g. ``stopped: timeout``. Empty: it counts."""
    broken: tuple[str, ...] = ()
    """Ids of what could not be collected."""
    seconds: float = 0.0

    def passed(self, test_id: str) -> bool:
        return not self.trouble and self.outcomes.get(test_id) in PASSED


# Not a test class, whatever its name begins with.
TestRun.__test__ = False  # type: ignore[attr-defined]


def is_guarded(path: str) -> bool:
    """Whether a path is a test, or changes how tests are run, by its name."""
    *folders, name = path.split("/")
    if any(folder in TEST_FOLDERS for folder in folders):
        return True
    is_test = name.endswith(".py") and (name.startswith("test_") or name.endswith("_test.py"))
    return is_test or name in TEST_CONFIGURATION or name in START_FILES


def guarded_tree(final: Tree, tests: Tree, original: Tree) -> Tree:
    """The tree to be judged: the agent's files, but tests and test configuration as they are in `tests`.

    Left out of the agent's: other guarded files, compiled files, new modules at the top that would be imported in place
    of the standard library's or of pytest's parts, and whatever stands where a test file belongs.
    """
    own = {_top_module(path) for path in original}
    folders = {"/".join(path.split("/")[:index]) for path in tests for index in range(1, path.count("/") + 1)}

    def taken(path: str) -> bool:
        parts = path.split("/")
        in_the_way = path in folders or any("/".join(parts[:index]) in tests for index in range(1, len(parts)))
        compiled = "__pycache__" in parts or path.endswith((".pyc", ".pyo", ".pth"))
        shadows = _top_module(path) not in own and _top_module(path) in SHADOWED
        return not (is_guarded(path) or path in tests or in_the_way or compiled or shadows)

    return Tree({**final.only(taken), **tests})


def _top_module(path: str) -> str | None:
    """Name by which a file, or the folder at the top that it is in, could be imported. None: it cannot."""
    top, below, _ = path.removeprefix("src/").partition("/")
    return top.split(".")[0] if below or top.endswith((".py", ".so")) else None


def run_tests(
    tree: Tree,
    files: Sequence[str],
    *,
    sandbox: Sandbox,
    toolbox: Toolbox,
    scratch: Path,
    guarded: Sequence[str] = (),
    limits: SandboxLimits = CHECK_LIMITS,
    arguments: Sequence[str] = (),
) -> TestRun:
    """Run test files of a tree in a copy of it below `scratch`, which is removed again.

    guarded: paths that must not be touched while the tests run.
    arguments: more arguments of pytest. The tree's own `addopts` are not used.
    Raises EnvError if the run did not even begin: then nothing is known about the tree.
    """
    folder = Path(tempfile.mkdtemp(prefix="check-", dir=scratch))
    try:
        tree.write(folder)
        before = _marks(folder, guarded)
        key = secrets.token_bytes(32)
        root = sandbox.workspace_path(folder)
        order = {"key": key.hex(), "root": root, "files": list(files), "arguments": list(arguments)}
        result = sandbox.run(
            # -I: neither the folder it is started in nor variables decide what is imported.
            [sandbox.python, "-I", "-c", _START, toolbox.env.get("PYTHONPATH", ""), toolbox.check_script],
            workspace=folder,
            stdin=json.dumps(order).encode(),
            limits=limits,
            env=toolbox.env,
            readonly=toolbox.readonly,
        )
        reports, strange = _read_reports(result.stdout, key)
        if not reports or not reports[0].get("started"):
            said = (result.stderr or result.stdout).strip()[-500:]
            raise EnvError(f"the tests could not be started ({result.killed_by or result.exit_code}): {said}")
        touched = [path for path, mark in _marks(folder, guarded).items() if before[path] != mark]
    finally:
        remove_folder(folder)
    trouble = ""
    if len(reports) < 2:
        stopped = f"stopped: {result.killed_by}" if result.killed_by else f"ended early, exit status {result.exit_code}"
        return TestRun(outcomes={}, trouble=stopped, seconds=result.seconds)
    report = reports[1]
    if strange or touched or report["tampered"]:
        found = [*report["tampered"], *(f"{path} was changed" for path in touched)]
        trouble = "tampered: " + "; ".join([*found, *(["lines without a seal"] if strange else [])][:5])
    return TestRun(outcomes=report["outcomes"], trouble=trouble, broken=tuple(report["broken"]), seconds=result.seconds)


_START: Final = "import runpy, sys; sys.path.insert(0, sys.argv[1]); runpy.run_path(sys.argv[2], run_name='__main__')"


def _read_reports(text: str, key: bytes) -> tuple[list[dict[str, Any]], bool]:
    """The sealed lines, and whether there is anything else."""
    reports = []
    strange = False
    for line in text.splitlines():
        seal, _, body = line.partition(" ")
        right = hashlib.blake2b(body.encode("utf-8", "replace"), key=key, digest_size=32).hexdigest()
        if secrets.compare_digest(seal.encode("utf-8", "replace"), right.encode()):
            reports.append(json.loads(body))
        else:
            strange = True
    return reports, strange or len(reports) > 2


def _marks(folder: Path, paths: Sequence[str]) -> dict[str, tuple[int, ...] | None]:
    """What changes when a file is written, replaced or moved; the change time cannot be set by anybody."""
    marks: dict[str, tuple[int, ...] | None] = {}
    for path in paths:
        try:
            status = os.lstat(folder / path)
        except OSError:
            marks[path] = None
        else:
            marks[path] = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_mode)
    return marks


def remove_folder(folder: Path) -> None:
    """Remove a folder that an agent wrote to: links are not followed, and folders made unreadable are opened first."""
    for parent, folders, _ in os.walk(folder):
        for name in folders:
            path = os.path.join(parent, name)
            if not os.path.islink(path):
                os.chmod(path, 0o700)
    if folder.exists():
        shutil.rmtree(folder)
