"""What each step read and wrote of the environment's state: one extractor per environment.

In: a stored `Trajectory`. Out: one `Footprint` per step, from the executed command and the environment's reply alone,
so graphs can be made for any stored data. Expert and student steps are treated alike.

To add an environment: a module with a function Trajectory -> footprints, and one line in `FOOTPRINTS`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final

from tutelage.errors import SupervisionError
from tutelage.types import Footprint, Trajectory

FOOTPRINTS: Final = {
    "household": "tutelage.supervision.footprints.household:household_footprints",
    "alfworld": "tutelage.supervision.footprints.household:household_footprints",
}
"""Name of the environment -> where its extractor is."""


def footprints_of(trajectory: Trajectory) -> tuple[Footprint, ...]:
    """The footprints of a trajectory, one per step, in order. Raises SupervisionError for an unknown environment."""
    if trajectory.env not in FOOTPRINTS:
        raise SupervisionError(
            f"trajectory {trajectory.trajectory_id}: environment '{trajectory.env}' has no footprints; "
            f"{', '.join(sorted(FOOTPRINTS))} have.\n"
            "  Add an extractor to supervision/footprints, or use step weights without a graph, e.g. divergence_only."
        )
    module, _, name = FOOTPRINTS[trajectory.env].partition(":")
    footprints: tuple[Footprint, ...] = getattr(import_module(module), name)(trajectory)
    return footprints
