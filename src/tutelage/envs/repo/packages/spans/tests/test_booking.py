from spans.booking import clashes, coverage, first_free, free_slots, most_meetings, rooms_needed


def test_rooms_needed():
    assert rooms_needed([(0, 3), (1, 4), (2, 5), (6, 7)]) == 3


def test_rooms_are_handed_over():
    assert rooms_needed([(0, 2), (2, 4)]) == 1


def test_rooms_for_nobody():
    assert rooms_needed([]) == 0


def test_most_meetings():
    assert most_meetings([(0, 6), (1, 4), (3, 5), (5, 7), (4, 5)]) == [(1, 4), (4, 5), (5, 7)]


def test_most_meetings_of_equal_ends():
    assert most_meetings([(2, 5), (0, 5)]) == [(0, 5)]


def test_free_slots():
    assert free_slots([(3, 5), (1, 2)], 0, 9) == [(0, 1), (2, 3), (5, 9)]


def test_free_slots_of_a_size():
    assert free_slots([(3, 5), (1, 2)], 0, 7, shortest=2) == [(5, 7)]


def test_first_free():
    assert first_free([(0, 2), (3, 6), (8, 9)], 2) == 6
    assert first_free([(0, 2), (3, 6)], 1) == 2


def test_first_free_before_all():
    assert first_free([(4, 5)], 4) == 0


def test_first_free_from_low():
    assert first_free([(0, 2), (5, 6)], 2, low=4) == 6
    assert first_free([(0, 2), (7, 9)], 2, low=4) == 4


def test_clashes():
    assert clashes([(0, 3), (2, 4), (3, 5), (9, 10)]) == [(0, 1), (1, 2)]


def test_no_clashes():
    assert clashes([(0, 1), (1, 2)]) == []
    assert clashes([(1, 2), (0, 1)]) == []


def test_coverage():
    assert coverage([(0, 1), (5, 7)], 0, 9) == 33


def test_coverage_of_nothing():
    assert coverage([(0, 1)], 5, 5) == 0
    assert coverage([(0, 1)], 5, 4) == 0


def test_coverage_of_all():
    assert coverage([(0, 5), (5, 10)], 0, 10) == 100
    assert coverage([(0, 1)], 0, 1) == 100
