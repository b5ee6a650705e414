"""From the settings of a task to what it is searched with. Passages and indexes are kept and shared by a process."""

from __future__ import annotations

import inspect
import json
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from tutelage.envs.search.bm25 import Bm25Retriever
from tutelage.envs.search.cache import default_cache_dir
from tutelage.envs.search.corpus import SIZES, world_of
from tutelage.envs.search.dense import DenseRetriever
from tutelage.envs.search.http_retriever import HttpRetriever
from tutelage.envs.search.passages import Passage, content_hash, read_passages
from tutelage.envs.search.retrievers import RETRIEVERS, Retriever
from tutelage.errors import ConfigError, EnvError
from tutelage.types import Split

INLINE_BYTES: Final = 100_000_000
"""Size of a file of passages up to which a query takes well under a millisecond."""

# Threads that start together wait for one index instead of making one each.
_MAKING: Final = threading.Lock()


def answers_inline(settings: Mapping[str, Any]) -> bool:
    """Whether a search with these settings is pure computation of well under a millisecond, told without reading."""
    if settings.get("retriever", "bm25") != "bm25":
        return False
    return "passages" not in settings or _stamp(_file(settings))[1] <= INLINE_BYTES


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
        return _with_options(HttpRetriever, "http", str(settings["url"]), **dict(settings.get("retriever_options", {})))
    options = json.dumps(dict(settings.get("retriever_options", {})), sort_keys=True)
    cache_dir = str(settings.get("cache_dir") or default_cache_dir())
    if "corpus" in settings:
        corpus = settings["corpus"]
        where = str(corpus["size"]), Split(corpus["split"]), int(corpus["seed"]), int(corpus["world"])
        with _MAKING:
            retriever, found = _on_corpus(*where, kind, options, cache_dir)
        _check_hash("the generated corpus", found, settings, "The generator has changed since.")
        return retriever
    if "passages" not in settings:
        raise ConfigError(
            f"search task settings: neither 'corpus' nor 'passages' in {sorted(settings)}.\n"
            "  A generated corpus needs 'corpus' (size, split, seed, world), other passages a file."
        )
    path = _file(settings)
    with _MAKING:
        _check_hash(path, passages_hash(path), settings, "The file has changed since.")
        return _on_file(str(path), _stamp(path), kind, options, cache_dir)


def _check_hash(what: object, found: str, settings: Mapping[str, Any], cause: str) -> None:
    expected = settings.get("passages_hash", found)
    if found != expected:
        raise EnvError(
            f"{what} has content hash {found[:12]}, the task was made of {str(expected)[:12]}.\n"
            f"  {cause} Load the tasks again and start a new run."
        )


def _file(settings: Mapping[str, Any]) -> Path:
    return Path(str(settings.get("root", "")), str(settings["passages"]))


def passages_hash(path: Path) -> str:
    """Content hash of the passages of a file."""
    return _hash_of_file(str(path), _stamp(path))


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
def _on_file(path: str, stamp: tuple[int, int], kind: str, options: str, cache_dir: str) -> Retriever:
    return _make(kind, _read(path, stamp), json.loads(options), cache_dir)


# An index of a small world takes about 0.1 MB, one of a large world 0.3 MB; it also keeps the passages.
@lru_cache(maxsize=64)
def _on_corpus(
    size: str, split: Split, seed: int, world: int, kind: str, options: str, cache_dir: str
) -> tuple[Retriever, str]:
    """With the content hash of what is searched."""
    if size not in SIZES:
        raise ConfigError.unknown("search corpus: size", size, SIZES)
    made = world_of(size, split, seed, world)
    # A BM25 index of it is made in a moment: no reason to write to the user's disk.
    kept_in = None if kind == "bm25" else cache_dir
    return _make(kind, made.passages, json.loads(options), kept_in), made.content_hash


def _make(kind: str, passages: Sequence[Passage], options: dict[str, Any], cache_dir: str | None) -> Retriever:
    maker: Callable[..., Retriever] = Bm25Retriever if kind == "bm25" else DenseRetriever
    return _with_options(maker, kind, passages, cache_dir=cache_dir, **options)


def _with_options(maker: Callable[..., Retriever], kind: str, *arguments: Any, **options: Any) -> Retriever:
    """Raises ConfigError on an option that this retriever does not have, or lacks."""
    try:
        inspect.signature(maker).bind(*arguments, **options)
    except TypeError as error:
        raise ConfigError(f"retriever '{kind}': options {sorted(options)} do not fit: {error}.") from None
    return maker(*arguments, **options)
