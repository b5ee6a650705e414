"""Which sandbox to use."""

from __future__ import annotations

from typing import Final, Literal

from tutelage.envs.sandbox.base import Sandbox
from tutelage.envs.sandbox.bubblewrap import BubblewrapSandbox
from tutelage.envs.sandbox.limits import SandboxLimits
from tutelage.errors import ConfigError, EnvError

Kind = Literal["auto", "bubblewrap"]

KINDS: Final = ("auto", "bubblewrap")

REMEDY: Final = (
    "  Install the package 'bubblewrap' (apt-get install bubblewrap), and allow user namespaces where the system has\n"
    "  switched them off; or give allow_unsafe=True to run commands with limits but without isolation."
)


def make_sandbox(kind: Kind | str = "auto", allow_unsafe: bool = False) -> Sandbox:
    """The sandbox of that kind, tried once.
    Raises ConfigError if it does not work here, with the reason and the remedy.
    """
    if kind not in KINDS:
        raise ConfigError.unknown("sandbox: kind", kind, KINDS)
    sandbox = BubblewrapSandbox()
    try:
        _try(sandbox)
    except EnvError as error:
        raise ConfigError(f"sandbox: {error}\n{REMEDY}") from None
    return sandbox


def _try(sandbox: Sandbox) -> None:
    """Raises EnvError if the sandbox cannot run a command."""
    result = sandbox.run(["/bin/true"], limits=SandboxLimits(seconds=10))
    if result.exit_code != 0:
        raise EnvError(f"sandbox '{sandbox.kind}' cannot run /bin/true: {result.stderr.strip() or result.killed_by}")
