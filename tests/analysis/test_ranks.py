"""Ranks, correlations and hits: by hand, from the specification, and against scipy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats

from tutelage.analysis.ranks import (
    TIE_RULES,
    average_ranks,
    hit_share,
    is_constant,
    num_top,
    partial_rank_correlation,
    rank_correlation,
)

L_GRAPH = [-1.7110, 1.1084, -0.4692, 0.8148, -0.5524, 0.8092]
L_MODEL = [0.9207, -0.4998, -1.1312, 1.7099, -0.1841, -0.8155]
IMPACT = [0, 1.25, 7 / 6, 1.5, 1.5, 1.0]
SIGNALS = {
    "l_graph": L_GRAPH,
    "l_model": L_MODEL,
    "position": [0, 1, 2, 3, 4, 5],
    "reverse position": [0, -1, -2, -3, -4, -5],
    "degree": [1, 3, 2, 3, 2, 3],
    "forward walk": [0.0772, 0.1428, 0.1379, 0.1379, 0.1358, 0.3684],
    "out-degree": [1, 2, 1, 2, 1, 0],
}
NAMES = list(SIGNALS)
MATRIX = np.array([SIGNALS[name] for name in NAMES])
TARGET = np.array(IMPACT)
POSITION = np.arange(6.0)

TWELVE_IMPACT = np.array([0, 0, 1, 1.5, 1.2, 0, 0, 1.1, 0, 0, 1, 1])
TWELVE_SIGNAL = np.array([0.1, -0.3, 0.4, 1.2, 0.2, -0.9, 0.3, 1.5, -1, 0, 0.7, -0.2])


def rounded(values: np.ndarray) -> dict[str, float]:
    return {name: round(float(value), 4) for name, value in zip(NAMES, values, strict=True)}


# Example 6 of the specification


def test_example_6_ranks() -> None:
    assert average_ranks(TARGET).tolist() == [1, 4, 3, 5.5, 5.5, 2]


def test_example_6_spearman() -> None:
    assert rounded(rank_correlation(MATRIX, TARGET)) == {
        "l_graph": 0.4058,
        "l_model": 0.3189,
        "position": 0.3479,
        "reverse position": -0.3479,
        "degree": 0.3914,
        "forward walk": 0.0147,
        "out-degree": 0.5793,
    }


def test_example_6_hits() -> None:
    hits = rounded(hit_share(MATRIX, TARGET))
    assert hits == {name: float(name == "l_model") for name in NAMES}


def test_example_6_without_the_terminal_step() -> None:
    rho = rounded(rank_correlation(MATRIX[:, :-1], TARGET[:-1]))
    assert (rho["l_graph"], rho["l_model"], rho["position"]) == (0.4104, 0.3078, 0.8721)


def test_example_6_partial_given_position() -> None:
    partial = rounded(partial_rank_correlation(MATRIX, TARGET, POSITION))
    assert (partial["l_graph"], partial["l_model"]) == (0.3838, 0.4229)
    # What says the same as position has nothing left to say.
    assert (partial["position"], partial["reverse position"]) == (0.0, 0.0)


def test_example_6_twelve_steps() -> None:
    assert num_top(12) == 2
    assert np.argsort(-TWELVE_IMPACT, kind="stable")[:2].tolist() == [3, 4]
    assert np.argsort(-TWELVE_SIGNAL, kind="stable")[:2].tolist() == [7, 3]
    assert hit_share(TWELVE_SIGNAL, TWELVE_IMPACT) == 0.5
    assert round(float(rank_correlation(TWELVE_SIGNAL, TWELVE_IMPACT)), 4) == 0.7036
    assert round(num_top(12) / 12, 4) == 0.1667


@pytest.mark.parametrize(
    ("num_steps", "chance"), [(5, 0.2), (8, 0.125), (10, 0.1), (11, 0.1818), (12, 0.1667), (20, 0.1), (25, 0.12)]
)
def test_chance_is_the_top_share(num_steps: int, chance: float) -> None:
    assert round(num_top(num_steps) / num_steps, 4) == chance


def test_the_top_share_is_safe_from_rounding() -> None:
    assert 0.07 * 100 > 7
    assert num_top(100, 0.07) == 7
    assert num_top(3, 0.0) == 1


# By hand


def test_ties_are_named() -> None:
    signal, impact = np.array([0.0, 2, 1, 2]), np.array([0.0, 3, 1, 2])
    assert [float(hit_share(signal, impact, ties)) for ties in TIE_RULES] == [1.0, 0.5, 0.0]
    assert round(float(rank_correlation(signal, impact)), 4) == 0.9487


def test_tolerant_hits_take_every_step_of_the_largest_impact() -> None:
    """k = 1; steps 1, 2, 3 share the largest impact. A constant signal then hits 3 of 4 times."""
    impact = np.array([0.0, 1, 1, 1])
    signals = np.array([[0.0, 0, 0, 1], [1, 0, 0, 0], [5, 5, 5, 5]])
    assert hit_share(signals, impact, "earlier").tolist() == [0, 0, 0]
    assert hit_share(signals, impact, "later").tolist() == [1, 0, 1]
    assert hit_share(signals, impact, "tolerant").tolist() == [1, 0, 0.75]


def test_tolerant_hits_spread_the_places_that_are_left() -> None:
    """20 steps, k = 2: one is above, four share the second place, one of them and the one above are right."""
    impact = np.zeros(20)
    impact[[3, 7]] = 1
    signal = np.zeros(20)
    signal[3] = 2
    signal[[6, 7, 8, 9]] = 1
    assert hit_share(signal, impact, "tolerant") == (1 + 1 / 4) / 2


def test_constants_rank_nothing() -> None:
    flat, rising = np.full(6, 0.3), np.arange(6.0)
    noisy = flat + np.array([0, 1e-12, 0, -1e-12, 0, 0])
    assert is_constant(np.stack([flat, noisy, rising])).tolist() == [True, True, False]
    assert rank_correlation(np.stack([flat, noisy, rising]), rising).tolist() == pytest.approx([0, 0, 1])
    assert rank_correlation(rising, flat) == 0.0
    assert partial_rank_correlation(flat, TARGET, POSITION) == 0.0
    assert partial_rank_correlation(MATRIX, rising, rising).tolist() == [0.0] * len(NAMES)


# Against scipy

values = st.lists(st.sampled_from([0.0, 0.25, 0.5, 1 / 3, 1.0, 1.5, -1.0]), min_size=5, max_size=40)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_equal_to_scipy(data: st.DataObject) -> None:
    x = np.array(data.draw(values))
    y = np.array(data.draw(st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0]), min_size=len(x), max_size=len(x))))
    assert average_ranks(x).tolist() == stats.rankdata(x).tolist()
    if len(set(x)) > 1 and len(set(y)) > 1:
        expected = stats.spearmanr(x, y).statistic
        assert float(rank_correlation(x, y)) == pytest.approx(expected, abs=1e-12)


@settings(max_examples=60, deadline=None)
@example(seed=469, n=5)
@given(seed=st.integers(0, 10_000), n=st.integers(5, 40))
def test_partial_correlation_is_that_of_the_residuals(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    x, y, given_ = rng.integers(0, 6, n).astype(float), rng.normal(size=n), np.arange(n, dtype=float)

    def residual(values: np.ndarray) -> np.ndarray:
        ranks = stats.rankdata(values)
        line = stats.linregress(stats.rankdata(given_), ranks)
        return ranks - line.intercept - line.slope * stats.rankdata(given_)

    if min(np.abs(residual(x)).max(), np.abs(residual(y)).max()) < 1e-9:
        # One of the two is constant or says the same as the position.
        assert partial_rank_correlation(x, y, given_) == 0.0
    else:
        expected = stats.pearsonr(residual(x), residual(y)).statistic
        assert float(partial_rank_correlation(x, y, given_)) == pytest.approx(expected, abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), n=st.integers(5, 30))
def test_tolerant_hits_are_the_mean_over_random_tie_orders(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    signal, impact = rng.integers(0, 3, n).astype(float), rng.integers(0, 3, n).astype(float)
    k = num_top(n)
    right = impact >= np.sort(impact)[-k]
    orders = rng.random((4000, n))
    chosen = np.lexsort((orders, np.broadcast_to(-signal, orders.shape)), axis=-1)[:, :k]
    assert float(hit_share(signal, impact, "tolerant")) == pytest.approx(right[chosen].mean(), abs=0.05)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), n=st.integers(5, 30))
def test_without_ties_the_three_rules_agree(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    signals, impact = (
        rng.permuted(np.tile(np.arange(float(n)), (4, 1)), axis=1),
        rng.permutation(float(n) + np.arange(n)),
    )
    shares = [hit_share(signals, impact, ties).tolist() for ties in TIE_RULES]
    assert shares[0] == shares[1] == shares[2]
