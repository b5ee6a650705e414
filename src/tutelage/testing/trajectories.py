"""Trajectories spelled in letters, for tests of what comes after the rollout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tutelage.types import Action, Actor, Observation, Step, StopReason, SwitchEvent, Trajectory

ACTORS = {"s": Actor.STUDENT, "e": Actor.EXPERT}


def make_trajectory(
    actors: str,
    commands: Sequence[str | Action] | None = None,
    observations: Sequence[str] | None = None,
    *,
    labels: Sequence[str | None] | None = None,
    stop_reason: StopReason = StopReason.COMPLETED,
    reward: float | None = 1.0,
    task_id: str = "task-1",
    sample_index: int = 0,
    **fields: Any,
) -> Trajectory:
    """A trajectory with one letter per step: ``s`` student, ``e`` expert. More fields go to `Trajectory`.

    Without `commands` step t does ``act t``; without `observations` it sees ``see t`` (one more than steps: the last is the
    final one). `labels` are the expert's commands per step, for records of mixed play.

    Example: ``make_trajectory("sse", ["look", "look", "go"]).switch_index == 2``
    """
    commands = [f"act {index}" for index in range(len(actors))] if commands is None else commands
    observations = [f"see {index}" for index in range(len(actors) + 1)] if observations is None else observations
    labels = [None] * len(actors) if labels is None else labels
    steps = tuple(
        Step(
            observation=Observation.of(observation),
            action=command if isinstance(command, Action) else Action.of(command),
            actor=ACTORS[letter],
            expert_action=None if label is None else Action.of(label),
        )
        for letter, command, observation, label in zip(
            actors, commands, observations[: len(actors)], labels, strict=True
        )
    )
    final = observations[len(actors)] if len(observations) > len(actors) else "end"
    changes = [index for index in range(len(actors)) if actors[index] != (actors[index - 1] if index else "s")]
    values: dict[str, Any] = {
        "trajectory_id": f"{task_id}.test.s0.n{sample_index}.a0",
        "env": "counting",
        "seed": 0,
        "switch_events": tuple(
            SwitchEvent(step_index=index, actor=ACTORS[actors[index]], reason="test") for index in changes
        ),
    }
    return Trajectory(
        task_id=task_id,
        sample_index=sample_index,
        steps=steps,
        final_observation=Observation.of(final),
        stop_reason=stop_reason,
        reward=None if stop_reason.is_infrastructure else reward,
        **(values | fields),
    )
