import pytest

from purse.plans import average, discount, grow, lowest, repay, running, tax, years_to


def test_grow():
    assert grow(10_000, 5) == 10_500
    assert grow(10_000, 5, years=3) == 11_576


def test_grow_no_years():
    assert grow(10_000, 5, years=0) == 10_000


def test_years_to():
    assert years_to(10_000, 12_000, 10) == 2
    assert years_to(10_000, 10_000, 10) == 0


def test_years_to_never():
    assert years_to(10_000, 10_001, 0) is None


def test_years_to_at_most():
    assert years_to(10_000, 12_100, 10, most=2) == 2
    assert years_to(10_000, 12_101, 10, most=2) is None


def test_repay():
    assert repay(1000, 10, 500) == [600, 160, 0]


def test_repay_exactly():
    assert repay(1000, 10, 1100) == [0]
    assert repay(0, 10, 1100) == []


def test_repay_never():
    with pytest.raises(ValueError):
        repay(1000, 10, 100)


def test_repay_a_last_cent():
    assert repay(2, 0, 1) == [1, 0]


@pytest.mark.parametrize(
    ("number", "price"), [(1, 100), (9, 900), (10, 950), (49, 4655), (50, 4500), (99, 8910), (100, 8000)]
)
def test_discount(number, price):
    assert discount(100, number) == price


@pytest.mark.parametrize(
    ("income", "owed"), [(0, 0), (10_000, 0), (10_010, 1), (20_000, 1000), (20_010, 1003), (30_000, 4000)]
)
def test_tax(income, owed):
    assert tax(income) == owed


def test_tax_of_own_bands():
    assert tax(300, ((100, 10), (200, 20), (None, 50))) == 80


def test_average():
    assert average([1, 2, 4]) == 2
    assert average([1, 2, 4], digits=2) == 233
    assert average([]) is None


def test_running():
    assert running([5, -3, 10]) == [5, 2, 12]
    assert running([5, -3], start=100) == [105, 102]


def test_lowest():
    assert lowest([5, -8, 1, -1, 9]) == (-3, 2)


def test_lowest_is_the_start():
    assert lowest([5, -5], start=0) == (0, 0)
    assert lowest([], start=3) == (3, 0)
