"""Does a per-step signal rank steps by what happens when they are taken away?

In: `CreditCase`s, one per trajectory: the measured impact of each step and what every signal says of it. Out: one
`CreditRow` per signal, each measure a mean over trajectories with its bootstrap interval.

    scores = score_cases(cases)
    rows = credit_table(scores)                               # all trajectories
    rows = credit_table(scores, where=~scores.solved)         # the failures
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tutelage.analysis.ranks import (
    TIE_RULES,
    Floats,
    hit_share,
    is_constant,
    partial_rank_correlation,
    rank_correlation,
)
from tutelage.errors import SupervisionError
from tutelage.evaluation.metrics import Interval
from tutelage.supervision.replay_impact import StepImpact
from tutelage.types import stable_hash

MIN_STEPS: Final = 5
"""Shorter trajectories are left out: ranks over fewer steps say little."""
NUM_RANDOM: Final = 100
"""Draws of the random control."""
NUM_RESAMPLES: Final = 2000
"""Bootstrap resamples of the trajectories."""
RANDOM: Final = "random"
"""Name of the control that every table carries."""

COMPONENTS: Final = ("success", "progress", "invalid", "closed")
"""Parts of the impact that are also ranked alone: S, G, B, and the closed-loop impact."""

WITHOUT_LAST: Final = "_without_last"
"""Ends the names of measures over all steps but the last, whose loss fails a success trivially."""

_WHOLE: Final = ("rho", "partial", *(f"hit_{ties}" for ties in TIE_RULES))
MEASURES: Final = (
    *_WHOLE,
    *(f"rho_{component}" for component in COMPONENTS),
    *(f"{measure}{WITHOUT_LAST}" for measure in _WHOLE),
)
"""Every measure of a signal on one trajectory."""

Mask = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, slots=True)
class CreditCase:
    """One trajectory of the audit."""

    trajectory_id: str
    task_id: str
    kind: str
    impact: StepImpact
    signals: Mapping[str, Sequence[float]]
    """Name -> [N] value per step; larger means the step matters more."""
    closed_loop: Sequence[float] | None = None
    """[N] closed-loop impact. None: not measured here."""

    def __post_init__(self) -> None:
        for name, values in self.signals.items():
            if len(values) != self.num_steps:
                raise SupervisionError.length(
                    f"signal {name!r}", got=len(values), expected=self.num_steps, trajectory_id=self.trajectory_id
                )
            if not np.isfinite(values).all():
                raise SupervisionError(
                    f"trajectory {self.trajectory_id}: signal {name!r} is not finite at some step, expected one number per step"
                )

    @property
    def num_steps(self) -> int:
        return len(self.impact.success_drop)

    @property
    def left_out(self) -> str | None:
        """Why it is in no figure: ``short`` or ``constant_impact``. None: it is."""
        if self.num_steps < MIN_STEPS:
            return "short"
        return "constant_impact" if is_constant(np.array(self.impact.impact)) else None


@dataclass(frozen=True, kw_only=True)
class CreditScores:
    """Every measure of every signal on every trajectory that counts (C trajectories, M signals, D random draws)."""

    cases: tuple[CreditCase, ...]
    """Those that count, in the order given."""
    left_out: Mapping[str, int]
    """Reason -> number of cases that do not count."""
    signals: tuple[str, ...]
    values: Mapping[str, Floats]
    """Measure -> [C, M]. NaN: not defined (the signal is missing, or this component of the impact is constant)."""
    constant: Mask
    """[C, M] the signal is constant within the trajectory; its correlations there are 0."""
    random: Mapping[str, Floats]
    """Measure -> [C, D] of uniform random signals."""
    seed: int

    @property
    def solved(self) -> Mask:
        """[C]"""
        return np.array([case.impact.success for case in self.cases], dtype=bool)

    def of_signal(self, signal: str, measure: str) -> Floats:
        """[C] one column."""
        column: Floats = self.values[measure][:, self.signals.index(signal)]
        return column


@dataclass(frozen=True, kw_only=True, slots=True)
class CreditRow:
    """One signal over a set of trajectories."""

    signal: str
    num_cases: int
    """Trajectories that carry the signal."""
    num_constant: int
    """Of those, where it is constant: they count as correlation 0."""
    pooled_rho: float
    """Spearman's rho over all steps of all trajectories together."""
    measures: Mapping[str, Interval]
    """Measure -> mean over trajectories with its 95 % interval: bootstrap over trajectories, or for `random` over its
    draws. A measure that no trajectory defines is absent."""
    num_defined: Mapping[str, int]
    """Measure -> trajectories behind its mean."""


def score_cases(cases: Iterable[CreditCase], *, num_random: int = NUM_RANDOM, seed: int = 0) -> CreditScores:
    """Measure every signal on every case that counts (`CreditCase.left_out`)."""
    cases = list(cases)
    left_out = Counter(reason for case in cases if (reason := case.left_out) is not None)
    kept = tuple(case for case in cases if case.left_out is None)
    signals = tuple(dict.fromkeys(name for case in kept for name in case.signals))
    values = {measure: np.full((len(kept), len(signals)), np.nan) for measure in MEASURES}
    constant = np.zeros((len(kept), len(signals)), dtype=bool)
    random = {measure: np.full((len(kept), num_random), np.nan) for measure in MEASURES}
    for row, case in enumerate(kept):
        there = [column for column, name in enumerate(signals) if name in case.signals]
        matrix = np.array([case.signals[signals[column]] for column in there], dtype=np.float64)
        matrix = matrix.reshape(len(there), case.num_steps)
        constant[row, there] = is_constant(matrix)
        scored = measure_signals(np.concatenate([matrix, random_signals(case, num_random, seed)]), case)
        for measure, scores in scored.items():
            values[measure][row, there] = scores[: len(there)]
            random[measure][row] = scores[len(there) :]
    return CreditScores(
        cases=kept, left_out=dict(left_out), signals=signals, values=values, constant=constant, random=random, seed=seed
    )


def random_signals(case: CreditCase, num_draws: int, seed: int) -> Floats:
    """[num_draws, N] uniform random signals; the same for a trajectory in any company."""
    rng = np.random.default_rng([seed, stable_hash(case.trajectory_id)])
    return rng.random((num_draws, case.num_steps))


def measure_signals(signals: Floats, case: CreditCase) -> dict[str, Floats]:
    """Measure -> [M] for signals [M, N] of one trajectory. Measures that are not defined here are absent."""
    impact = np.array(case.impact.impact)
    position = np.arange(case.num_steps, dtype=np.float64)
    measures = _whole_measures(signals, impact, position)
    if not is_constant(impact[:-1]):
        inner = _whole_measures(signals[:, :-1], impact[:-1], position[:-1])
        measures |= {f"{measure}{WITHOUT_LAST}": values for measure, values in inner.items()}
    components = {
        "success": case.impact.success_drop,
        "progress": case.impact.progress_drop,
        "invalid": case.impact.invalid_share,
        "closed": case.closed_loop,
    }
    for component, part in components.items():
        if part is not None and not is_constant(target := np.array(part, dtype=np.float64)):
            measures[f"rho_{component}"] = rank_correlation(signals, target)
    return measures


def _whole_measures(signals: Floats, impact: Floats, position: Floats) -> dict[str, Floats]:
    hits = {f"hit_{ties}": hit_share(signals, impact, ties) for ties in TIE_RULES}
    partial = partial_rank_correlation(signals, impact, position)
    return {"rho": rank_correlation(signals, impact), "partial": partial} | hits


def credit_table(
    scores: CreditScores, where: Mask | None = None, *, num_resamples: int = NUM_RESAMPLES
) -> list[CreditRow]:
    """One row per signal in their order, then `random`. `where` [C] chooses the trajectories.

    Where nothing is chosen, rows have no measures.
    """
    chosen = np.ones(len(scores.cases), dtype=bool) if where is None else where
    cases = [case for case, wanted in zip(scores.cases, chosen, strict=True) if wanted]
    intervals = {
        measure: mean_intervals(values[chosen], num_resamples=num_resamples, seed=scores.seed)
        for measure, values in scores.values.items()
    }
    rows = []
    for column, signal in enumerate(scores.signals):
        carriers = [case for case in cases if signal in case.signals]
        found = {measure: of_signals[column] for measure, of_signals in intervals.items()}
        rows.append(
            CreditRow(
                signal=signal,
                num_cases=len(carriers),
                num_constant=int(scores.constant[chosen, column].sum()),
                pooled_rho=_pooled_rho(carriers, [np.asarray(case.signals[signal]) for case in carriers]),
                measures={measure: interval for measure, (interval, _) in found.items() if interval is not None},
                num_defined={measure: count for measure, (_, count) in found.items() if count},
            )
        )
    return [*rows, _random_row(scores, chosen, cases)]


def _random_row(scores: CreditScores, chosen: Mask, cases: Sequence[CreditCase]) -> CreditRow:
    """The random control: the mean over its draws, and the interval in which 95 % of the draws fall."""
    measures, num_defined = {}, {}
    for measure, values in scores.random.items():
        defined = values[chosen][~np.isnan(values[chosen]).any(axis=1)]
        if len(defined) and values.shape[1]:
            means = defined.mean(axis=0)
            low, high = np.percentile(means, [2.5, 97.5])
            measures[measure] = Interval(estimate=float(means.mean()), low=float(low), high=float(high))
            num_defined[measure] = len(defined)
    draws = [random_signals(case, 1, scores.seed)[0] for case in cases]
    return CreditRow(
        signal=RANDOM,
        num_cases=len(cases),
        num_constant=0,
        pooled_rho=_pooled_rho(cases, draws),
        measures=measures,
        num_defined=num_defined,
    )


def _pooled_rho(cases: Sequence[CreditCase], signals: Sequence[Floats]) -> float:
    if not cases:
        return math.nan
    impact = np.concatenate([np.array(case.impact.impact) for case in cases])
    return float(rank_correlation(np.concatenate(signals), impact))


def mean_intervals(
    values: Floats, *, num_resamples: int = NUM_RESAMPLES, seed: int = 0
) -> list[tuple[Interval | None, int]]:
    """Per column of [C, M]: the mean of what is not NaN with its percentile bootstrap interval, and how many are not NaN.

    The C rows are resampled with replacement, the same for all columns; 2.5 and 97.5 percentiles of the means.
    """
    num_rows, num_columns = values.shape
    defined = ~np.isnan(values)
    counts = defined.sum(axis=0)
    if not num_rows or not counts.any():
        return [(None, 0)] * num_columns
    filled = np.where(defined, values, 0.0)
    rng = np.random.default_rng(seed)
    resampled = np.empty((num_resamples, num_columns))
    for first in range(0, num_resamples, 250):
        chunk = slice(first, min(first + 250, num_resamples))
        # Only how often each row is drawn matters, so draw those counts instead of all indices.
        draws = rng.multinomial(num_rows, np.full(num_rows, 1 / num_rows), size=chunk.stop - first).astype(np.float64)
        with np.errstate(invalid="ignore"):  # A resample without a defined row has no mean; its NaN is left out below.
            resampled[chunk] = (draws @ filled) / (draws @ defined)
    found: list[tuple[Interval | None, int]] = []
    for column, count in enumerate(counts.tolist()):
        if not count:
            found.append((None, 0))
            continue
        means = resampled[:, column]
        low, high = np.percentile(means[~np.isnan(means)], [2.5, 97.5])
        estimate = float(filled[:, column].sum() / count)
        found.append((Interval(estimate=estimate, low=float(low), high=float(high)), count))
    return found
