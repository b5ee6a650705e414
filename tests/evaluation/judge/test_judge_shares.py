"""The table of categories: shares, splits, and what is in none of them."""

from __future__ import annotations

import pytest

from tutelage.evaluation.judge.shares import plain_table, shares_of
from tutelage.testing import make_trajectory
from tutelage.types import FailureCategory, Judgement, StopReason, UnscoredReason

LOOP, TOOL = FailureCategory.INFINITE_LOOP, FailureCategory.TOOL_ERROR

EPISODES = [
    make_trajectory("s", reward=0.0, trajectory_id="a"),
    make_trajectory("se", reward=0.0, trajectory_id="b"),
    make_trajectory("s", reward=0.0, trajectory_id="c", stop_reason=StopReason.MAX_STEPS),
    make_trajectory("s", reward=0.0, trajectory_id="d", stop_reason=StopReason.MAX_STEPS),
]


def judgement(identity: str, category: FailureCategory | None, **fields: bool) -> Judgement:
    return Judgement(
        trajectory_id=identity,
        source="evaluations/x",
        judge="j",
        attempt=0,
        category=category,
        reason=None if category else UnscoredReason.TRANSPORT,
        **fields,
    )


def test_shares_and_splits() -> None:
    got = shares_of(
        [
            judgement("a", LOOP, cached=True),
            judgement("b", TOOL, repaired=True),
            judgement("c", LOOP),
            judgement("d", None),
        ],
        EPISODES,
    )
    assert (got.source, got.judge, got.num_judged, got.num_scored) == ("evaluations/x", "j", 4, 3)
    assert got.totals == {"all": 3, "completed": 2, "not completed": 1, "student last": 2, "expert last": 1}
    assert got.counts == {
        TOOL: {"all": 1, "completed": 1, "not completed": 0, "student last": 0, "expert last": 1},
        LOOP: {"all": 2, "completed": 1, "not completed": 1, "student last": 2, "expert last": 0},
    }
    share = got.share(LOOP)
    # Wilson's interval of 2 in 3, by hand: centre 0.5728, half width 0.3650.
    assert (share.estimate, share.low, share.high) == pytest.approx((2 / 3, 0.2077, 0.9385), abs=1e-4)
    assert got.share(LOOP, "completed").estimate == 0.5
    assert got.share_unscored(UnscoredReason.TRANSPORT).estimate == 0.25
    assert got.note() == "1 unscored: transport (25 %), 1 cached, 1 repaired"
    assert got.rows() == [
        ("category", "failures", "share", "95 %", "completed", "not completed", "student last", "expert last"),
        ("tool_error", "1", "33 %", "6 to 79 %", "1 (50 %)", "0 (0 %)", "0 (0 %)", "1 (100 %)"),
        ("infinite_loop", "2", "67 %", "21 to 94 %", "1 (50 %)", "1 (100 %)", "2 (100 %)", "0 (0 %)"),
        ("all", "3", "", "", "2", "1", "2", "1"),
    ]
    assert got.to_json()["unscored"] == {"transport": 1}
    assert got.to_json()["categories"]["tool_error"]["expert last"]["count"] == 1


def test_nothing_scored() -> None:
    got = shares_of([judgement("a", None)], EPISODES)
    assert got.rows() == [("category", "failures", "share", "95 %"), ("all", "0", "", "")]
    assert got.to_json()["totals"] == {"all": 0}
    assert shares_of([], EPISODES).num_judged == 0


def test_columns_stand_below_each_other() -> None:
    assert plain_table([("a", "n"), ("long", "10")]) == "a      n\nlong  10"
