"""Runs commands of an agent apart from the host: `make_sandbox(...)`, then `sandbox.run(argv, ...)`.

Python source runs faster, a fresh process for each call, through `shared_runner().run(cells)`.

| kind | isolation | needs |
|---|---|---|
| bubblewrap | own user, process, network, IPC space; read-only system; limits | the program bwrap |
| unshare | the same, made by ourselves with Linux name spaces | user namespaces, or root |
| rlimit | none: limits and a clean environment only, see `SandboxUnsafe` | Linux |
"""

from tutelage.envs.sandbox.base import Sandbox
from tutelage.envs.sandbox.choose import KINDS, make_sandbox
from tutelage.envs.sandbox.limits import CUT_MARK, SandboxLimits, SandboxResult, SandboxUnsafe, Stop
from tutelage.envs.sandbox.python_runner import PYTHON_LIMITS, PythonRunner, shared_runner
from tutelage.envs.sandbox.system import WORKSPACE

__all__ = [
    "CUT_MARK",
    "KINDS",
    "PYTHON_LIMITS",
    "WORKSPACE",
    "PythonRunner",
    "Sandbox",
    "SandboxLimits",
    "SandboxResult",
    "SandboxUnsafe",
    "Stop",
    "make_sandbox",
    "shared_runner",
]
