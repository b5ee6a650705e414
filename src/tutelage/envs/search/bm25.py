"""BM25 over passages in this process, by bm25s. The index is shared by all who search, and kept on disk.

Words: lower case, accents dropped, split at everything but letters and digits, without stop words. Title and text are
searched alike. Ties go to the earlier passage.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tutelage.envs.search.cache import Arrays, cached_arrays
from tutelage.envs.search.passages import Passage, content_hash
from tutelage.errors import MissingExtra

K1: Final = 0.9
"""How soon further occurrences of a word stop counting."""
B: Final = 0.4
"""How much long passages are held back: 0 not at all, 1 in full."""
RULES: Final = 1
"""Version of how words are split; part of an index's name on disk."""

_STOPPED: Final = (
    "a an the of for to in on at and or with by from is are was were be do did does what which who whom when where how"
)
STOP_WORDS: Final = frozenset(_STOPPED.split())
"""Words that say nothing about what is sought."""

_WORD: Final = re.compile(r"[^\W_]+")
_ARRAYS: Final = frozenset({"data", "indices", "indptr", "words"})


def words_of(text: str) -> list[str]:
    """The words of a text that are searched. Example: ``Who wrote "Émile"?`` -> ``wrote``, ``emile``"""
    text = text.lower()
    if not text.isascii():
        text = "".join(char for char in unicodedata.normalize("NFKD", text) if not unicodedata.combining(char))
    return [word for word in _WORD.findall(text) if word not in STOP_WORDS]


class Bm25Retriever:
    """BM25 (the variant of Lucene) over passages.

    cache_dir: where the index is kept; None: only in memory.
    """

    def __init__(self, passages: Sequence[Passage], cache_dir: str | Path | None = None) -> None:
        self.passages = passages
        if cache_dir is None:
            arrays = _index(passages)
        else:
            arrays = cached_arrays(Path(cache_dir) / index_name(passages), _ARRAYS, lambda: _index(passages))
        self._data: NDArray[Any] = arrays["data"]
        self._indices: NDArray[Any] = arrays["indices"]
        self._indptr: list[int] = arrays["indptr"].tolist()
        self._ids: dict[str, int] = {word: index for index, word in enumerate(_unpack(arrays["words"]))}

    def search(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        return [[self.passages[index] for index in self.top(query, k)] for query in queries]

    def top(self, query: str, k: int) -> list[int]:
        """Indices of the best k passages that share a word with the query, the best first."""
        spans = [
            slice(self._indptr[word_id], self._indptr[word_id + 1])
            for word in words_of(query)
            if (word_id := self._ids.get(word)) is not None
        ]
        if not spans:
            return []
        scores = np.bincount(
            np.concatenate([self._indices[span] for span in spans]),
            weights=np.concatenate([self._data[span] for span in spans]),
        )
        # Of the comparison: numpy finds the true ones four times as fast as the numbers that are not zero.
        found = np.flatnonzero(scores > 0)
        if len(found) > k:
            # All that reach the k-th score, ties included: which of them partition would pick is not defined.
            values = scores[found]
            found = found[values >= np.partition(values, len(found) - k)[len(found) - k]]
        best: list[int] = found[np.lexsort((found, -scores[found]))[:k]].tolist()
        return best

    def close(self) -> None:
        return None


def index_name(passages: Sequence[Passage]) -> str:
    """File name of the index of these passages: it changes with them, with bm25s and with the rules of this module."""
    try:
        made_of = [content_hash(passages), version("bm25s"), K1, B, RULES]
    except PackageNotFoundError:
        raise MissingExtra("retriever 'bm25'", "search") from None
    return f"bm25-{hashlib.sha256(json.dumps(made_of).encode()).hexdigest()[:24]}.npz"


def _index(passages: Sequence[Passage]) -> Arrays:
    try:
        import bm25s
    except ImportError:
        raise MissingExtra("retriever 'bm25'", "search") from None
    texts = [words_of(f"{passage.title} {passage.text}") for passage in passages]
    words = sorted({word for text in texts for word in text})
    ids = {word: index for index, word in enumerate(words)}
    if not words:
        nothing = np.zeros(0, dtype=np.float32)
        return {"data": nothing, "indices": nothing, "indptr": np.zeros(1, dtype=np.int64), "words": _pack(words)}
    index = bm25s.BM25(k1=K1, b=B, method="lucene")
    index.index(([[ids[word] for word in text] for text in texts], ids), show_progress=False)
    scores = index.scores
    return {**{name: scores[name] for name in ("data", "indices", "indptr")}, "words": _pack(words)}


def _pack(words: Sequence[str]) -> NDArray[np.uint8]:
    return np.array(bytearray("\n".join(words).encode()), dtype=np.uint8)


def _unpack(packed: NDArray[Any]) -> list[str]:
    return packed.tobytes().decode().split("\n")
