"""What each step read and wrote of the environment's state: extractors by kind and environment.

In: a stored `Trajectory`. Out: one `Footprint` per step. Kinds `text` and `needs` read the executed commands and the
environment's replies alone, so graphs can be made for any stored data; `exact` and `causal` act the record again and
read the facts. Expert and student steps are treated alike.

To add an environment: a module with a function Trajectory -> footprints, and one line in `FOOTPRINTS`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final

from tutelage.errors import ConfigError, SupervisionError
from tutelage.types import Footprint, Task, Trajectory

_HOUSEHOLD: Final = "tutelage.supervision.footprints.household"

FOOTPRINTS: Final = {
    "household": f"{_HOUSEHOLD}:household_footprints",
    "alfworld": f"{_HOUSEHOLD}:household_footprints",
}
"""Name of the environment -> where its extractor of kind `text` is."""

KINDS: Final = {
    "text": FOOTPRINTS,
    "needs": {
        "household": f"{_HOUSEHOLD}_needs:needed_household_footprints",
        "alfworld": f"{_HOUSEHOLD}_needs:needed_household_footprints",
    },
    "exact": {"household": f"{_HOUSEHOLD}_exact:exact_household_footprints"},
    "causal": {"household": f"{_HOUSEHOLD}_exact:causal_household_footprints"},
}
"""Kind of footprints -> environment -> where its extractor is."""

OF_TASK: Final = ("exact", "causal")
"""Kinds that act the record again, for which they need its task."""


def footprints_of(trajectory: Trajectory, kind: str = "text", task: Task | None = None) -> tuple[Footprint, ...]:
    """The footprints of a trajectory, one per step, in order.

    task: what the trajectory was played on, for the kinds `OF_TASK`.
    Raises SupervisionError where the environment has none of that kind, ConfigError on an unknown kind or a missing task.
    """
    if kind not in KINDS:
        raise ConfigError.unknown("footprints", kind, KINDS)
    places = KINDS[kind]
    if trajectory.env not in places:
        of_kind = "" if kind == "text" else f" of kind '{kind}'"
        raise SupervisionError(
            f"trajectory {trajectory.trajectory_id}: environment '{trajectory.env}' has no footprints{of_kind}; "
            f"{', '.join(sorted(places))} have.\n"
            "  Add an extractor to supervision/footprints, or use step weights without a graph, e.g. divergence_only."
        )
    module, _, name = places[trajectory.env].partition(":")
    extract = getattr(import_module(module), name)
    if kind in OF_TASK and task is None:
        raise ConfigError(f"footprints '{kind}' act the record again; give the task of {trajectory.trajectory_id}.")
    footprints: tuple[Footprint, ...] = extract(trajectory, task) if kind in OF_TASK else extract(trajectory)
    return footprints
