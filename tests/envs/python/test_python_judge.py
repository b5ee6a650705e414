"""Answers, right and wrong: numbers, letters, mathematics, programs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutelage.envs.python import math_judge
from tutelage.envs.python.judge import Judgement, judge, letter_in, whole_number_in
from tutelage.envs.python.math_judge import math_equal
from tutelage.envs.python.problems import HiddenTest, Problem
from tutelage.envs.python.program_tests import passes_all, same_output, source_in
from tutelage.envs.sandbox import shared_runner
from tutelage.errors import MissingExtra

pytestmark = pytest.mark.usefixtures("python_sandbox")


def problem(kind: str, answer: str) -> Problem:
    return Problem(text="?", answer=answer, judge=kind, kind="test")


def verdict(kind: str, key: str, answer: str) -> str:
    return judge(problem(kind, key), answer, shared_runner()).value


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("42", 42),
        (" 042 ", 42),
        ("-7", -7),
        ("+7", 7),
        ("1,234", 1234),
        ("1{,}234", 1234),
        ("12,345,678", 12345678),
        ("$42$", 42),
        ("42.", 42),
        ("42.0", 42),
        ("42.00", 42),
        ("42.5", None),
        ("1,23", None),
        ("1.234,0", None),
        ("42 apples", None),
        ("4 2", None),
        ("1\\,234", 1234),
        ("four", None),
        ("", None),
        ("٤٢", None),
        ("1e3", None),
        ("1" * 5000, None),
        ("--1", None),
    ],
)
def test_whole_numbers(text, number):
    assert whole_number_in(text) == number


@given(st.integers())
def test_every_whole_number_is_read_as_it_is_written(number):
    assert whole_number_in(str(number)) == whole_number_in(f"{number:,}") == whole_number_in(f"${number}.0$") == number


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("B", "B"),
        ("(b)", "B"),
        ("B.", "B"),
        ("$\\text{B}$", "B"),
        ("b)", "B"),
        ("AB", None),
        ("Because", None),
        ("", None),
    ],
)
def test_letters(text, letter):
    assert letter_in(text) == letter


@pytest.mark.parametrize(
    ("kind", "key", "answer", "judgement"),
    [
        ("aime", "7", "007", "right"),
        ("aime", "7", "7.0", "right"),
        ("aime", "7", "8", "wrong"),
        ("aime", "7", "1007", "no_answer"),
        ("aime", "7", "-7", "no_answer"),
        ("aime", "7", "\\frac{14}{2}", "no_answer"),
        ("integer", "1234", "1,234", "right"),
        ("integer", "3", "", "no_answer"),
        ("integer", "10000000000000000000001", "10000000000000000000000", "wrong"),
        ("choice", "B", "\\boxed{B}", "right"),
        ("choice", "B", "C", "wrong"),
        ("choice", "B", "E", "wrong"),
        ("choice", "B", "the second", "no_answer"),
    ],
)
def test_judgements(kind, key, answer, judgement):
    assert verdict(kind, key, answer) == judgement


@pytest.mark.parametrize(
    ("key", "answer", "judgement"),
    [
        ("\\frac{1}{2}", "0.5", "right"),
        ("\\frac{1}{2}", "1/2", "right"),
        ("\\frac{1}{2}", "$\\frac{2}{4}$", "right"),
        ("\\frac{1}{2}", "\\boxed{\\frac{1}{2}}", "right"),
        ("\\frac{1}{2}", "0.4", "wrong"),
        ("1024", "2^{10}", "right"),
        ("10000000000000000000001", "10000000000000000000000", "wrong"),
        ("x^2 - 1", "(x - 1)(x + 1)", "right"),
        ("\\frac{1}{2}", "", "no_answer"),
        ("\\frac{1}{2}", "x" * 3000, "no_answer"),
    ],
)
def test_mathematics(key, answer, judgement):
    pytest.importorskip("math_verify")
    assert verdict("math", key, answer) == judgement


def test_an_expression_without_end_is_wrong_and_the_next_is_judged():
    pytest.importorskip("math_verify")
    assert math_equal("\\frac{1}{2}", "9^{9^{9^{9}}}") is not True
    assert math_equal("\\frac{1}{2}", "0.5") is True


def test_without_math_verify_only_whole_numbers_are_compared(monkeypatch):
    monkeypatch.setattr(math_judge, "find_spec", lambda name: None)
    math_judge._comparer.cache_clear()
    assert verdict("math", "7", "7") == "right"
    with pytest.raises(MissingExtra, match=r"tutelage\[math\]"):
        verdict("math", "\\frac{1}{2}", "0.5")


ADD = (HiddenTest(given="1 2\n", expected="3\n"), HiddenTest(given="10 -4\n", expected="6"))
LONGEST = (
    HiddenTest(given='["a", "bcd"]\n2', expected='"bcd"', function="longest"),
    HiddenTest(given="[]\n0", expected="null", function="longest"),
)


@pytest.mark.parametrize(
    ("source", "tests", "passes"),
    [
        ("a, b = map(int, input().split())\nprint(a + b)", ADD, True),
        ("if __name__ == '__main__':\n  print(sum(map(int, sys.stdin.read().split())))", ADD, True),
        ("print(3)", ADD, False),
        ("print('3 ')", ADD[:1], True),
        ("1 / 0", ADD[:1], False),
        ("import sys; print(3); sys.exit(1)", ADD[:1], False),
        ("def longest(words: List[str], n): return max(words, key=len, default=None)", LONGEST, True),
        (
            "class Solution:\n  def longest(self, words, n):\n    print('x'); return words[-1] if words else None",
            LONGEST,
            True,
        ),
        ("def other(words, n): return None", LONGEST, False),
        ("def longest(words, n): exit(0)", LONGEST, False),
        (
            "class Always:\n  def __eq__(self, other): return True\ndef longest(words, n): return Always()",
            LONGEST,
            False,
        ),
        ("import json\njson.loads = lambda text: None\ndef longest(words, n): return 'bcd'", LONGEST, False),
    ],
)
def test_programs(source, tests, passes):
    assert passes_all(source, tests, shared_runner()) is passes


def test_a_program_that_hangs(monkeypatch):
    monkeypatch.setattr("tutelage.envs.python.program_tests.TEST_SECONDS", 0.5)
    assert not passes_all("print(3)\nwhile True: pass", ADD[:1], shared_runner())


def test_source_in_fences():
    assert source_in("Here:\n```python\nx = 1\n```\nor\n```\ny = 2\n```") == "y = 2\n"
    assert source_in("x = 1") == "x = 1"
    assert judge(problem("program", ""), "```\n```", shared_runner()) is Judgement.NO_ANSWER


@pytest.mark.parametrize(
    ("got", "expected", "equal"),
    [
        ("1 2\n3\n", "1 2\n3", True),
        ("1 2 \n3", "1 2\n3", True),
        ("1.0", "1", True),
        ("1 2", "1\n2", False),
        ("a", "A", False),
        ("", "0", False),
    ],
)
def test_same_output(got, expected, equal):
    assert same_output(got, expected) is equal
