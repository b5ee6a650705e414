"""What becomes of errors on their way to the user."""

from __future__ import annotations

import errno

import pytest

from tutelage.errors import ConfigError, MissingExtra, StoreError
from tutelage.pipeline.worker import describe_error, explained


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device", "model.safetensors"),
        RuntimeError("Error while serializing: I/O error: No space left on device (os error 28)"),
    ],
)
def test_a_full_disk_is_told_in_plain_words(error: Exception) -> None:
    better = explained(error)
    assert isinstance(better, StoreError)
    assert str(better).startswith(str(error))
    assert "Make room and run again" in str(better)


def test_the_cause_of_an_error_counts() -> None:
    error = RuntimeError("unexpected pos 64 vs 0")
    error.__context__ = OSError(errno.ENOSPC, "No space left on device")
    assert str(explained(error, "runs/x")).startswith("runs/x: [Errno 28] No space left on device\n")


def test_a_missing_package_names_its_extra() -> None:
    better = explained(ModuleNotFoundError("No module named 'torch'", name="torch"))
    assert isinstance(better, MissingExtra)
    assert str(better).startswith("a student needs the extra 'train' (accelerate>=")
    assert str(better).endswith('). Run: pip install "tutelage[train]"')


def test_other_errors_stay_what_they_are() -> None:
    assert explained(ValueError("x")) is None
    assert explained(ModuleNotFoundError("No module named 'nope'", name="nope")) is None
    assert describe_error(KeyError("x")) == {"type": "KeyError", "message": "'x'", "is_mendable": False}
    assert describe_error(ConfigError("x")) == {"type": "ConfigError", "message": "x", "is_mendable": True}
