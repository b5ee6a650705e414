import pytest

from textkit.layout import center, columns, dedent, indent_of, justify, wrap


def test_wrap():
    assert wrap("the quick brown fox", 10) == ["the quick", "brown fox"]


def test_wrap_fills_a_line():
    assert wrap("aa bb cc", 5) == ["aa bb", "cc"]


def test_wrap_breaks_long_words():
    assert wrap("a abcdefgh b", 3) == ["a", "abc", "def", "gh", "b"]


def test_wrap_word_of_two_lines():
    assert wrap("abcdef", 3) == ["abc", "def"]


def test_wrap_has_a_width_of_twenty():
    assert wrap("x" * 21) == ["x" * 20, "x"]


def test_wrap_nothing():
    assert wrap("  ", 4) == []


def test_wrap_width_one():
    assert wrap("ab", 1) == ["a", "b"]


def test_wrap_refuses_no_width():
    with pytest.raises(ValueError):
        wrap("a", 0)


def test_justify():
    assert justify(["a", "b", "c"], 8) == "a   b  c"


def test_justify_even():
    assert justify(["ab", "cd", "e"], 9) == "ab  cd  e"


def test_justify_one_word():
    assert justify(["abc"], 5) == "abc  "


def test_justify_exact():
    assert justify(["ab", "cd"], 5) == "ab cd"


def test_justify_too_narrow():
    with pytest.raises(ValueError):
        justify(["ab", "cd"], 4)


def test_center():
    assert center("ab", 7, ".") == "..ab..."


def test_center_of_a_full_line():
    assert center("abc", 3, ".") == "abc"


def test_center_fills_with_spaces():
    assert center("x", 3) == " x "


def test_columns():
    assert columns(["a", "bbb", "ccc", "d", "e"]) == ["a    bbb", "ccc  d", "e"]


def test_columns_of_three():
    assert columns(["a", "b", "c", "d"], count=3, gap=1) == ["a b c", "d"]


def test_indent_of():
    assert indent_of("   x y") == 3


def test_indent_of_tabs():
    assert indent_of(" \tx") == 4
    assert indent_of("\t\tx", tab=8) == 16


def test_dedent():
    assert dedent(["    a", "      b", "", "    c"]) == ["a", "  b", "", "c"]


def test_dedent_of_blank_lines():
    assert dedent(["", "  "]) == ["", ""]
