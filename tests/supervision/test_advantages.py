"""Group-relative credit, with numbers that can be checked by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutelage.errors import SupervisionError
from tutelage.supervision.advantages import group_advantages, step_scores
from tutelage.testing.trajectories import make_trajectory


def of_rewards(*rewards: float | None, **options: object) -> list[float | None]:
    """Advantages of trajectories of one step each."""
    scores = [None if reward is None else (reward,) for reward in rewards]
    credit = group_advantages(scores, **options)  # type: ignore[arg-type]
    return [None if one is None else one[0] for one in credit.steps]


def test_two_of_four_won() -> None:
    assert of_rewards(1.0, 1.0, 0.0, 0.0) == pytest.approx([1.0, 1.0, -1.0, -1.0], abs=1e-5)


def test_one_of_four_won() -> None:
    assert of_rewards(1.0, 0.0, 0.0, 0.0) == pytest.approx([1.7320, -0.5773, -0.5773, -0.5773], abs=1e-4)
    assert of_rewards(1.0, 0.0, 0.0, 0.0, std="sample") == pytest.approx([1.5, -0.5, -0.5, -0.5], abs=1e-4)
    assert of_rewards(1.0, 0.0, 0.0, 0.0, std="none") == [0.75, -0.25, -0.25, -0.25]


def test_scale_of_the_reward_is_divided_out() -> None:
    assert of_rewards(10.0, 0.0, 0.0) == pytest.approx([1.4142, -0.7071, -0.7071], abs=1e-4)


@pytest.mark.parametrize("rewards", [[0.1] * 3, [0.1] * 64, [1e8 + 0.1] * 64, [float(np.float32(0.1))] * 64, [1.0]])
def test_equal_rewards_give_exactly_nothing(rewards: list[float]) -> None:
    credit = group_advantages([(reward,) for reward in rewards])
    assert list(credit.steps) == [(0.0,)] * len(rewards)
    assert credit.zero_variance


def test_unscored_and_broken_rewards_leave_the_statistics() -> None:
    credit = group_advantages([(1.0,), None, (0.0,), (math.nan,)])
    assert credit.steps[1] is None
    assert credit.steps[3] is None
    assert credit.steps[0] == pytest.approx((1.0,), abs=1e-5)
    assert credit.steps[2] == pytest.approx((-1.0,), abs=1e-5)
    assert (credit.num_unscored, credit.num_non_finite, credit.zero_variance) == (1, 1, False)


def test_a_group_without_any_score() -> None:
    credit = group_advantages([None, None])
    assert credit.steps == (None, None)
    assert (credit.num_unscored, credit.zero_variance) == (2, False)


def test_the_only_scored_one_of_a_group_has_nothing_to_be_compared_with() -> None:
    credit = group_advantages([None, (1.0, 1.0)])
    assert credit.steps == (None, (0.0, 0.0))
    assert credit.zero_variance


def test_statistics_over_steps_count_long_trajectories_more() -> None:
    scores = [(10.0,) * 2, (0.0,) * 6]
    by_trajectory = group_advantages(scores)
    by_step = group_advantages(scores, statistics="steps")
    assert by_trajectory.steps[0] == pytest.approx((1.0,) * 2, abs=1e-5)
    assert by_trajectory.steps[1] == pytest.approx((-1.0,) * 6, abs=1e-5)
    assert by_step.steps[0] == pytest.approx((1.7321,) * 2, abs=1e-4)
    assert by_step.steps[1] == pytest.approx((-0.5774,) * 6, abs=1e-4)


def test_a_penalty_is_shared_by_the_trajectory_or_stays_with_its_step() -> None:
    trajectory = make_trajectory("ss", reward=1.0)
    scores = step_scores(trajectory, [False, True], reward_scale=10.0, invalid_action_penalty=0.1)
    assert scores == pytest.approx((10.0, 9.9))
    assert scores is not None
    other = (0.0, 0.0)
    shared = group_advantages([scores, other], std="none")
    assert shared.steps[0] == pytest.approx((4.975, 4.975))
    own = group_advantages([scores, other], std="none", statistics="steps")
    assert own.steps[0] == pytest.approx((5.025, 4.925))


def test_an_unscored_episode_has_no_scores() -> None:
    assert step_scores(make_trajectory("s", reward=None), [False]) is None


def test_flags_of_another_length_are_refused() -> None:
    with pytest.raises(SupervisionError, match="ineffective has 1 entries, expected 2"):
        step_scores(make_trajectory("ss", reward=1.0), [False])


@given(st.lists(st.floats(-10, 10), min_size=2, max_size=8), st.floats(-5, 5), st.floats(0.5, 4))
def test_shifting_and_scaling_the_rewards_changes_nothing(rewards: list[float], shift: float, scale: float) -> None:
    if max(rewards) - min(rewards) < 0.1:
        return
    before = of_rewards(*rewards)
    after = of_rewards(*(scale * reward + shift for reward in rewards))
    assert after == pytest.approx(before, abs=1e-4)
