import pytest

from almanac.days import day_number, day_of_year, from_number, is_leap, is_valid, month_length, weekday, weekday_name


@pytest.mark.parametrize(("year", "leap"), [(2000, True), (1900, False), (2024, True), (2023, False), (400, True)])
def test_is_leap(year, leap):
    assert is_leap(year) is leap


def test_month_length():
    assert month_length(2024, 2) == 29
    assert month_length(2023, 2) == 28
    assert month_length(2024, 1) == 31
    assert month_length(2024, 4) == 30
    assert month_length(2023, 12) == 31


@pytest.mark.parametrize("month", [0, 13])
def test_month_length_refuses(month):
    with pytest.raises(ValueError):
        month_length(2024, month)


@pytest.mark.parametrize("date", [(2024, 2, 29), (1, 1, 1), (2023, 12, 31), (2023, 4, 30)])
def test_valid_dates(date):
    assert is_valid(date)


@pytest.mark.parametrize("date", [(2023, 2, 29), (0, 1, 1), (2023, 13, 1), (2023, 0, 1), (2023, 4, 31), (2023, 4, 0)])
def test_invalid_dates(date):
    assert not is_valid(date)


def test_day_of_year():
    assert day_of_year((2023, 1, 1)) == 1
    assert day_of_year((2023, 3, 1)) == 60
    assert day_of_year((2024, 12, 31)) == 366


def test_day_number():
    assert day_number((1, 1, 1)) == 0
    assert day_number((1970, 1, 1)) == 719_162
    assert day_number((2024, 3, 1)) == 738_945
    assert day_number((401, 1, 1)) == 146_097


@pytest.mark.parametrize("date", [(1, 1, 1), (1970, 1, 1), (2024, 2, 29), (2024, 12, 31), (2000, 3, 1)])
def test_from_number(date):
    assert from_number(day_number(date)) == date


def test_weekday():
    assert weekday((2024, 1, 1)) == 0
    assert weekday((2024, 2, 29)) == 3


def test_weekday_name():
    assert weekday_name((2024, 2, 25)) == "Sunday"
    assert weekday_name((2024, 2, 25), letters=3) == "Sun"
