"""Flags of messages that say what is trained, believed only when the user names the key."""

from __future__ import annotations

import math

from tutelage.formats.base import Refused
from tutelage.types import LossComponent, StepSupervision, Trajectory


def flag_supervision(trajectory: Trajectory, key: str) -> StepSupervision:
    """Weights by the key of each assistant message, e.g. ``weight``, ``train``, ``loss``. A message without it is trained.

    Raises `Refused` ``bad_flag`` for a value that is no weight.

    Example, key ``weight``: 0, (absent), 1, 0.5 -> step_mask 0 1 1 1, weights of `sft` 0 1 1 0.5
    """
    weights = [
        _weight((step.action.raw or {}).get(key, 1.0), key, index) for index, step in enumerate(trajectory.steps)
    ]
    return StepSupervision(
        trajectory_id=trajectory.trajectory_id,
        step_mask=tuple(weight > 0.0 for weight in weights),
        step_weights={LossComponent.SFT: tuple(weights)},
        source=f"flag:{key}",
    )


def _weight(value: object, key: str, index: int) -> float:
    if value is None:
        return 1.0
    if isinstance(value, bool | int | float) and math.isfinite(value) and value >= 0:
        return float(value)
    raise Refused("bad_flag", f"step {index}: {key} is {str(value)[:40]!r}, expected true, false or a number >= 0")
