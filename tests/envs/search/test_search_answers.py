"""Scores of answers, against the worked examples of the specification and by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutelage.envs.search.answers import exact_match, f1, normalise


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        # E-12
        ("The Los-Angeles!", "losangeles"),
        ("  A  Tale of\ttwo Cities. ", "tale of two cities"),
        ("an apple, the pear & a plum", "apple pear plum"),
        # Punctuation goes before articles, so that these are one word each.
        ("a-b", "ab"),
        ("the.end", "theend"),
        ("Bahá'í", "baháí"),
        # Not ASCII: stays.
        ("Polish–Lithuanian", "polish–lithuanian"),
        ("The", ""),
    ],
)
def test_normalise(text: str, normal: str) -> None:
    assert normalise(text) == normal


@pytest.mark.parametrize(
    ("prediction", "golden", "em", "score"),
    [
        # E-12: one token against two
        ("The Los-Angeles!", ["Los Angeles"], 0.0, 0.0),
        # E-13: precision 2/3, recall 1
        ("Los Angeles California", ["Los Angeles"], 0.0, 0.8),
        ("the los angeles", ["Los Angeles"], 1.0, 1.0),
        # The best of several golds: USA 2 * 1 / (1 + 1)
        ("USA", ["United States", "U.S.A."], 1.0, 1.0),
        # Tokens count as often as they occur: common 2, lengths 3 and 2
        ("new new york", ["New York"], 0.0, 0.8),
        # yes, no and noanswer match nothing but themselves
        ("yes it is", ["yes"], 0.0, 0.0),
        ("no", ["no one"], 0.0, 0.0),
        ("noanswer", ["no answer"], 0.0, 0.0),
        ("Yes.", ["yes"], 1.0, 1.0),
        # An empty prediction matches nothing, not even an empty gold
        ("", [""], 0.0, 0.0),
        ("the", ["The"], 0.0, 0.0),
        ("x", [], 0.0, 0.0),
    ],
)
def test_scores(prediction: str, golden: list[str], em: float, score: float) -> None:
    assert exact_match(prediction, golden) == em
    assert f1(prediction, golden) == score


WORDS = st.text(alphabet="ab t'.,-", max_size=12)


@given(WORDS, WORDS)
def test_f1_is_symmetric_bounded_and_one_where_equal(one: str, other: str) -> None:
    assert f1(one, [other]) == f1(other, [one])
    assert 0.0 <= f1(one, [other]) <= 1.0
    if exact_match(one, [other]):
        assert f1(one, [other]) == 1.0


@given(st.text(max_size=30))
def test_normalising_twice_changes_nothing_more(text: str) -> None:
    # Articles can come to stand where punctuation was, never the other way round.
    assert normalise(normalise(text)) == normalise(text)


@given(WORDS, st.lists(WORDS, max_size=3), WORDS)
def test_a_further_gold_never_lowers_a_score(prediction: str, golden: list[str], further: str) -> None:
    assert f1(prediction, [*golden, further]) >= f1(prediction, golden)
    assert exact_match(prediction, [*golden, further]) >= exact_match(prediction, golden)
