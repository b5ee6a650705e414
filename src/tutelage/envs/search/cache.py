"""Arrays on disk that can be made again: written whole or not at all, and never trusted.

A file's name holds the hash of all it was made of, so a stale one is simply not looked at; a broken one is made anew.
"""

from __future__ import annotations

import os
import tempfile
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[np.generic]]


class CacheWarning(UserWarning):
    """The cache cannot be written; everything works, but is made again in each process."""


def default_cache_dir() -> Path:
    """``$XDG_CACHE_HOME/tutelage/search``, or the same below ``~/.cache``."""
    base = os.environ.get("XDG_CACHE_HOME")
    return Path(base if base else Path.home() / ".cache") / "tutelage" / "search"


def cached_arrays(path: Path, names: frozenset[str], make: Callable[[], Arrays]) -> Arrays:
    """The arrays `names` of the file `path`; if it is not there or broken, those of `make`, which are then kept there."""
    found = _read(path, names)
    if found is None:
        found = make()
        try:
            _write(path, found)
        except OSError as error:
            warnings.warn(
                f"{path}: the index cannot be kept ({error}); give another folder as cache_dir.",
                CacheWarning,
                stacklevel=2,
            )
    return found


def _read(path: Path, names: frozenset[str]) -> Arrays | None:
    try:
        # The zip container checks a sum over every array.
        if not zipfile.is_zipfile(path):
            return None
        with path.open("rb") as file, np.load(file, allow_pickle=False) as found:
            return {name: found[name] for name in names} if names == set(found.files) else None
    except (OSError, ValueError, EOFError, RuntimeError, zipfile.BadZipFile):
        return None


def _write(path: Path, arrays: Arrays) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
        # In one moment, so that a reader in another process sees the old file or the whole new one.
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
