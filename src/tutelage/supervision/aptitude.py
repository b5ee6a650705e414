"""From the graph and the divergence to one number per step: structural credit, divergence, and their mix.

    l_graph  = normalise(structure of the graph)             who enabled whom
    l_model  = normalise(divergence of teacher and student)  where the teacher would have spoken otherwise
    aptitude = (1 - alpha) l_graph + alpha l_model

Everything happens within one trajectory, over all of its steps, and depends on nothing outside it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Final

import numpy as np

from tutelage.errors import ConfigError, SupervisionError
from tutelage.supervision.dependency_graph import (
    EDGE_WEIGHTS,
    WRITERS,
    Array,
    backward_slice,
    degree,
    dependent_share,
    graph_impact,
    in_degree,
    num_descendants,
    out_degree,
)
from tutelage.supervision.footprints import KINDS
from tutelage.supervision.walk import check_walk, stationary
from tutelage.types import DependencyGraph, Fallback, StepAptitude, stable_hash

CONSTANT: Final = 1e-8
"""A signal whose largest and smallest value are nearer than this tells nothing; it becomes 0 everywhere."""

NORMALISATIONS: Final = ("z", "z_sample", "z_log", "log_ratio", "rank", "raw")
OF_POSITIVE: Final = ("z_log", "log_ratio")
"""Those that take a logarithm: for the walk's weights only."""

IMPACT: Final = "impact"
"""The structure whose values come from outside (executed replay) instead of the graph."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AptitudeConfig:
    """How the aptitude is made. The defaults are the method's."""

    footprints: str = "text"
    """Which kind of footprints the graph is made of: a name of `footprints.KINDS`. Whoever makes the graph reads it."""
    writer: str = "last"
    """Which earlier writer of a key an edge comes from: ``last``, ``any`` or ``first``."""
    ignore_keys: tuple[str, ...] = ()
    """Keys, or kinds of keys, that make no edge."""
    edge_weight: str = "binary"
    """``binary``, or ``num_keys``."""
    structure: str = "walk"
    """The structural signal: a name of `STRUCTURES`, or ``impact`` for values given from outside."""
    walk: str = "symmetrised"
    damping: float = 0.85
    dangling: str = "uniform"
    restart: int | None = None
    """Step to which the walk returns; -1 is the last one. None: any step."""
    normalise: str = "z"
    """How the structural signal is normalised within the trajectory: a name of `NORMALISATIONS`."""
    normalise_divergence: str = "z"
    alpha: float = 0.5
    """Weight of the divergence, in [0, 1]; the structure has the rest."""
    position_weight: float = 0.0
    """Adds this much of the normalised step index to the normalised structure, and normalises again. Small values
    only decide between equal steps, for the later one; negative ones for the earlier."""
    shuffled: bool = False
    """Control: the structural credit changes hands at random within the trajectory."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "ignore_keys", tuple(self.ignore_keys))
        for name, known in (
            ("footprints", KINDS),
            ("writer", tuple(WRITERS)),
            ("edge_weight", EDGE_WEIGHTS),
            ("structure", (*STRUCTURES, IMPACT)),
            ("normalise", NORMALISATIONS),
            ("normalise_divergence", NORMALISATIONS),
        ):
            if getattr(self, name) not in known:
                raise ConfigError.unknown(f"aptitude, {name}", getattr(self, name), known)
        check_walk(walk=self.walk, damping=self.damping, dangling=self.dangling)
        if not 0.0 <= self.alpha <= 1.0:
            raise ConfigError(f"aptitude: alpha is {self.alpha}, expected 0 (structure only) to 1 (divergence only)")
        if self.normalise in OF_POSITIVE and (self.structure != "walk" or self.restart is not None):
            raise ConfigError(
                f"aptitude: normalise is '{self.normalise}', which takes a logarithm, with structure '{self.structure}' "
                f"and restart {self.restart}; expected structure 'walk' without restart, or another normalise"
            )
        if self.normalise_divergence in OF_POSITIVE:
            raise ConfigError(
                f"aptitude: normalise_divergence is '{self.normalise_divergence}', which takes a logarithm; "
                "a divergence may be 0. Expected one of z, z_sample, rank, raw"
            )

    @property
    def config_id(self) -> str:
        """What differs from the defaults, e.g. ``alpha=0.0,structure=degree``; ``default`` if nothing does."""
        return _config_id(self)


Structure = Callable[[DependencyGraph, AptitudeConfig], Array]

STRUCTURES: Final[dict[str, Structure]] = {
    "walk": lambda graph, config: _walk(graph, config),
    "degree": lambda graph, config: degree(graph, config.edge_weight),
    "in_degree": lambda graph, config: in_degree(graph, config.edge_weight),
    "out_degree": lambda graph, config: out_degree(graph, config.edge_weight),
    "slice": lambda graph, config: backward_slice(graph),
    "descendants": lambda graph, config: num_descendants(graph),
    "dependent_share": lambda graph, config: dependent_share(graph),
    "graph_impact": lambda graph, config: graph_impact(graph),
    "slice_then_degree": lambda graph, config: _slice_then_degree(graph, config),
    "position": lambda graph, config: np.arange(graph.num_steps, dtype=np.float64),
}
"""Name -> structural signal [N] of a graph, before normalisation."""


def _walk(graph: DependencyGraph, config: AptitudeConfig) -> Array:
    return stationary(
        graph,
        walk=config.walk,
        damping=config.damping,
        dangling=config.dangling,
        edge_weight=config.edge_weight,
        restart=config.restart,
    )


def _slice_then_degree(graph: DependencyGraph, config: AptitudeConfig) -> Array:
    """Degrees, with every step of the backward slice above every other step."""
    degrees = degree(graph, config.edge_weight)
    above: Array = backward_slice(graph) * (degrees.max() + 1.0)
    return degrees + above


@lru_cache(maxsize=256)
def _config_id(config: AptitudeConfig) -> str:
    changed = [
        f"{field.name}={getattr(config, field.name)}"
        for field in fields(config)
        if getattr(config, field.name) != field.default
    ]
    return ",".join(changed) or "default"


def normalise(values: Sequence[float] | Array, how: str = "z") -> tuple[Array, bool]:
    """A signal on the scale of its own trajectory, and whether it was constant (then it is 0 everywhere).

      z          (x - mean) / (std + 1e-8), population std      z_sample   the same with ddof 1
      z_log      z of log x                                     log_ratio  log(N x), not centred
      rank       z of the average ranks of x to 9 decimals      raw        x

    Example: (.5, .1, .3) under z is (1.2247, -1.2247, 0)
    """
    signal = np.asarray(values, dtype=np.float64)
    # Before dividing: three equal thirds differ by rounding, and z of rounding is anything.
    if signal.size < 2 or signal.max() - signal.min() < CONSTANT:
        return np.zeros(signal.size), True
    if how == "raw":
        return signal, False
    if how == "log_ratio":
        return np.log(signal.size * signal), False
    if how == "z_log":
        signal = np.log(signal)
    elif how == "rank":
        signal = _average_ranks(signal)
    elif how not in ("z", "z_sample"):
        raise ConfigError.unknown("normalise", how, NORMALISATIONS)
    centred = signal - signal.mean()
    degrees_of_freedom = signal.size - (how == "z_sample")
    return centred / (float(np.sqrt(centred @ centred / degrees_of_freedom)) + 1e-8), False


def _average_ranks(signal: Array) -> Array:
    _, inverse, counts = np.unique(np.round(signal, 9), return_inverse=True, return_counts=True)
    ranks: Array = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    return ranks


def step_aptitude(
    graph: DependencyGraph,
    divergence: Sequence[float | None] | None,
    config: AptitudeConfig = AptitudeConfig(),
    *,
    impact: Sequence[float] | None = None,
    seed: int = 0,
) -> StepAptitude:
    """Structural credit, normalised divergence and aptitude of every step of one trajectory.

    divergence: [N] nats per step, None where no teacher scored it: left out of all statistics, never 0.
        None for the whole: no teacher was asked.
    impact: [N] the values of structure ``impact``.
    seed: of the permutation under `shuffled`, with the trajectory's id; the same at every call.

    Raises:
        SupervisionError: signals of another length or not finite, structure ``impact`` without values.
    """
    num_steps = graph.num_steps
    weights = _walk(graph, config)
    structure = weights if config.structure == "walk" else _structure(graph, config, impact)
    l_graph, constant_structure = normalise(structure, config.normalise)
    if config.position_weight:
        position, _ = normalise(range(num_steps))
        l_graph, _ = normalise(l_graph + config.position_weight * position)
    raw = [None] * num_steps if divergence is None else list(divergence)
    _check_length(graph, "divergence", len(raw))
    l_model, constant_divergence = _over_scored(graph, raw, config)
    fallbacks = {
        Fallback.SINGLE_STEP: num_steps == 1,
        Fallback.NO_EDGES: not graph.edges,
        Fallback.CONSTANT_STRUCTURE: constant_structure,
        Fallback.CONSTANT_DIVERGENCE: constant_divergence,
        Fallback.MISSING_DIVERGENCE: None in raw and (divergence is not None or config.alpha > 0.0),
    }
    aptitude = StepAptitude(
        trajectory_id=graph.trajectory_id,
        stationary=tuple(weights.tolist()),
        l_graph=tuple(l_graph.tolist()),
        divergence=tuple(raw),
        l_model=tuple(l_model),
        aptitude=_mix(l_graph.tolist(), l_model, config.alpha),
        fallbacks=frozenset(name for name, holds in fallbacks.items() if holds),
        config_id=config.config_id,
    )
    if config.shuffled:
        # One permutation for all updates on a trajectory, in whatever batch it comes.
        rng = np.random.default_rng([seed, stable_hash(graph.trajectory_id)])
        aptitude = with_order(aptitude, rng.permutation(num_steps).tolist(), alpha=config.alpha)
    return aptitude


def with_order(aptitude: StepAptitude, order: Sequence[int], *, alpha: float) -> StepAptitude:
    """The same steps with the structural credit of others: step t gets that of step order[t]."""
    if sorted(order) != list(range(len(aptitude.l_graph))):
        raise SupervisionError(
            f"trajectory {aptitude.trajectory_id}: order {list(order)}, expected every step from 0 to "
            f"{len(aptitude.l_graph) - 1} once"
        )
    l_graph = tuple(aptitude.l_graph[step] for step in order)
    return replace(aptitude, l_graph=l_graph, aptitude=_mix(l_graph, aptitude.l_model, alpha))


def _structure(graph: DependencyGraph, config: AptitudeConfig, impact: Sequence[float] | None) -> Array:
    if config.structure != IMPACT:
        return STRUCTURES[config.structure](graph, config)
    if impact is None:
        raise SupervisionError(
            f"trajectory {graph.trajectory_id}: structure 'impact' without values, expected one per step. "
            "Replay the trajectory in its environment (replay_impact) and hand in what it measured."
        )
    _check_length(graph, "impact", len(impact))
    values = np.asarray(impact, dtype=np.float64)
    if not np.isfinite(values).all():
        raise SupervisionError(f"trajectory {graph.trajectory_id}: impact {list(impact)}, expected finite numbers")
    return values


def _over_scored(
    graph: DependencyGraph, divergence: Sequence[float | None], config: AptitudeConfig
) -> tuple[list[float | None], bool]:
    """Normalised over the scored steps, None elsewhere; and whether the scored ones were constant."""
    values = [value for value in divergence if value is not None]
    if not values:
        return [None] * len(divergence), False
    if not np.isfinite(values).all():
        step = next(t for t, value in enumerate(divergence) if value is not None and not np.isfinite(value))
        raise SupervisionError(
            f"trajectory {graph.trajectory_id}, step {step}: divergence is {divergence[step]}, expected a finite number, "
            "or None for a step that no teacher scored"
        )
    normalised, constant = normalise(values, config.normalise_divergence)
    entries = iter(normalised.tolist())
    return [None if value is None else next(entries) for value in divergence], constant


def _mix(l_graph: Sequence[float], l_model: Sequence[float | None], alpha: float) -> tuple[float | None, ...]:
    if alpha == 0.0:
        return tuple(l_graph)
    return tuple(
        None if model is None else (1.0 - alpha) * structural + alpha * model
        for structural, model in zip(l_graph, l_model, strict=True)
    )


def _check_length(graph: DependencyGraph, what: str, got: int) -> None:
    if got != graph.num_steps:
        raise SupervisionError.length(what, got=got, expected=graph.num_steps, trajectory_id=graph.trajectory_id)
