"""The ten keys, and who is asked about."""

from __future__ import annotations

import math

from tutelage.evaluation.judge.taxonomy import MEANINGS, STOP_MEANINGS, meaning, population
from tutelage.testing import make_trajectory
from tutelage.types import FailureCategory, StopReason, Trajectory


def test_the_keys_are_the_published_ones() -> None:
    assert [one.value for one in FailureCategory] == [
        "identified_incorrect_file",
        "missed_edge_case",
        "misunderstood_problem_statement",
        "wrong_solution",
        "tool_error",
        "infinite_loop",
        "endless_file_reading",
        "context_overflow_from_listing",
        "syntax_error",
        "other",
    ]
    assert set(MEANINGS) == set(FailureCategory)
    assert set(STOP_MEANINGS) == set(StopReason)


def test_a_file_reads_as_what_the_environment_has() -> None:
    category = FailureCategory.ENDLESS_FILE_READING
    assert meaning(category, "repo") == "read file after file and never acted"
    assert meaning(category, "shop") == "read product or page after product or page and never acted"
    assert meaning(category, "somebody's") == "read file after file and never acted"


def test_only_unsuccessful_ones_are_asked_about() -> None:
    def one(index: int, **fields: object) -> Trajectory:
        return make_trajectory("s", sample_index=index, trajectory_id=f"t{index}", **fields)  # type: ignore[arg-type]

    found = population(
        [
            one(0, reward=1.0),
            one(1, reward=0.0),
            one(2, reward=0.4, stop_reason=StopReason.MAX_STEPS),
            one(3, reward=1.0, stop_reason=StopReason.MAX_STEPS),  # It passed, though a limit cut it off.
            one(4, stop_reason=StopReason.ENV_ERROR),
            one(5, reward=math.nan),
        ]
    )
    assert [each.trajectory_id for each in found.unresolved] == ["t1", "t2"]
    assert (found.num_resolved, found.num_not_scored, found.num_superseded) == (2, 2, 0)
    assert str(found) == "2 failed, 2 succeeded, 2 not scored"


def test_an_attempt_that_was_played_again_is_not_judged() -> None:
    first = make_trajectory("s", reward=0.0, trajectory_id="a0")
    second = make_trajectory("s", reward=0.0, trajectory_id="a1", attempt=1)
    found = population([first, second])
    assert [each.trajectory_id for each in found.unresolved] == ["a1"]
    assert str(found) == "1 failed, 0 succeeded, 1 played again"


def test_equal_attempts_of_several_players_in_one_file_all_stay() -> None:
    found = population([make_trajectory("s", reward=0.0, trajectory_id=name) for name in ("x", "y")])
    assert [each.trajectory_id for each in found.unresolved] == ["x", "y"]
