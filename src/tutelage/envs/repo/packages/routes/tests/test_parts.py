from routes.parts import both_ways, components, degree_of, has_circle, reversed_graph, spanning_tree, two_colours

ISLANDS = {"a": {"b": 2}, "c": {"b": 1, "a": 3}, "x": {"y": 1}, "z": {}}


def test_both_ways():
    assert both_ways({"a": {"b": 2}}) == {"a": {"b": 2}, "b": {"a": 2}}
    assert both_ways({"a": {}}) == {"a": {}}


def test_components():
    assert components(ISLANDS) == [["a", "b", "c"], ["x", "y"], ["z"]]


def test_has_circle():
    assert has_circle({"a": {"b": 1}, "b": {"c": 1}, "c": {"a": 1}})
    assert has_circle({"a": {"a": 1}})


def test_has_no_circle():
    assert not has_circle(ISLANDS)
    assert not has_circle({"a": {"b": 1, "c": 1}, "b": {"d": 1}, "c": {"d": 1}})


def test_spanning_tree():
    assert spanning_tree(ISLANDS) == ([("b", "c"), ("x", "y"), ("a", "b")], 4)


def test_spanning_tree_of_a_square():
    square = {"a": {"b": 1, "d": 4}, "b": {"c": 2}, "c": {"d": 3}}
    assert spanning_tree(square) == ([("a", "b"), ("b", "c"), ("c", "d")], 6)


def test_two_colours():
    assert two_colours({"a": {"b": 1}, "b": {"c": 1}, "c": {"d": 1}}) == {"a": 0, "b": 1, "c": 0, "d": 1}
    assert two_colours({"b": {"a": 1}, "x": {}}) == {"a": 0, "b": 1, "x": 0}


def test_two_colours_are_not_enough():
    assert two_colours(ISLANDS) is None


def test_reversed_graph():
    assert reversed_graph({"a": {"b": 2}, "c": {"b": 1}}) == {"a": {}, "b": {"a": 2, "c": 1}, "c": {}}


def test_degree_of():
    assert degree_of(ISLANDS, "a") == 1
    assert degree_of(ISLANDS, "a", "in") == 1
    assert degree_of(ISLANDS, "c", "both") == 2
    assert degree_of(ISLANDS, "b", "both") == 2
    assert degree_of(ISLANDS, "nowhere") == 0
