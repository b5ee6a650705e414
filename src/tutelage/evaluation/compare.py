"""Two sets of outcomes on the same tasks: is the difference more than chance?

Both tests work on pairs, since the same task under two students is far more alike than two tasks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tutelage.errors import ConfigError
from tutelage.evaluation.metrics import Interval


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """B against A on the tasks that both were scored on."""

    name_a: str
    name_b: str
    num_pairs: int
    num_unpaired: int
    """Tasks that only one side was scored on; in no figure."""
    only_a: int
    """Tasks that A solved and B did not."""
    only_b: int
    difference: Interval
    """Success of B minus success of A, with the paired bootstrap's 95 % interval."""
    p_value: float
    """Exact two-sided McNemar."""


def mcnemar_exact(only_a: int, only_b: int) -> float:
    """Two-sided exact p of the discordant pairs under a fair coin: min(1, 2 * sum_{k <= min} C(n, k) / 2^n).

    Example: 15 against 5 gives 0.0414. No discordant pair gives 1.
    """
    if only_a < 0 or only_b < 0:
        raise ValueError(f"mcnemar_exact: counts {only_a}, {only_b}; expected >= 0")
    total = only_a + only_b
    tail = sum(math.comb(total, k) for k in range(min(only_a, only_b) + 1))
    return float(min(1.0, 2 * tail / 2**total))


def paired_bootstrap(a: Sequence[float], b: Sequence[float], *, num_resamples: int = 10_000, seed: int = 0) -> Interval:
    """Mean of b - a with the percentile interval (2.5, 97.5) over resampled pairs.

    a, b: [n] outcomes of the same n tasks in the same order.
    """
    if len(a) != len(b) or not len(a):
        raise ValueError(f"paired_bootstrap: {len(a)} and {len(b)} outcomes; expected equal counts of at least 1")
    differences = np.asarray(b, dtype=np.float64) - np.asarray(a, dtype=np.float64)
    rng = np.random.default_rng(seed)
    # Only the number of times each value is drawn matters, so draw those counts instead of all indices.
    values, counts = np.unique(differences, return_counts=True)
    draws = rng.multinomial(len(differences), counts / len(differences), size=num_resamples)
    means = draws @ values / len(differences)
    low, high = np.percentile(means, [2.5, 97.5])
    return Interval(estimate=float(differences.mean()), low=float(low), high=float(high))


def crossed_bootstrap(values: ArrayLike, *, num_resamples: int = 4000, seed: int = 0) -> Interval:
    """Mean of [S, N] values (seeds x tasks) with the percentile interval over resampled seeds and tasks, both at once.

    Every seed is measured on the same tasks, so seeds and tasks are crossed (Owen 2007). Values are outcomes, or
    differences of the outcomes of two arms.
    """
    table = np.asarray(values, dtype=np.float64)
    if table.ndim != 2 or not table.size:
        raise ValueError(f"crossed_bootstrap: shape {table.shape}; expected seeds x tasks, at least one of each")
    num_seeds, num_tasks = table.shape
    rng = np.random.default_rng(seed)
    seeds = rng.multinomial(num_seeds, np.full(num_seeds, 1 / num_seeds), size=num_resamples)
    tasks = rng.multinomial(num_tasks, np.full(num_tasks, 1 / num_tasks), size=num_resamples)
    means = np.einsum("rs,sn,rn->r", seeds, table, tasks) / table.size
    low, high = np.percentile(means, [2.5, 97.5])
    return Interval(estimate=float(table.mean()), low=float(low), high=float(high))


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values corrected for being several (Holm 1979), in the order given.

    The k-th smallest of n is multiplied by n - k + 1, and none may be smaller than the one before it.

    Example: 0.01, 0.04, 0.03 give 0.03, 0.06, 0.06.
    """
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    corrected = [0.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, p_values[index] * (len(p_values) - rank)))
        corrected[index] = largest
    return corrected


def compare_outcomes(
    a: Mapping[str, bool | None],
    b: Mapping[str, bool | None],
    *,
    name_a: str = "a",
    name_b: str = "b",
    num_resamples: int = 10_000,
    seed: int = 0,
) -> Comparison:
    """Compare task_id -> solved (None: not scored) of two students.

    Raises ConfigError when no task is common to both: a comparison over different panels says nothing.
    """
    both = sorted(task for task in a.keys() & b.keys() if a[task] is not None and b[task] is not None)
    if not both:
        raise ConfigError(
            f"{name_a} and {name_b} share no scored task ({len(a)} and {len(b)} tasks). "
            "Evaluate both on the same panel: same split, start and count."
        )
    outcomes_a = [bool(a[task]) for task in both]
    outcomes_b = [bool(b[task]) for task in both]
    only_a = sum(x and not y for x, y in zip(outcomes_a, outcomes_b, strict=True))
    only_b = sum(y and not x for x, y in zip(outcomes_a, outcomes_b, strict=True))
    return Comparison(
        name_a=name_a,
        name_b=name_b,
        num_pairs=len(both),
        num_unpaired=len(a.keys() | b.keys()) - len(both),
        only_a=only_a,
        only_b=only_b,
        difference=paired_bootstrap(outcomes_a, outcomes_b, num_resamples=num_resamples, seed=seed),
        p_value=mcnemar_exact(only_a, only_b),
    )
