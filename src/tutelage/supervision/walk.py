"""How often a random walk over the dependency graph is at each step.

In: a `DependencyGraph`. Out: the stationary distribution pi [N], float64, solved exactly:

    M = A + A^T (symmetrised), A (forward) or A^T (reverse);  P = M with rows scaled to sum 1
    pi = d P^T pi + (1 - d) v,   v uniform, or 1 at the restart step

With `dangling="uniform"` this is PageRank with alpha = d. Example: the chain 0 -> 1 -> 2 -> 3, symmetrised, d = .85:
pi = .1754 .3246 .3246 .1754
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tutelage.errors import ConfigError, SupervisionError
from tutelage.supervision.dependency_graph import Array, adjacency
from tutelage.types import DependencyGraph

WALKS: Final = ("symmetrised", "forward", "reverse")
"""Along edges in both directions, from writers to readers, or from readers to writers."""

DANGLINGS: Final = ("uniform", "self")
"""Where the walk goes from a step without a way out: to any step, or nowhere."""


def stationary(
    graph: DependencyGraph,
    *,
    walk: str = "symmetrised",
    damping: float = 0.85,
    dangling: str = "uniform",
    edge_weight: str = "binary",
    restart: int | None = None,
) -> Array:
    """[N] the share of time that the walk spends at each step; sums to 1.

    damping: probability of following an edge, 0 <= d < 1.
    restart: the step to which the walk returns otherwise, counted from the end if negative (-1: the last step, which
        ended the episode). None: to any step.
    """
    check_walk(walk=walk, damping=damping, dangling=dangling)
    matrix = adjacency(graph, edge_weight)
    if walk == "symmetrised":
        matrix = matrix + matrix.T
    elif walk == "reverse":
        matrix = matrix.T
    num_steps = graph.num_steps
    row_sums = matrix.sum(axis=1)
    has_way = row_sums > 0.0
    transition = matrix / np.where(has_way, row_sums, 1.0)[:, None]
    if not has_way.all():
        transition[~has_way] = 1.0 / num_steps if dangling == "uniform" else np.eye(num_steps)[~has_way]
    teleport = np.full(num_steps, (1.0 - damping) / num_steps)
    if restart is not None:
        if not -num_steps <= restart < num_steps:
            raise SupervisionError(
                f"trajectory {graph.trajectory_id}: restart at step {restart}, expected one of its {num_steps} steps"
            )
        teleport = np.zeros(num_steps)
        teleport[restart] = 1.0 - damping
    weights = np.linalg.solve(np.eye(num_steps) - damping * transition.T, teleport)
    # With a restart, steps out of reach are at 0 up to the rounding of the solver.
    weights = np.maximum(weights, 0.0)
    result: Array = weights / weights.sum()
    return result


def check_walk(*, walk: str, damping: float, dangling: str) -> None:
    """Raise ConfigError where an option is not one of the walk's."""
    if walk not in WALKS:
        raise ConfigError.unknown("random walk, walk", walk, WALKS)
    if dangling not in DANGLINGS:
        raise ConfigError.unknown("random walk, dangling", dangling, DANGLINGS)
    if not 0.0 <= damping < 1.0:
        raise ConfigError(f"random walk: damping is {damping}, expected 0 <= damping < 1")
