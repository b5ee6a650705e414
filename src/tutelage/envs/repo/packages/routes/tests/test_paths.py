import math

import pytest

from routes.paths import all_ways, hops, length_of, shortest, widest

TOWN = {"a": {"b": 4, "c": 1}, "b": {"d": 1}, "c": {"b": 2, "d": 6}, "d": {}, "e": {"a": 1}}


def test_hops():
    assert hops(TOWN, "a") == {"a": 0, "b": 1, "c": 1, "d": 2}


def test_hops_from_an_end():
    assert hops(TOWN, "d") == {"d": 0}
    assert hops(TOWN, "nowhere") == {"nowhere": 0}


def test_shortest():
    assert shortest(TOWN, "a", "d") == (4, ["a", "c", "b", "d"])


def test_shortest_to_itself():
    assert shortest(TOWN, "a", "a") == (0, ["a"])


def test_shortest_without_a_way():
    assert shortest(TOWN, "a", "e") is None


def test_shortest_of_equal_ways():
    assert shortest({"a": {"c": 1, "b": 1}, "b": {"d": 1}, "c": {"d": 1}}, "a", "d") == (2, ["a", "b", "d"])


def test_shortest_in_a_circle():
    assert shortest({"a": {"b": 1}, "b": {"a": 1, "c": 5}}, "a", "c") == (6, ["a", "b", "c"])


def test_shortest_with_edges_of_zero():
    assert shortest({"a": {"b": 0}}, "a", "b") == (0, ["a", "b"])


def test_shortest_refuses_negative_weights():
    with pytest.raises(ValueError):
        shortest({"a": {"b": -1}}, "a", "b")


def test_all_ways():
    assert all_ways(TOWN, "a", "d") == [["a", "b", "d"], ["a", "c", "b", "d"], ["a", "c", "d"]]


def test_all_ways_of_two_edges():
    assert all_ways(TOWN, "a", "d", most=2) == [["a", "b", "d"], ["a", "c", "d"]]


def test_all_ways_in_a_circle():
    assert all_ways({"a": {"b": 1}, "b": {"a": 1, "c": 1}}, "a", "c") == [["a", "b", "c"]]


def test_length_of():
    assert length_of(TOWN, ["a", "c", "b"]) == 3
    assert length_of(TOWN, ["a"]) == 0
    assert length_of(TOWN, ["a", "d"]) is None


def test_length_of_zero():
    assert length_of({"a": {"b": 0}}, ["a", "b"]) == 0


def test_widest():
    assert widest(TOWN, "a", "d") == 1
    assert widest({"a": {"b": 3, "c": 9}, "c": {"b": 5}}, "a", "b") == 5


def test_widest_without_a_way():
    assert widest(TOWN, "a", "e") == 0


def test_widest_to_itself():
    assert widest(TOWN, "a", "a") == math.inf
