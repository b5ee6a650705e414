from __future__ import annotations

from tutelage.envs.household.names import base_name, display_names, join_list, list_text


def test_numbers_fall_along_the_text_order_of_ids():
    # E-01
    ids = ["apple_bar__plus_02", "apple_bar__minus_01", "apple_bar__plus_00"]
    assert display_names(ids) == {
        "apple_bar__minus_01": "apple 3",
        "apple_bar__plus_00": "apple 2",
        "apple_bar__plus_02": "apple 1",
    }


def test_coordinates_sort_as_text():
    # "10" < "9" as text, so the drawer at 10 comes first and has the higher number.
    assert display_names(["drawer_bar__plus_9", "drawer_bar__plus_10"]) == {
        "drawer_bar__plus_10": "drawer 2",
        "drawer_bar__plus_9": "drawer 1",
    }


def test_ten_drawers_count_from_ten_down():
    names = display_names(f"drawer_bar__plus_{i:02d}" for i in range(10))
    assert list(names.values()) == [f"drawer {i}" for i in range(10, 0, -1)]


def test_basins_are_numbered_apart_from_their_sink():
    ids = ["sink_bar__plus_01", "sink_bar__plus_01_bar_sinkbasin", "bathtub_bar_1_bar_bathtubbasin"]
    assert base_name(ids[1]) == "sinkbasin"
    assert display_names(ids) == {
        "bathtub_bar_1_bar_bathtubbasin": "bathtubbasin 1",
        "sink_bar__plus_01": "sink 1",
        "sink_bar__plus_01_bar_sinkbasin": "sinkbasin 1",
    }


def test_ids_without_coordinates_have_no_number():
    assert display_names(["agent1", "mug"]) == {"agent1": "agent1", "mug": "mug"}


def test_renumber_permutes_within_a_name_and_is_fixed_by_its_seed():
    ids = [f"drawer_bar_{i}" for i in range(8)] + ["safe_bar_1"]
    plain, one, two = display_names(ids), display_names(ids, renumber=1), display_names(ids, renumber=2)
    assert sorted(one.values()) == sorted(plain.values())
    assert one["safe_bar_1"] == "safe 1"
    assert one == display_names(reversed(ids), renumber=1)
    assert len({tuple(names.values()) for names in (plain, one, two)}) == 3


def test_lists():
    assert list_text([]) == "nothing"
    assert list_text(["egg 1"]) == "a egg 1"
    assert list_text(["egg 1", "cd 2"]) == "a egg 1, and a cd 2"
    assert list_text(["egg 1", "cd 2", "pen 3"]) == "a egg 1, a cd 2, and a pen 3"
    assert join_list(["drawer 10", "drawer 6"]) == "drawer 10, and drawer 6"
