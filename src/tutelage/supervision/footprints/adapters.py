"""Footprints of episodes in foreign environments: from the user's own function, or from what the environment reports.

In: a trajectory and its task. Out: one footprint per step. Two sources, in this order:

  1. the function that the task's settings name (`footprints: package.module:function`), Trajectory -> footprints, from the
     stored texts alone
  2. the environment itself: the record is acted again in a fresh one, and each answer's ``info["footprint"]`` is read,
     ``{"reads": [keys], "writes": [keys]}``, keys as ``kind:name`` in lower case

Where neither gives any, `SupervisionError` says so, and methods that need a graph cannot be used.

Example, info ``{"footprint": {"reads": ["location:cave"], "writes": ["holding:lamp"]}}``: reads location:cave, writes
holding:lamp, effect ``changed``; without writes the effect is ``read_only``. An action that the adapter answered by itself
reads and writes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tutelage.envs.base import Env
from tutelage.envs.registry import load_place, make_env
from tutelage.errors import SupervisionError
from tutelage.rollout.replay import replay_steps
from tutelage.types import Effect, Footprint, ParseOutcome, Step, Task, Trajectory


def adapter_footprints(trajectory: Trajectory, task: Task) -> tuple[Footprint, ...]:
    """One footprint per step. Raises SupervisionError without a source, ReplayMismatch where acting again differs."""
    place = task.settings.get("footprints")
    if place is None:
        return _reported(trajectory, task)
    found = tuple(load_place(place)(trajectory))
    if [one.step_index for one in found] != list(range(len(trajectory.steps))):
        raise SupervisionError(
            f"trajectory {trajectory.trajectory_id}: {place} gave footprints of steps "
            f"{[one.step_index for one in found]}, expected one for each of {len(trajectory.steps)} steps, in order."
        )
    return found


def _reported(trajectory: Trajectory, task: Task) -> tuple[Footprint, ...]:
    env = make_env(task)
    try:
        observation = env.reset(task.seed)
        return tuple(
            _footprint(trajectory, index, step, env)
            for index, (step, _) in enumerate(replay_steps(env, task, observation, trajectory.steps))
        )
    finally:
        env.close()


def _footprint(trajectory: Trajectory, index: int, step: Step, env: Env) -> Footprint:
    malformed = step.action.parse is ParseOutcome.MALFORMED
    if malformed or not getattr(env, "executed", True):
        effect = Effect.MALFORMED if malformed else Effect.NO_EFFECT
        return _of_step(trajectory, index, frozenset(), frozenset(), effect)
    info: Mapping[str, Any] = getattr(env, "info", {})
    reported = info.get("footprint")
    if not isinstance(reported, Mapping):
        raise SupervisionError(
            f"trajectory {trajectory.trajectory_id}, step {index}: no footprint. Environment '{trajectory.env}' reports none "
            "in info[\"footprint\"], and the task names no function in its setting 'footprints'.\n"
            "  Give either, or use step weights without a graph, e.g. divergence_only."
        )
    reads, writes = (_keys(trajectory, index, reported, name) for name in ("reads", "writes"))
    return _of_step(trajectory, index, reads, writes, Effect.CHANGED if writes else Effect.READ_ONLY)


def _of_step(
    trajectory: Trajectory, index: int, reads: frozenset[str], writes: frozenset[str], effect: Effect
) -> Footprint:
    return Footprint(
        trajectory_id=trajectory.trajectory_id, step_index=index, reads=reads, writes=writes, effect=effect
    )


def _keys(trajectory: Trajectory, index: int, reported: Mapping[str, Any], name: str) -> frozenset[str]:
    keys = reported.get(name, [])
    if not isinstance(keys, list | tuple) or not all(isinstance(key, str) for key in keys):
        raise SupervisionError(
            f"trajectory {trajectory.trajectory_id}, step {index}: the environment reported {name} {keys!r}, expected a "
            "list of keys."
        )
    return frozenset(keys)
