"""Teacher views, scores and samples over tokens that can be counted by hand: a text is a row of numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tutelage.errors import ConfigError, SupervisionError, TeacherError
from tutelage.policies.base import Access, ScoreFailure, Scorer, ScoreRequest, TokenScores
from tutelage.rendering.context import Full, LastObservations, LastSteps
from tutelage.supervision.distill import TrajectoryScores, attach_teacher, rollout_scores, score_steps
from tutelage.supervision.samples import build_samples
from tutelage.supervision.step_masks import all_steps
from tutelage.supervision.teacher_views import TeacherView, teacher_views
from tutelage.testing import make_trajectory
from tutelage.types import Action, LossComponent, Observation, ParseOutcome, StepSupervision, TrainingSample, Trajectory

STOP = 99
PG, DISTILL = LossComponent.PG, LossComponent.DISTILL


class NumberRenderer:
    """Text "1 2" is ids [1, 2], of every message; a stub is [0, number of lines]."""

    name = "numbers"
    stop_token_id = STOP
    stop_token_ids = (STOP,)
    rewrites_history = False
    pad_token_id = 98
    vocab_size = 100
    vocabulary_id = "numbers"

    def observation_ids(self, observation: Observation, *, after: Action | None) -> list[int]:
        if observation.text.startswith("[observation elided: "):
            return [0, int(observation.text.split()[2])]
        return [int(word) for message in observation.messages for word in message.content.split()]

    def action_ids(self, action: Action, *, followed_by: Sequence[Observation] = ()) -> list[int]:
        if action.token_ids is not None:
            return list(action.token_ids)
        return [*map(int, action.text.split()), STOP]

    def parse(self, token_ids: Sequence[int], *, stopped: bool) -> Action:
        text = self.decode(token_ids[:-1] if stopped else token_ids)
        outcome = ParseOutcome.CLEAN if stopped else ParseOutcome.ENDED_WITHOUT_STOP
        return Action(text=text, command=text, parse=outcome, token_ids=tuple(token_ids))

    def decode(self, token_ids: Sequence[int]) -> str:
        return " ".join(map(str, token_ids))


class SumScorer:
    """log-probability of id t: -(id + sum of all ids before it) / 1000. Requests that hold `bad_id` fail."""

    name, version, vocabulary_id, temperature = "sum", "1", "numbers", 1.0
    accesses: frozenset[Access] = frozenset({"sampled", "candidates"})

    def __init__(self, max_context: int = 1000, bad_id: int = -1) -> None:
        self.max_context = max_context
        self.bad_id = bad_id
        self.requests: list[ScoreRequest] = []

    def score(
        self, requests: Sequence[ScoreRequest], access: Access = "sampled", *, k: int = 64
    ) -> list[TokenScores | ScoreFailure]:
        self.requests += requests
        return [self.answer(request) for request in requests]

    def answer(self, request: ScoreRequest) -> TokenScores | ScoreFailure:
        if self.bad_id in request.token_ids:
            return ScoreFailure(request_id=request.request_id, reason="server_error")
        sums = np.cumsum(request.token_ids)[request.positions]
        return TokenScores(request_id=request.request_id, logprobs=-sums / 1000, top_ids=request.candidates)


RENDERER = NumberRenderer()


def sampled(text: str, logprob: float = -0.5) -> Action:
    """An action as a student samples it."""
    ids = (*map(int, text.split()), STOP)
    return Action(text=text, command=text, token_ids=ids, rollout_logprobs=(logprob,) * len(ids))


def episode(actors: str = "ses", **fields: str) -> Trajectory:
    """obs 1 2, act 3 4; obs 5, act 6; obs 8, act 9."""
    actions = [
        sampled(text) if who == "s" else Action.of(text) for who, text in zip(actors, ("3 4", "6", "9"), strict=True)
    ]
    return make_trajectory(actors, actions, ["1 2", "5", "8", "10"], **fields)


def weigh(trajectory: Trajectory, distill: Sequence[float], pg: Sequence[float] | None = None) -> list[TrainingSample]:
    weights = {DISTILL: tuple(distill)} | ({} if pg is None else {PG: tuple(pg)})
    mask = tuple(any(one) for one in zip(*weights.values(), strict=True))
    supervision = StepSupervision(
        trajectory_id=trajectory.trajectory_id, step_mask=mask, step_weights=weights, source="test"
    )
    return build_samples(trajectory, supervision, RENDERER)


# Views


def test_a_view_is_the_teachers_context_and_the_students_ids() -> None:
    views, failed = teacher_views(episode(), "70 71", RENDERER)
    assert views == [
        TeacherView(
            view_id="task-1.test.s0.n0.a0/view-0",
            trajectory_id="task-1.test.s0.n0.a0",
            token_ids=(70, 71, 1, 2, 3, 4, STOP, 5, 6, STOP, 8, 9, STOP),
            step_spans=((0, 4, 7), (2, 11, 13)),
        )
    ]
    assert failed == {}
    [plain], _ = teacher_views(episode(), None, RENDERER)
    assert plain.token_ids == views[0].token_ids[2:]
    assert plain.step_spans == ((0, 2, 5), (2, 9, 11))


def test_a_view_ends_with_the_last_student_step() -> None:
    [view], _ = teacher_views(episode("see"), None, RENDERER)
    assert (view.token_ids, view.step_spans) == ((1, 2, 3, 4, STOP), ((0, 2, 5),))
    assert teacher_views(episode("eee"), "70", RENDERER) == ([], {})
    assert teacher_views(make_trajectory(""), "70", RENDERER) == ([], {})


def test_a_view_per_step_under_a_rule_that_elides() -> None:
    with pytest.raises(ConfigError, match="layout 'whole' with context rule"):
        teacher_views(episode("sss"), "70", RENDERER, LastObservations(1))
    views, _ = teacher_views(episode("sss"), "70", RENDERER, LastObservations(1), "per_step")
    assert [(view.token_ids, view.step_spans) for view in views] == [
        ((70, 1, 2, 3, 4, STOP), ((0, 3, 6),)),
        ((70, 1, 2, 3, 4, STOP, 5, 6, STOP), ((1, 7, 9),)),
        ((70, 1, 2, 3, 4, STOP, 0, 1, 6, STOP, 8, 9, STOP), ((2, 11, 13),)),
    ]
    views, _ = teacher_views(episode("sss"), "70", RENDERER, LastSteps(1), "per_step")
    assert views[2].token_ids == (70, 1, 2, 3, 4, STOP, 5, 6, STOP, 8, 9, STOP)


def test_ids_that_the_renderer_changes_are_refused() -> None:
    class Encoding(NumberRenderer):
        def action_ids(self, action: Action, *, followed_by: Sequence[Observation] = ()) -> list[int]:
            return super().action_ids(replace(action, token_ids=None, rollout_logprobs=None))

    drifted = replace(sampled("3 4"), text="3", command="3")
    trajectory = make_trajectory("s", [drifted], ["1 2"])
    with pytest.raises(SupervisionError, match=r"step 0: the view shows ids \[3, 99\], but \[3, 4, 99\] were sampled"):
        teacher_views(trajectory, None, Encoding())


def test_a_renderer_that_drops_the_text_is_refused() -> None:
    class UserOnly(NumberRenderer):
        def observation_ids(self, observation: Observation, *, after: Action | None) -> list[int]:
            kept = tuple(one for one in observation.messages if one.role == "user")
            return super().observation_ids(Observation(messages=kept), after=after)

    with pytest.raises(SupervisionError, match="renderer 'numbers' leaves system messages out"):
        teacher_views(episode(), "70 71", UserOnly())
    assert len(teacher_views(episode(), None, UserOnly())[0]) == 1


# Too long


def steady(actors: str, num_steps: int | None = None) -> Trajectory:
    """Step t sees id t and does id 50 + t: three tokens each, the stop token included."""
    count = len(actors)
    return make_trajectory(
        actors, [sampled(str(50 + index)) for index in range(count)], list(map(str, range(count + 1)))
    )


def test_too_long_is_an_error_unless_a_cut_is_asked_for() -> None:
    with pytest.raises(
        TeacherError, match="3 tokens of task and privileged context and 11 in all, the teacher reads at most 10"
    ):
        teacher_views(steady("sss"), "70 71", RENDERER, max_context=10)
    with pytest.raises(ConfigError, match="too_long: unknown 'left'"):
        teacher_views(steady("s"), None, RENDERER, too_long="left")  # type: ignore[arg-type]
    assert len(teacher_views(steady("sss"), "70 71", RENDERER, max_context=11)[0]) == 1


def test_a_cut_drops_the_oldest_steps_and_never_the_privileged_text() -> None:
    """Six steps of 3, the text 1: room for 13 = first step 4 and three more steps of 3."""
    views, failed = teacher_views(steady("ssssss"), "70", RENDERER, max_context=13, too_long="cut")
    assert [(view.token_ids, view.step_spans, view.num_cut_steps) for view in views] == [
        ((70, 0, 50, STOP, 1, 51, STOP, 2, 52, STOP, 3, 53, STOP), ((0, 2, 4), (1, 5, 7), (2, 8, 10), (3, 11, 13)), 0),
        ((70, 0, 50, STOP, 3, 53, STOP, 4, 54, STOP, 5, 55, STOP), ((4, 8, 10), (5, 11, 13)), 2),
    ]
    assert failed == {}


def test_steps_that_fit_no_view_fail_by_themselves() -> None:
    long = make_trajectory("sss", [sampled("50"), sampled("51 52 53 54 55 56"), sampled("57")], ["0", "1", "2", "3"])
    views, failed = teacher_views(long, "70", RENDERER, max_context=9, too_long="cut")
    assert [(view.token_ids, view.step_spans) for view in views] == [
        ((70, 0, 50, STOP), ((0, 2, 4),)),
        ((70, 0, 50, STOP, 2, 57, STOP), ((2, 5, 7),)),
    ]
    assert failed == {1: "too_long"}
    assert teacher_views(long, "70 " * 9, RENDERER, max_context=9, too_long="cut") == (
        [], {0: "too_long", 1: "too_long", 2: "too_long"},
    )  # fmt: skip


@settings(max_examples=60)
@given(
    actors=st.text("se", min_size=1, max_size=12),
    lengths=st.lists(st.integers(1, 6), min_size=12, max_size=12),
    limit=st.integers(4, 60),
    per_step=st.booleans(),
)
def test_every_student_step_is_scored_once_or_fails(
    actors: str, lengths: list[int], limit: int, per_step: bool
) -> None:
    commands = [sampled(" ".join(["50"] * length)) for length in lengths[: len(actors)]]
    trajectory = make_trajectory(actors, commands, ["1"] * (len(actors) + 1))
    views, failed = teacher_views(
        trajectory, "70", RENDERER, Full(), "per_step" if per_step else "whole", max_context=limit, too_long="cut"
    )
    scored = [index for view in views for index, _, _ in view.step_spans]
    assert sorted([*scored, *failed]) == [index for index, actor in enumerate(actors) if actor == "s"]
    for view in views:
        assert len(view.token_ids) <= limit
        assert view.token_ids[:2] == (70, 1)
        for index, start, end in view.step_spans:
            assert view.token_ids[start:end] == trajectory.steps[index].action.token_ids
    for index in failed:
        first = 0 if index == 0 else 2 + lengths[0] + 1
        assert first + 1 + (index == 0) + lengths[index] + 1 > limit


# Scores


def test_scores_by_step() -> None:
    """Sums before and with each id: 70, then 71 73 (1 2), 76 80 179, (5) 6 99, (8) 306 405."""
    assert isinstance(SumScorer(), Scorer)
    [scores], ledger = score_steps([episode()], ["70"], SumScorer(), RENDERER)
    assert scores.logprobs == (pytest.approx((-0.076, -0.080, -0.179)), None, pytest.approx((-0.306, -0.405)))
    assert scores.token_ids == ((3, 4, STOP), None, (9, STOP))
    assert scores.failures == {}
    assert ledger.to_json() == {
        "num_trajectories": 1, "num_steps": 2, "scored_steps": 2, "scored_tokens": 5, "read_tokens": 12,
        "cut_views": 0, "cut_steps": 0, "failed": {},
    }  # fmt: skip


def test_all_trajectories_go_into_one_call_and_failures_are_counted() -> None:
    scorer = SumScorer(bad_id=66)
    good, bad = episode("sss"), replace(episode("sse"), trajectory_id="bad")
    untold = replace(episode("ess"), trajectory_id="untold")
    scores, ledger = score_steps([good, bad, untold], ["70", "66", None], scorer, RENDERER)
    assert [request.request_id for request in scorer.requests] == ["task-1.test.s0.n0.a0/view-0", "bad/view-0"]
    assert [one.trajectory_id for one in scores] == ["task-1.test.s0.n0.a0", "bad", "untold"]
    assert [[step is not None for step in one.steps] for one in scores] == [[True] * 3, [False] * 3, [False] * 3]
    assert scores[1].failures == {0: "server_error", 1: "server_error"}
    assert scores[2].failures == {1: "no_privileged_text", 2: "no_privileged_text"}
    assert ledger.failed == Counter(server_error=2, no_privileged_text=2)
    assert (ledger.num_steps, ledger.scored_steps) == (7, 3)


def test_cut_views_are_counted() -> None:
    trajectories = [steady("ssssss")]
    with pytest.raises(TeacherError, match="reads at most 13"):
        score_steps(trajectories, ["70"], SumScorer(max_context=13), RENDERER)
    [scores], ledger = score_steps(trajectories, ["70"], SumScorer(max_context=13), RENDERER, too_long="cut")
    assert all(step is not None for step in scores.steps)
    assert (ledger.cut_views, ledger.cut_steps, ledger.scored_steps, ledger.read_tokens) == (1, 2, 6, 26)
    _, ledger = score_steps(trajectories, ["70 " * 20], SumScorer(max_context=13), RENDERER, too_long="cut")
    assert ledger.failed == Counter(too_long=6)


def test_another_vocabulary_is_refused() -> None:
    scorer = SumScorer()
    scorer.vocabulary_id = "letters"  # type: ignore[misc]
    with pytest.raises(
        TeacherError,
        match=r"teacher 'sum': its vocabulary is letters, the student's is numbers.*the student's tokenizer",
    ):
        score_steps([episode()], None, scorer, RENDERER)


def test_candidates_come_from_the_students_scores() -> None:
    [student], _ = score_steps([episode()], None, SumScorer(), RENDERER)

    def with_top(scores: TokenScores | None) -> TokenScores | None:
        if scores is None:
            return None
        top = np.arange(len(scores))[:, None] + np.array([10, 20])
        return TokenScores(request_id="s", logprobs=scores.logprobs, top_ids=top)

    told = replace(student, steps=tuple(map(with_top, student.steps)))
    scorer = SumScorer()
    [teacher], _ = score_steps([episode()], ["70"], scorer, RENDERER, access="candidates", candidates_of=[told])
    [request] = scorer.requests
    assert request.candidates is not None
    assert request.candidates.tolist() == [[10, 20], [11, 21], [12, 22], [10, 20], [11, 21]]
    assert teacher.steps[2] is not None
    assert teacher.steps[2].top_ids is not None
    assert teacher.steps[2].top_ids.tolist() == [[10, 20], [11, 21]]
    failed = replace(told, steps=(None, None, told.steps[2]))
    [teacher], ledger = score_steps([episode()], ["70"], scorer, RENDERER, access="candidates", candidates_of=[failed])
    assert (teacher.failures, ledger.failed) == ({0: "no_candidates", 2: "no_candidates"}, Counter(no_candidates=2))
    with pytest.raises(SupervisionError, match="no candidate ids for its 3 tokens"):
        score_steps([episode()], None, scorer, RENDERER, access="candidates", candidates_of=[student])


def test_recorded_log_probabilities_are_scores_too() -> None:
    scores = rollout_scores(episode())
    assert scores.logprobs == ((-0.5, -0.5, -0.5), None, (-0.5, -0.5))
    assert scores.token_ids == ((3, 4, STOP), None, (9, STOP))
    assert scores.failures == {}
    assert rollout_scores(make_trajectory("s")).failures == {0: "not_recorded"}


# Samples


def test_scores_reach_the_samples() -> None:
    trajectory = episode()
    scores, _ = score_steps([trajectory], ["70"], SumScorer(), RENDERER)
    samples = weigh(trajectory, [1.0, 0.0, 2.0])
    [sample], ledger = attach_teacher(samples, scores)
    expected = [None, None, -0.076, -0.080, -0.179, None, None, None, None, -0.306, -0.405]
    assert sample.teacher_logprobs == tuple(None if one is None else pytest.approx(one) for one in expected)
    assert sample.loss_weights == samples[0].loss_weights
    assert sample.loss_mask == samples[0].loss_mask
    assert (ledger.distill_tokens, ledger.masked_tokens, ledger.dropped_samples) == (5, Counter(), 0)


def test_a_failed_row_leaves_the_distill_stream_and_nothing_else() -> None:
    """Weight 0 takes a token out of the normaliser; its policy gradient stays, and no log-probability is made up."""
    trajectory = episode("sss")
    [scores], _ = score_steps([trajectory], ["70"], SumScorer(), RENDERER)
    steps = (scores.steps[0], None, scores.steps[2])
    failed = replace(scores, steps=steps, failures={1: "server_error"})
    [sample], ledger = attach_teacher(weigh(trajectory, [1.0, 1.0, 0.0], pg=[1.0, 1.0, 1.0]), [failed])
    assert sample.teacher_logprobs is not None
    assert [one is not None for one in sample.teacher_logprobs] == [bool(int(one)) for one in "00111000011"]
    assert sample.loss_weights[DISTILL] == (0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0)
    assert sample.loss_weights[PG] == (0, 0, 1, 1, 1, 0, 1, 1, 0, 1, 1)
    assert sample.loss_mask == tuple(bool(one) for one in sample.loss_weights[PG])
    assert (ledger.distill_tokens, ledger.masked_tokens) == (3, Counter(server_error=2))


def test_tokens_and_samples_with_nothing_left_are_dropped() -> None:
    trajectory = episode("sss")
    [scores], _ = score_steps([trajectory], ["70"], SumScorer(), RENDERER)
    half = replace(scores, steps=(scores.steps[0], None, None))
    [sample], ledger = attach_teacher(weigh(trajectory, [1.0, 1.0, 0.0]), [half])
    assert sample.loss_mask == tuple(bool(int(one)) for one in "00111000000")
    assert ledger.masked_tokens == Counter(not_scored=2)
    none, ledger = attach_teacher(weigh(trajectory, [0.0, 1.0, 0.0]), [half])
    assert (none, ledger.dropped_samples, ledger.num_samples) == ([], 1, 1)
    assert ledger.to_json() == {
        "num_samples": 1, "distill_tokens": 0, "masked_tokens": {"not_scored": 2}, "dropped_samples": 1,
    }  # fmt: skip
    unknown, ledger = attach_teacher(weigh(trajectory, [1.0, 0.0, 0.0], pg=[1.0, 1.0, 1.0]), [])
    assert unknown[0].teacher_logprobs == (None,) * 11
    assert ledger.masked_tokens == Counter(not_scored=3)


def test_a_sample_without_distillation_gets_its_scores_as_well() -> None:
    trajectory = episode("sss")
    scores, _ = score_steps([trajectory], None, SumScorer(), RENDERER)
    [plain] = build_samples(trajectory, all_steps(trajectory), RENDERER)
    [sample], ledger = attach_teacher([plain], scores)
    assert sample.teacher_logprobs is not None
    assert sum(one is not None for one in sample.teacher_logprobs) == 7
    assert (sample.loss_weights, ledger.distill_tokens) == (plain.loss_weights, 0)


def test_scores_of_other_ids_are_refused() -> None:
    trajectory = episode("sss")
    [scores], _ = score_steps([trajectory], None, SumScorer(), RENDERER)
    other = TrajectoryScores(
        trajectory_id=scores.trajectory_id, token_ids=((3, 5, STOP), *scores.token_ids[1:]), steps=scores.steps
    )
    with pytest.raises(
        SupervisionError, match=r"step 0: the teacher scored ids \[3, 5, 99\], the sample trains \[3, 4, 99\]"
    ):
        attach_teacher(weigh(trajectory, [1.0, 0.0, 0.0]), [other])
    [sample], _ = attach_teacher(weigh(trajectory, [0.0, 1.0, 0.0]), [other])
    assert sample.teacher_logprobs is not None
    assert sample.teacher_logprobs[:5] == (None,) * 5
