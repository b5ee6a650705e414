"""The dependency graph of one stored episode, with all that a table or a picture of it shows.

Trajectory -> footprints -> graph -> credit by structure alone, and the steps that this credit would choose. No teacher is
asked: what a training with one taught depends on its divergence as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tutelage.errors import ConfigError, SupervisionError
from tutelage.supervision.aptitude import IMPACT, AptitudeConfig, step_aptitude
from tutelage.supervision.dependency_graph import build_graph, degree, key_sources
from tutelage.supervision.footprints import OF_TASK, footprints_of
from tutelage.supervision.step_credit import STEP_WEIGHTS, ChosenSteps, MaskConfig, choose_steps, step_weights
from tutelage.types import Actor, DependencyGraph, Footprint, StepAptitude, Trajectory

Way = tuple[AptitudeConfig, MaskConfig]

DEFAULT_WEIGHTS: Final = "graphopd"


@dataclass(frozen=True, kw_only=True, slots=True)
class EpisodeGraph:
    """Who enabled whom in one episode."""

    trajectory: Trajectory
    footprints: tuple[Footprint, ...]
    """[N]"""
    sources: Sequence[Mapping[str, Sequence[int]]]
    """[N] of each step, the keys it read that earlier steps wrote -> these steps."""
    graph: DependencyGraph
    degree: tuple[int, ...]
    """[N] edges in and out."""
    aptitude: StepAptitude
    """By structure alone; `l_graph` is the structural credit."""
    chosen: ChosenSteps
    """The structural mask. Of the student's steps; of all, in an episode without any."""


def episode_graph(trajectory: Trajectory, weights: str | Way = DEFAULT_WEIGHTS, *, writer: str = "") -> EpisodeGraph:
    """The graph of a trajectory of two steps or more.

    weights: a name of `STEP_WEIGHTS`, or the two configs. Its part of the divergence is left out.
    writer: a writer rule in place of the one of `weights`. Empty: as there.

    Raises:
        ConfigError: a trajectory of fewer than two steps, or weights that have nothing to do with a graph.
        SupervisionError: an environment without footprints.
    """
    if len(trajectory.steps) < 2:
        raise ConfigError(
            f"trajectory {trajectory.trajectory_id}: {len(trajectory.steps)} steps, expected two or more: what a step "
            "used can only come from an earlier one. Choose another with --index or --id."
        )
    config, mask = structural_way(weights)
    if writer:
        config = replace(config, writer=writer)
    try:
        footprints = footprints_of(trajectory, config.footprints)
    except SupervisionError as error:
        # Of a user's own file it is a wrong choice, not a failure.
        raise ConfigError(str(error)) from None
    graph = build_graph(footprints, writer=config.writer, ignore_keys=config.ignore_keys)
    aptitude = step_aptitude(graph, None, config)
    eligible = [step.actor is Actor.STUDENT for step in trajectory.steps]
    num_tokens = [1 if step.action.token_ids is None else len(step.action.token_ids) for step in trajectory.steps]
    return EpisodeGraph(
        trajectory=trajectory,
        footprints=footprints,
        sources=key_sources(footprints, writer=config.writer, ignore_keys=config.ignore_keys),
        graph=graph,
        degree=tuple(int(one) for one in degree(graph)),
        aptitude=aptitude,
        chosen=choose_steps(aptitude, eligible if any(eligible) else [True] * len(eligible), num_tokens, mask),
    )


def structural_way(weights: str | Way) -> Way:
    """The same way of weighing steps without its part of the divergence. Raises ConfigError if nothing is left."""
    config, mask = step_weights(weights) if isinstance(weights, str) else weights
    if not _has_structure((config, mask)):
        name = (
            f"'{weights}'"
            if isinstance(weights, str)
            else f"with structure '{config.structure}' of {config.footprints} footprints"
        )
        known = ", ".join(one for one in STEP_WEIGHTS if _has_structure(step_weights(one)))
        raise ConfigError(
            f"dependency graph: step weights {name} rest on a teacher or a replay, which a stored episode does not hold. "
            f"Take one of: {known}."
        )
    return replace(config, alpha=0.0), mask


def _has_structure(way: Way) -> bool:
    config, mask = way
    by_divergence = config.alpha == 1.0 or mask.order == "divergence" or mask.weights == "drift_ratio"
    by_replay = config.structure == IMPACT or config.footprints in OF_TASK
    return not by_divergence and not by_replay
