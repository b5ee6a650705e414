"""An episode as tokens. Acting and sample building both call `render_episode`, so they cannot differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tutelage.errors import RenderError
from tutelage.rendering.base import Renderer
from tutelage.rendering.context import ContextRule
from tutelage.types import Observation, Step


@dataclass(frozen=True, slots=True)
class Segment:
    """The ids of one observation or one action."""

    kind: Literal["observation", "action"]
    step_index: int
    """Of the step it belongs to; the newest, unanswered observation has the number of steps."""
    token_ids: tuple[int, ...]
    """[T]"""


def render_episode(
    steps: Sequence[Step], observation: Observation | None, renderer: Renderer, rule: ContextRule
) -> list[Segment]:
    """The pieces of an episode in order, as the policy sees them before its next action.

    `observation` is the newest one, not yet answered. None: the episode as it was seen before its last action, with
    that action at the end; needed for whole-episode samples.

    Example, two steps and an observation: o0 a0 o1 a1 o2, with step_index 0 0 1 1 2.
    """
    if observation is None and not steps:
        raise RenderError("render_episode: no step and no observation, expected at least one of them")
    seen = [step.observation for step in steps]
    if observation is not None:
        seen.append(observation)
    segments: list[Segment] = []
    for index, shown in enumerate(rule.observations(seen)):
        if shown is None:
            continue
        segments.append(Segment("observation", index, tuple(renderer.observation_ids(shown, first=index == 0))))
        if index < len(steps):
            segments.append(Segment("action", index, tuple(renderer.action_ids(steps[index].action))))
    return segments
