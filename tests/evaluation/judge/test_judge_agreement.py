"""Judgements against labels, with numbers that can be checked by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutelage.errors import ConfigError, FormatError
from tutelage.evaluation.judge.agreement import agreement_of, cohen_kappa, read_labels
from tutelage.types import FailureCategory, Judgement, UnscoredReason

LOOP, TOOL, OTHER = FailureCategory.INFINITE_LOOP, FailureCategory.TOOL_ERROR, FailureCategory.OTHER


def judgement(identity: str, category: FailureCategory | None) -> Judgement:
    return Judgement(
        trajectory_id=identity,
        source="",
        judge="j",
        attempt=0,
        category=category,
        reason=None if category else UnscoredReason.SCHEMA,
    )


def test_kappa_of_the_textbook_table() -> None:
    """20 yes-yes, 5 yes-no, 10 no-yes, 15 no-no: p_o = 0.7, p_e = 0.5 * 0.6 + 0.5 * 0.4 = 0.5, kappa 0.4."""
    pairs = [("y", "y")] * 20 + [("y", "n")] * 5 + [("n", "y")] * 10 + [("n", "n")] * 15
    assert cohen_kappa(pairs) == pytest.approx(0.4, abs=1e-12)


def test_kappa_at_its_ends() -> None:
    assert cohen_kappa([("a", "a"), ("b", "b")]) == 1.0
    assert cohen_kappa([("a", "b"), ("b", "a")]) == -1.0
    assert cohen_kappa([("a", "a"), ("a", "b"), ("b", "a"), ("b", "b")]) == 0.0
    assert cohen_kappa([("a", "a")]) is None
    assert cohen_kappa([]) is None
    assert cohen_kappa([("a", "b")]) == 0.0


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abc")), min_size=1, max_size=30))
def test_kappa_by_the_disagreement_form(pairs: list[tuple[str, str]]) -> None:
    """1 - q_o / q_e, counted over all pairs of labels and judgements: an independent way to the same number."""
    total = len(pairs)
    by_chance = sum(a != b for a, _ in pairs for _, b in pairs) / total**2
    if len({one for pair in pairs for one in pair}) == 1:
        assert cohen_kappa(pairs) is None
    else:
        expected = 1 - sum(a != b for a, b in pairs) / total / by_chance
        assert cohen_kappa(pairs) == pytest.approx(expected, abs=1e-9)


def test_classes_confusion_and_what_is_in_no_rate() -> None:
    labels = {"a": LOOP, "b": LOOP, "c": LOOP, "d": TOOL, "e": TOOL, "f": OTHER}
    said = [("a", LOOP), ("b", LOOP), ("c", OTHER), ("d", LOOP), ("e", None), ("unlabelled", TOOL)]
    got = agreement_of([judgement(name, category) for name, category in said], labels)
    assert (got.num_labelled, got.num_scored, got.num_unscored, got.num_unjudged) == (6, 4, 1, 1)
    assert got.num_agreed == 2
    assert got.confusion == {LOOP: {LOOP: 2, OTHER: 1}, TOOL: {LOOP: 1}}
    rows = {
        row.category: (row.num_labelled, row.num_judged, row.num_both, row.precision, row.recall) for row in got.classes
    }
    assert rows == {
        TOOL: (1, 0, 0, None, 0.0),
        LOOP: (3, 3, 2, 2 / 3, 2 / 3),
        OTHER: (0, 1, 0, 0.0, None),
    }
    # p_o = 2/4, p_e = (3 * 3 + 1 * 0 + 0 * 1) / 16
    assert got.kappa == pytest.approx((0.5 - 9 / 16) / (1 - 9 / 16))
    assert str(got) == (
        "agreement 2 of 4 (0.500 [0.150, 0.850]), Cohen's kappa -0.143; 6 labels, 1 unscored, 1 not judged."
    )
    assert got.confusion_rows() == [
        ("labelled \\ judged", "1", "2", "3"),
        ("1 tool_error", "·", "1", "·"),
        ("2 infinite_loop", "·", "2", "1"),
        ("3 other", "·", "·", "·"),
    ]
    assert got.to_json()["confusion"] == {
        "infinite_loop": {"infinite_loop": 2, "other": 1},
        "tool_error": {"infinite_loop": 1},
    }
    assert got.to_markdown().splitlines()[2] == "| tool_error | 1 | 0 | 0 | - | 0.00 |"


def test_nothing_to_compare() -> None:
    got = agreement_of([], {"a": LOOP})
    assert str(got) == "agreement 0 of 0 (nan [0.000, 1.000]), Cohen's kappa -; 1 labels, 1 not judged."
    assert got.to_json()["share"] is None


def test_two_judgements_of_one_trajectory_are_refused() -> None:
    with pytest.raises(ConfigError, match="two judgements of trajectory a"):
        agreement_of([judgement("a", LOOP), judgement("a", TOOL)], {"a": LOOP})


def test_labels_are_read(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    path.write_text(
        '{"trajectory_id": "a", "category": "tool_error", "by": "hand"}\n\n{"trajectory_id": "b", "category": "other"}\n'
    )
    assert read_labels(path) == {"a": TOOL, "b": OTHER}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"trajectory_id": "a"}', "line 1: .*expected a JSON object with trajectory_id and category"),
        ("tool_error", "line 1: .*expected a JSON object"),
        ("[1]", "line 1: .*expected a JSON object"),
        ('{"trajectory_id": "a", "category": "tool_eror"}', "line 1: .*Did you mean 'tool_error'"),
        (
            '{"trajectory_id": "a", "category": "other"}\n{"trajectory_id": "a", "category": "tool_error"}',
            "line 2: trajectory a is labelled 'tool_error' and 'other'",
        ),
        ("", "holds no label"),
    ],
)
def test_labels_that_are_none(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    path.write_text(text)
    with pytest.raises(FormatError, match=message):
        read_labels(path)
