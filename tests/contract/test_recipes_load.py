"""Every recipe loads; each has a smoke twin of the same shape; every promised ablation is one override."""

from __future__ import annotations

import pytest

from tutelage.pipeline.parts import filters
from tutelage.recipe import load_recipe
from tutelage.recipe_file import recipe_names

MAIN = [name for name in recipe_names() if not name.startswith("smoke/")]


@pytest.mark.parametrize("name", recipe_names())
def test_it_loads_and_says_what_it_is(name: str) -> None:
    recipe = load_recipe(name)
    assert recipe.description
    assert recipe.name == name.replace("/", "_")


@pytest.mark.parametrize("name", MAIN)
def test_it_has_a_twin_of_the_same_shape(name: str) -> None:
    recipe, twin = load_recipe(name), load_recipe(f"smoke/{name}")
    assert list(recipe.rollouts) == list(twin.rollouts)
    assert [one.switch.name for one in recipe.rollouts.values()] == [one.switch.name for one in twin.rollouts.values()]
    assert list(recipe.select) == list(twin.select)
    assert list(recipe.models) == list(twin.models)
    assert [one.mask for one in recipe.models.values()] == [one.mask for one in twin.models.values()]
    assert recipe.evaluated == twin.evaluated


def test_ablations_are_one_override() -> None:
    name = "household_oec"
    no_filter = load_recipe(name, set=["select.no_repetition=false"])
    assert [one.name for one in filters(no_filter, no_filter.rollouts["corrections"])] == ["solved", "has_expert_steps"]
    no_success = load_recipe(name, set=["select.solved=false"])
    assert "solved" not in no_success.select
    assert load_recipe(name, set=["models.corrected.mask=all_steps"]).models["corrected"].mask == "all_steps"
    assert (
        load_recipe(name, set=["rollouts.corrections.switch.high=14"]).rollouts["corrections"].switch.options["high"]
        == 14
    )
    assert (
        load_recipe(name, set=["rollouts.corrections.switch={name: at_step, k: 8}"]).rollouts["corrections"].switch.name
        == "at_step"
    )


def test_filters_of_a_student_that_plays_alone() -> None:
    recipe = load_recipe("household_oec", set=["rollouts.corrections.switch={name: never}"])
    kinds = filters(recipe, recipe.rollouts["corrections"])
    assert [one.name for one in kinds] == ["solved", "no_repetition"]
    assert kinds[1].trained == "student"
