"""Which sandbox to use."""

from __future__ import annotations

import sys
import warnings
from typing import Final, Literal

from tutelage.envs.sandbox.base import Sandbox
from tutelage.envs.sandbox.bubblewrap import BubblewrapSandbox
from tutelage.envs.sandbox.limits import SandboxLimits, SandboxUnsafe
from tutelage.envs.sandbox.rlimit import RlimitSandbox
from tutelage.envs.sandbox.unshare import UnshareSandbox
from tutelage.errors import ConfigError, EnvError

Kind = Literal["auto", "bubblewrap", "unshare", "rlimit"]

KINDS: Final = ("auto", "bubblewrap", "unshare", "rlimit")

REMEDY: Final = (
    "  Install the package 'bubblewrap' (apt-get install bubblewrap), and allow user namespaces where the system has\n"
    "  switched them off; or give allow_unsafe=True to run commands with limits but without isolation."
)


def make_sandbox(kind: Kind | str = "auto", allow_unsafe: bool = False) -> Sandbox:
    """The sandbox of that kind, tried once. ``auto``: the first of bubblewrap, unshare and rlimit that works here.

    allow_unsafe: accept ``rlimit``, which isolates nothing, and warn (`SandboxUnsafe`).
    Raises ConfigError if none works here, with the reasons and the remedy.
    """
    if kind not in KINDS:
        raise ConfigError.unknown("sandbox: kind", kind, KINDS)
    if not sys.platform.startswith("linux"):
        raise ConfigError(f"sandbox: the system is '{sys.platform}', expected Linux. Run this in a Linux machine.")
    reasons = []
    for maker in (BubblewrapSandbox, UnshareSandbox):
        if kind in ("auto", maker.kind):
            try:
                sandbox: Sandbox = maker()
                _try(sandbox)
            except (ConfigError, EnvError) as error:
                reasons.append(f"{maker.kind}: {error}")
            else:
                return sandbox
    if kind in ("auto", "rlimit"):
        if allow_unsafe:
            warnings.warn(
                "sandbox: commands run with limits but without isolation. They can read files, use the network and "
                "leave processes behind.",
                SandboxUnsafe,
                stacklevel=2,
            )
            return RlimitSandbox()
        reasons.append("rlimit: it isolates nothing, and allow_unsafe is False")
    raise ConfigError("\n".join([f"sandbox: kind '{kind}' does not work here.", *reasons, REMEDY]))


def _try(sandbox: Sandbox) -> None:
    """Raises EnvError if the sandbox cannot run a command."""
    result = sandbox.run(["/bin/true"], limits=SandboxLimits(seconds=10))
    if result.exit_code != 0:
        raise EnvError(f"cannot run /bin/true: {result.stderr.strip() or result.killed_by}")
