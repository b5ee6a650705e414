"""An episode as tokens. Acting and sample building both call `render_episode`, so they cannot differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tutelage.errors import RenderError
from tutelage.rendering.base import Renderer, ViewRenderer
from tutelage.rendering.context import ContextRule
from tutelage.types import Action, Observation, Step, Trajectory


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
    shown = [(index, one) for index, one in enumerate(rule.observations(seen)) if one is not None]
    pieces = _whole_view(shown, steps, renderer) if renderer.rewrites_history else _joined(shown, steps, renderer)
    places: list[tuple[Literal["observation", "action"], int]] = []
    for index, _ in shown:
        places += [("observation", index), ("action", index)]
    return [Segment(kind, index, tuple(ids)) for (kind, index), ids in zip(places, pieces, strict=False)]


@dataclass(frozen=True, slots=True)
class Chain:
    """One token string of an episode, and the steps whose actions stand in it as they were made."""

    segments: tuple[Segment, ...]
    step_indices: tuple[int, ...]


def render_chains(
    steps: Sequence[Step], renderer: Renderer, rule: ContextRule, *, final: Observation | None = None
) -> list[Chain]:
    """An episode as few token strings, in which each action stands once as it was made, after what was seen then.

    One string as long as each context extends the one before; where it does not, the next one begins (a fork). `final`:
    what was seen after the last action.

    Example, a format that leaves the thought t of a past action out once the user speaks again:
      o0 t0 a0 o1 t1 a1 (o1 from a tool), then o2 from the user: strings o0 t0 a0 o1 t1 a1 | o0 a0 o1 a1 o2 t2 a2
    """
    if not renderer.rewrites_history:
        return [Chain(tuple(render_episode(steps, None, renderer, rule)), tuple(range(len(steps))))]
    chains: list[Chain] = []
    ids: list[int] = []
    for index in range(len(steps)):
        *context, last = render_episode(steps[: index + 1], None, renderer, rule)
        answer = steps[index + 1].observation if index + 1 < len(steps) else final
        made = made_ids(steps[index].action, answer, renderer)
        segments = (*context, Segment("action", last.step_index, tuple(made)))
        longer = [token_id for segment in segments for token_id in segment.token_ids]
        if chains and longer[: len(ids)] == ids:
            chains[-1] = Chain(segments, (*chains[-1].step_indices, index))
        else:
            chains.append(Chain(segments, (index,)))
        ids = longer
    return chains


def answer_to(trajectory: Trajectory, index: int) -> Observation | None:
    """The observation after the action of a step. None: the episode ended with it, unanswered."""
    steps = trajectory.steps
    return steps[index + 1].observation if index + 1 < len(steps) else trajectory.final_observation


def made_ids(action: Action, answer: Observation | None, renderer: Renderer) -> list[int]:
    """The ids of an action as it was made. `answer`: the observation after it, None if there is none.

    Where the next message owns the stop token, an action that was not sampled by us ends with the one of its answer.
    """
    ids = renderer.action_ids(action)
    if action.token_ids is None and answer is not None and renderer.rewrites_history:
        past = renderer.action_ids(action, followed_by=(answer,))
        if past[:-1] == ids[:-1]:
            return past
    return ids


def _joined(shown: Sequence[tuple[int, Observation]], steps: Sequence[Step], renderer: Renderer) -> list[list[int]]:
    """Piece by piece, each made once and for all."""
    pieces: list[list[int]] = []
    after: Action | None = None
    for index, observation in shown:
        pieces.append(renderer.observation_ids(observation, after=after))
        if index < len(steps):
            after = steps[index].action
            pieces.append(renderer.action_ids(after))
    return pieces


def _whole_view(shown: Sequence[tuple[int, Observation]], steps: Sequence[Step], renderer: Renderer) -> list[list[int]]:
    """The whole at once. An action at the end stands as it was made, since nothing follows it yet."""
    assert isinstance(renderer, ViewRenderer), f"{renderer.name} rewrites history, but renders no views"
    *past, (last, newest) = shown
    pieces = renderer.view_ids([(observation, steps[index].action) for index, observation in past], newest)
    return pieces if last == len(steps) else [*pieces, renderer.action_ids(steps[last].action)]
