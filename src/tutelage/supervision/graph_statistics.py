"""Figures about graphs, signals and masks, for the log of a round.

In: what was made for each trajectory. Out: plain dicts of floats. A figure that is not defined (a mean over nothing, the
correlation of a constant) is left out, so means over trajectories are over those that have it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, median

from tutelage.supervision.aptitude import normalise
from tutelage.supervision.dependency_graph import keys_per_edge, num_isolated
from tutelage.supervision.step_credit import ChosenSteps
from tutelage.types import DependencyGraph, Fallback, StepAptitude


def graph_statistics(
    graph: DependencyGraph, aptitude: StepAptitude, chosen: ChosenSteps, num_tokens: Sequence[int]
) -> dict[str, float]:
    """The figures of one trajectory.

    graph/     num_nodes, num_edges, density, num_isolated, keys_per_edge, max_stationary
    signal/    divergence_mean and _median over scored steps; corr_graph_model and corr_graph_position (Spearman)
    mask/      kept_steps, kept_fraction of the eligible, kept_tokens, mean_position (0 first step, 1 last)
    fallback/  1 or 0 for each
    """
    num_steps = graph.num_steps
    figures: dict[str, float | None] = {
        "graph/num_nodes": float(num_steps),
        "graph/num_edges": float(len(graph.edges)),
        "graph/density": graph.density,
        "graph/num_isolated": float(num_isolated(graph)),
        "graph/keys_per_edge": keys_per_edge(graph),
        "graph/max_stationary": max(aptitude.stationary),
    }
    scored = [t for t in range(num_steps) if aptitude.divergence[t] is not None]
    values = [value for value in aptitude.divergence if value is not None]
    structural = [aptitude.l_graph[t] for t in scored]
    figures |= {
        "signal/divergence_mean": fmean(values) if values else None,
        "signal/divergence_median": median(values) if values else None,
        "signal/corr_graph_model": rank_correlation(structural, values),
        "signal/corr_graph_position": rank_correlation(aptitude.l_graph, range(num_steps)),
    }
    kept = [t for t in range(num_steps) if chosen.step_mask[t]]
    figures |= {
        "mask/kept_steps": float(len(kept)),
        "mask/kept_fraction": len(kept) / chosen.num_eligible if chosen.num_eligible else None,
        "mask/kept_tokens": float(sum(num_tokens[t] for t in kept)),
        "mask/mean_position": fmean(kept) / max(num_steps - 1, 1) if kept else None,
    }
    figures |= {f"fallback/{fallback.value}": float(fallback in chosen.fallbacks) for fallback in Fallback}
    return {name: float(value) for name, value in figures.items() if value is not None}


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Spearman's rho with average ranks for ties. None: one of them is constant, or shorter than two."""
    ranks, constant = normalise(first, "rank")
    others, constant_too = normalise(second, "rank")
    return None if constant or constant_too else float(ranks @ others) / len(ranks)


def round_statistics(
    figures: Sequence[Mapping[str, float]], successes: Sequence[bool | None] | None = None
) -> dict[str, float]:
    """Means over trajectories; counts for `fallback/`.

    successes: whether each trajectory succeeded, None where it was not scored. With it every mean is there three times:
    ``graph/density`` over all, ``graph/density/success`` and ``graph/density/failure``.
    """
    result = _means(figures)
    if successes is not None:
        for name, wanted in (("success", True), ("failure", False)):
            part = [one for one, success in zip(figures, successes, strict=True) if success is wanted]
            means = _means(
                [{key: value for key, value in one.items() if not key.startswith("fallback/")} for one in part]
            )
            result |= {f"{key}/{name}": value for key, value in means.items()}
    return result


def _means(figures: Sequence[Mapping[str, float]]) -> dict[str, float]:
    columns: dict[str, list[float]] = {}
    for one in figures:
        for name, value in one.items():
            columns.setdefault(name, []).append(value)
    return {name: sum(values) if name.startswith("fallback/") else fmean(values) for name, values in columns.items()}
