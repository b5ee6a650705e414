"""The little worlds of tests/fixtures/adapters: importable, and as processes of their own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tutelage.envs.base import Env
from tutelage.types import Action

WORLDS = Path(__file__).parents[2] / "fixtures" / "adapters"

Record = list[tuple[str, float | None, bool, bool]]


@pytest.fixture(autouse=True)
def worlds(monkeypatch: pytest.MonkeyPatch) -> Path:
    """Their folder, from which their modules can be imported."""
    monkeypatch.syspath_prepend(WORLDS)
    return WORLDS


@pytest.fixture(scope="module")
def start() -> Iterator[Callable[..., str]]:
    """Start a script that prints its port; its url. Ended with the module."""
    processes = []

    def started(script: str, python: str = sys.executable) -> str:
        process = subprocess.Popen([python, str(WORLDS / script)], stdout=subprocess.PIPE, text=True)
        processes.append(process)
        assert process.stdout is not None
        port = process.stdout.readline().strip()
        assert port, f"{script} did not start"
        return f"http://127.0.0.1:{port}"

    yield started
    for process in processes:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


@pytest.fixture
def play() -> Callable[..., Record]:
    """Reset, act, close; what was seen after each action, the first observation with the reward None."""

    def played(env: Env, commands: tuple[str, ...], seed: int) -> Record:
        record: Record = [(env.reset(seed).text, None, False, False)]
        for command in commands:
            result = env.step(Action.of(command))
            record.append((result.observation.text, result.reward, result.terminated, result.truncated))
        env.close()
        env.close()
        return record

    return played
