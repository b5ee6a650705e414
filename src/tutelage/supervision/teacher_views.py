"""What a teacher reads of an episode: its own context, then exactly the ids that the student sampled.

In: a trajectory and the privileged text. Out: token strings with the span of each student action. A string that is too
long for the teacher is an error, or is cut by a stated rule: the oldest steps go, the first one, which holds the task
and the privileged text, never does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from tutelage.errors import ConfigError, SupervisionError, TeacherError
from tutelage.policies.privileged import with_privileged_context
from tutelage.rendering.base import Renderer
from tutelage.rendering.context import ContextRule, Full
from tutelage.rendering.episode import Segment, answer_to, made_ids, render_chains, render_episode
from tutelage.supervision.samples import Layout, check_layout
from tutelage.types import Actor, Trajectory

TooLong = Literal["error", "cut"]

TOO_LONG: Final = ("error", "cut")
"""What happens where the teacher's context does not hold an episode."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TeacherView:
    """One token string for the teacher."""

    view_id: str
    trajectory_id: str
    token_ids: tuple[int, ...]
    """[T]"""
    step_spans: tuple[tuple[int, int, int], ...]
    """(step_index, first token, one past the last) of each action to score."""
    num_cut_steps: int = 0
    """Steps that were left out between the first one and the rest."""


@dataclass(frozen=True, slots=True)
class _Piece:
    """A step as tokens: what was seen, what was done."""

    step_index: int
    observation_ids: tuple[int, ...]
    action_ids: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.observation_ids) + len(self.action_ids)


def teacher_views(
    trajectory: Trajectory,
    text: str | None,
    renderer: Renderer,
    context_rule: ContextRule = Full(),
    layout: Layout = "whole",
    *,
    max_context: int | None = None,
    too_long: TooLong = "error",
) -> tuple[list[TeacherView], dict[int, str]]:
    """The views that score every student step once, and the steps that no view can hold, with the reason.

    `whole`: one view for the episode up to its last student step, more where a template forks it. `per_step`: one for each, as the context rule shows it.
    text: privileged context; None: the teacher is told no more than the student.

    Example, text "T", obs [1,2], student [3,4], obs [5], expert [6,7], obs [8], student [9]:
      token_ids   T.. 1 2 3 4 5 6 7 8 9      step_spans (0, 2, 4) and (2, 8, 9), both later by the tokens of T

    Raises:
        TeacherError: longer than `max_context` with ``too_long="error"``.
        SupervisionError: the renderer changes sampled ids, or leaves the privileged text out.
    """
    if too_long not in TOO_LONG:
        raise ConfigError.unknown("too_long", too_long, TOO_LONG)
    check_layout(layout, context_rule)
    scored = [index for index, step in enumerate(trajectory.steps) if step.actor is Actor.STUDENT]
    if not scored:
        return [], {}
    seen = trajectory if text is None else with_privileged_context(trajectory, text)
    if text is not None:
        _check_told(trajectory, seen, renderer)
    views: list[TeacherView] = []
    failed: dict[int, str] = {}
    for pieces, wanted in _strings(seen, renderer, context_rule, layout, scored):
        _check_sampled(trajectory, pieces, wanted)
        length = sum(map(len, pieces))
        if max_context is None or length <= max_context:
            views.append(_view(trajectory, pieces, wanted, len(views), 0))
        elif too_long == "error":
            raise TeacherError(
                f"trajectory {trajectory.trajectory_id}: the view has {len(pieces[0].observation_ids)} tokens of task and "
                f"privileged context and {length} in all, the teacher reads at most {max_context}. Take a teacher with "
                "a longer context, a shorter privileged text or context rule, or set too_long to 'cut'."
            )
        else:
            for kept, inside, num_cut in _cut(pieces, wanted, max_context, failed):
                views.append(_view(trajectory, kept, inside, len(views), num_cut))
    return views, failed


def _strings(
    trajectory: Trajectory, renderer: Renderer, rule: ContextRule, layout: Layout, scored: Sequence[int]
) -> list[tuple[list[_Piece], list[int]]]:
    """Pieces of each token string, and the step indices to score in it."""
    steps = trajectory.steps
    if layout == "whole":
        chains = render_chains(steps[: scored[-1] + 1], renderer, rule, final=answer_to(trajectory, scored[-1]))
        wanted = [[index for index in scored if index in chain.step_indices] for chain in chains]
        return [(_pieces(chain.segments), mine) for chain, mine in zip(chains, wanted, strict=True) if mine]
    strings = []
    for index in scored:
        segments = render_episode(steps[:index], steps[index].observation, renderer, rule)
        made = made_ids(steps[index].action, answer_to(trajectory, index), renderer)
        action = Segment("action", index, tuple(made))
        strings.append((_pieces([*segments, action]), [index]))
    return strings


def _pieces(segments: Sequence[Segment]) -> list[_Piece]:
    """Observation and action take turns, so they pair up."""
    return [
        _Piece(seen.step_index, seen.token_ids, done.token_ids)
        for seen, done in zip(segments[::2], segments[1::2], strict=True)
    ]


def _view(
    trajectory: Trajectory, pieces: Sequence[_Piece], wanted: Sequence[int], number: int, num_cut: int
) -> TeacherView:
    token_ids: list[int] = []
    spans = []
    for piece in pieces:
        token_ids += piece.observation_ids
        start = len(token_ids)
        token_ids += piece.action_ids
        if piece.step_index in wanted:
            spans.append((piece.step_index, start, len(token_ids)))
    return TeacherView(
        view_id=f"{trajectory.trajectory_id}/view-{number}",
        trajectory_id=trajectory.trajectory_id,
        token_ids=tuple(token_ids),
        step_spans=tuple(spans),
        num_cut_steps=num_cut,
    )


def _cut(
    pieces: Sequence[_Piece], wanted: Sequence[int], limit: int, failed: dict[int, str]
) -> list[tuple[list[_Piece], list[int], int]]:
    """Strings of at most `limit` tokens: the first step, then neighbouring later ones. Fills `failed`.

    Each string begins with as many older steps as half of the room holds, so that steps are scored with a past and one
    string still serves several of them.

    Example, six steps of 2 tokens each, limit 8, all wanted: steps 0 1 2 3, then 0 . . 3 4 5
    """
    lengths = list(map(len, pieces))
    todo = [position for position, piece in enumerate(pieces) if piece.step_index in wanted]
    strings = []
    while todo:
        position = todo[0]
        begin = position
        total = lengths[position] + (lengths[0] if position else 0)
        if total > limit:
            failed[pieces[position].step_index] = "too_long"
            todo.pop(0)
            continue
        # All of the past if it fits, else what half of the room holds.
        whole_past = sum(lengths[: position + 1]) <= limit
        room = limit - total if whole_past else (limit - total) // 2
        while begin > 1 and lengths[begin - 1] <= room:
            begin -= 1
            room -= lengths[begin]
            total += lengths[begin]
        end = position + 1
        while end < len(pieces) and total + lengths[end] <= limit:
            total += lengths[end]
            end += 1
        kept = [pieces[0], *pieces[max(1, begin) : end]]
        strings.append((kept, [pieces[one].step_index for one in todo if one < end], max(0, begin - 1)))
        todo = [one for one in todo if one >= end]
    return strings


def _check_sampled(trajectory: Trajectory, pieces: Sequence[_Piece], wanted: Sequence[int]) -> None:
    """The ids of a scored action are those that were sampled."""
    for piece in pieces:
        sampled = trajectory.steps[piece.step_index].action.token_ids
        if piece.step_index in wanted and sampled is not None and piece.action_ids != sampled:
            raise SupervisionError(
                f"trajectory {trajectory.trajectory_id}, step {piece.step_index}: the view shows ids "
                f"{list(piece.action_ids)}, but {list(sampled)} were sampled. The renderer encodes the text again; "
                "it must give the ids of an action back as they are."
            )


def _check_told(plain: Trajectory, informed: Trajectory, renderer: Renderer) -> None:
    """A renderer without system messages would drop the privileged text without a word."""
    ids = [renderer.observation_ids(one.steps[0].observation, after=None) for one in (plain, informed)]
    if len(ids[1]) <= len(ids[0]):
        raise SupervisionError(
            f"trajectory {plain.trajectory_id}: the first observation has {len(ids[1])} tokens with the privileged text "
            f"and {len(ids[0])} without; renderer {renderer.name!r} leaves system messages out."
        )
