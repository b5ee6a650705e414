"""Scores and tables of the audit: by hand, and against scipy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from tutelage.analysis.credit import (
    MEASURES,
    CreditCase,
    CreditRow,
    credit_table,
    mean_intervals,
    measure_signals,
    score_cases,
)
from tutelage.errors import SupervisionError
from tutelage.supervision.replay_impact import StepImpact

L_GRAPH = (-1.7110, 1.1084, -0.4692, 0.8148, -0.5524, 0.8092)


def case(name: str = "t", **fields: Any) -> CreditCase:
    """Example 6 of the specification, unless told otherwise."""
    success_drop = fields.pop("success_drop", (0.0, 1.0, 1.0, 1.0, 1.0, 1.0))
    n = len(success_drop)
    impact = StepImpact(
        trajectory_id=name,
        success=fields.pop("success", True),
        success_drop=success_drop,
        progress_drop=fields.pop("progress_drop", None),
        invalid_share=fields.pop("invalid_share", (0.0, 0.5, 1 / 3, 1.0, 1.0, 0.0) if n == 6 else (0.0,) * n),
        intervention="omit",
        num_env_steps=21,
    )
    values: dict[str, Any] = {"signals": {"position": tuple(range(n))}}
    return CreditCase(trajectory_id=name, task_id=f"task-{name}", kind="put", impact=impact, **(values | fields))


def by_name(rows: list[CreditRow]) -> dict[str, CreditRow]:
    return {row.signal: row for row in rows}


def test_example_6_as_a_table() -> None:
    scores = score_cases([case(signals={"l_graph": L_GRAPH, "position": range(6)})])
    rows = by_name(credit_table(scores))
    assert list(rows) == ["l_graph", "position", "random"]
    found = {measure: round(interval.estimate, 4) for measure, interval in rows["l_graph"].measures.items()}
    invalid = stats.spearmanr(L_GRAPH, (0, 0.5, 1 / 3, 1, 1, 0)).statistic
    success = stats.spearmanr(L_GRAPH, (0, 1, 1, 1, 1, 1)).statistic
    assert found == {
        "rho": 0.4058,
        "partial": 0.3838,
        "hit_earlier": 0.0,
        "hit_tolerant": 0.0,
        "hit_later": 0.0,
        "rho_success": round(float(success), 4),
        "rho_invalid": round(float(invalid), 4),
        "rho_without_last": 0.4104,
        "partial_without_last": found["partial_without_last"],
        "hit_earlier_without_last": 0.0,
        "hit_tolerant_without_last": 0.0,
        "hit_later_without_last": 0.0,
    }
    assert rows["l_graph"].pooled_rho == pytest.approx(0.4058, abs=1e-4)
    assert round(rows["position"].measures["rho"].estimate, 4) == 0.3479
    assert round(rows["position"].measures["rho_without_last"].estimate, 4) == 0.8721
    assert rows["position"].measures["partial"].estimate == 0.0


def test_progress_and_closed_loop_are_ranked_where_they_are_there() -> None:
    with_both = case(
        progress_drop=(0.0, 0.0, 1.0, 0.0, 0.0, 0.5),
        closed_loop=(0.25, 0.0, 0.5, 0.75, 0.5, 1.0),
        signals={"s": range(6)},
    )
    row = credit_table(score_cases([with_both, case("u", signals={"s": range(6)})]))[0]
    expected = stats.spearmanr(range(6), with_both.closed_loop).statistic
    assert row.measures["rho_closed"].estimate == pytest.approx(expected)
    assert row.num_defined["rho_closed"] == row.num_defined["rho_progress"] == 1
    assert row.num_defined["rho"] == 2


def test_cases_that_say_nothing_are_left_out_and_counted() -> None:
    scores = score_cases(
        [
            case("a"),
            case("b", success_drop=(0.0,) * 4, invalid_share=(0.5, 0, 0, 0)),
            case("c", success_drop=(0.0,) * 6, invalid_share=(0.0,) * 6),
            case("d", success_drop=(1.0,) * 6, invalid_share=(0.0,) * 6),
        ]
    )
    assert [one.trajectory_id for one in scores.cases] == ["a"]
    assert scores.left_out == {"short": 1, "constant_impact": 2}


def test_a_constant_signal_counts_as_zero() -> None:
    flat, rising = (0.5,) * 6, (0.0, 0.5, 0.6, 1.0, 1.0, 0.3)
    scores = score_cases([case("a", signals={"s": flat}), case("b", signals={"s": rising})])
    row = credit_table(scores)[0]
    assert (row.num_cases, row.num_constant) == (2, 1)
    other = stats.spearmanr(rising, case().impact.impact).statistic
    assert row.measures["rho"].estimate == pytest.approx(other / 2)


def test_a_signal_that_some_trajectories_lack() -> None:
    scores = score_cases([case("a", signals={"s": range(6), "d": L_GRAPH}), case("b", signals={"s": range(6)})])
    rows = by_name(credit_table(scores))
    assert (rows["s"].num_cases, rows["d"].num_cases) == (2, 1)
    assert round(rows["d"].measures["rho"].estimate, 4) == 0.4058
    assert rows["d"].num_defined["rho"] == 1


def test_successes_and_failures_apart() -> None:
    lost = case("b", success=False, success_drop=(0.0,) * 6, invalid_share=(0.0, 0.1, 0.2, 0.3, 0.4, 0.5))
    scores = score_cases([case("a"), lost])
    assert scores.solved.tolist() == [True, False]
    row = credit_table(scores, ~scores.solved)[0]
    assert (row.num_cases, row.measures["rho"].estimate) == (1, pytest.approx(1.0))
    # S is constant in a failure, and then nothing can be ranked by it.
    assert "rho_success" not in row.measures
    empty = credit_table(scores, np.zeros(2, dtype=bool))
    assert [(one.num_cases, dict(one.measures)) for one in empty] == [(0, {}), (0, {})]
    assert math.isnan(empty[0].pooled_rho)


def test_random_signals_are_at_chance() -> None:
    rng = np.random.default_rng(0)
    cases = [case(str(i), success_drop=(0.0,) * 11, invalid_share=tuple(rng.permutation(11) / 20.0)) for i in range(60)]
    row = credit_table(score_cases(cases))[-1]
    assert row.signal == "random"
    rho, hit = row.measures["rho"], row.measures["hit_earlier"]
    assert rho.low < 0 < rho.high
    assert abs(rho.estimate) < 0.01
    assert hit.estimate == pytest.approx(2 / 11, abs=0.01)
    assert abs(row.pooled_rho) < 0.15


def test_the_result_depends_on_the_seed_alone() -> None:
    cases = [case(str(i), signals={"s": tuple(np.random.default_rng(i).random(6))}) for i in range(8)]
    first, again = credit_table(score_cases(cases)), credit_table(score_cases(list(reversed(cases))))
    assert first[-1].measures["rho"].estimate == pytest.approx(again[-1].measures["rho"].estimate)
    assert credit_table(score_cases(cases)) == first
    assert credit_table(score_cases(cases, seed=1))[0].measures["rho"] != first[0].measures["rho"]


def test_every_measure_has_a_value_on_a_full_case() -> None:
    full = case(progress_drop=(0.0, 0.0, 1.0, 0.0, 0.0, 0.5), closed_loop=(0.0, 0.0, 0.5, 0.0, 0.0, 1.0))
    assert set(measure_signals(np.array([L_GRAPH]), full)) == set(MEASURES)


def test_signals_are_checked() -> None:
    with pytest.raises(SupervisionError, match="signal 's' has 5 entries, expected 6"):
        case(signals={"s": range(5)})
    with pytest.raises(SupervisionError, match="signal 's' is not finite"):
        case(signals={"s": (0.0, math.nan, 0.0, 0.0, 0.0, 0.0)})


def test_mean_intervals_equal_a_plain_bootstrap() -> None:
    rng = np.random.default_rng(3)
    values = rng.normal(size=(200, 2))
    values[:150, 1] = np.nan
    (first, n_first), (second, n_second) = mean_intervals(values, num_resamples=2000, seed=0)
    assert first is not None
    assert second is not None
    assert (n_first, n_second) == (200, 50)
    assert first.estimate == pytest.approx(values[:, 0].mean())
    assert second.estimate == pytest.approx(values[150:, 1].mean())
    plain = stats.bootstrap((values[:, 0],), np.mean, n_resamples=2000, method="percentile", rng=1).confidence_interval
    assert (first.low, first.high) == (pytest.approx(plain.low, abs=0.02), pytest.approx(plain.high, abs=0.02))
    assert mean_intervals(np.full((3, 1), np.nan)) == [(None, 0)]
    assert mean_intervals(np.full((0, 1), np.nan)) == [(None, 0)]
    (alone, count), _ = mean_intervals(np.array([[0.5, np.nan]]))
    assert alone is not None
    assert (alone.estimate, alone.low, alone.high, count) == (0.5, 0.5, 0.5, 1)
