import pytest

from spans.basic import check, contains, encloses, gap, length, overlap, shift, split, touches


def test_check():
    assert check((1, 2)) == (1, 2)


@pytest.mark.parametrize("span", [(1, 1), (2, 1)])
def test_check_refuses(span):
    with pytest.raises(ValueError):
        check(span)


def test_length():
    assert length((3, 10)) == 7


def test_contains():
    assert contains((1, 4), 1)
    assert contains((1, 4), 3)
    assert not contains((1, 4), 4)
    assert not contains((1, 4), 0)


def test_encloses():
    assert encloses((0, 9), (0, 9))
    assert encloses((0, 9), (2, 3))
    assert not encloses((1, 9), (0, 5))
    assert not encloses((0, 9), (5, 10))


def test_overlap():
    assert overlap((0, 5), (3, 9)) == (3, 5)


def test_overlap_of_neighbours():
    assert overlap((0, 5), (5, 9)) is None


def test_overlap_inside():
    assert overlap((0, 10), (2, 4)) == (2, 4)


def test_touches():
    assert touches((0, 5), (5, 9))
    assert touches((5, 9), (0, 5))
    assert not touches((0, 4), (5, 9))
    assert not touches((5, 9), (0, 4))


def test_gap():
    assert gap((0, 2), (5, 6)) == 3
    assert gap((5, 6), (0, 2)) == 3
    assert gap((0, 5), (3, 9)) == 0


def test_shift():
    assert shift((2, 5), 3) == (5, 8)
    assert shift((2, 5), -1) == (1, 4)


def test_shift_stops_at_low():
    assert shift((2, 5), -4) == (0, 3)
    assert shift((12, 15), -4, low=10) == (10, 13)


def test_split():
    assert split((0, 5), 2) == [(0, 2), (2, 4), (4, 5)]


def test_split_in_one():
    assert split((1, 3), 9) == [(1, 3)]
    assert split((1, 3), 1) == [(1, 2), (2, 3)]


def test_split_refuses():
    with pytest.raises(ValueError):
        split((0, 5), 0)
