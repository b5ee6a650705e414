import pytest

from purse.amounts import change, half_even, parse, percent, share, show


@pytest.mark.parametrize(
    ("text", "cents"),
    [("12", 1200), ("12.5", 1250), ("-3.07", -307), (" 1,200.00 ", 120000), (".5", 50), ("7.", 700), ("0", 0)],
)
def test_parse(text, cents):
    assert parse(text) == cents


@pytest.mark.parametrize("text", ["", "1.234", "a", "--1", "1.2.3", "-"])
def test_parse_refuses(text):
    with pytest.raises(ValueError):
        parse(text)


@pytest.mark.parametrize(("cents", "text"), [(1205, "$12.05"), (-30, "-$0.30"), (0, "$0.00"), (100, "$1.00")])
def test_show(cents, text):
    assert show(cents) == text


def test_show_with_symbol():
    assert show(5, "CHF ") == "CHF 0.05"


@pytest.mark.parametrize(
    ("numerator", "denominator", "result"), [(5, 2, 2), (7, 2, 4), (9, 4, 2), (11, 4, 3), (8, 4, 2), (-5, 2, -2), (3, 2, 2)]
)
def test_half_even(numerator, denominator, result):
    assert half_even(numerator, denominator) == result


def test_share():
    assert share(100, [1, 1, 1]) == [34, 33, 33]


def test_share_by_weight():
    assert share(1000, [3, 2, 5]) == [300, 200, 500]


def test_share_loses_nothing():
    assert share(11, [1, 1, 1]) == [4, 4, 3]


def test_share_refuses():
    with pytest.raises(ValueError):
        share(10, [0, 0])


def test_percent():
    assert percent(1999, 10) == 200
    assert percent(150, 5, base=1000) == 1


def test_change():
    assert change(388) == {200: 1, 100: 1, 50: 1, 20: 1, 10: 1, 5: 1, 2: 1, 1: 1}


def test_change_of_several():
    assert change(640) == {200: 3, 20: 2}


def test_change_of_nothing():
    assert change(0) == {}


def test_change_refuses():
    with pytest.raises(ValueError):
        change(-1)
