"""What commands of an episode find in the sandbox besides the system: `python`, `pytest`, and nothing of ours.

The packages of the interpreter's environment are not shown, but for pytest and its parts. tutelage itself is hidden:
the repaired packages are part of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import tutelage
from tutelage.envs.repo.container import ContainerSandbox
from tutelage.envs.sandbox.base import Sandbox
from tutelage.envs.sandbox.system import PYTHON_HOME, SYSTEM_FOLDERS, base_python
from tutelage.errors import MissingExtra

TOOLS: Final = "/opt/tools"
"""Where the toolbox is inside."""

CHECK_SCRIPT: Final = Path(__file__).parent / "inside" / "check.py"

PARTS: Final = ("pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments")
"""Import names of pytest and of what it needs; older versions do without the last."""

# No plug-ins of the user's, no cache folder in the tree, no colours.
PYTEST_ENV: Final = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": "-p no:cacheprovider --color=no"}


class Toolbox:
    """The tools of one sandbox; `folder` is an empty folder of the host that lives as long as the toolbox is used.

    Raises MissingExtra if pytest is not installed.
    """

    def __init__(self, sandbox: Sandbox, folder: Path) -> None:
        if isinstance(sandbox, ContainerSandbox):
            # The image has its own interpreter and its own pytest.
            self.check_script = f"{TOOLS}/check.py"
            self.readonly = {CHECK_SCRIPT: self.check_script}
            self.env = dict(PYTEST_ENV)
            return
        parts = dict(_parts())
        if sandbox.isolated:
            lib, commands, self.check_script = f"{TOOLS}/lib", f"{TOOLS}/bin", f"{TOOLS}/check.py"
            self.readonly = {path: f"{lib}/{path.name}" for path in parts.values()}
            self.readonly |= {CHECK_SCRIPT: self.check_script, folder / "bin": commands}
            place = _place_inside(Path(tutelage.__file__).parent)
            if place is not None:
                (folder / "empty").mkdir()
                self.readonly[folder / "empty"] = place
        else:
            # Nothing can be moved or hidden there: the packages are taken where they are.
            lib, commands, self.check_script = str(parts["pytest"].parent), str(folder / "bin"), str(CHECK_SCRIPT)
            self.readonly = {}
        (folder / "bin").mkdir()
        for name, arguments in (("python", ""), ("python3", ""), ("pytest", " -m pytest")):
            script = folder / "bin" / name
            script.write_text(f'#!/bin/sh\nexec {sandbox.python}{arguments} "$@"\n')
            script.chmod(0o755)
        self.env = {
            "PATH": f"{commands}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            "PYTHONPATH": lib,
            **PYTEST_ENV,
        }


def _parts() -> Iterator[tuple[str, Path]]:
    for name in PARTS:
        found = find_spec(name)
        if found is not None and found.origin is not None:
            path = Path(found.origin)
            yield name, path.parent if path.name == "__init__.py" else path
        elif name == "pytest":
            raise MissingExtra("environment 'repo'", "repo")


def _place_inside(path: Path) -> str | None:
    """Where a folder of the host is seen inside: it is, below the interpreter's installation or the system's folders."""
    path = path.resolve()
    if path.is_relative_to(base_python()) and not base_python().is_relative_to("/usr"):
        return f"{PYTHON_HOME}/{path.relative_to(base_python())}"
    return str(path) if any(path.is_relative_to(folder) for folder in SYSTEM_FOLDERS) else None
