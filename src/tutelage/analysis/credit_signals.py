"""The signals that the audit compares: graph credit in its variants, divergence, and controls, by name.

    signals_of(trajectory, task, ["l_graph", "degree_exact", "graph_impact_needs", "position"])   # name -> [N]

A graph signal stands under its plain name if its footprints are those of the texts. Another kind of footprints ends the
name: `_exact`, `_needs`, `_causal`. Larger always means: this step is said to matter more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from tutelage.envs.base import is_no_effect
from tutelage.errors import ConfigError, SupervisionError
from tutelage.supervision.aptitude import AptitudeConfig, step_aptitude
from tutelage.supervision.dependency_graph import build_graph
from tutelage.supervision.footprints import KINDS, footprints_of, has_footprints
from tutelage.types import DependencyGraph, StepAptitude, Task, Trajectory

GRAPH_SIGNALS: Final[Mapping[str, AptitudeConfig]] = {
    "l_graph": AptitudeConfig(alpha=0.0),
    "walk_forward": AptitudeConfig(alpha=0.0, walk="forward"),
    "walk_reverse": AptitudeConfig(alpha=0.0, walk="reverse"),
    "walk_to_last": AptitudeConfig(alpha=0.0, walk="reverse", restart=-1),
    "degree": AptitudeConfig(alpha=0.0, structure="degree"),
    "in_degree": AptitudeConfig(alpha=0.0, structure="in_degree"),
    "out_degree": AptitudeConfig(alpha=0.0, structure="out_degree"),
    "slice": AptitudeConfig(alpha=0.0, structure="slice"),
    "descendants": AptitudeConfig(alpha=0.0, structure="descendants"),
    "slice_then_degree": AptitudeConfig(alpha=0.0, structure="slice_then_degree"),
    "degree_then_later": AptitudeConfig(alpha=0.0, structure="degree", position_weight=0.01),
    "dependent_share": AptitudeConfig(alpha=0.0, structure="dependent_share"),
    "graph_impact": AptitudeConfig(alpha=0.0, structure="graph_impact"),
    "shuffled": AptitudeConfig(alpha=0.0, shuffled=True),
}
"""Name -> how it is made from a dependency graph."""

MODEL_SIGNALS: Final[Mapping[str, Callable[[StepAptitude], Sequence[float | None]]]] = {
    "divergence": lambda aptitude: aptitude.divergence,
    "aptitude": lambda aptitude: aptitude.aptitude,
}
"""Name -> what it is of a stored `StepAptitude`; there only for trajectories that a teacher scored at every step."""

CONTROLS: Final[Mapping[str, Callable[[Trajectory], Sequence[float]]]] = {
    "position": lambda trajectory: [float(index) for index in range(len(trajectory.steps))],
    "reverse_position": lambda trajectory: [-float(index) for index in range(len(trajectory.steps))],
    "effective": lambda trajectory: [float(not is_no_effect(reply)) for reply in _replies(trajectory)],
}
"""Name -> what it says of a trajectory without a graph."""

_GRAPH: Final = {
    (name if kind == "text" else f"{name}_{kind}"): replace(config, footprints=kind)
    for kind in KINDS
    for name, config in GRAPH_SIGNALS.items()
}
"""Full name of each graph signal -> how it is made, footprints included."""

SIGNALS: Final = (*_GRAPH, *MODEL_SIGNALS, *CONTROLS)
"""Every name, in the order of tables. The control `random` is added by the table itself."""

DEFAULT_SIGNALS: Final = (
    *GRAPH_SIGNALS,
    *(f"{name}_exact" for name in ("l_graph", "degree", "out_degree")),
    *(f"{name}_{kind}" for kind in ("needs", "causal") for name in ("l_graph", "degree", "out_degree", "graph_impact")),
    *MODEL_SIGNALS,
    *CONTROLS,
)
"""What `tutelage audit` compares if it is not told."""


def check_signals(names: Iterable[str]) -> tuple[str, ...]:
    """The names in the order of tables. Raises ConfigError on an unknown one, or where none is named."""
    wanted = list(names)
    for name in wanted:
        if name not in SIGNALS:
            raise ConfigError.unknown("audit: signal", name, SIGNALS)
    if not wanted:
        raise ConfigError(f"audit: no signal named, expected some of: {', '.join(SIGNALS)}")
    return tuple(name for name in SIGNALS if name in wanted)


def default_signals(env: str) -> tuple[str, ...]:
    """The usual names, without those whose kind of footprints an environment does not have."""
    return tuple(name for name in DEFAULT_SIGNALS if name not in _GRAPH or has_footprints(env, _GRAPH[name].footprints))


def signals_of(
    trajectory: Trajectory,
    task: Task,
    names: Sequence[str] = DEFAULT_SIGNALS,
    aptitude: StepAptitude | None = None,
    *,
    seed: int = 0,
) -> dict[str, tuple[float, ...]]:
    """Name -> [N] of the named signals that this trajectory has.

    aptitude: of a teacher, for the divergence. seed: of the shuffled control.
    Raises SupervisionError where the trajectory's environment has no footprints.
    """
    graphs: dict[str, DependencyGraph] = {}
    signals: dict[str, tuple[float, ...]] = {}
    for name in check_signals(names):
        if name in _GRAPH:
            config = _GRAPH[name]
            if config.footprints not in graphs:
                graphs[config.footprints] = build_graph(footprints_of(trajectory, config.footprints, task))
            signals[name] = step_aptitude(graphs[config.footprints], None, config, seed=seed).l_graph
        elif name in CONTROLS:
            signals[name] = tuple(CONTROLS[name](trajectory))
        elif aptitude is not None:
            values = MODEL_SIGNALS[name](aptitude)
            if len(values) != len(trajectory.steps):
                raise SupervisionError.length(
                    name, got=len(values), expected=len(trajectory.steps), trajectory_id=trajectory.trajectory_id
                )
            if None not in values:
                signals[name] = tuple(float(value) for value in values if value is not None)
    return signals


def _replies(trajectory: Trajectory) -> list[str]:
    """[N] what the environment answered to each step."""
    final = trajectory.final_observation
    return [step.observation.text for step in trajectory.steps[1:]] + [final.text if final is not None else ""]
