"""Search over short texts by BM25 (bm25s, Lucene's variant: k1 1.5, b 0.75), exact and the same on every machine.

In: texts by index. Out: indices, best first. Scores are added in double precision and compared after rounding to six
places, so that texts that are equally good stay equal, and come in the order of their indices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tutelage.envs.shop.words import words_of
from tutelage.errors import MissingExtra

PLACES = 6


class SearchIndex:
    """An index over texts. Read-only once made; needs the extra `shop`."""

    def __init__(self, texts: Sequence[str]) -> None:
        try:
            import bm25s
        except ImportError:
            raise MissingExtra("the shop's search", "shop") from None
        vocabulary: dict[str, int] = {}
        ids = [[vocabulary.setdefault(word, len(vocabulary)) for word in words_of(text)] for text in texts]
        self._vocabulary = vocabulary
        self._scorer: Any = None
        if vocabulary:
            self._scorer = bm25s.BM25(method="lucene", k1=1.5, b=0.75, dtype="float64", backend="numpy")
            self._scorer.index((ids, vocabulary), create_empty_token=False, show_progress=False)

    def top(self, query: str, count: int) -> list[int]:
        """Indices of at most `count` texts that share a word with the query, best first."""
        ids = [self._vocabulary[word] for word in words_of(query) if word in self._vocabulary]
        if not ids:
            return []
        scores = np.round(self._scorer.get_scores_from_ids(ids), PLACES)
        found = np.flatnonzero(scores > 0.0)
        if len(found) > count:
            # All that are at least as good as the last one to be kept; the sort decides between equal ones.
            kept = scores[found]
            found = found[kept >= np.partition(kept, -count)[-count]]
        order = np.argsort(-scores[found], kind="stable")[:count]
        return [int(index) for index in found[order]]
