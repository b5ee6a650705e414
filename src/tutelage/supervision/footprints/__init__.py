"""What each step read and wrote of the environment's state: extractors by kind and environment.

In: a stored `Trajectory`. Out: one `Footprint` per step. Kinds `text` and `needs` read the executed commands and the
environment's replies alone, so graphs can be made for any stored data; `exact` and `causal` act the record again and
read the facts. Expert and student steps are treated alike.

To add an environment: a module with a function Trajectory -> footprints, named in the environment's `EnvSpec`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from tutelage.envs.registry import environment_names, environment_of, load_place
from tutelage.errors import ConfigError, SupervisionError
from tutelage.types import Footprint, Task, Trajectory

KINDS: Final = ("text", "needs", "exact", "causal")
"""Kinds of footprints. An environment has some of them, or none."""

OF_TASK: Final = ("exact", "causal")
"""Kinds that act the record again, for which they need its task."""


def has_footprints(env: str, kind: str = "text") -> bool:
    """Whether an environment has an extractor of that kind."""
    spec = environment_of(env)
    return spec is not None and kind in spec.footprints


def footprints_of(trajectory: Trajectory, kind: str = "text", task: Task | None = None) -> tuple[Footprint, ...]:
    """The footprints of a trajectory, one per step, in order.

    task: what the trajectory was played on, for the kinds `OF_TASK`.
    Raises SupervisionError where the environment has none of that kind, ConfigError on an unknown kind or a missing task.
    """
    if kind not in KINDS:
        raise ConfigError.unknown("footprints", kind, KINDS)
    if not has_footprints(trajectory.env, kind):
        of_kind = "" if kind == "text" else f" of kind '{kind}'"
        having = [name for name in environment_names() if has_footprints(name, kind)]
        raise SupervisionError(
            f"trajectory {trajectory.trajectory_id}: environment '{trajectory.env}' has no footprints{of_kind}; "
            f"{', '.join(having)} have.\n"
            "  Name an extractor in its EnvSpec, or use step weights without a graph, e.g. divergence_only."
        )
    extract = _extractor(trajectory.env, kind)
    if kind in OF_TASK and task is None:
        raise ConfigError(f"footprints '{kind}' act the record again; give the task of {trajectory.trajectory_id}.")
    footprints: tuple[Footprint, ...] = extract(trajectory, task) if kind in OF_TASK else extract(trajectory)
    return footprints


@lru_cache(maxsize=64)
def _extractor(env: str, kind: str) -> Callable[..., Any]:
    spec = environment_of(env)
    assert spec is not None
    extract: Callable[..., Any] = load_place(spec.footprints[kind])
    return extract
