import pytest

from textkit.compare import closest, common_prefix, count_overlapping, distance, is_palindrome, runs


@pytest.mark.parametrize(
    ("first", "second", "steps"), [("kitten", "sitting", 3), ("", "abc", 3), ("abc", "", 3), ("same", "same", 0), ("ab", "ba", 2)]
)
def test_distance(first, second, steps):
    assert distance(first, second) == steps


def test_common_prefix():
    assert common_prefix(["flower", "flow", "flight"]) == "fl"


def test_common_prefix_is_a_whole_text():
    assert common_prefix(["car", "cart"]) == "car"


def test_common_prefix_of_strangers():
    assert common_prefix(["a", "b"]) == ""


def test_common_prefix_of_nothing():
    assert common_prefix([]) == ""


@pytest.mark.parametrize("text", ["", "a", "Was it a car or a cat I saw?", "abba"])
def test_palindromes(text):
    assert is_palindrome(text)


@pytest.mark.parametrize("text", ["ab", "abca", "abcdba"])
def test_no_palindromes(text):
    assert not is_palindrome(text)


def test_runs():
    assert runs("aaabba") == [("a", 3), ("b", 2), ("a", 1)]


def test_runs_of_nothing():
    assert runs("") == []


def test_count_overlapping():
    assert count_overlapping("aaaa", "aa") == 3


def test_count_overlapping_none():
    assert count_overlapping("abc", "x") == 0
    assert count_overlapping("abc", "") == 0


def test_closest():
    assert closest("aple", ["maple", "apple", "ape"]) == "maple"


def test_closest_prefers_fewer_edits():
    assert closest("cat", ["cart!", "cart"]) == "cart"


def test_closest_has_a_limit_of_two():
    assert closest("abcd", ["xycd"]) == "xycd"
    assert closest("abcd", ["xyzd"]) is None
