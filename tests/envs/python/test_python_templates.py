"""Generated problems: the same everywhere, right, disjoint between splits, and readable back out of their text."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutelage.envs.python.generator import generate_problem
from tutelage.envs.python.templates import LEVELS, TEMPLATES, calculate, match_template, vocabulary
from tutelage.errors import ConfigError
from tutelage.types import Split

LEVEL = st.sampled_from(LEVELS)
SPLIT = st.sampled_from(Split)
SEED = st.integers(0, 10**6)


@given(LEVEL, SEED, SPLIT)
def test_a_text_gives_back_its_slots_and_its_answer(level, seed, split):
    problem = generate_problem(level, seed, split)
    template, slots = match_template(problem.text)
    assert template.level == level
    assert template.fill(slots) == problem.text
    assert str(template.solve(slots)[-1]) == problem.answer
    assert [one for one in TEMPLATES if one.match(problem.text)] == [template]


@given(LEVEL, SEED, SPLIT)
def test_all_words_are_in_the_vocabulary_and_numbers_are_small(level, seed, split):
    problem = generate_problem(level, seed, split)
    assert set(re.findall(r"[A-Za-z]+|[^\w\s]", problem.text)) <= set(vocabulary())
    template, slots = match_template(problem.text)
    assert all(0 <= result <= 10_000_000 for result in template.solve(slots))


@pytest.mark.parametrize(
    ("text", "results"),
    [
        ("What is 77 + 54?", [131]),
        ("What is (11 + 98) * 4?", [436]),
        ("What is the remainder of 100 divided by 7?", [2]),
        ("Ann has 100 eggs and fills jars with 12 eggs each. How many eggs are left over?", [4]),
        ("Let x be 10 * 11. What is x plus the remainder of x divided by 7?", [110, 115]),
        (
            "There are 3 bags with 12 pens in each. Ben takes 2 pens from each of the bags. "
            "How many pens does Ben not take?",
            [10, 30],
        ),
        (
            "Dan has 4 jars with 20 coins in each. Dan gives 15 coins to Eva and makes piles of 6 coins from the rest. "
            "How many full piles are there?",
            [80, 65, 10],
        ),
        ("Let x be 10 * 3. Let y be the remainder of x divided by 4. What is x * y + 10?", [30, 2, 70]),
    ],
)
def test_results_by_hand(text, results):
    template, slots = match_template(text)
    assert template.solve(slots) == results


@pytest.mark.parametrize(
    "text",
    [
        "",
        "What is 7 + 4",
        "What is x + 4?",
        "Ann has 5 eggs. Ben gives Ben 4 more eggs. How many eggs does Ann have now?",
        "There are 3 bags with 12 pens in each. How many eggs are there?",
        "Zoe has 100 eggs and fills jars with 12 eggs each. How many eggs are left over?",
    ],
)
def test_other_texts_match_nothing(text):
    assert match_template(text) is None


def test_the_splits_share_no_calculation():
    numbers = {
        split: {
            (template.text, *(slots[slot] for slot in template.ranges))
            for level in LEVELS
            for seed in range(300)
            for template, slots in [match_template(generate_problem(level, seed, split).text)]
        }
        for split in Split
    }
    assert not numbers[Split.TRAIN] & numbers[Split.TEST]
    assert not numbers[Split.TRAIN] & numbers[Split.VALIDATION]
    assert not numbers[Split.VALIDATION] & numbers[Split.TEST]


def test_levels_take_one_two_and_three_runs():
    steps = {level: {len(one.steps) for one in TEMPLATES if one.level == level} for level in LEVELS}
    assert steps == {"sums": {1}, "expressions": {1}, "stories": {1}, "chains": {2}, "long_chains": {3}}


def test_same_problem_in_a_fresh_process():
    script = (
        "from tutelage.envs.python.generator import generate_problem\n"
        "from tutelage.types import Split\n"
        "print(generate_problem('stories', 3, Split.TEST).content_hash)"
    )
    fresh = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert fresh.strip() == generate_problem("stories", 3, Split.TEST).content_hash


def test_an_unknown_level():
    with pytest.raises(ConfigError, match="Did you mean 'stories'"):
        generate_problem("storys", 0, Split.TRAIN)


@given(st.integers(0, 99), st.integers(1, 99), st.integers(0, 99))
def test_calculate(a, b, c):
    assert calculate(f"({a} + {b}) * {c} - {a} % {b} + {c} // {b}") == (a + b) * c - a % b + c // b
    assert calculate(f"-{a} // {b}") == -a // b


@pytest.mark.parametrize("expression", ["x", "2 ** 3", "1.5", "f(1)", "1 if 2 else 3"])
def test_calculate_refuses_the_rest(expression):
    with pytest.raises(ValueError, match="holds more than"):
        calculate(expression)
