"""The signals that the audit compares: graph credit in its variants, divergence, and controls, by name.

    signals_of(trajectory, task, ["l_graph", "degree", "degree_exact", "position"])   # name -> [N]

A graph signal read from texts stands under its plain name; `_exact` at the end means footprints from the engine's own
facts. Larger always means: this step is said to matter more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from tutelage.envs.base import is_no_effect
from tutelage.errors import ConfigError, SupervisionError
from tutelage.supervision.aptitude import AptitudeConfig, step_aptitude
from tutelage.supervision.dependency_graph import build_graph
from tutelage.supervision.footprints import footprints_of
from tutelage.types import DependencyGraph, Footprint, StepAptitude, Task, Trajectory

EXACT: Final = "_exact"

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

SIGNALS: Final = (
    *GRAPH_SIGNALS,
    *(f"{name}{EXACT}" for name in GRAPH_SIGNALS if name != "shuffled"),
    *MODEL_SIGNALS,
    *CONTROLS,
)
"""Every name, in the order of tables. The control `random` is added by the table itself."""


def check_signals(names: Iterable[str]) -> tuple[str, ...]:
    """The names in the order of tables. Raises ConfigError on an unknown one, or where none is named."""
    wanted = list(names)
    for name in wanted:
        if name not in SIGNALS:
            raise ConfigError.unknown("audit: signal", name, SIGNALS)
    if not wanted:
        raise ConfigError(f"audit: no signal named, expected some of: {', '.join(SIGNALS)}")
    return tuple(name for name in SIGNALS if name in wanted)


def signals_of(
    trajectory: Trajectory,
    task: Task,
    names: Sequence[str] = SIGNALS,
    aptitude: StepAptitude | None = None,
    *,
    seed: int = 0,
) -> dict[str, tuple[float, ...]]:
    """Name -> [N] of the named signals that this trajectory has.

    aptitude: of a teacher, for the divergence. seed: of the shuffled control.
    Raises SupervisionError where the trajectory's environment has no footprints.
    """
    graphs: dict[bool, DependencyGraph] = {}
    signals: dict[str, tuple[float, ...]] = {}
    for name in check_signals(names):
        plain, exact = name.removesuffix(EXACT), name.endswith(EXACT)
        if plain in GRAPH_SIGNALS:
            if exact not in graphs:
                graphs[exact] = build_graph(
                    exact_footprints(trajectory, task) if exact else text_footprints(trajectory)
                )
            signals[name] = step_aptitude(graphs[exact], None, GRAPH_SIGNALS[plain], seed=seed).l_graph
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


def text_footprints(trajectory: Trajectory) -> tuple[Footprint, ...]:
    """Footprints read from the texts of the record."""
    return tuple(footprints_of(trajectory))


def exact_footprints(trajectory: Trajectory, task: Task) -> tuple[Footprint, ...]:
    """Footprints from the engine's own facts, which the record is acted again for."""
    from tutelage.supervision.footprints.household_exact import exact_household_footprints

    return tuple(exact_household_footprints(trajectory, task))


def _replies(trajectory: Trajectory) -> list[str]:
    """[N] what the environment answered to each step."""
    final = trajectory.final_observation
    return [step.observation.text for step in trajectory.steps[1:]] + [final.text if final is not None else ""]
