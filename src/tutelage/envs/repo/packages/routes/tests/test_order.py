import pytest

from routes.order import Circle, critical_path, finish_times, indegrees, levels, nodes_of, sort

HOUSE = {"dig": {"walls": 1}, "walls": {"roof": 1, "windows": 1}, "doors": {"paint": 1}, "windows": {"paint": 1}}


def test_nodes_of():
    assert nodes_of({"b": {"a": 1}, "c": {}}) == ["a", "b", "c"]


def test_indegrees():
    assert indegrees(HOUSE) == {"dig": 0, "doors": 0, "paint": 2, "roof": 1, "walls": 1, "windows": 1}


def test_sort():
    assert sort(HOUSE) == ["dig", "doors", "walls", "roof", "windows", "paint"]


def test_sort_takes_the_smallest():
    assert sort({"a": {"z": 1, "y": 1}, "b": {}}) == ["a", "b", "y", "z"]
    assert sort({"m": {"a": 1}, "n": {}}) == ["m", "a", "n"]


def test_sort_of_a_circle():
    with pytest.raises(Circle):
        sort({"a": {"b": 1}, "b": {"a": 1}})


def test_sort_of_a_part_with_a_circle():
    with pytest.raises(Circle):
        sort({"x": {}, "a": {"a": 1}})


def test_levels():
    assert levels(HOUSE) == {"dig": 0, "doors": 0, "paint": 3, "roof": 2, "walls": 1, "windows": 2}


def test_finish_times():
    times = finish_times(HOUSE, {"dig": 3, "walls": 5, "paint": 2})
    assert times == {"dig": 3, "doors": 1, "walls": 8, "roof": 9, "windows": 9, "paint": 11}


def test_critical_path():
    assert critical_path(HOUSE, {"dig": 3, "walls": 5, "paint": 2}) == ["dig", "walls", "windows", "paint"]


def test_critical_path_of_single_tasks():
    assert critical_path({"b": {}, "a": {}}, {"b": 4, "a": 4}) == ["a"]
    assert critical_path({}, {}) == []
