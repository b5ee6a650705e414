"""Search against the formula, written out here a second time."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from tutelage.envs.shop.search import SearchIndex
from tutelage.envs.shop.words import words_of

WORD = st.sampled_from(["red", "blue", "soft", "lamp", "desk", "tea", "of"])
TEXT = st.lists(WORD, max_size=8).map(" ".join)


def by_hand(texts: list[str], query: str) -> list[tuple[float, int]]:
    """(-score, index) of all texts that share a word with the query, best first."""
    documents = [Counter(words_of(text)) for text in texts]
    mean = sum(sum(document.values()) for document in documents) / len(documents)
    ranked = []
    for index, document in enumerate(documents):
        score = 0.0
        for word in words_of(query):
            have = sum(word in other for other in documents)
            idf = math.log(1 + (len(documents) - have + 0.5) / (have + 0.5))
            length = 1 - 0.75 + 0.75 * sum(document.values()) / mean if mean else 1.0
            score += idf * document[word] / (document[word] + 1.5 * length)
        if score > 0:
            ranked.append((-round(score, 6), index))
    return sorted(ranked)


@settings(deadline=None, max_examples=60)
@given(st.lists(TEXT, min_size=1, max_size=12), TEXT, st.integers(1, 12))
def test_search_is_bm25_with_ties_in_order(texts: list[str], query: str, count: int) -> None:
    found = SearchIndex(texts).top(query, count)
    expected = by_hand(texts, query)
    assert len(found) == min(count, len(expected))
    scores = {index: score for score, index in expected}
    assert [scores[index] for index in found] == [score for score, _ in expected[:count]]
    for one, other in pairwise(found):
        assert (scores[one], one) < (scores[other], other)


def test_equal_texts_come_in_order_also_where_the_list_is_cut() -> None:
    index = SearchIndex(["a red lamp", "a desk", *["red lamp"] * 5])
    assert index.top("red lamp", 3) == [2, 3, 4]
    assert index.top("RED, lamp!", 7) == [2, 3, 4, 5, 6, 0]


def test_unknown_words_find_nothing() -> None:
    assert SearchIndex(["a red lamp"]).top("sofa", 5) == []
    assert SearchIndex(["a red lamp"]).top("sofa red", 5) == [0]
    assert SearchIndex(["a red lamp"]).top("...", 5) == []
    assert SearchIndex(["", ""]).top("red", 5) == []
    assert SearchIndex([]).top("red", 5) == []
