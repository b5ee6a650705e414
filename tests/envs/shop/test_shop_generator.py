"""Generated catalogues and the goals over them."""

from __future__ import annotations

import random
import subprocess
import sys

import pytest

from tutelage.envs.shop.catalogue import Catalogue, Item, Review, priced
from tutelage.envs.shop.generator import generate_catalogue, generate_item, title_attributes
from tutelage.envs.shop.goals import (
    Goal,
    goals_of_item,
    nth_choice,
    num_goals_of_item,
    num_option_choices,
    price_bound,
)
from tutelage.envs.shop.vocabulary import DEPARTMENTS, KINDS
from tutelage.errors import ConfigError


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return generate_catalogue()


def test_an_item_in_full() -> None:
    assert generate_item(26) == Item(
        item_id="B00026",
        title="brovia low sodium dairy free cookies",
        price=17.5,
        price_tag="$17.5",
        query="cookies",
        category="grocery",
        product_category="grocery › snacks › cookies",
        description="for quick lunches",
        bullets=("gluten free", "made of grapes"),
        attributes=("low sodium", "dairy free", "gluten free"),
        options=(("flavor", ("maple", "cinnamon", "berry")),),
        reviews=(
            Review(title="very happy with it", score="5.0", body="bought for parties"),
            Review(title="not for me", score="2.0", body="bought for quick lunches"),
        ),
    )


def test_the_default_is_a_thousand_products_of_every_kind(catalogue: Catalogue) -> None:
    assert len(catalogue) == 1000
    assert [catalogue.items[0].item_id, catalogue.items[-1].item_id] == ["B00000", "B00999"]
    assert {item.query for item in catalogue.items} == {kind.noun for kind in KINDS}
    assert {len(item.options) for item in catalogue.items} == {0, 1, 2, 3}
    assert {len(item.attributes) for item in catalogue.items} == {3, 4, 5, 6}
    for item in catalogue.items:
        assert 4 <= len(item.title.split()) <= 8
        assert len(item.product_category.split(" › ")) == 3
        assert 2 <= len(title_attributes(item)) <= 3
        assert all(2 <= len(values) <= 4 for _, values in item.options)
        # What the title leaves out stands in the first bullet.
        assert set(item.attributes) == set(title_attributes(item)) | {
            part for bullet in item.bullets[:-1] for part in bullet.split(", ")
        }


def test_items_depend_on_seed_and_index_alone(catalogue: Catalogue) -> None:
    assert generate_catalogue(20).items == catalogue.items[:20]
    assert generate_item(7, seed=1) != generate_item(7, seed=0)


def test_a_catalogue_is_the_same_in_another_process(catalogue: Catalogue) -> None:
    code = "from tutelage.envs.shop.generator import generate_catalogue as g; c = g(50); print(c.content_hash, c.search('soft red rug'))"
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    mine = generate_catalogue(50)
    assert outputs == {f"{mine.content_hash} {mine.search('soft red rug')}\n"}


@pytest.mark.parametrize("number", [0, -1, 100_001])
def test_sizes_out_of_range_are_refused(number: int) -> None:
    with pytest.raises(ConfigError, match=f"num_products is {number}, expected 1 to 100000"):
        generate_catalogue(number)


def test_search_finds_at_most_fifty_and_the_same_again(catalogue: Catalogue) -> None:
    found = catalogue.search("blanket with color")
    assert len(found) == 50
    assert found == catalogue.search("blanket with color")
    assert catalogue[catalogue.search("brovia low sodium dairy free cookies maple")[0]].item_id == "B00026"


def test_two_items_may_not_share_an_id() -> None:
    with pytest.raises(ValueError, match="2 items have 1 ids"):
        Catalogue([generate_item(1), generate_item(1)])


def test_prices_by_what_the_record_gives() -> None:
    assert priced((), "B1", 0) == (100.0, "$100.0")
    assert priced((12.5,), "B1", 0) == (12.5, "$12.5")
    price, tag = priced((5.0, 9.0), "B1", 0)
    assert tag == "$5.0 to $9.0"
    assert 5.0 <= price <= 9.0
    assert priced((5.0, 9.0), "B1", 0)[0] == price
    assert priced((5.0, 9.0), "B2", 0)[0] != price != priced((5.0, 9.0), "B1", 1)[0]


def test_price_bounds_are_multiples_of_ten_above_the_price() -> None:
    drawn = {price_bound(37.5, random.Random(seed)) for seed in range(60)}
    assert drawn == {50.0, 60.0, 70.0}
    # A price that is a multiple itself is below its bounds.
    assert {price_bound(40.0, random.Random(seed)) for seed in range(60)} == {60.0, 70.0, 80.0}
    assert {price_bound(975.0, random.Random(seed)) for seed in range(60)} == {990.0}
    assert price_bound(985.0, random.Random(0)) is None


def test_goals_of_an_item() -> None:
    goals = goals_of_item(generate_item(26), "title", 0)
    assert len({goal.instruction.split(", and price")[0] for goal in goals}) == len(goals) == 8
    assert goals[0] == Goal(
        item_id="B00026",
        instruction="buy dairy free cookies with flavor: cinnamon, and price lower than 40.00 dollars",
        attributes=("dairy free",),
        options=("cinnamon",),
        price_upper=40.0,
    )
    hidden = goals_of_item(generate_item(26), "any", 0)
    assert {goal.attributes for goal in hidden} == {
        ("gluten free",), ("low sodium", "gluten free"), ("dairy free", "gluten free"),
        ("low sodium", "dairy free", "gluten free"),
    }  # fmt: skip


def test_every_goal_is_met_by_its_target(catalogue: Catalogue) -> None:
    for item in catalogue.items[:200]:
        for ask in ("title", "any"):
            goals = goals_of_item(item, ask, 0)
            assert len(goals) == num_goals_of_item(item, ask)
            for goal in goals:
                assert set(goal.attributes) <= set(item.attributes)
                assert item.price < goal.price_upper
                # The dearest end of a range is allowed too, so that the price tag never misleads.
                assert float(item.price_tag.split("$")[-1]) <= goal.price_upper
                assert len(goal.options) == len(item.options)
                assert all(value in values for value, (_, values) in zip(goal.options, item.options, strict=True))


def test_choices_are_counted_like_digits() -> None:
    item = next(one for one in generate_catalogue(50).items if len(one.options) == 2 and num_option_choices(one) == 6)
    choices = [tuple(nth_choice(item, number).items()) for number in range(6)]
    (first, one), (second, other) = item.options
    assert choices == [((first, a), (second, b)) for a in one for b in other]


def test_a_goal_comes_back_from_json_and_a_broken_one_is_refused() -> None:
    goal = goals_of_item(generate_item(26), "title", 0)[0]
    assert Goal.from_json(goal.to_json()) == goal
    # Goals of people give a list, synthetic ones a map: only the values count.
    assert Goal.from_json(goal.to_json() | {"options": {"flavor": goal.options[0]}}) == goal
    with pytest.raises(ConfigError, match="goal"):
        Goal.from_json({"item_id": "B00026"})


def test_the_vocabulary_is_small() -> None:
    words = {
        word
        for department in DEPARTMENTS.values()
        for part in (department.attributes, department.materials, department.uses, *department.options.values())
        for phrase in part
        for word in phrase.split()
    }
    assert len(words) < 250
