"""Raw answers of judges, and what may be read out of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutelage.evaluation.judge.parse import Parsed, Unscored, parse_category, parse_line, parse_object, parse_score
from tutelage.types import FailureCategory, UnscoredReason

ANSWERS = [
    json.loads(line)
    for line in (Path(__file__).parents[2] / "fixtures" / "judge" / "answers.jsonl").read_text().splitlines()
]


@pytest.mark.parametrize("answer", ANSWERS, ids=[one["name"] for one in ANSWERS])
def test_j1_raw_answers(answer: dict[str, Any]) -> None:
    """J1: twelve answers of a judge that is asked for a score from 0 to 10."""
    got = parse_score(answer["text"], low=0, high=10)
    if answer["reason"] is None:
        assert isinstance(got, Parsed)
        assert (got.value, got.repaired) == (answer["score"], False)
        assert type(got.value) is float
    else:
        assert isinstance(got, Unscored)
        assert got.reason == answer["reason"]


def test_there_are_twelve_answers() -> None:
    assert len(ANSWERS) == 12
    assert sum(one["reason"] is None for one in ANSWERS) == 4


@pytest.mark.parametrize(
    ("text", "category", "reason"),
    [
        ('{"category": "tool_error"}', "tool_error", None),
        ('{"category": " Tool_Error "}', "tool_error", None),
        ('```json\n{"category": "tool_error"}\n```', "tool_error", None),
        ('First {"a": 1}, and so {"category": "other"}.', "other", None),
        ('{"category": "other", "unasked": [1]}', "other", None),
        ('{"category": "bad luck"}', None, "out_of_range"),
        ('{"category": null}', None, "schema"),
        ('{"category": ["other"]}', None, "schema"),
        ('{"label": "other"}', None, "schema"),
        ('"other"', None, "schema"),
        ("7", None, "schema"),
        ("other", None, "no_json"),
        ("{other}", None, "no_json"),
        ('{"category": "other", "category": "tool_error"}', None, "no_json"),
        # An inner object of one that was cut off is no answer.
        ('{"steps": {"category": "other"}, "cat', None, "truncated"),
        ('{"category": "other"} and then {"categ', None, "truncated"),
        # Two fenced blocks: neither is the only one, so that the last object in the text counts.
        ('```\n{"category": "other"}\n```\n```\n{"category": "tool_error"}\n```', "tool_error", None),
        ('```\n["other"]\n```', None, "schema"),
        ('{"explanation": "a } in a string \\" {", "category": "other"}', "other", None),
    ],
)
def test_a_category_in_json(text: str, category: str | None, reason: str | None) -> None:
    got = parse_category(text)
    if isinstance(got, Parsed):
        assert (got.value, None) == (category, reason)
    else:
        assert (None, got.reason) == (category, reason)


@pytest.mark.parametrize(
    ("last_line", "category", "reason"),
    [
        ("wrong_solution", "wrong_solution", None),
        ("Wrong_Solution ", "wrong_solution", None),
        ("the category is wrong_solution", None, "schema"),
        ("", None, "schema"),
        ("bad_luck", None, "out_of_range"),
        ("wrong_solution\n\n  \n", "wrong_solution", None),
        ("wrong_solution.", None, "schema"),
    ],
)
def test_t30_last_lines(last_line: str, category: str | None, reason: str | None) -> None:
    """T-30, but that what cannot be read is unscored with a reason, not `other`."""
    got = parse_line(last_line)
    assert (getattr(got, "value", None), getattr(got, "reason", None)) == (category, reason)


def test_the_published_form_has_its_explanation_in_tags() -> None:
    got = parse_line("<description>\nIt never edits.\n</description>\n\nendless_file_reading\n")
    assert got == Parsed(value=FailureCategory.ENDLESS_FILE_READING, explanation="It never edits.")


@pytest.mark.parametrize(
    ("finish_reason", "reason"), [("length", "truncated"), ("content_filter", "refused"), ("refusal", "refused")]
)
def test_how_an_answer_ended_comes_before_what_it_says(finish_reason: str, reason: str) -> None:
    for got in (
        parse_category('{"category": "other"}', finish_reason=finish_reason),
        parse_line("other", finish_reason=finish_reason),
        parse_score('{"score": 1}', low=0, high=1, finish_reason=finish_reason),
    ):
        assert isinstance(got, Unscored)
        assert got.reason == reason


@pytest.mark.parametrize("score", ["NaN", "Infinity", "1e999", "true", '"7"', "-0.5"])
def test_what_is_no_score(score: str) -> None:
    assert isinstance(parse_score(f'{{"score": {score}}}', low=0, high=10), Unscored)


def test_the_ends_of_a_range_belong_to_it() -> None:
    assert parse_score('{"score": 0}', low=0, high=10) == Parsed(value=0.0)
    assert parse_score('{"score": 10}', low=0, high=10) == Parsed(value=10.0)


@pytest.mark.parametrize(
    ("text", "finish_reason"),
    [
        ('{"explanation": "It looked, then", "category": "other", }', None),
        ('{"category": "other", "explanation": "It looked, then', "length"),
        ('```json\n{"category": "other"', "stop"),
        ('So: {"steps": [1, 2, {"a": "b}"], "category": "other"}', None),
    ],
)
def test_repair_is_off_unless_asked_for_and_then_told(text: str, finish_reason: str | None) -> None:
    assert isinstance(parse_category(text, finish_reason=finish_reason), Unscored)
    got = parse_category(text, finish_reason=finish_reason, repair=True)
    if text.startswith("So"):
        assert isinstance(got, Unscored)  # A bracket that is missing in the middle is not guessed.
    else:
        assert isinstance(got, Parsed)
        assert (got.value, got.repaired) == ("other", True)


def test_repair_invents_no_category() -> None:
    got = parse_category('{"explanation": "It looked", "category": "oth', repair=True)
    assert isinstance(got, Unscored)
    assert got.reason is UnscoredReason.OUT_OF_RANGE
    assert isinstance(parse_category('"other"', repair=True), Unscored)


@given(st.text(max_size=200))
def test_no_text_makes_the_parsers_raise(text: str) -> None:
    for repair in (False, True):
        parse_category(text, repair=repair)
        parse_score(text, low=0, high=1, repair=repair)
    parse_line(text)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=6), json_values, max_size=4), st.sampled_from(["plain", "fenced", "prose"]))
def test_an_object_is_found_whole(value: dict[str, Any], how: str) -> None:
    written = json.dumps(value)
    wrap = {"plain": "{}", "fenced": "Look:\n```json\n{}\n```\nDone.", "prose": "I say {} indeed."}[how]
    got = parse_object(wrap.replace("{}", written))
    assert isinstance(got, Parsed)
    assert got.value == value


@given(st.dictionaries(st.text(max_size=6), json_values, min_size=1, max_size=4), st.data())
def test_an_object_that_was_cut_off_is_never_read(value: dict[str, Any], data: st.DataObject) -> None:
    written = json.dumps(value)
    end = data.draw(st.integers(1, len(written) - 1))
    got = parse_object(written[:end])
    assert isinstance(got, Unscored)
    assert got.reason is UnscoredReason.TRUNCATED


@given(st.sampled_from(list(FailureCategory)), st.text(alphabet=" \t\n", max_size=3))
def test_every_category_comes_back_in_both_forms(category: FailureCategory, space: str) -> None:
    written = category.value.upper()
    assert parse_category(space + json.dumps({"category": written}) + space) == Parsed(value=category)
    assert parse_line(f"why\n{space}{written}{space}") == Parsed(value=category)
