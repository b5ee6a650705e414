"""Teacher scores for the student's steps, and how they reach the samples.

    scores, ledger = score_steps(trajectories, texts, scorer, renderer, context_rule)
    samples, attached = attach_teacher(samples, scores)

The teacher reads its own context and then exactly the ids that the student sampled (`teacher_views`). A step without
scores is None, leaves the distill stream and is counted; nothing is ever filled with zeros.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tutelage.errors import SupervisionError, TeacherError
from tutelage.policies.base import Access, ScoreFailure, Scorer, ScoreRequest, TokenScores
from tutelage.rendering.base import Renderer
from tutelage.rendering.context import ContextRule, Full
from tutelage.rendering.episode import answer_to, made_ids
from tutelage.supervision.samples import Layout
from tutelage.supervision.teacher_views import TeacherView, TooLong, teacher_views
from tutelage.types import Actor, LossComponent, TrainingSample, Trajectory

NO_TEXT = "no_privileged_text"
"""Why a trajectory was not scored: its context had nothing to tell, e.g. no peer succeeded."""

NO_CANDIDATES = "no_candidates"
"""Why a step was not scored at the student's top ids: the student's own scores failed."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class TrajectoryScores:
    """What one scorer says of the student steps of one trajectory."""

    trajectory_id: str
    token_ids: tuple[tuple[int, ...] | None, ...]
    """[N] the scored ids of each step, the stop token included. None: not scored."""
    steps: tuple[TokenScores | None, ...]
    """[N] None: an expert's step, or a failed one."""
    failures: Mapping[int, str] = field(default_factory=dict)
    """Step index -> why it has no scores."""

    @property
    def logprobs(self) -> tuple[tuple[float, ...] | None, ...]:
        """[N] log-probabilities of the scored ids, one tuple per step."""
        return tuple(None if one is None else tuple(map(float, one.logprobs)) for one in self.steps)


@dataclass(kw_only=True, slots=True)
class TeacherLedger:
    """What became of the student steps: num_steps = scored_steps + sum(failed)."""

    num_trajectories: int = 0
    num_steps: int = 0
    """Student steps."""
    scored_steps: int = 0
    scored_tokens: int = 0
    read_tokens: int = 0
    """Tokens the scorer read for it."""
    cut_views: int = 0
    """Token strings that left out old steps to fit."""
    cut_steps: int = 0
    """Steps scored with such a string."""
    failed: Counter[str] = field(default_factory=Counter)
    """Student steps without scores, by reason."""

    def to_json(self) -> dict[str, Any]:
        """Plain values, for a summary file."""
        return asdict(self) | {"failed": dict(self.failed)}


def score_steps(
    trajectories: Sequence[Trajectory],
    texts: Sequence[str | None] | None,
    scorer: Scorer,
    renderer: Renderer,
    context_rule: ContextRule = Full(),
    layout: Layout = "whole",
    *,
    access: Access = "sampled",
    k: int = 64,
    candidates_of: Sequence[TrajectoryScores] | None = None,
    too_long: TooLong = "error",
) -> tuple[list[TrajectoryScores], TeacherLedger]:
    """Score the student steps of all trajectories in one call to the scorer.

    texts: one privileged text per trajectory; an entry None leaves its trajectory unscored. None for all: the scorer
    reads what the student read (another model as teacher, the reference, or the student itself).
    context_rule, layout: of the teacher; they need not be the student's.
    candidates_of: with the access ``candidates``, the scores whose `top_ids` are asked for, one per trajectory.

    Raises:
        TeacherError: another vocabulary, an access the scorer does not have, a view too long for it.
        SupervisionError: see `teacher_views`.
    """
    check_vocabulary(scorer, renderer)
    ledger = TeacherLedger(num_trajectories=len(trajectories))
    views: list[TeacherView] = []
    failures: list[dict[int, str]] = []
    candidates = {one.trajectory_id: one for one in candidates_of or ()}
    given = [None] * len(trajectories) if texts is None else texts
    for trajectory, text in zip(trajectories, given, strict=True):
        student_steps = [index for index, step in enumerate(trajectory.steps) if step.actor is Actor.STUDENT]
        ledger.num_steps += len(student_steps)
        if texts is not None and text is None:
            failures.append(dict.fromkeys(student_steps, NO_TEXT))
            continue
        made, failed = teacher_views(
            trajectory, text, renderer, context_rule, layout, max_context=scorer.max_context, too_long=too_long
        )
        for view in made:
            if _lacks_candidates(view, candidates.get(trajectory.trajectory_id)):
                failed |= {step_index: NO_CANDIDATES for step_index, _, _ in view.step_spans}
            else:
                views.append(view)
        failures.append(failed)
    requests = [_request(view, candidates.get(view.trajectory_id)) for view in views]
    answers = scorer.score(requests, access, k=k)
    collected = _collect(views, answers, ledger)
    scores = []
    for trajectory, failed in zip(trajectories, failures, strict=True):
        steps, more = collected.get(trajectory.trajectory_id, ({}, {}))
        scores.append(_scores_of(trajectory, steps, {**failed, **more}, renderer))
        ledger.failed.update(scores[-1].failures.values())
    return scores, ledger


def check_vocabulary(scorer: Scorer, renderer: Renderer) -> None:
    """Raise TeacherError if the scorer reads ids as other tokens than the student writes."""
    if scorer.vocabulary_id != renderer.vocabulary_id:
        raise TeacherError(
            f"its vocabulary is {scorer.vocabulary_id}, the student's is {renderer.vocabulary_id}"
            f"{_first_difference(scorer, renderer)}. The student's token "
            "ids mean other texts to it, so its log-probabilities would mean nothing. Take a teacher with the "
            "student's tokenizer.",
            name=scorer.name,
        )


def _first_difference(scorer: Scorer, renderer: Renderer) -> str:
    """The first two ids that mean other bytes to the two, in words. Empty if the scorer does not tell its texts."""
    theirs: Renderer | None = getattr(scorer, "renderer", None)
    if theirs is None:
        return ""
    shared = range(min(renderer.vocab_size, theirs.vocab_size))
    pairs = ((index, _bytes(theirs, index), _bytes(renderer, index)) for index in shared)
    differing = islice(((index, a, b) for index, a, b in pairs if a != b), 2)
    told = [f"id {index} is {a!r} to it and {b!r} to the student" for index, a, b in differing]
    return f" ({'; '.join(told)})" if told else ""


def _bytes(renderer: Renderer, token_id: int) -> bytes:
    return renderer.decode([token_id]).encode("utf-8", "surrogatepass")


def rollout_scores(trajectory: Trajectory) -> TrajectoryScores:
    """The log-probabilities recorded when the trajectory was sampled, as scores with the access ``sampled``."""
    steps: list[TokenScores | None] = []
    for index, step in enumerate(trajectory.steps):
        logprobs = step.action.rollout_logprobs if step.actor is Actor.STUDENT else None
        request_id = f"{trajectory.trajectory_id}/step-{index}"
        recorded = None if logprobs is None else TokenScores(request_id=request_id, logprobs=np.array(logprobs))
        steps.append(recorded)
    return TrajectoryScores(
        trajectory_id=trajectory.trajectory_id,
        token_ids=tuple(
            None if score is None else step.action.token_ids
            for score, step in zip(steps, trajectory.steps, strict=True)
        ),
        steps=tuple(steps),
        failures={
            index: "not_recorded"
            for index, (score, step) in enumerate(zip(steps, trajectory.steps, strict=True))
            if score is None and step.actor is Actor.STUDENT
        },
    )


def _request(view: TeacherView, candidates: TrajectoryScores | None) -> ScoreRequest:
    positions = [np.arange(start, end) for _, start, end in view.step_spans]
    return ScoreRequest(
        request_id=view.view_id,
        token_ids=np.array(view.token_ids, dtype=np.int64),
        positions=np.concatenate(positions),
        candidates=None if candidates is None else _candidates(view, candidates),
    )


def _lacks_candidates(view: TeacherView, scores: TrajectoryScores | None) -> bool:
    """Whether the student's own scores failed for a step of the view."""
    return scores is not None and any(scores.steps[step_index] is None for step_index, _, _ in view.step_spans)


def _candidates(view: TeacherView, scores: TrajectoryScores) -> NDArray[np.int64]:
    parts = []
    for step_index, start, end in view.step_spans:
        step = scores.steps[step_index]
        if step is None or step.top_ids is None or len(step) != end - start:
            raise SupervisionError(
                f"trajectory {view.trajectory_id}, step {step_index}: no candidate ids for its {end - start} tokens. "
                "Score the student with the access 'topk' first."
            )
        parts.append(step.top_ids)
    return np.concatenate(parts)


def _collect(
    views: Sequence[TeacherView], answers: Sequence[TokenScores | ScoreFailure], ledger: TeacherLedger
) -> dict[str, tuple[dict[int, TokenScores], dict[int, str]]]:
    """Trajectory id -> scores and failures by step index."""
    collected: dict[str, tuple[dict[int, TokenScores], dict[int, str]]] = {}
    for view, answer in zip(views, answers, strict=True):
        steps, failed = collected.setdefault(view.trajectory_id, ({}, {}))
        if isinstance(answer, ScoreFailure):
            failed |= {step_index: answer.reason for step_index, _, _ in view.step_spans}
            continue
        first = 0
        for step_index, start, end in view.step_spans:
            steps[step_index] = answer.part(first, first + end - start)
            first += end - start
        if first != len(answer):
            raise SupervisionError(f"view {view.view_id}: {len(answer)} scores for {first} positions")
        ledger.scored_steps += len(view.step_spans)
        ledger.scored_tokens += first
        ledger.read_tokens += len(view.token_ids)
        if view.num_cut_steps:
            ledger.cut_views += 1
            ledger.cut_steps += len(view.step_spans)
    return collected


def _scores_of(
    trajectory: Trajectory, steps: Mapping[int, TokenScores], failures: dict[int, str], renderer: Renderer
) -> TrajectoryScores:
    return TrajectoryScores(
        trajectory_id=trajectory.trajectory_id,
        token_ids=tuple(
            tuple(made_ids(step.action, answer_to(trajectory, index), renderer)) if index in steps else None
            for index, step in enumerate(trajectory.steps)
        ),
        steps=tuple(steps.get(index) for index in range(len(trajectory.steps))),
        failures=failures,
    )


# Into the samples


@dataclass(kw_only=True, slots=True)
class AttachLedger:
    """What the teacher's scores did to the distill stream: num_samples = those given back + dropped_samples."""

    num_samples: int = 0
    distill_tokens: int = 0
    """Tokens with a distill weight and a teacher score."""
    masked_tokens: Counter[str] = field(default_factory=Counter)
    """Tokens that lost their distill weight for want of a score, by reason."""
    dropped_samples: int = 0
    """Samples in which no token is trained any more."""

    def to_json(self) -> dict[str, Any]:
        """Plain values, for a summary file."""
        return asdict(self) | {"masked_tokens": dict(self.masked_tokens)}


def attach_teacher(
    samples: Sequence[TrainingSample], scores: Sequence[TrajectoryScores]
) -> tuple[list[TrainingSample], AttachLedger]:
    """The samples with `teacher_logprobs`, None at tokens that were not scored.

    A token without a score loses its distill weight, so it leaves the normaliser too; its other weights stay. A sample
    in which nothing is left to train is dropped and counted.

    Example, distill weights 0 0 1 1 0 2, the last step failed:
      teacher_logprobs   . . -.1 -.4 . .
      distill weights    0 0 1 1 0 0

    Raises SupervisionError if a sample trains other ids at a scored step than the teacher scored.
    """
    by_id = {one.trajectory_id: one for one in scores}
    ledger = AttachLedger(num_samples=len(samples))
    attached = [one for sample in samples for one in [_attach(sample, by_id.get(sample.trajectory_id), ledger)] if one]
    ledger.dropped_samples = len(samples) - len(attached)
    return attached, ledger


def _attach(sample: TrainingSample, scores: TrajectoryScores | None, ledger: AttachLedger) -> TrainingSample | None:
    logprobs: list[float | None] = [None] * len(sample.token_ids)
    reasons = ["not_scored"] * len(sample.token_ids)
    weights = list(sample.loss_weights.get(LossComponent.DISTILL, ()))
    for step_index, start, end in sample.step_spans if scores is not None else ():
        assert scores is not None
        step, ids = scores.steps[step_index], scores.token_ids[step_index]
        reasons[start:end] = [scores.failures.get(step_index, "not_scored")] * (end - start)
        if step is None:
            continue
        if ids == sample.token_ids[start:end]:
            logprobs[start:end] = step.logprobs.tolist()
        elif any(weights[start:end]):
            raise SupervisionError(
                f"sample {sample.sample_id}, step {step_index}: the teacher scored ids {list(ids or ())}, the sample "
                f"trains {list(sample.token_ids[start:end])}. Build the samples and the scores from the same trajectory."
            )
    masked = [index for index, weight in enumerate(weights) if weight > 0.0 and logprobs[index] is None]
    ledger.masked_tokens.update(reasons[index] for index in masked)
    ledger.distill_tokens += sum(weight > 0.0 for weight in weights) - len(masked)
    for index in masked:
        weights[index] = 0.0
    loss_weights = dict(sample.loss_weights)
    loss_mask = list(sample.loss_mask)
    if masked:
        loss_weights[LossComponent.DISTILL] = tuple(weights)
        for index in masked:
            loss_mask[index] = any(stream[index] > 0.0 for stream in loss_weights.values())
        if not any(loss_mask):
            return None
    return replace(sample, teacher_logprobs=tuple(logprobs), loss_weights=loss_weights, loss_mask=tuple(loss_mask))
