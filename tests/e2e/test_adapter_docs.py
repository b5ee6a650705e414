"""The examples of docs/environments/adapters.md run as they stand there."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "environments" / "adapters.md"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with all code blocks of the page, each under the name in its first line."""
    blocks = re.findall(r"```python\n# (\w+\.py)[^\n]*\n(.*?)```", PAGE.read_text(), re.DOTALL)
    for name, code in blocks:
        (tmp_path / name).write_text(code)
    assert len(blocks) == 11
    return tmp_path


def ran(folder: Path, *command: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run([sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("script", "needs"), [("gymnasium", "gymnasium"), ("own_name", "gymnasium"), ("verifiers", "verifiers")]
)
def test_examples_in_one_process(script: str, needs: str, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip(needs, reason=f"the extra '{needs}' is not installed")
    monkeypatch.syspath_prepend(files)
    runpy.run_path(str(files / f"play_{script}.py"))


def test_the_example_of_http(files: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "serve_household.py"], cwd=files, stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            ran(files, "play_http.py", server.stdout.readline().strip())
        finally:
            server.terminate()


def test_the_example_of_openenv(files: Path) -> None:
    python = os.environ.get("TUTELAGE_OPENENV_PYTHON")
    if python is None:
        pytest.skip("openenv-core is not installed; name a Python that has it in TUTELAGE_OPENENV_PYTHON")
    serving = (
        "import socket, uvicorn, my_server\n"
        "listening = socket.create_server(('127.0.0.1', 0))\n"
        "print(listening.getsockname()[1], flush=True)\n"
        "uvicorn.Server(uvicorn.Config(my_server.app, log_level='error')).run(sockets=[listening])\n"
    )
    with subprocess.Popen([python, "-c", serving], cwd=files, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            ran(files, "play_openenv.py", f"http://127.0.0.1:{server.stdout.readline().strip()}")
        finally:
            server.terminate()
