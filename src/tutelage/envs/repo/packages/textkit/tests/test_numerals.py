import pytest

from textkit.numerals import column_name, from_roman, group_digits, ordinal, to_roman


@pytest.mark.parametrize(
    ("number", "letters"), [(1, "I"), (4, "IV"), (9, "IX"), (14, "XIV"), (1987, "MCMLXXXVII"), (3999, "MMMCMXCIX")]
)
def test_roman_both_ways(number, letters):
    assert to_roman(number) == letters
    assert from_roman(letters) == number


@pytest.mark.parametrize("number", [0, -1, 4000])
def test_to_roman_refuses(number):
    with pytest.raises(ValueError):
        to_roman(number)


def test_from_roman_in_lower_case():
    assert from_roman("xlii") == 42


@pytest.mark.parametrize("letters", ["IIII", "IC", "ABC", ""])
def test_from_roman_refuses(letters):
    with pytest.raises(ValueError):
        from_roman(letters)


@pytest.mark.parametrize(
    ("number", "text"),
    [(1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (12, "12th"), (13, "13th"), (21, "21st"), (10, "10th")],
)
def test_ordinal(number, text):
    assert ordinal(number) == text


def test_ordinal_of_hundreds():
    assert ordinal(111) == "111th"
    assert ordinal(101) == "101st"


def test_ordinal_below_zero():
    assert ordinal(-3) == "-3rd"


@pytest.mark.parametrize(("index", "name"), [(1, "A"), (26, "Z"), (27, "AA"), (52, "AZ"), (53, "BA"), (702, "ZZ")])
def test_column_name(index, name):
    assert column_name(index) == name


def test_column_name_refuses_zero():
    with pytest.raises(ValueError):
        column_name(0)


@pytest.mark.parametrize(("number", "text"), [(0, "0"), (999, "999"), (1000, "1,000"), (-1234567, "-1,234,567")])
def test_group_digits(number, text):
    assert group_digits(number) == text


def test_group_digits_in_pairs():
    assert group_digits(12345, size=2, mark=" ") == "1 23 45"
