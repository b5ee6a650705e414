"""The score by the worked examples of the specification, and by hand."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutelage.envs.shop.catalogue import Item
from tutelage.envs.shop.goals import Goal
from tutelage.envs.shop.score import (
    count_attributes,
    count_options,
    is_similar,
    score_purchase,
    shared_levels,
    title_score,
    type_reward,
)
from tutelage.envs.shop.vocabulary import BRANDS, DEPARTMENTS, KINDS
from tutelage.envs.shop.words import is_noun, nouns_of, plain_color

TWENTY_NOUNS = (
    "lamp chair desk rug towel mug knife bowl plate cup spoon fork pan pot kettle mirror clock vase basket shelf"
)


def item(**values: Any) -> Item:
    usual = {
        "item_id": "B1",
        "title": "soft wool blanket",
        "price": 35.0,
        "price_tag": "$35.0",
        "query": "blanket",
        "category": "home",
        "product_category": "home › textiles › blanket",
        "attributes": ("soft", "machine washable"),
        "options": (("color", ("red", "blue")),),
    }
    return Item(**(usual | values))


def goal(**values: Any) -> Goal:
    usual = {
        "item_id": "B1",
        "instruction": "buy a soft machine washable blanket with color: red, and price lower than 40.00 dollars",
        "attributes": ("soft", "machine washable"),
        "options": ("red",),
        "price_upper": 40.0,
    }
    return Goal(**(usual | values))


def test_e07_one_attribute_of_two_is_three_quarters() -> None:
    score = score_purchase(goal(), item(), item(attributes=("soft",)), ["red"])
    assert (score.num_attributes, score.num_options, score.price_ok, score.r_type) == (1, 1, True, 1.0)
    assert score.value == 3 / 4


def test_e08_a_title_that_shares_next_to_nothing_overrides_the_same_query() -> None:
    score = score_purchase(goal(), item(title=TWENTY_NOUNS), item(title="lamp"), ["red"])
    assert score.title_score == 0.05
    assert (score.fraction, score.r_type, score.value) == (1.0, 0.1, 0.1)


def test_e09_half_for_another_type_of_product() -> None:
    other = item(title="lamp chair desk", query="lamp", product_category="home › lighting › lamp", attributes=("soft",))
    score = score_purchase(goal(), item(title=TWENTY_NOUNS), other, ["red"])
    assert score.title_score == pytest.approx(0.15)
    assert score.value == 0.5 * 3 / 4


def test_e10_no_option_chosen_is_three_quarters() -> None:
    assert score_purchase(goal(), item(), item(), []).value == 3 / 4


def test_all_that_was_asked_for_is_one_and_a_dollar_too_much_is_not() -> None:
    assert score_purchase(goal(), item(), item(), ["red"]).value == 1.0
    assert score_purchase(goal(), item(), item(price=40.0), ["red"]).value == 1.0
    assert score_purchase(goal(), item(), item(price=40.01), ["red"]).value == 3 / 4


@pytest.mark.parametrize(
    ("title", "same_query", "num_levels", "expected"),
    [
        (1.0, False, 0, 1.0), (0.21, False, 0, 1.0), (0.2, False, 0, 0.5), (0.2, True, 0, 1.0), (0.2, False, 2, 1.0),
        (0.2, False, 1, 0.5), (0.1, False, 0, 0.5), (0.09, True, 3, 0.1), (0.0, True, 3, 0.0),
    ],
)  # fmt: skip
def test_type_reward(title: float, same_query: bool, num_levels: int, expected: float) -> None:
    assert type_reward(title, same_query=same_query, num_levels=num_levels) == expected


def test_category_levels_count_once_at_any_depth() -> None:
    paths = {"a › b › c": 3, "c › a › x": 2, "a › a › x": 1, "x › y › z": 0}
    for path, expected in paths.items():
        assert shared_levels(item(product_category="a › b › c"), item(product_category=path)) == expected


def test_title_score_counts_the_nouns_of_the_goal() -> None:
    assert title_score("leather boots for the garden", "rubber boots") == 1 / 3
    # A noun said twice counts twice below the line, once above.
    assert title_score("lamp lamp chair", "a lamp") == 1 / 3
    assert title_score("zzz qqq", "a lamp") == 0.2
    assert title_score("a lamp", "zzz") == 0.0


def test_nouns_in_singular_and_plural_are_told_from_other_words() -> None:
    assert nouns_of("Very soft LAMPS and candies, boxes for dogs") == ["lamps", "candies", "boxes", "dogs"]
    assert not is_noun("soft")
    assert not is_noun("lampshine")


def test_an_attribute_matches_a_similar_one_or_a_text() -> None:
    # Token sets: the same words in another order, with more words, in the plural.
    assert is_similar("washable machine", "machine washable")
    assert is_similar("soft wool", "soft")
    assert is_similar("essential oil", "essential oils")
    assert not is_similar("tea bag", "tea tree")
    bare = item(title="A Tea Tree Shampoo", attributes=(), bullets=("smells like", "lemons"), description="No Sulfate.")
    assert count_attributes(["tea tree", "like lemons", "no sulfate", "no parabens"], bare) == 3
    # The goal's own case is kept, as in the original.
    assert count_attributes(["Tea Tree"], bare) == 0


def test_options_match_by_plain_colour() -> None:
    assert plain_color("deep navy stripes") == "navy"
    assert plain_color("standard") == "tan"
    assert plain_color("x-large") == "x-large"
    # The alphabet decides between two colours.
    assert plain_color("white and black") == "black"
    assert count_options(["black forest", "xl", "pack of 12"], ["pack of 12", "black", "s"]) == 2
    assert count_options(["red", "red"], ["red"]) == 2
    assert count_options([], ["red"]) == 0


def test_no_two_words_of_generated_catalogues_are_taken_for_one_another() -> None:
    for words in DEPARTMENTS.values():
        assert not [pair for pair in combinations(words.attributes, 2) if is_similar(*pair)]
        values = [value for group in words.options.values() for value in group]
        assert len(set(values)) == len(values)
        assert not [pair for pair in combinations(map(plain_color, values), 2) if is_similar(*pair)]
        assert [plain_color(value) for value in values] == values
        # An attribute is no part of what else a product's page says, so that only a product that has it matches.
        other = [*words.materials, *words.uses, *(kind.noun for kind in KINDS), *BRANDS]
        assert not [(a, text) for a in words.attributes for text in other if a in text]
    assert all(is_noun(kind.noun) for kind in KINDS)
    assert not [word for words in DEPARTMENTS.values() for word in words.attributes if len(nouns_of(word)) > 1]


WORDS = st.sampled_from(["red", "blue", "soft", "lamp", "desk", "machine washable", "tea"])


@given(st.lists(WORDS, max_size=4), st.lists(WORDS, max_size=4), st.lists(WORDS, max_size=4), WORDS, st.floats(0, 100))
def test_a_score_is_a_share_and_more_options_never_hurt(
    attributes: list[str], options: list[str], chosen: list[str], more: str, price: float
) -> None:
    wanted = goal(attributes=tuple(attributes), options=tuple(options))
    bought = replace(item(), price=price)
    score = score_purchase(wanted, item(), bought, chosen).value
    assert 0.0 <= score <= score_purchase(wanted, item(), bought, [*chosen, more]).value <= 1.0
