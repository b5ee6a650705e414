"""Submits of a scaffold that asks twice: the first shows a checklist, the second ends the episode."""

from __future__ import annotations

from dataclasses import replace

from tutelage.types import Action, Trajectory


def cut_at_first_submit(trajectory: Trajectory) -> tuple[Trajectory, int]:
    """The trajectory up to its first submit, and how many steps came after it.

    The answer to the first submit is then the last observation. Nothing else changes; without a later step nothing does.

    Example: ``edit submit review submit`` -> ``edit submit``, 2
    """
    steps = trajectory.steps
    first = next((index for index, step in enumerate(steps) if is_submit(step.action)), len(steps) - 1)
    taken = len(steps) - 1 - first
    if taken <= 0:
        return trajectory, 0
    actors = {step.actor for step in steps[: first + 1]}
    cut = replace(
        trajectory,
        steps=steps[: first + 1],
        final_observation=steps[first + 1].observation,
        switch_rule=trajectory.switch_rule if len(actors) > 1 else "never",
        switch_events=tuple(event for event in trajectory.switch_events if event.step_index <= first),
        info={**trajectory.info, "steps_after_first_submit": taken},
    )
    return cut, taken


def is_submit(action: Action) -> bool:
    """A call of ``submit``, or the bare command. Example: ``bash {"command": "submit"}`` is one too."""
    if action.call is None:
        return (action.command or "").strip() == "submit"
    command = action.call.arguments.get("command")
    return action.call.name == "submit" or (isinstance(command, str) and command.strip() == "submit")
