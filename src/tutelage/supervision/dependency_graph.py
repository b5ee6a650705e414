"""From footprints to the graph over steps: step j depends on step i if j read what i wrote.

In: one `Footprint` per step, in order. Out: a `DependencyGraph`, and arrays [N] about it. Work is linear in the number
of keys read.

Example, keys in brackets: 0 writes [a], 1 reads [a] writes [b], 2 reads [a, b]
  edges (0, 1, 1 key) (0, 2, 1 key) (1, 2, 1 key)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tutelage.errors import ConfigError, SupervisionError
from tutelage.types import DependencyGraph, Footprint

Array = NDArray[np.float64]

WRITERS: Final[dict[str, Callable[[list[int]], list[int]]]] = {
    "last": lambda steps: steps[-1:],
    "any": lambda steps: steps[:],
    "first": lambda steps: steps[:1],
}
"""Writer rule -> which of the earlier steps that wrote a key count as its source, oldest first."""

EDGE_WEIGHTS: Final = ("binary", "num_keys")
"""How much an edge weighs: 1, or the number of keys that it stands for."""


def build_graph(
    footprints: Sequence[Footprint], *, writer: str = "last", ignore_keys: Iterable[str] = ()
) -> DependencyGraph:
    """The dependency graph of one trajectory.

    writer: of several earlier writers of a key, the ``last`` (reaching definition), ``any`` of them, or the ``first``.
    ignore_keys: keys left out, as a whole key (``location:fridge 1``) or as a kind (``location``).

    Raises:
        SupervisionError: no step, a step without footprint, footprints of several trajectories.
        ConfigError: an unknown writer rule.
    """
    num_keys: dict[tuple[int, int], int] = {}
    for target, keys in enumerate(key_sources(footprints, writer=writer, ignore_keys=ignore_keys)):
        for sources in keys.values():
            for source in sources:
                num_keys[source, target] = num_keys.get((source, target), 0) + 1
    return DependencyGraph(
        trajectory_id=footprints[0].trajectory_id,
        num_steps=len(footprints),
        edges=tuple(sorted((source, target, count) for (source, target), count in num_keys.items())),
        writer_rule=writer,
    )


def key_sources(
    footprints: Sequence[Footprint], *, writer: str = "last", ignore_keys: Iterable[str] = ()
) -> list[dict[str, list[int]]]:
    """[N] of each step, the keys it read that earlier steps wrote, and which of those steps count. As `build_graph`.

    Example of above: ``[{}, {"a": [0]}, {"a": [0], "b": [1]}]``
    """
    if writer not in WRITERS:
        raise ConfigError.unknown("dependency graph, writer", writer, WRITERS)
    _check(footprints)
    choose, ignored = WRITERS[writer], frozenset(ignore_keys)
    written_by: dict[str, list[int]] = {}
    read: list[dict[str, list[int]]] = []
    for index, footprint in enumerate(footprints):
        read.append({key: choose(written_by[key]) for key in footprint.reads if key in written_by})
        for key in footprint.writes:
            if not ignored or (key not in ignored and key.partition(":")[0] not in ignored):
                written_by.setdefault(key, []).append(index)
    return read


def _check(footprints: Sequence[Footprint]) -> None:
    """All of one trajectory, one per step. A missing footprint is an error, not an empty one."""
    if not footprints:
        raise SupervisionError(
            "dependency graph: no footprint, expected one per step. Leave out trajectories without steps."
        )
    trajectory_id = footprints[0].trajectory_id
    for index, footprint in enumerate(footprints):
        if footprint.trajectory_id != trajectory_id:
            raise SupervisionError(
                f"trajectory {trajectory_id}, step {index}: the footprint is of trajectory {footprint.trajectory_id}, "
                "expected those of one trajectory"
            )
        if footprint.step_index != index:
            raise SupervisionError(
                f"trajectory {trajectory_id}, step {index}: no footprint, the next is of step {footprint.step_index}; "
                "expected one per step, in order. Extract them again (footprints_of)."
            )


def adjacency(graph: DependencyGraph, edge_weight: str = "binary") -> Array:
    """[N, N]: entry (i, j) is the weight of the edge i -> j, 0 without one."""
    if edge_weight not in EDGE_WEIGHTS:
        raise ConfigError.unknown("dependency graph, edge_weight", edge_weight, EDGE_WEIGHTS)
    matrix = np.zeros((graph.num_steps, graph.num_steps))
    if graph.edges:
        source, target, num_keys = np.array(graph.edges).T
        matrix[source, target] = num_keys if edge_weight == "num_keys" else 1.0
    return matrix


def in_degree(graph: DependencyGraph, edge_weight: str = "binary") -> Array:
    """[N] number (or keys) of the edges into each step: what it used."""
    return _sums(graph, edge_weight, 1)


def out_degree(graph: DependencyGraph, edge_weight: str = "binary") -> Array:
    """[N] number (or keys) of the edges out of each step: what used it."""
    return _sums(graph, edge_weight, 0)


def degree(graph: DependencyGraph, edge_weight: str = "binary") -> Array:
    """[N] in and out together."""
    return in_degree(graph, edge_weight) + out_degree(graph, edge_weight)


def _sums(graph: DependencyGraph, edge_weight: str, end: int) -> Array:
    if edge_weight not in EDGE_WEIGHTS:
        raise ConfigError.unknown("dependency graph, edge_weight", edge_weight, EDGE_WEIGHTS)
    sums = np.zeros(graph.num_steps)
    for edge in graph.edges:
        sums[edge[end]] += edge[2] if edge_weight == "num_keys" else 1.0
    return sums


def backward_slice(graph: DependencyGraph) -> Array:
    """[N] 1 for the last step and every step that it depends on, directly or through others; else 0."""
    inside = np.zeros(graph.num_steps)
    inside[-1] = 1.0
    # Sorted edges have falling sources from the end, and every path to the last step has rising steps.
    for source, target, _ in reversed(graph.edges):
        if inside[target]:
            inside[source] = 1.0
    return inside


def num_descendants(graph: DependencyGraph) -> Array:
    """[N] how many later steps depend on each step, directly or through others."""
    reached = [0] * graph.num_steps
    for source, target, _ in reversed(graph.edges):
        reached[source] |= reached[target] | 1 << target
    return np.array([float(steps.bit_count()) for steps in reached])


def dependent_share(graph: DependencyGraph) -> Array:
    """[N] which share of the later steps depends on each step, directly or through others; 0 for the last step."""
    later = np.arange(graph.num_steps - 1, -1, -1, dtype=np.float64)
    shares: Array = num_descendants(graph) / np.maximum(later, 1.0)
    return shares


def graph_impact(graph: DependencyGraph) -> Array:
    """[N] what the graph says would be lost without each step, on the scale of a measured impact.

    1 if the last step depends on it (the last step itself included), plus half the share of later steps that depend on
    it. Where the last step used nothing, what ended the episode says nothing, and the first part is 0 for all.
    """
    ends_in_use = any(target == graph.num_steps - 1 for _, target, _ in graph.edges)
    return backward_slice(graph) * float(ends_in_use) + dependent_share(graph) / 2.0


def num_isolated(graph: DependencyGraph) -> int:
    """Steps without any edge."""
    return graph.num_steps - len({step for source, target, _ in graph.edges for step in (source, target)})


def keys_per_edge(graph: DependencyGraph) -> float | None:
    """Mean number of keys that an edge stands for. None: no edge."""
    return sum(num_keys for _, _, num_keys in graph.edges) / len(graph.edges) if graph.edges else None
