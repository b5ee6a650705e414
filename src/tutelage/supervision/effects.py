"""Which steps of a trajectory did nothing. Each environment says it in its own words, which its footprints read."""

from __future__ import annotations

from tutelage.envs.base import is_no_effect
from tutelage.supervision.footprints import footprints_of, has_footprints
from tutelage.types import Effect, ParseOutcome, Trajectory


def ineffective_steps(trajectory: Trajectory) -> list[bool]:
    """[N] whether a step's action was malformed, or the environment answered that nothing came of it.

    Without footprints the answer is known only where it is one of `envs.base.NO_EFFECT_REPLIES`.
    """
    if has_footprints(trajectory.env):
        return [one.effect in (Effect.NO_EFFECT, Effect.MALFORMED) for one in footprints_of(trajectory)]
    replies = [step.observation.text for step in trajectory.steps[1:]]
    replies.append(trajectory.final_observation.text if trajectory.final_observation is not None else "")
    return [
        step.action.parse is ParseOutcome.MALFORMED or is_no_effect(reply)
        # An episode without a step has one observation and no reply.
        for step, reply in zip(trajectory.steps, replies[: len(trajectory.steps)], strict=True)
    ]
