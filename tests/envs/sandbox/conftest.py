"""The kinds of sandbox that isolate; one that does not work on this machine is skipped with its reason."""

from __future__ import annotations

import pytest

from tutelage.envs.sandbox import PythonRunner, Sandbox, make_sandbox
from tutelage.errors import ConfigError


@pytest.fixture(scope="session", params=["bubblewrap", "unshare"])
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    try:
        return make_sandbox(request.param)
    except ConfigError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def runner(sandbox: Sandbox):
    runner = PythonRunner(sandbox)
    yield runner
    runner.close()
