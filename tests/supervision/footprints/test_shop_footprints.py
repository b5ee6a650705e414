"""Footprints by the table, the worked examples, and on played episodes."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutelage.envs.shop.catalogue import Catalogue, Item
from tutelage.envs.shop.env import FORMAT_HELP
from tutelage.envs.shop.generator import generate_catalogue
from tutelage.envs.shop.pages import SEARCH_TEMPLATE, Place, Site
from tutelage.supervision.dependency_graph import build_graph
from tutelage.supervision.footprints import footprints_of
from tutelage.supervision.footprints.shop import shop_footprints
from tutelage.testing import make_trajectory
from tutelage.types import Action, Effect, Footprint, ParseOutcome, Trajectory

SHIRT = Item(
    item_id="B002",
    title="red cotton shirt",
    price=7.0,
    price_tag="$7.0",
    query="shirt",
    category="fashion",
    product_category="fashion › tops › shirt",
    options=(("color", ("red", "blue")), ("size", ("small", "large"))),
)
OTHER = Item(
    item_id="B001",
    title="red cotton shirt",
    price=9.0,
    price_tag="$9.0",
    query="shirt",
    category="fashion",
    product_category="fashion › tops › shirt",
)
SITE = Site(Catalogue([SHIRT, OTHER]), "buy a red shirt", page_size=1)


def played(*commands: str | None, site: Site = SITE) -> Trajectory:
    place = Place()
    observations, actions = [site.text(place)], []
    for command in commands:
        if command is None:
            actions.append(Action(text="well", parse=ParseOutcome.MALFORMED))
            observations.append(FORMAT_HELP)
            continue
        place = site.after(place, command)
        actions.append(Action.of(command))
        observations.append(site.text(place, 1.0))
    return make_trajectory("s" * len(commands), actions, observations, env="shop")


def keys(footprints: tuple[Footprint, ...]) -> list[tuple[set[str], set[str]]]:
    return [(set(one.reads), set(one.writes)) for one in footprints]


def edges(footprints: tuple[Footprint, ...]) -> list[tuple[int, int]]:
    return [edge[:2] for edge in build_graph(footprints).edges]


def test_e11_search_product_option_buy() -> None:
    footprints = shop_footprints(
        played("search[a red cotton shirt]", "click[next >]", "click[b002]", "click[red]", "click[buy now]")
    )
    tokens = {"query_token:red", "query_token:cotton", "query_token:shirt"}
    assert keys(footprints) == [
        (set(), tokens),
        (tokens, set()),
        (tokens, {"selected_product:b002"}),
        ({"selected_product:b002"}, {"selected_attr:color=red"}),
        ({"selected_product:b002", "selected_attr:color=red"}, {"purchase_action"}),
    ]
    without_turning = shop_footprints(played("search[red cotton shirt]", "click[b001]", "click[buy now]"))
    assert edges(without_turning) == [(0, 1), (1, 2)]
    # Step 1 turns a page: it reads the search and nobody reads it. The others are the edges of the example.
    assert edges(footprints) == [(0, 1), (0, 2), (2, 3), (2, 4), (3, 4)]


def test_e11_to_the_letter() -> None:
    wide = Site(SITE.catalogue, "buy a red shirt")
    footprints = shop_footprints(
        played("search[red cotton shirt]", "click[b002]", "click[red]", "click[buy now]", site=wide)
    )
    assert edges(footprints) == [(0, 1), (1, 2), (1, 3), (2, 3)]
    assert [one.effect for one in footprints] == [Effect.CHANGED] * 4


def test_the_example_of_seven_steps() -> None:
    """graphopd.md, worked example 3: a product looked at and left, then another bought with two options."""
    wide = Site(SITE.catalogue, "buy a red shirt")
    footprints = shop_footprints(
        played(
            "search[red cotton shirt]", "click[b001]", "click[< prev]", "click[b002]", "click[red]", "click[large]",
            "click[buy now]", site=wide,
        )
    )  # fmt: skip
    assert keys(footprints)[2] == ({"selected_product:b001"}, set())
    assert keys(footprints)[6] == (
        {"selected_product:b002", "selected_attr:color=red", "selected_attr:size=large"}, {"purchase_action"},
    )  # fmt: skip
    assert build_graph(footprints).edges == (
        (0, 1, 3), (0, 3, 3), (1, 2, 1), (3, 4, 1), (3, 5, 1), (3, 6, 1), (4, 6, 1), (5, 6, 1),
    )  # fmt: skip


def test_a_later_choice_in_a_group_takes_the_place_of_the_first() -> None:
    wide = Site(SITE.catalogue, "buy a red shirt")
    footprints = shop_footprints(
        played("search[shirt]", "click[b002]", "click[blue]", "click[red]", "click[red]", "click[buy now]", site=wide)
    )
    assert keys(footprints)[5][0] == {"selected_product:b002", "selected_attr:color=red"}
    # Chosen already: nothing changes.
    assert footprints[4].effect is Effect.NO_EFFECT
    assert edges(footprints) == [(0, 1), (1, 2), (1, 3), (1, 4), (1, 5), (3, 5)]


def test_leaving_a_product_drops_its_options() -> None:
    wide = Site(SITE.catalogue, "buy a red shirt")
    footprints = shop_footprints(
        played(
            "search[shirt]", "click[b002]", "click[red]", "click[< prev]", "click[b002]", "click[buy now]", site=wide
        )
    )
    assert keys(footprints)[5][0] == {"selected_product:b002"}


def test_a_refined_search_reads_the_words_used_before() -> None:
    footprints = shop_footprints(
        played("search[red shirt]", "click[back to search]", "search[the cotton shirt]", "click[b001]")
    )
    assert keys(footprints) == [
        (set(), {"query_token:red", "query_token:shirt"}),
        ({"query_token:red", "query_token:shirt"}, set()),
        ({"query_token:shirt"}, {"query_token:cotton", "query_token:shirt"}),
        ({"query_token:cotton", "query_token:shirt"}, {"selected_product:b001"}),
    ]


def test_a_search_from_a_product_reads_the_product_left() -> None:
    lax = Site(SITE.catalogue, "buy a red shirt", strict_search=False)
    footprints = shop_footprints(played("search[red shirt]", "click[b001]", "search[cotton]", "click[b001]", site=lax))
    assert keys(footprints)[2] == ({"selected_product:b001"}, {"query_token:cotton"})
    assert keys(footprints)[3] == ({"query_token:cotton"}, {"selected_product:b001"})


def test_effects() -> None:
    wide = Site(SITE.catalogue, "buy a red shirt")
    footprints = shop_footprints(
        played(
            None, "click[buy now]", "search[]", "search[shirt]", "search[red]", "click[b009]", "click[b002]",
            "click[green]", "click[features]", "click[red]", "click[< prev]", "click[< prev]", "hello",
            "click[back to search]", site=wide,
        )
    )  # fmt: skip
    changed, read, none = Effect.CHANGED, Effect.READ_ONLY, Effect.NO_EFFECT
    assert [one.effect for one in footprints] == [
        Effect.MALFORMED, none, none, changed, none, none, changed, none, read, none, read, read, none, read,
    ]  # fmt: skip
    product, token = {"selected_product:b002"}, {"query_token:shirt"}
    assert [set(one.reads) for one in footprints] == [
        set(), set(), set(), set(), set(), token, token, product, product, product, product, product, token, token,
    ]  # fmt: skip


def test_a_missing_last_page_confirms_nothing() -> None:
    trajectory = played("search[shirt]", "click[b001]", "click[buy now]")
    cut = make_trajectory(
        "sss", [step.action for step in trajectory.steps], [step.observation.text for step in trajectory.steps]
    )
    assert shop_footprints(cut)[-1].effect is Effect.NO_EFFECT
    assert shop_footprints(trajectory)[-1].effect is Effect.CHANGED


def test_they_are_found_by_the_name_of_the_environment() -> None:
    trajectory = played("search[shirt]", "click[b001]")
    assert footprints_of(trajectory) == shop_footprints(trajectory)


def test_random_walks_read_only_what_is_known() -> None:
    """Writes are what the shop did; a purchase reads exactly what it holds."""
    catalogue = generate_catalogue(100)
    for seed in range(25):
        rng = random.Random(seed)
        site = Site(catalogue, "buy something", page_size=5)
        place, commands, places = Place(), [], [Place()]
        while len(commands) < 15 and place.page != "done":
            command = rng.choice(site.admissible(place))
            command = "search[a soft rug]" if command == SEARCH_TEMPLATE else command
            place = site.after(place, command)
            commands.append(command)
            places.append(place)
        for footprint, before, after in zip(
            shop_footprints(played(*commands, site=site)), places[:-1], places[1:], strict=True
        ):
            opened = {f"selected_product:{after.item_id.lower()}"} if after.item_id != before.item_id else set()
            chosen = {f"selected_attr:{n}={v}" for n, v in set(after.chosen) - set(before.chosen)}
            if after.page == "done":
                assert footprint.writes == {"purchase_action"}
                assert footprint.reads == {f"selected_product:{before.item_id.lower()}"} | {
                    f"selected_attr:{name}={value}" for name, value in before.chosen
                }
            elif after.page == "results" and before.page == "search":
                assert footprint.writes == {"query_token:soft", "query_token:rug"}
            else:
                assert footprint.writes == (opened if after.item_id else set()) | chosen


@pytest.mark.parametrize("command", ["click[]", "search[:]", "click[\n]", "click[É]", "search[É]", "click[< PREV]"])
def test_odd_commands_make_footprints(command: str) -> None:
    assert len(shop_footprints(played("search[shirt]", command, command))) == 3


@given(st.lists(st.tuples(st.text(max_size=12), st.text(max_size=30)), min_size=1, max_size=4))
def test_no_text_makes_it_raise(steps: list[tuple[str, str]]) -> None:
    trajectory = make_trajectory("s" * len(steps), [command for command, _ in steps], [reply for _, reply in steps])
    assert len(shop_footprints(trajectory)) == len(steps)
