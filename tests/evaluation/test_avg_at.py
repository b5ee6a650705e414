"""avg@k by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutelage.errors import ConfigError
from tutelage.evaluation.avg_at import average_at, scores_by_task
from tutelage.testing import make_trajectory
from tutelage.types import StopReason


def test_by_hand():
    result = average_at({"a": [1, 0], "b": [1, None, 1, 0], "c": [1], "d": [0, 0]}, 2)
    assert (result.k, result.num_tasks, result.incomplete) == (2, 3, ("c",))
    # Means 0.5, 1 and 0: mean 0.5, standard deviation 0.5, half width 1.96 * 0.5 / sqrt(3) = 0.566, cut at 0 and 1.
    assert result.score.estimate == pytest.approx(0.5)
    assert (result.score.low, result.score.high) == (0.0, 1.0)
    assert str(result) == "avg@2 0.500 [0.000, 1.000] over 3 tasks, 1 incomplete"


def test_the_interval():
    score = average_at({"a": [1, 0, 0, 0], "b": [1, 1, 0, 0], "c": [1, 1, 1, 0], "d": [1, 1, 0, 0]}, 4).score
    # Means 0.25, 0.5, 0.75, 0.5: variance 0.125 / 3, half width 1.96 * sqrt(0.041667 / 4) = 0.2000.
    assert (score.estimate, score.low, score.high) == pytest.approx((0.5, 0.3, 0.7), abs=1e-3)


def test_nothing_is_no_zero():
    result = average_at({"a": [None, 1]}, 2)
    assert math.isnan(result.score.estimate)
    assert (result.num_tasks, result.incomplete) == (0, ("a",))
    with pytest.raises(ConfigError, match="k is 0"):
        average_at({}, 0)


def test_scores_come_in_the_order_of_samples_and_the_last_attempt_counts():
    failed = make_trajectory("s", sample_index=1, stop_reason=StopReason.ENV_ERROR)
    trajectories = [
        make_trajectory("s", sample_index=2, reward=0.0),
        failed,
        make_trajectory("s", sample_index=1, attempt=1, reward=1.0),
        make_trajectory("s", sample_index=0, reward=0.5),
        make_trajectory("s", task_id="task-2", stop_reason=StopReason.TIMEOUT),
    ]
    assert scores_by_task(trajectories) == {"task-1": [0.5, 1.0, 0.0], "task-2": [None]}


@given(st.lists(st.lists(st.floats(0, 1), min_size=3, max_size=6), min_size=1, max_size=6))
def test_with_one_sample_each_it_is_the_plain_mean(scores):
    result = average_at({str(index): values for index, values in enumerate(scores)}, 3)
    assert result.score.estimate == pytest.approx(sum(sum(values[:3]) / 3 for values in scores) / len(scores))
