import pytest

from almanac.steps import add_days, add_months, age, days_between, every, next_weekday, nth_weekday, workdays


def test_add_days():
    assert add_days((2024, 2, 28)) == (2024, 2, 29)
    assert add_days((2023, 12, 31)) == (2024, 1, 1)
    assert add_days((2024, 3, 1), -1) == (2024, 2, 29)


def test_add_months():
    assert add_months((2024, 1, 31)) == (2024, 2, 29)
    assert add_months((2023, 11, 15), 2) == (2024, 1, 15)
    assert add_months((2024, 12, 5), 12) == (2025, 12, 5)
    assert add_months((2024, 1, 10), -1) == (2023, 12, 10)


def test_days_between():
    assert days_between((2024, 1, 1), (2024, 12, 31)) == 365
    assert days_between((2024, 1, 2), (2024, 1, 1)) == 1


def test_age():
    assert age((2000, 5, 10), (2024, 5, 9)) == 23
    assert age((2000, 5, 10), (2024, 5, 10)) == 24
    assert age((2000, 5, 10), (2024, 4, 30)) == 23
    assert age((2000, 5, 10), (2024, 6, 1)) == 24


def test_next_weekday():
    assert next_weekday((2024, 1, 1), 2) == (2024, 1, 3)
    assert next_weekday((2024, 1, 3), 0) == (2024, 1, 8)


def test_next_weekday_on_the_day():
    assert next_weekday((2024, 1, 1), 0) == (2024, 1, 8)
    assert next_weekday((2024, 1, 1), 0, same=True) == (2024, 1, 1)


def test_workdays():
    assert workdays((2024, 1, 1), (2024, 1, 7)) == 5
    assert workdays((2024, 1, 5), (2024, 1, 8)) == 2
    assert workdays((2024, 1, 6), (2024, 1, 7)) == 0


def test_workdays_without_holidays():
    assert workdays((2024, 1, 1), (2024, 1, 5), holidays=[(2024, 1, 1), (2024, 1, 6)]) == 4


def test_nth_weekday():
    assert nth_weekday(2024, 11, 3, 4) == (2024, 11, 28)
    assert nth_weekday(2024, 1, 0, 1) == (2024, 1, 1)
    assert nth_weekday(2024, 5, 0, -1) == (2024, 5, 27)
    assert nth_weekday(2024, 1, 2, 5) == (2024, 1, 31)


def test_nth_weekday_is_missing():
    assert nth_weekday(2024, 2, 0, 5) is None
    assert nth_weekday(2024, 2, 0, -5) is None


def test_nth_weekday_from_the_end():
    assert nth_weekday(2024, 2, 0, -4) == (2024, 2, 5)


def test_nth_weekday_refuses():
    with pytest.raises(ValueError):
        nth_weekday(2024, 1, 0, 0)


def test_every_week():
    assert every((2024, 2, 20), 7, count=3) == [(2024, 2, 20), (2024, 2, 27), (2024, 3, 5)]


def test_every_until():
    assert every((2024, 2, 20), 5, until=(2024, 3, 1)) == [(2024, 2, 20), (2024, 2, 25), (2024, 3, 1)]
    assert every((2024, 2, 20), 1, until=(2024, 2, 19)) == []


@pytest.mark.parametrize("options", [{}, {"count": 1, "until": (2024, 1, 1)}])
def test_every_refuses(options):
    with pytest.raises(ValueError):
        every((2024, 1, 1), 1, **options)


def test_every_needs_a_distance():
    with pytest.raises(ValueError):
        every((2024, 1, 1), 0, count=1)
