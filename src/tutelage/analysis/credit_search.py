"""Which graph signal ranks steps best? A grid over how credit is made of footprints, scored by the audit.

    found = search_signals(choosing, candidates())      # trajectories to choose on, with their measured impact
    best = found[0]                                     # best mean of rho and Hit@10%
    proof = signal_scores(proving, [best.config])       # trajectories that had no part in the choice

What is chosen on one set of trajectories has to be measured on another: the best of many looks better than it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from tutelage.analysis.ranks import Floats, hit_share, is_constant, rank_correlation
from tutelage.supervision.aptitude import STRUCTURES, AptitudeConfig, normalise
from tutelage.supervision.dependency_graph import EDGE_WEIGHTS, WRITERS, build_graph
from tutelage.supervision.footprints import KINDS, footprints_of
from tutelage.supervision.replay_impact import StepImpact
from tutelage.supervision.walk import WALKS
from tutelage.types import DependencyGraph, Task, Trajectory

DAMPINGS: Final = (0.5, 0.85, 0.95)
RESTARTS: Final = (None, -1)
POSITION_WEIGHTS: Final = (0.0, 0.01, -0.01, 0.1, 0.3, 1.0)
"""How much position is mixed in: the smallest only break ties, for the later or the earlier step."""
WITH_EDGE_WEIGHT: Final = ("degree", "in_degree", "out_degree", "slice_then_degree")
"""Structures that the weight of edges changes, besides the walk."""


class Audited(NamedTuple):
    """A trajectory with what the replay measured."""

    trajectory: Trajectory
    task: Task
    impact: StepImpact


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """How a graph signal did, as means over trajectories."""

    config: AptitudeConfig
    rho: float
    hit: float
    """Hit@10%, ties to the earlier step."""

    @property
    def objective(self) -> float:
        """What the search maximises: the mean of `rho` and `hit`, the two published figures."""
        return (self.rho + self.hit) / 2


def candidates(footprints: Iterable[str] = KINDS) -> list[AptitudeConfig]:
    """The grid: footprints, writer rule, structure with its own options, position. Simple ones first."""
    structures = [AptitudeConfig(alpha=0.0, structure=name) for name in STRUCTURES if name not in ("walk", "position")]
    structures += [AptitudeConfig(alpha=0.0, structure=name, edge_weight=EDGE_WEIGHTS[1]) for name in WITH_EDGE_WEIGHT]
    structures += [
        AptitudeConfig(alpha=0.0, walk=walk, damping=damping, restart=restart, edge_weight=edge_weight)
        for walk in WALKS
        for damping in DAMPINGS
        for restart in RESTARTS
        for edge_weight in EDGE_WEIGHTS
    ]
    return [
        replace(config, footprints=kind, writer=writer, position_weight=weight)
        for weight in POSITION_WEIGHTS
        for kind in footprints
        for writer in WRITERS
        for config in structures
    ]


def search_signals(
    choosing: Iterable[Audited],
    among: Sequence[AptitudeConfig],
    *,
    on_progress: Callable[[int], None] | None = None,
) -> list[Found]:
    """All candidates, best first; of equals the one that stands earlier in `among`."""
    rho, hit = signal_scores(choosing, among, on_progress=on_progress)
    found = [
        Found(config=config, rho=float(one), hit=float(other))
        for config, one, other in zip(among, rho.mean(axis=0), hit.mean(axis=0), strict=True)
    ]
    return sorted(found, key=lambda one: -round(one.objective, 9))


def signal_scores(
    audited: Iterable[Audited],
    among: Sequence[AptitudeConfig],
    *,
    on_progress: Callable[[int], None] | None = None,
) -> tuple[Floats, Floats]:
    """rho [C, M] and Hit@10% [C, M] of every candidate on every trajectory, which must have a varying impact.

    on_progress gets the number of trajectories done.
    """
    rho, hit = [], []
    for done, one in enumerate(audited, start=1):
        impact = np.array(one.impact.impact)
        if is_constant(impact):
            raise ValueError(f"trajectory {one.trajectory.trajectory_id}: constant impact, nothing to rank by")
        signals = candidate_signals(one.trajectory, one.task, among)
        rho.append(rank_correlation(signals, impact))
        hit.append(hit_share(signals, impact))
        if on_progress is not None:
            on_progress(done)
    if not rho:
        raise ValueError("signal scores: no trajectory given, expected at least one")
    return np.stack(rho), np.stack(hit)


def candidate_signals(trajectory: Trajectory, task: Task, among: Sequence[AptitudeConfig]) -> Floats:
    """[M, N] each candidate's signal, as `step_aptitude(...).l_graph` would give it but for a last z.

    Graphs and structures that several candidates share are made once.
    """
    graphs: dict[tuple[str, str], DependencyGraph] = {}
    structures: dict[AptitudeConfig, Floats] = {}
    footprints = {kind: footprints_of(trajectory, kind, task) for kind in {one.footprints for one in among}}
    position, _ = normalise(np.arange(len(trajectory.steps), dtype=np.float64))
    signals = np.empty((len(among), len(trajectory.steps)))
    for index, config in enumerate(among):
        plain = replace(config, position_weight=0.0) if config.position_weight else config
        if plain not in structures:
            key = (config.footprints, config.writer)
            if key not in graphs:
                graphs[key] = build_graph(footprints[config.footprints], writer=config.writer)
            structures[plain], _ = normalise(STRUCTURES[config.structure](graphs[key], plain), config.normalise)
        signals[index] = structures[plain] + config.position_weight * position
    return signals
