"""From the settings of a task to what it is searched with. Passages and indexes are kept and shared by a process."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from tutelage.envs.search.bm25 import Bm25Retriever
from tutelage.envs.search.cache import default_cache_dir
from tutelage.envs.search.corpus import SIZES, world_of
from tutelage.envs.search.http_retriever import HttpRetriever
from tutelage.envs.search.passages import Passage, content_hash, read_passages
from tutelage.envs.search.retrievers import RETRIEVERS, Retriever
from tutelage.errors import ConfigError, EnvError
from tutelage.types import Split


def retriever_of(settings: Mapping[str, Any]) -> Retriever:
    """What searches for a task with these settings; see `SearchEnv` for them.

    Raises ConfigError where they name nothing, FormatError on broken files, EnvError where passages have changed.
    """
    kind = settings.get("retriever", "bm25")
    if kind not in RETRIEVERS:
        raise ConfigError.unknown("search task settings: retriever", str(kind), RETRIEVERS)
    if kind == "http":
        if "url" not in settings:
            raise ConfigError("search task settings: retriever 'http' without 'url'. Give the address of the server.")
        return HttpRetriever(str(settings["url"]), **dict(settings.get("retriever_options", {})))
    if "corpus" in settings:
        corpus = settings["corpus"]
        return _generated(str(corpus["size"]), Split(corpus["split"]), int(corpus["seed"]))
    if "passages" not in settings:
        raise ConfigError(
            f"search task settings: neither 'corpus' nor 'passages' in {sorted(settings)}.\n"
            "  A generated corpus needs 'corpus' (size, split, seed), other passages a file."
        )
    path = Path(str(settings.get("root", "")), str(settings["passages"]))
    expected = settings.get("passages_hash")
    if expected is not None and passages_hash(path) != expected:
        raise EnvError(
            f"{path} has content hash {passages_hash(path)[:12]}, the task was made of {expected[:12]}.\n"
            "  The file has changed since. Load the tasks again and start a new run."
        )
    cache_dir = settings.get("cache_dir") or default_cache_dir()
    return _of_file(str(path), _stamp(path), str(cache_dir))


def passages_hash(path: Path) -> str:
    """Content hash of the passages of a file."""
    return _hash_of_file(str(path), _stamp(path))


def passages_of_file(path: Path) -> tuple[Passage, ...]:
    """The passages of a file, read once in a process as long as it does not change."""
    return _read(str(path), _stamp(path))


def _stamp(path: Path) -> tuple[int, int]:
    """What changes when the file does, so that a process does not go on with an old one."""
    try:
        status = os.stat(path)
    except OSError as error:
        raise ConfigError(f"{path}: no passages there ({error.strerror}).") from None
    return status.st_mtime_ns, status.st_size


@lru_cache(maxsize=4)
def _read(path: str, stamp: tuple[int, int]) -> tuple[Passage, ...]:
    return read_passages(path)


@lru_cache(maxsize=4)
def _hash_of_file(path: str, stamp: tuple[int, int]) -> str:
    return content_hash(_read(path, stamp))


@lru_cache(maxsize=4)
def _of_file(path: str, stamp: tuple[int, int], cache_dir: str) -> Bm25Retriever:
    return Bm25Retriever(_read(path, stamp), cache_dir)


# Made in a tenth of a second: no reason to write to the user's disk.
@lru_cache(maxsize=8)
def _generated(size: str, split: Split, seed: int) -> Bm25Retriever:
    if size not in SIZES:
        raise ConfigError.unknown("search corpus: size", size, SIZES)
    return Bm25Retriever(world_of(size, split, seed).passages)
