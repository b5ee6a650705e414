"""Pages and clicks by the tables, over a shop of five lamps; and the pages read back."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutelage.envs.shop.catalogue import Catalogue, Item, Review
from tutelage.envs.shop.generator import generate_catalogue
from tutelage.envs.shop.pages import SEARCH_TEMPLATE, SEPARATOR, Place, Site, parse_command
from tutelage.envs.shop.reading import Listed, Page, Visit, read_page

LAMP = Item(
    item_id="B01",
    title="Desk Lamp",
    price=7.0,
    price_tag="$5.0 to $9.0",
    query="lamp",
    category="home",
    product_category="home › lighting › lamp",
    description=" Bright. ",
    bullets=("dimmable", "made of steel"),
    attributes=("dimmable", "solid"),
    options=(("color", ("red", "blue")), ("size", ("small", "large"))),
    reviews=(Review(title="good", score="4.0", body="it shines"), Review(title="meh", score="2.0", body="dim")),
)
BARE = replace(LAMP, description="", bullets=(), attributes=(), options=(), reviews=(), price_tag="$7.0")
CATALOGUE = Catalogue([LAMP, *(replace(BARE, item_id=f"B0{n}", title=f"lamp {n}") for n in range(2, 6))])
SITE = Site(CATALOGUE, "buy a lamp", page_size=2)


def walk(*commands: str, site: Site = SITE) -> Place:
    place = Place()
    for command in commands:
        place = site.after(place, command)
    return place


def page(*commands: str, site: Site = SITE) -> list[str]:
    return site.text(walk(*commands, site=site)).split(SEPARATOR)


HEAD = ["Instruction:", "buy a lamp", "Back to Search"]
SEARCH_PAGE = ["WebShop", "Instruction:", "buy a lamp", "Search"]
ITEM_PAGE = [
    *HEAD, "< Prev", "color", "red", "blue", "size", "small", "large", "Desk Lamp", "Price: $5.0 to $9.0", "Rating: N.A.",
    "Description", "Features", "Reviews", "Buy Now",
]  # fmt: skip


def test_the_text_of_a_page_is_its_strings_with_separators() -> None:
    assert SITE.text(Place()) == "WebShop [SEP] Instruction: [SEP] buy a lamp [SEP] Search"


def test_search_and_results_pages() -> None:
    assert page() == SEARCH_PAGE
    # Equally good ones in the order of their ids; the first has more words, so it comes last.
    first = [*HEAD, "Page 1 (Total results: 5)", "Next >", "B02", "lamp 2", "$7.0", "B03", "lamp 3", "$7.0"]
    assert page("search[Lamp]") == first
    second = [*HEAD, "Page 2 (Total results: 5)", "< Prev", "Next >", "B04", "lamp 4", "$7.0", "B05", "lamp 5", "$7.0"]
    assert page("search[lamp]", "click[next >]") == second
    third = [*HEAD, "Page 3 (Total results: 5)", "< Prev", "Next >", "B01", "Desk Lamp", "$5.0 to $9.0"]
    assert page("search[lamp]", "click[Next >]", "click[NEXT >]") == third
    beyond = [*HEAD, "Page 4 (Total results: 5)", "< Prev", "Next >"]
    assert page("search[lamp]", *["click[next >]"] * 3) == beyond
    assert page("search[lamp]", *["click[next >]"] * 3, "click[< prev]") == third
    assert page("search[sofa]") == [*HEAD, "Page 1 (Total results: 0)", "Next >"]


def test_item_page_and_its_tabs() -> None:
    opened = ("search[desk]", "click[b01]")
    assert page(*opened) == ITEM_PAGE
    assert page("search[desk]", "click[B01]") == ITEM_PAGE
    assert page(*opened, "click[description]") == [*HEAD, "< Prev", "Bright."]
    assert page(*opened, "click[features]") == [*HEAD, "< Prev", "dimmable", "made of steel"]
    assert page(*opened, "click[reviews]") == [
        *HEAD, "< Prev", '"good"', "4.0", "it shines", '"meh"', "2.0", "dim",
    ]  # fmt: skip
    # Nothing marks what was chosen, as in the original.
    assert page(*opened, "click[red]") == ITEM_PAGE
    assert page("search[lamp]", "click[b02]") == [
        *HEAD, "< Prev", "lamp 2", "Price: $7.0", "Rating: N.A.", "Description", "Features", "Reviews", "Buy Now",
    ]  # fmt: skip
    for tab, text in (("description", "No description."), ("features", "No features."), ("reviews", "No reviews.")):
        assert page("search[lamp]", "click[b02]", f"click[{tab}]") == [*HEAD, "< Prev", text]


def test_the_last_page_shows_the_score_and_not_the_target() -> None:
    place = walk("search[desk]", "click[b01]", "click[buy now]")
    assert place.page == "done"
    assert SITE.text(place, 0.75) == ("Thank you for shopping with us! [SEP] Your score (min 0.0, max 1.0) [SEP] 0.75")
    assert SITE.moves(place) == {}
    assert walk("search[desk]", "click[b01]", "click[buy now]", "search[lamp]", "click[back to search]") == place


def test_choosing_replaces_within_a_group_and_leaving_clears() -> None:
    opened = ("search[desk]", "click[b01]")
    assert walk(*opened, "click[red]", "click[large]").chosen == (("color", "red"), ("size", "large"))
    assert walk(*opened, "click[red]", "click[large]", "click[blue]").chosen == (("color", "blue"), ("size", "large"))
    # A tab keeps what was chosen; going back to the results, or to the search page, does not.
    assert walk(*opened, "click[red]", "click[features]", "click[< prev]").chosen == (("color", "red"),)
    assert walk(*opened, "click[red]", "click[< prev]") == Place("results", "desk", 1)
    assert walk(*opened, "click[red]", "click[< prev]", "click[b01]").chosen == ()
    assert walk(*opened, "click[red]", "click[back to search]") == Place()
    assert walk(*opened, "click[features]", "click[back to search]") == Place()
    # The number of the results page is kept behind a product.
    assert walk("search[lamp]", "click[next >]", "click[b04]", "click[< prev]") == Place("results", "lamp", 2)


@pytest.mark.parametrize(
    ("where", "command"),
    [
        ((), "click[search]"), ((), "search[]"), ((), "search[  ]"), ((), "lamp"), ((), "click[b01]"), ((), "buy[b01]"),
        ((), "click[buy now]"), ((), "click[< prev]"), ((), "say search[lamp]"), ((), ""),
        (("search[lamp]",), "click[< prev]"), (("search[lamp]",), "click[b01]"), (("search[lamp]",), "click[buy now]"),
        (("search[lamp]",), "click[lamp 2]"), (("search[lamp]",), "search[desk]"),
        (("search[desk]", "click[b01]"), "click[next >]"), (("search[desk]", "click[b01]"), "click[color]"),
        (("search[desk]", "click[b01]"), "click[attributes]"), (("search[desk]", "click[b01]"), "click[green]"),
        (("search[desk]", "click[b01]"), "search[lamp]"), (("search[desk]", "click[b01]", "click[features]"), "click[red]"),
        (("search[desk]", "click[b01]", "click[features]"), "click[buy now]"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_leaves_the_page(where: tuple[str, ...], command: str) -> None:
    assert walk(*where, command) == walk(*where)


def test_commands_may_be_in_any_case_and_spacing() -> None:
    assert parse_command(" Click [ Buy Now ] ") == ("click", "buy now")
    assert parse_command("search[a [red] lamp]") == ("search", "a [red] lamp")
    assert parse_command("search[lamp") == parse_command("look") == ("", "")


def test_lax_search_works_everywhere_and_clears() -> None:
    lax = replace(SITE, strict_search=False)
    place = walk("search[desk]", "click[b01]", "click[red]", "search[lamp]", site=lax)
    assert place == Place("results", "lamp", 1)
    assert lax.admissible(place)[0] == SEARCH_TEMPLATE
    assert SEARCH_TEMPLATE not in SITE.admissible(place)


def test_chosen_options_and_attributes_are_shown_where_the_shop_is_told_to() -> None:
    open_site = replace(SITE, show_chosen=True, show_attributes=True)
    opened = ("search[desk]", "click[b01]")
    shown = [*ITEM_PAGE[:-1], "Attributes", "Buy Now"]
    assert page(*opened, site=open_site) == shown
    assert page(*opened, "click[red]", "click[small]", site=open_site) == [
        *shown, "Chosen: color=red", "Chosen: size=small",
    ]  # fmt: skip
    assert page(*opened, "click[attributes]", site=open_site) == [*HEAD, "< Prev", "dimmable", "solid"]


def test_admissible_commands_come_in_page_order() -> None:
    assert SITE.admissible(walk()) == ("search[...]",)
    assert SITE.admissible(walk("search[lamp]", "click[next >]")) == (
        "click[back to search]", "click[< prev]", "click[next >]", "click[b04]", "click[b05]",
    )  # fmt: skip
    assert SITE.admissible(walk("search[desk]", "click[b01]")) == (
        "click[back to search]", "click[< prev]", "click[red]", "click[blue]", "click[small]", "click[large]",
        "click[description]", "click[features]", "click[reviews]", "click[buy now]",
    )  # fmt: skip
    assert SITE.admissible(walk("search[desk]", "click[b01]", "click[reviews]")) == (
        "click[back to search]", "click[< prev]",
    )  # fmt: skip


def test_a_value_that_reads_like_a_button_is_the_button_and_a_double_one_the_last() -> None:
    odd = Catalogue([replace(LAMP, options=(("cut", ("features", "wide")), ("fit", ("wide", "slim"))))])
    site = replace(SITE, catalogue=odd)
    opened = ("search[desk]", "click[b01]")
    assert walk(*opened, "click[features]", site=site).page == "features"
    assert walk(*opened, "click[wide]", site=site).chosen == (("fit", "wide"),)


def test_pages_read_back() -> None:
    assert read_page(SITE.text(Place())) == Page(kind="search", instruction="buy a lamp")
    assert read_page(SITE.text(walk("search[lamp]", "click[next >]"))) == Page(
        kind="results",
        instruction="buy a lamp",
        number=2,
        total=5,
        listed=(Listed("b04", "lamp 4", "$7.0"), Listed("b05", "lamp 5", "$7.0")),
    )
    assert read_page(SITE.text(walk("search[desk]", "click[b01]"))) == Page(
        kind="item",
        instruction="buy a lamp",
        options=LAMP.options,
        title="Desk Lamp",
        price="$5.0 to $9.0",
    )
    assert read_page(SITE.text(walk("search[desk]", "click[b01]", "click[features]"))) == Page(
        kind="tab", instruction="buy a lamp", strings=("dimmable", "made of steel")
    )
    assert read_page(SITE.text(Place("done"), 1.0)) == Page(kind="done")
    assert read_page("No command was found in that reply.") == Page(kind="other")


def test_a_group_whose_name_is_unknown_is_read_as_values_of_the_one_before() -> None:
    site = replace(SITE, catalogue=Catalogue([replace(LAMP, options=(("glow", ("warm",)), ("hum", ("low",))))]))
    assert read_page(site.text(walk("search[desk]", "click[b01]", site=site))).options == (
        ("glow", ("warm", "hum", "low")),
    )


@given(st.text(), st.lists(st.sampled_from([*ITEM_PAGE, "Page 1 (Total results: 5)", "B02", "x"]), max_size=8))
def test_reading_never_raises(text: str, strings: list[str]) -> None:
    read_page(text)
    read_page(SEPARATOR.join(strings))
    read_page(SEPARATOR.join([*HEAD, *strings]))


@pytest.mark.parametrize("site_options", [{}, {"strict_search": False, "show_chosen": True, "show_attributes": True}])
def test_a_visit_follows_what_the_shop_knows(site_options: dict[str, bool]) -> None:
    """On random walks, the texts tell the search, the product and the options as the shop has them."""
    catalogue = generate_catalogue(200)
    for seed in range(60):
        rng = random.Random(seed)
        item = rng.choice(catalogue.items)
        site = Site(catalogue, "buy something", page_size=4, **site_options)
        place, visit = Place(), Visit(page=read_page(site.text(Place())))
        for _ in range(25):
            command = rng.choice(
                [*site.admissible(place), "click[red]", "click[no such thing]", "hello", "search[tea]"]
            )
            command = f"search[{item.query}]" if command == SEARCH_TEMPLATE else command
            if rng.random() < 0.7 and command == "click[buy now]":
                continue
            before, place = place, site.after(place, command)
            confirmed = visit.step(command, site.text(place))
            assert confirmed == (place != before), command
            assert visit.item_id == place.item_id.lower() or place.page == "done"
            assert visit.chosen == dict(place.chosen)
            assert place.page == "done" or visit.query == place.query
