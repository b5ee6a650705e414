"""Where every trajectory went, and what each kind of data cost."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutelage.errors import ConfigError
from tutelage.selection.budget import account, expert_calls, match_budget, student_calls
from tutelage.selection.filters import HasExpertSteps, NoRepetition, PerTaskCap, Solved
from tutelage.selection.ledger import Bucket, select
from tutelage.testing import make_trajectory
from tutelage.types import Action, Actor, FailedAttempt, StopReason, Trajectory

ALL_FILTERS = [Solved(), HasExpertSteps(), NoRepetition(), PerTaskCap(1)]


def test_every_trajectory_has_one_verdict() -> None:
    rows = {
        "good": make_trajectory("se", task_id="good"),
        "again": make_trajectory("se", task_id="good", sample_index=1),
        "failed": make_trajectory("se", task_id="failed", reward=0.0),
        "crashed": make_trajectory("s", task_id="crashed", stop_reason=StopReason.ENV_ERROR),
        "alone": make_trajectory("ss", task_id="alone"),
        "loop": make_trajectory("sssee", list("AAABC"), task_id="loop"),
        "own loop": make_trajectory("eeee", list("AAAB"), task_id="own loop"),
    }
    got = select(rows.values(), ALL_FILTERS)
    assert [(one.filter, one.reason, one.span) for one in got.verdicts] == [
        ("all", "kept", None),
        ("per_task_cap", "over_task_cap", None),
        ("solved", "not_successful", None),
        ("solved", "unscored", None),
        ("has_expert_steps", "no_expert_steps", None),
        ("no_repetition", "identical_actions", (0, 2)),
        ("no_repetition", "identical_actions", (0, 2)),
    ]
    assert [one.trajectory_id for one in got.verdicts] == [one.trajectory_id for one in rows.values()]
    assert got.kept == (rows["good"],)
    ledger = got.ledger
    assert (ledger.num_in, ledger.num_kept) == (7, 1)
    assert list(ledger.dropped.items()) == [
        ("not_successful", 1),
        ("unscored", 1),
        ("no_expert_steps", 1),
        ("identical_actions", 2),
        ("over_task_cap", 1),
    ]
    assert ledger.repetition_drops == {"all": 2, "trained": 1}
    assert ledger.buckets == ()
    assert str(ledger).splitlines() == [
        "7 in  1 kept  1 not_successful  1 unscored  1 no_expert_steps  2 identical_actions  1 over_task_cap",
        "repetition filter drops 2 in scope all, 1 in scope trained",
    ]
    assert json.loads(json.dumps(ledger.to_json()))["num_in"] == 7


def test_only_the_last_attempt_counts() -> None:
    def attempt(number: int, stop_reason: StopReason) -> Trajectory:
        return make_trajectory("e", stop_reason=stop_reason, attempt=number, trajectory_id=f"task-1.a{number}")

    trajectories = [
        attempt(1, StopReason.INTERRUPTED),
        attempt(2, StopReason.COMPLETED),
        attempt(0, StopReason.ENV_ERROR),
    ]
    got = select(trajectories, [Solved()])
    assert [one.reason for one in got.verdicts] == ["superseded", "kept", "superseded"]
    assert got.ledger.dropped == {"superseded": 2}


def test_a_trajectory_that_is_there_twice_is_refused() -> None:
    """T-23: each id once."""
    with pytest.raises(ConfigError, match=re.escape("trajectory task-1.test.s0.n0.a0 is there twice")):
        select([make_trajectory("e"), make_trajectory("e")], [])


def test_the_table_of_drawn_switches() -> None:
    def drawn(k: int, actors: str, reward: float = 1.0) -> Trajectory:
        return make_trajectory(actors, task_id=f"{k}-{actors}-{reward}", drawn_switch=k, reward=reward)

    trajectories = [
        drawn(0, "ee"),
        drawn(3, "sss"),  # ended before the switch
        drawn(3, "ssse"),
        drawn(2, "sse", reward=0.0),
        drawn(6, "sse"),  # the student's limit handed over early
        drawn(35, "s" * 35 + "e"),
    ]
    ledger = select(trajectories, [Solved(), HasExpertSteps()]).ledger
    assert ledger.k_zero == 1
    rows = [(b.label, b.drawn, b.realised, b.solved, b.kept, b.expert_steps) for b in ledger.buckets]
    assert rows == [
        ("0", 1, 1, 1, 1, 2),
        ("1-5", 3, 3, 2, 1, 2),
        ("6-10", 1, 0, 1, 1, 1),
        ("11-15", 0, 0, 0, 0, 0),
        ("16-20", 0, 0, 0, 0, 0),
        ("21-25", 0, 0, 0, 0, 0),
        ("26-30", 0, 0, 0, 0, 0),
        ("31+", 1, 1, 1, 1, 1),
    ]
    second, empty = ledger.buckets[1], ledger.buckets[3]
    assert (second.kept_fraction, second.expert_steps_per_kept) == (1 / 3, 2.0)
    assert (empty.kept_fraction, empty.expert_steps_per_kept) == (None, None)
    lines = str(ledger).splitlines()
    assert lines[1] == "k_zero 1"
    assert lines[4].split() == ["1-5", "3", "3", "2", "1", "33.3", "2.0"]
    assert isinstance(second, Bucket)


@given(
    rows=st.lists(
        st.tuples(
            st.text("se", max_size=6),
            st.sampled_from([0.0, 1.0, None]),
            st.sampled_from(list(StopReason)),
            st.sampled_from(["a", "b"]),
            st.none() | st.integers(0, 40),
        ),
        max_size=12,
    )
)
def test_nobody_is_lost(rows: list[tuple]) -> None:
    trajectories = [
        make_trajectory(
            actors, ["A"] * len(actors), reward=reward, stop_reason=stop, task_id=task, sample_index=i, drawn_switch=k
        )
        for i, (actors, reward, stop, task, k) in enumerate(rows)
    ]
    got = select(trajectories, ALL_FILTERS)
    assert len(got.verdicts) == len(rows) == got.ledger.num_in
    assert got.ledger.num_kept + sum(got.ledger.dropped.values()) == len(rows)
    assert [one.trajectory_id for one in got.kept] == [one.trajectory_id for one in got.verdicts if one.keep]
    if got.ledger.buckets:
        assert sum(bucket.drawn for bucket in got.ledger.buckets) == sum(k is not None for *_, k in rows)


IMITATION = [make_trajectory("e" * 10, task_id=f"bc-{index}") for index in range(3)]
CORRECTIONS = [
    make_trajectory("s" * student + "e" * expert, task_id=f"oec-{index}", drawn_switch=student)
    for index, (student, expert) in enumerate([(6, 4), (2, 8), (0, 10)])
]


def test_an_account_of_each_kind() -> None:
    """T-33."""
    filters = [Solved(), HasExpertSteps()]
    imitation = account("expert_only", IMITATION, select(IMITATION, filters))
    corrections = account("switch_once", CORRECTIONS, select(CORRECTIONS, filters), trained_tokens=110)
    assert (imitation.trained_steps, corrections.trained_steps) == (30, 22)
    assert (imitation.expert_calls, corrections.expert_calls) == (30, 22)
    assert (imitation.student_calls, corrections.student_calls) == (0, 8)
    assert (imitation.env_steps, corrections.env_steps) == (30, 30)
    assert (imitation.k_zero, corrections.k_zero) == (0, 1)
    assert (imitation.trained_tokens, corrections.trained_tokens) == (None, 110)
    assert (corrections.drawn, corrections.kept, corrections.dropped) == (3, 3, {})
    alone = [make_trajectory("sss")]
    assert account("student_only", alone, select(alone, []), trained=[Actor.STUDENT]).trained_steps == 3


def test_what_was_drawn_costs_even_if_it_was_dropped() -> None:
    failed = [*CORRECTIONS, make_trajectory("see", task_id="failed", reward=0.0)]
    got = account("switch_once", failed, select(failed, [Solved()]))
    assert (got.drawn, got.kept, got.expert_calls, got.trained_steps) == (4, 3, 24, 22)


def test_calls_count_labels_and_repeated_questions() -> None:
    again = Action(text="go", command="go", attempts=(FailedAttempt(text="?"), FailedAttempt(text="??")))
    trajectory = make_trajectory("sse", ["a", again, again], labels=["x", None, "y"])
    assert student_calls(trajectory) == 1 + 3
    assert expert_calls(trajectory) == 1 + 0 + 3, "at its own step the label is the action"


def test_match_budget_in_the_given_order() -> None:
    """T-33: 12 expert calls."""
    assert match_budget(IMITATION, "expert_calls", 12, seed=None) == IMITATION[:1]
    assert match_budget(CORRECTIONS, "expert_calls", 12, seed=None) == CORRECTIONS[:2]
    assert match_budget(IMITATION, "trajectories", 2, seed=None) == IMITATION[:2]
    assert match_budget(IMITATION, "env_steps", 15, seed=None) == IMITATION[:1], "a tie excludes the last"
    assert match_budget(IMITATION, "env_steps", 16, seed=None) == IMITATION[:2]


def test_match_budget_by_costs_of_ones_own() -> None:
    costs = {one.trajectory_id: cost for one, cost in zip(IMITATION, (50, 70, 60), strict=True)}
    assert match_budget(IMITATION, "trained_tokens", 110, seed=None, costs=costs) == IMITATION[:2]


def test_match_budget_never_repeats_and_never_guesses() -> None:
    with pytest.raises(ConfigError, match=r"budget expert_calls: 3 trajectories make 22, expected 23\. Collect more"):
        match_budget(CORRECTIONS, "expert_calls", 23, seed=0)
    with pytest.raises(ConfigError, match=r"budget \(without costs\): unknown 'trained_tokens'"):
        match_budget(CORRECTIONS, "trained_tokens", 5, seed=0)


@given(seed=st.integers(0, 99), amount=st.integers(1, 22), order=st.permutations(CORRECTIONS))
def test_match_budget_depends_on_the_seed_alone(seed: int, amount: int, order: list[Trajectory]) -> None:
    got = match_budget(order, "expert_calls", amount, seed=seed)
    assert got == match_budget(CORRECTIONS, "expert_calls", amount, seed=seed)
    assert len({one.trajectory_id for one in got}) == len(got)
    assert abs(sum(map(expert_calls, got)) - amount) <= 5
