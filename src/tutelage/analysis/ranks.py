"""Rank statistics inside one trajectory, for many signals at once. numpy only.

Values are compared rounded to nine decimals, so that what is equal on paper is tied here.

Example: signal (0, 2, 1, 2) against impact (0, 3, 1, 2), N = 4
  ranks 1 3.5 2 3.5 and 1 4 2 3, Spearman's rho 0.9487
  k = 1: the largest impact is step 1; the largest signal is step 1 or 3
  hit  earlier 1   later 0   tolerant 1/2
"""

from __future__ import annotations

import math
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

DECIMALS: Final = 9
"""Values equal to so many decimals are tied."""

TieRule = Literal["earlier", "tolerant", "later"]

TIE_RULES: Final[tuple[TieRule, ...]] = ("earlier", "tolerant", "later")
"""Who is among the k largest when values are tied.

earlier   the earlier step, in the signal and in the impact
later     the later step, in both
tolerant  tied signals are drawn at random (the expectation counts), and every step whose impact is at least the k-th
          largest is a right answer
"""


def average_ranks(values: Floats) -> Floats:
    """[..., N] ranks from 1 along the last axis; tied values share the mean of their ranks, as in scipy's `rankdata`.

    Example: ``average_ranks(np.array([.3, .1, .3]))`` is ``[2.5, 1, 2.5]``.
    """
    rounded = _rounded(values)
    n = rounded.shape[-1]
    order = np.argsort(rounded, axis=-1, kind="stable")
    ordered = np.take_along_axis(rounded, order, axis=-1)
    changes = ordered[..., 1:] != ordered[..., :-1]
    edge = np.ones((*ordered.shape[:-1], 1), dtype=bool)
    index = np.arange(n)
    first = np.maximum.accumulate(np.where(np.concatenate([edge, changes], axis=-1), index, 0), axis=-1)
    ends = np.where(np.concatenate([changes, edge], axis=-1), index, n)
    last = np.minimum.accumulate(ends[..., ::-1], axis=-1)[..., ::-1]
    ranks = np.empty(rounded.shape)
    np.put_along_axis(ranks, order, (first + last) / 2 + 1, axis=-1)
    return ranks


def is_constant(values: Floats) -> NDArray[np.bool_]:
    """[...] whether all N values along the last axis are tied."""
    rounded = _rounded(values)
    constant: NDArray[np.bool_] = rounded.max(axis=-1) == rounded.min(axis=-1)
    return constant


def rank_correlation(signals: Floats, target: Floats) -> Floats:
    """[...] Spearman's rho of each signal [..., N] with the target [N], ties by average ranks.

    0 where the signal or the target is constant: a signal that tells no step from another has ranked nothing.
    """
    x = _centred_ranks(signals)
    y = _centred_ranks(target)
    norms = np.sqrt((x * x).sum(axis=-1)) * math.sqrt(float(y @ y))
    return _divided(x @ y, norms)


def partial_rank_correlation(signals: Floats, target: Floats, given: Floats) -> Floats:
    """[...] rank correlation of signal and target when both are freed of what `given` [N] explains.

    (r_xy - r_xg r_yg) / sqrt((1 - r_xg^2) (1 - r_yg^2)) over Spearman's r; 0 where the signal or the target is constant
    or says the same as `given`.
    """
    r_xy, r_xg = rank_correlation(signals, target), rank_correlation(signals, given)
    r_yg = float(rank_correlation(target, given))
    left = np.sqrt(_unexplained(r_xg) * _unexplained(np.asarray(r_yg)))
    return np.where(is_constant(signals), 0.0, _divided(r_xy - r_xg * r_yg, left))


def num_top(num_steps: int, share: float = 0.1) -> int:
    """How many steps count as the top: ceil(share N), at least 1.

    Example: 10 % of 5, 10, 11 steps is 1, 1, 2. The tiny shift keeps .07 * 100 = 7.000000000000001 at 7.
    """
    return max(1, math.ceil(share * num_steps - 1e-9))


def hit_share(signals: Floats, impact: Floats, ties: TieRule = "earlier", share: float = 0.1) -> Floats:
    """[...] share of the k steps of largest impact [N] that are among the k of largest signal [..., N].

    k = `num_top`. With `tolerant`: share of the k chosen steps that are a right answer.
    """
    signals = _rounded(signals)
    impact = _rounded(impact)
    k = num_top(impact.shape[-1], share)
    if ties == "tolerant":
        wanted = impact >= np.partition(impact, -k)[-k]
        chances: Floats = _chance_to_be_chosen(signals, k) @ wanted.astype(np.float64) / k
        return chances
    if ties == "later":
        signals, impact = signals[..., ::-1], impact[::-1]
    best = np.argsort(-impact, kind="stable")[:k]
    chosen = np.argsort(-signals, axis=-1, kind="stable")[..., :k]
    shares: Floats = np.isin(chosen, best).sum(axis=-1) / k
    return shares


def _chance_to_be_chosen(signals: Floats, k: int) -> Floats:
    """[..., N] probability of each step to be among the k largest when tied values come in random order."""
    threshold = np.partition(signals, -k, axis=-1)[..., -k, np.newaxis]
    above, tied = signals > threshold, signals == threshold
    places = k - above.sum(axis=-1, keepdims=True)
    chances: Floats = np.where(above, 1.0, np.where(tied, places / tied.sum(axis=-1, keepdims=True), 0.0))
    return chances


def _unexplained(correlation: Floats) -> Floats:
    """1 - r^2, and 0 where only rounding keeps r from 1: one swap of neighbours among 1,000 steps leaves 2e-8."""
    rest = 1.0 - correlation**2
    return np.where(rest > 1e-12, rest, 0.0)


def _rounded(values: Floats) -> Floats:
    rounded: Floats = np.asarray(values, dtype=np.float64).round(DECIMALS)
    return rounded


def _centred_ranks(values: Floats) -> Floats:
    ranks = average_ranks(values)
    centred: Floats = ranks - (ranks.shape[-1] + 1) / 2
    return centred


def _divided(values: Floats, by: Floats) -> Floats:
    """values / by, and 0 where `by` vanishes."""
    safe = np.asarray(by) > 1e-9
    return np.where(safe, values / np.where(safe, by, 1.0), 0.0)
