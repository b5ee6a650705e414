"""Paired comparison: hand values, SciPy, and the refusal of different panels."""

import numpy as np
import pytest
from scipy.stats import binomtest, bootstrap

from tutelage.errors import ConfigError
from tutelage.evaluation.compare import compare_outcomes, crossed_bootstrap, holm, mcnemar_exact, paired_bootstrap


def test_t24_fifteen_against_five():
    assert mcnemar_exact(15, 5) == pytest.approx(0.0414, abs=5e-5)


@pytest.mark.parametrize(("only_a", "only_b"), [(0, 0), (0, 1), (3, 3), (2, 11), (40, 22)])
def test_mcnemar_is_the_binomial_test_of_the_discordant_pairs(only_a, only_b):
    expected = binomtest(only_a, only_a + only_b).pvalue if only_a + only_b else 1.0
    assert mcnemar_exact(only_a, only_b) == pytest.approx(expected, abs=1e-12)


def test_paired_bootstrap_agrees_with_scipy():
    rng = np.random.default_rng(5)
    a = (rng.random(200) < 0.5).astype(float)
    b = np.where(rng.random(200) < 0.3, 1.0, a)
    got = paired_bootstrap(a, b, num_resamples=20_000, seed=1)
    reference = bootstrap((b - a,), np.mean, n_resamples=20_000, method="percentile", rng=np.random.default_rng(2))
    assert got.estimate == pytest.approx((b - a).mean())
    assert got.low == pytest.approx(reference.confidence_interval.low, abs=0.006)
    assert got.high == pytest.approx(reference.confidence_interval.high, abs=0.006)


def test_crossed_bootstrap_of_one_seed_is_the_bootstrap_over_tasks():
    values = (np.random.default_rng(5).random(200) < 0.4).astype(float)
    crossed = crossed_bootstrap(values[None], num_resamples=20_000)
    plain = paired_bootstrap(np.zeros(200), values, num_resamples=20_000)
    assert crossed.estimate == plain.estimate
    assert crossed.low == pytest.approx(plain.low, abs=0.006)
    assert crossed.high == pytest.approx(plain.high, abs=0.006)


def test_crossed_bootstrap_knows_that_seeds_differ():
    """Four seeds of which two win everything and two nothing: tasks alone would leave no doubt."""
    values = np.repeat([[1.0], [1.0], [0.0], [0.0]], 50, axis=1)
    got = crossed_bootstrap(values)
    assert (got.estimate, got.low, got.high) == (0.5, 0.0, 1.0)
    with pytest.raises(ValueError, match="expected seeds x tasks"):
        crossed_bootstrap(values[0])


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


def test_same_seed_same_interval():
    a, b = [0, 1, 0, 1, 1], [1, 1, 0, 1, 0]
    assert paired_bootstrap(a, b, seed=3) == paired_bootstrap(a, b, seed=3)


def test_comparison_counts_pairs_and_leaves_out_the_unscored():
    a = {"t1": True, "t2": False, "t3": False, "t4": None, "t5": True}
    b = {"t1": True, "t2": True, "t3": True, "t4": True, "t6": True}
    got = compare_outcomes(a, b, name_a="imitation", name_b="corrected")
    assert (got.num_pairs, got.num_unpaired, got.only_a, got.only_b) == (3, 3, 0, 2)
    assert got.difference.estimate == pytest.approx(2 / 3)
    assert got.p_value == 0.5


def test_different_panels_are_refused():
    with pytest.raises(ConfigError, match="share no scored task"):
        compare_outcomes({"a": True}, {"b": True})
