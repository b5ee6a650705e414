"""Which steps are taught and how much: from aptitude and eligibility to a mask and weights per step.

In: a `StepAptitude`, who may learn, tokens per step. Out: `ChosenSteps`, which fit a `StepSupervision`.
`STEP_WEIGHTS` names the method, its ablations and its controls; `weigh_steps` goes from footprints to the mask.

A choice has three parts: how many steps (`rule`), which ones first (`order`), and how much each (`weights`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final

import numpy as np

from tutelage.errors import ConfigError, SupervisionError
from tutelage.supervision.aptitude import IMPACT, AptitudeConfig, step_aptitude
from tutelage.supervision.dependency_graph import Array, build_graph
from tutelage.types import DependencyGraph, Fallback, Footprint, StepAptitude, Trajectory, stable_hash

ABOVE: Final = 1e-6
"""How far above the mean an aptitude must be for the mask `above_mean`."""
STRUCTURE_FALLBACKS: Final = frozenset({Fallback.SINGLE_STEP, Fallback.NO_EDGES, Fallback.CONSTANT_STRUCTURE})

RULES: Final = ("above_mean", "top_fraction", "top_k", "all", "matched")
ORDERS: Final = ("aptitude", "divergence", "random", "early", "late")
WEIGHTS: Final = ("uniform", "sigmoid", "softmax", "position_decay", "drift_ratio")
MATCHES: Final = ("steps", "tokens")


@dataclass(frozen=True, kw_only=True, slots=True)
class MaskConfig:
    """How steps are chosen. The defaults are the method's."""

    rule: str = "above_mean"
    """How many of the n eligible steps: those with an aptitude ``above_mean``; ``top_fraction``; ``top_k``; ``all``; or
    ``matched``: as many as ``above_mean`` would keep, for controls that choose in another order."""
    order: str = "aptitude"
    """Which come first: highest ``aptitude``, highest ``divergence``, ``random``, ``early`` or ``late`` ones.
    Ties go to the earlier step. Without effect under ``above_mean`` and ``all``."""
    weights: str = "uniform"
    """How much each chosen step counts: 1; or by aptitude (``sigmoid``, ``softmax``) or step index
    (``position_decay``), rescaled to mean 1 over the chosen steps; or ``drift_ratio``, min(d_first / d, cap)."""
    fraction: float = 0.3
    """Of ``top_fraction``; at least one step."""
    k: int = 5
    """Of ``top_k``."""
    match: str = "steps"
    """What ``matched`` holds equal: the number of ``steps``, or (to the nearest) of their ``tokens``."""
    tau: float = 1.0
    """Temperature of ``sigmoid`` and ``softmax``."""
    kappa: float = 0.6
    """Of ``position_decay``: the weight falls by this factor from step to step."""
    cap: float = 1.2
    """Of ``drift_ratio``."""

    def __post_init__(self) -> None:
        for name, known in (("rule", RULES), ("order", ORDERS), ("weights", WEIGHTS), ("match", MATCHES)):
            if getattr(self, name) not in known:
                raise ConfigError.unknown(f"step mask, {name}", getattr(self, name), known)
        for name, holds, expected in (
            ("fraction", 0.0 < self.fraction <= 1.0, "0 < fraction <= 1"),
            ("k", self.k >= 1, "1 or more"),
            ("tau", self.tau > 0.0, "more than 0"),
            ("kappa", 0.0 < self.kappa <= 1.0, "0 < kappa <= 1"),
            ("cap", self.cap > 0.0, "more than 0"),
        ):
            if not holds:
                raise ConfigError(f"step mask: {name} is {getattr(self, name)}, expected {expected}")

    @property
    def uses_aptitude(self) -> bool:
        """False: the choice is the same whatever the aptitude."""
        by_order = self.rule in ("top_fraction", "top_k") and self.order == "aptitude"
        return self.rule in ("above_mean", "matched") or by_order or self.weights in ("sigmoid", "softmax")


@dataclass(frozen=True, kw_only=True, slots=True)
class ChosenSteps:
    """The steps of one trajectory that the teacher teaches.

    Example, N=4, steps 1 and 2 chosen with uniform weights:
      step_mask     0 1 1 0
      step_weights  0 1 1 0
    """

    step_mask: tuple[bool, ...]
    """[N]"""
    step_weights: tuple[float, ...]
    """[N] >= 0; 0 outside the mask."""
    num_eligible: int
    """Steps that could have been chosen."""
    fallbacks: frozenset[Fallback]
    """Those of the aptitude and those of the choice."""

    @property
    def num_steps(self) -> int:
        return sum(self.step_mask)


def choose_steps(
    aptitude: StepAptitude,
    eligible: Sequence[bool],
    num_tokens: Sequence[int],
    config: MaskConfig = MaskConfig(),
    *,
    seed: int = 0,
) -> ChosenSteps:
    """Choose among the eligible steps of one trajectory.

    eligible: [N] who may learn at all (the student's own steps). Steps without a trainable token, or that a teacher was
        to score and did not, are left out too.
    num_tokens: [N] trainable tokens per step.
    seed: of random orders, with the trajectory's id; the same at every call.

    No eligible step: an empty mask. Nobody above the mean (all aptitudes equal): all eligible steps. Both are recorded
    in `fallbacks`.
    """
    num_steps = len(aptitude.l_graph)
    for name, entries in (("eligible", len(eligible)), ("num_tokens", len(num_tokens))):
        if entries != num_steps:
            raise SupervisionError.length(name, got=entries, expected=num_steps, trajectory_id=aptitude.trajectory_id)
    unscored_is_missing = Fallback.MISSING_DIVERGENCE in aptitude.fallbacks
    steps = [
        t
        for t in range(num_steps)
        if eligible[t] and num_tokens[t] > 0 and not (unscored_is_missing and aptitude.divergence[t] is None)
    ]
    fallbacks = set(aptitude.fallbacks)
    kept: list[int] = []
    if steps:
        kept = _kept(aptitude, steps, num_tokens, config, seed, fallbacks)
    else:
        fallbacks.add(Fallback.NO_ELIGIBLE_STEP)
    mask, weights = [False] * num_steps, [0.0] * num_steps
    for t, weight in zip(kept, _weights(aptitude, kept, config), strict=True):
        mask[t], weights[t] = True, weight
    return ChosenSteps(
        step_mask=tuple(mask), step_weights=tuple(weights), num_eligible=len(steps), fallbacks=frozenset(fallbacks)
    )


def _kept(
    aptitude: StepAptitude,
    steps: list[int],
    num_tokens: Sequence[int],
    config: MaskConfig,
    seed: int,
    fallbacks: set[Fallback],
) -> list[int]:
    """The chosen ones of the eligible `steps`, in step order."""
    if config.rule == "all":
        return steps
    above: list[int] = []
    if config.rule in ("above_mean", "matched"):
        above, constant = _above_mean(aptitude, steps)
        if constant:
            fallbacks.add(Fallback.CONSTANT_APTITUDE)
        if config.rule == "above_mean":
            return above
    count = {
        # .07 * 100 is a little more than 7.
        "top_fraction": max(1, math.ceil(config.fraction * len(steps) - 1e-9)),
        "top_k": min(config.k, len(steps)),
        "matched": len(above),
    }[config.rule]
    ordered = _ordered(aptitude, steps, config, seed, count)
    if config.rule == "matched" and config.match == "tokens":
        count = _nearest_count([num_tokens[t] for t in ordered], sum(num_tokens[t] for t in above))
    return sorted(ordered[:count])


def _above_mean(aptitude: StepAptitude, steps: list[int]) -> tuple[list[int], bool]:
    """Steps above the mean of `steps`; all of them, and True, if nobody is."""
    values = _values(aptitude, "aptitude", steps)
    above = [t for t, higher in zip(steps, values - values.mean() > ABOVE, strict=True) if higher]
    return (above, False) if above else (steps, True)


def _ordered(aptitude: StepAptitude, steps: list[int], config: MaskConfig, seed: int, count: int) -> list[int]:
    """The eligible steps, first choice first."""
    if config.order == "early":
        return steps
    if config.order == "late":
        return steps[::-1]
    if config.order == "random":
        # The number of steps takes part, so that a larger choice does not contain the smaller one.
        rng = np.random.default_rng([seed, stable_hash(aptitude.trajectory_id), count])
        return [steps[i] for i in rng.permutation(len(steps))]
    values = _values(aptitude, config.order, steps)
    return [steps[i] for i in np.argsort(-np.round(values, 9), kind="stable")]


def _values(aptitude: StepAptitude, what: str, steps: list[int]) -> Array:
    """[len(steps)] aptitude or divergence of the given steps, all of which must have one."""
    values = [getattr(aptitude, what)[t] for t in steps]
    if None in values:
        step = steps[values.index(None)]
        raise SupervisionError(
            f"trajectory {aptitude.trajectory_id}, step {step}: no {what}, but it decides which steps are taught. "
            "Score the steps with a teacher, or choose steps by something else."
        )
    return np.array(values, dtype=np.float64)


def _nearest_count(tokens: list[int], wanted: int) -> int:
    """How many steps from the front have together the number of tokens nearest to `wanted`; at least one."""
    return int(np.argmin(np.abs(np.cumsum(tokens) - wanted))) + 1


def _weights(aptitude: StepAptitude, kept: list[int], config: MaskConfig) -> list[float]:
    """One weight per chosen step."""
    if not kept or config.weights == "uniform":
        return [1.0] * len(kept)
    if config.weights == "drift_ratio":
        return _drift_ratios(aptitude, kept, config.cap)
    if config.weights == "position_decay":
        weights = config.kappa ** (np.array(kept, dtype=np.float64) - kept[0])
    else:
        scaled = _values(aptitude, "aptitude", kept) / config.tau
        # Both are only needed up to a factor; subtracting the maximum keeps exp in range.
        weights = np.exp(scaled - scaled.max()) if config.weights == "softmax" else 0.5 * (1.0 + np.tanh(scaled / 2.0))
    result: list[float] = (weights / weights.mean()).tolist()
    return result


def _drift_ratios(aptitude: StepAptitude, kept: list[int], cap: float) -> list[float]:
    """min(d_first / d, cap). Example: d (.2, .4, .1), cap 1.2 -> (1, .5, 1.2)"""
    values = _values(aptitude, "divergence", kept).tolist()
    if min(values) < 0.0:
        raise SupervisionError(
            f"trajectory {aptitude.trajectory_id}: divergence {min(values)} below 0 under weights 'drift_ratio', expected "
            "0 or more. Use a divergence that is never negative (full_kl, topk_kl, k3, abs_gap)."
        )
    first = values[0]
    return [1.0 if value == first else cap if value == 0.0 else min(first / value, cap) for value in values]


# Names


def _ablation(mask: MaskConfig = MaskConfig(), **aptitude: Any) -> tuple[AptitudeConfig, MaskConfig]:
    return AptitudeConfig(**aptitude), mask


STEP_WEIGHTS: Final[dict[str, tuple[AptitudeConfig, MaskConfig]]] = {
    "graphopd": _ablation(),
    # Ablations of the method
    "soft_pruning": _ablation(MaskConfig(rule="all", weights="sigmoid")),
    "divergence_only": _ablation(alpha=1.0),
    "structural_only": _ablation(alpha=0.0),
    "shuffled_centrality": _ablation(shuffled=True),
    # Other structure in place of the walk
    "degree": _ablation(structure="degree"),
    "in_degree": _ablation(structure="in_degree"),
    "out_degree": _ablation(structure="out_degree"),
    "replay_impact": _ablation(structure=IMPACT),
    # Chosen by the replay audit (studies/graphopd/results/audit/search.md)
    "graph_audited": _ablation(structure="graph_impact", footprints="needs"),
    # Controls of equal size
    "random_matched": _ablation(MaskConfig(rule="matched", order="random")),
    "position_early": _ablation(MaskConfig(rule="matched", order="early")),
    "position_late": _ablation(MaskConfig(rule="matched", order="late")),
    # Exactly k steps
    "graph_topk": _ablation(MaskConfig(rule="top_k")),
    "topk_divergence": _ablation(MaskConfig(rule="top_k", order="divergence")),
    "random_k": _ablation(MaskConfig(rule="top_k", order="random")),
    "late_k": _ablation(MaskConfig(rule="top_k", order="late")),
    # All steps
    "uniform": _ablation(MaskConfig(rule="all")),
    "position_decay": _ablation(MaskConfig(rule="all", weights="position_decay")),
    "drift_ratio": _ablation(MaskConfig(rule="all", weights="drift_ratio")),
}
"""Name in recipes -> how aptitude and mask are made."""

_APTITUDE_FIELDS: Final = frozenset(field.name for field in fields(AptitudeConfig))
_MASK_FIELDS: Final = frozenset(field.name for field in fields(MaskConfig))


def step_weights(name: str, **overrides: Any) -> tuple[AptitudeConfig, MaskConfig]:
    """A named way of weighing steps, with some of its settings changed.

    Example: ``step_weights("random_k", k=8)``, ``step_weights("graphopd", alpha=0.2, rule="top_fraction")``
    """
    if name not in STEP_WEIGHTS:
        raise ConfigError.unknown("step_weights", name, STEP_WEIGHTS)
    for key in overrides:
        if key not in _APTITUDE_FIELDS | _MASK_FIELDS:
            raise ConfigError.unknown(f"step_weights '{name}'", key, _APTITUDE_FIELDS | _MASK_FIELDS)
    aptitude, mask = STEP_WEIGHTS[name]
    return (
        replace(aptitude, **{key: value for key, value in overrides.items() if key in _APTITUDE_FIELDS}),
        replace(mask, **{key: value for key, value in overrides.items() if key in _MASK_FIELDS}),
    )


def weigh_steps(
    way: str | tuple[AptitudeConfig, MaskConfig],
    trajectory: Trajectory,
    footprints: Sequence[Footprint] | None,
    divergence: Sequence[float | None] | None,
    eligible: Sequence[bool],
    num_tokens: Sequence[int],
    *,
    seed: int,
    impact: Sequence[float] | None = None,
) -> tuple[ChosenSteps, StepAptitude]:
    """From the footprints of one trajectory to the steps that are taught.

    way: a name of `STEP_WEIGHTS`, or the two configs.
    footprints: one per step. None where `way` needs no graph (`needs_graph`), e.g. in environments without extractor.
    For the others see `step_aptitude` and `choose_steps`.
    """
    config, mask = step_weights(way) if isinstance(way, str) else way
    if footprints is None:
        if needs_graph((config, mask)):
            raise SupervisionError(
                f"trajectory {trajectory.trajectory_id}: no footprints, but these step weights come from its dependency "
                f"graph. Extract them (footprints_of); environment '{trajectory.env}' may lack an extractor, then use "
                "step weights without a graph, e.g. divergence_only or random_k."
            )
        graph = DependencyGraph(
            trajectory_id=trajectory.trajectory_id, num_steps=len(trajectory.steps), edges=(), writer_rule=config.writer
        )
    else:
        graph = build_graph(footprints, writer=config.writer, ignore_keys=config.ignore_keys)
    if (graph.trajectory_id, graph.num_steps) != (trajectory.trajectory_id, len(trajectory.steps)):
        raise SupervisionError(
            f"trajectory {trajectory.trajectory_id}: {graph.num_steps} footprints of trajectory {graph.trajectory_id}, "
            f"expected {len(trajectory.steps)} of its own"
        )
    aptitude = step_aptitude(graph, divergence, config, impact=impact, seed=seed)
    if footprints is None:
        # No graph was asked for, so none is missing.
        aptitude = replace(aptitude, fallbacks=aptitude.fallbacks - STRUCTURE_FALLBACKS)
    return choose_steps(aptitude, eligible, num_tokens, mask, seed=seed), aptitude


def needs_graph(way: tuple[AptitudeConfig, MaskConfig]) -> bool:
    """Whether the chosen steps depend on the dependency graph."""
    config, mask = way
    return mask.uses_aptitude and config.alpha < 1.0 and config.structure not in (IMPACT, "position")
