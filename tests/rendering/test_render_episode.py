"""Episodes as segments: order, step indices, and the same tokens for acting and for samples."""

import pytest

from tutelage.errors import RenderError
from tutelage.rendering.context import Full, LastObservations, LastSteps
from tutelage.rendering.episode import Segment, render_episode
from tutelage.rendering.load import load_renderer
from tutelage.students import student_path
from tutelage.types import Action, Actor, Observation, Step

RENDERER = load_renderer(student_path("builtin:household_tiny"))
OBSERVATIONS = [Observation.of(f"You arrive at drawer {n}. The drawer {n} is closed.") for n in (4, 3, 2, 1)]
STEPS = [
    Step(observation=seen, action=Action.of(f"go to drawer {n}"), actor=Actor.EXPERT)
    for seen, n in zip(OBSERVATIONS, (3, 2, 1), strict=False)
]


def tokens(segments):
    return [token for segment in segments for token in segment.token_ids]


def test_segments_take_turns():
    segments = render_episode(STEPS, OBSERVATIONS[3], RENDERER, Full())
    assert [(one.kind, one.step_index) for one in segments] == [
        ("observation", 0), ("action", 0), ("observation", 1), ("action", 1), ("observation", 2), ("action", 2),
        ("observation", 3),
    ]  # fmt: skip
    assert segments[1] == Segment("action", 0, tuple(RENDERER.action_ids(STEPS[0].action)))
    assert segments[6].token_ids == tuple(RENDERER.observation_ids(OBSERVATIONS[3], after=STEPS[2].action))


def test_without_a_newest_observation_the_last_action_ends_it():
    whole = render_episode(STEPS, None, RENDERER, Full())
    assert whole == render_episode(STEPS, OBSERVATIONS[3], RENDERER, Full())[:-1]


def test_full_context_extends_its_prefix():
    for count in range(3):
        now = tokens(render_episode(STEPS[:count], OBSERVATIONS[count], RENDERER, Full()))
        later = tokens(render_episode(STEPS[: count + 1], OBSERVATIONS[count + 1], RENDERER, Full()))
        assert later[: len(now)] == now


def test_stubs_break_the_prefix_but_no_action():
    segments = render_episode(STEPS, OBSERVATIONS[3], RENDERER, LastObservations(1))
    shown = [RENDERER.decode(one.token_ids) for one in segments]
    assert shown[2] == "<|obs|>[observation elided: 1 lines]<|act|>"
    assert [shown[i] for i in (1, 3, 5)] == [f"go to drawer {n}<|end|>" for n in (3, 2, 1)]


def test_steps_that_are_not_shown_take_their_action_along():
    segments = render_episode(STEPS, OBSERVATIONS[3], RENDERER, LastSteps(1))
    assert [(one.kind, one.step_index) for one in segments] == [
        ("observation", 0), ("action", 0), ("observation", 2), ("action", 2), ("observation", 3),
    ]  # fmt: skip


def test_an_empty_episode_is_refused():
    with pytest.raises(RenderError, match="no step and no observation"):
        render_episode([], None, RENDERER, Full())
