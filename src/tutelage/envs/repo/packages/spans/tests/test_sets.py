from spans.sets import complement, difference, find, intersection, normalise, total, union

A = [(0, 3), (5, 8), (10, 12)]
B = [(2, 6), (11, 20)]


def test_normalise():
    assert normalise([(5, 6), (0, 2), (1, 3)]) == [(0, 3), (5, 6)]


def test_normalise_joins_neighbours():
    assert normalise([(0, 2), (2, 4)]) == [(0, 4)]


def test_normalise_keeps_the_longer_end():
    assert normalise([(0, 9), (1, 3)]) == [(0, 9)]


def test_union():
    assert union(A, B) == [(0, 8), (10, 20)]


def test_intersection():
    assert intersection(A, B) == [(2, 3), (5, 6), (11, 12)]
    assert intersection(B, A) == [(2, 3), (5, 6), (11, 12)]


def test_intersection_of_strangers():
    assert intersection([(0, 1)], [(1, 2)]) == []


def test_difference():
    assert difference(A, B) == [(0, 2), (6, 8), (10, 11)]


def test_difference_inside():
    assert difference([(0, 10)], [(2, 3), (5, 6)]) == [(0, 2), (3, 5), (6, 10)]


def test_difference_of_everything():
    assert difference([(2, 5)], [(0, 9)]) == []
    assert difference([(2, 5)], [(2, 5)]) == []


def test_difference_of_neighbours():
    assert difference([(2, 5)], [(0, 2), (5, 7)]) == [(2, 5)]


def test_complement():
    assert complement([(10, 20)]) == [(0, 10), (20, 100)]
    assert complement([(0, 4)], 2, 8) == [(4, 8)]


def test_total():
    assert total([(0, 3), (2, 5), (7, 8)]) == 6


def test_find():
    assert [find(A, point) for point in (0, 2, 5, 7, 10, 11)] == [0, 0, 1, 1, 2, 2]


def test_find_nothing():
    assert [find(A, point) for point in (-1, 3, 4, 8, 12)] == [-1, -1, -1, -1, -1]
    assert find([], 1) == -1
