"""A teacher's guidance of a round: which of the student's own steps it teaches, and what it thinks of their tokens.

teacher reads its context and the sampled ids -> divergence per step -+-> aptitude -> chosen steps -> Guidance
footprints of the episode -> dependency graph -> credit per step -----+
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from tutelage.errors import ConfigError, TeacherError
from tutelage.policies.base import Scorer
from tutelage.policies.privileged import PrivilegedContext
from tutelage.policies.scorer import LocalScorer, Refresh, SelfScorer
from tutelage.rendering.base import Renderer
from tutelage.supervision.aptitude import IMPACT, AptitudeConfig
from tutelage.supervision.dependency_graph import build_graph
from tutelage.supervision.distill import TeacherLedger, TrajectoryScores, check_vocabulary, rollout_scores, score_steps
from tutelage.supervision.divergence import Direction, check_divergence, step_divergence
from tutelage.supervision.footprints import footprints_of
from tutelage.supervision.graph_statistics import graph_statistics, round_statistics
from tutelage.supervision.replay_impact import ReplayRejected, replay_impact
from tutelage.supervision.self_score import self_score_check
from tutelage.supervision.step_credit import MaskConfig, needs_graph, weigh_steps
from tutelage.supervision.teacher_views import TooLong
from tutelage.training.rl_round import Guidance, GuidedRound, Play
from tutelage.types import Actor, Task, Trajectory, TrajectoryGroup

CHUNK: Final = 32
"""Trajectories whose whole distributions are held at once."""


@dataclass(frozen=True, kw_only=True)
class GuideConfig:
    """What a teacher's guidance is made of, apart from the teacher."""

    step_weights: tuple[AptitudeConfig, MaskConfig]
    """From `step_weights`, e.g. ``step_weights("graphopd", alpha=0.2)``."""
    divergence: str = "full_kl"
    """A name of `DIVERGENCES`."""
    direction: Direction = "reverse"
    k: int = 64
    """Ids of ``topk_kl``."""
    too_long: TooLong = "error"
    refresh: Refresh = "fixed"
    """Of a teacher that is the student itself; see `SelfScorer`."""
    every_n: int = 10
    tau: float = 0.9
    self_score_tolerance: float = 1e-3
    """Nats by which a model may miss its own log-probabilities in the first round, on average."""
    seed: int = 0


class TeacherGuide:
    """Guides by a scorer: another model's, or the student's own with a privileged context.

    teacher: a model folder, a scorer (e.g. an endpoint's), or None for the student itself.
    context: what the teacher is told. None: it reads what the student read.
    """

    def __init__(
        self,
        config: GuideConfig,
        renderer: Renderer,
        *,
        teacher: str | Path | Scorer | None = None,
        context: PrivilegedContext | None = None,
        play: Play = Play(),
        temperature: float = 1.0,
        context_identity: Mapping[str, Any] | None = None,
        micro_batch_tokens: int = 8192,
        row_layout: Any = "packed",
        dtype: str = "float32",
    ) -> None:
        if teacher is None and context is None:
            raise ConfigError("teacher: the student itself, told nothing more, has nothing to teach. Give a context.")
        self.config = config
        self.renderer = renderer
        self.context = context
        self.play = play
        self._teacher = teacher
        named = teacher.version if isinstance(teacher, Scorer) else str(teacher)
        self._identity = {"teacher": named, "context": dict(context_identity or {}), **_plain(config)}
        self._options: dict[str, Any] = {
            "temperature": temperature,
            "vocabulary_id": None if teacher else renderer.vocabulary_id,
            "micro_batch_tokens": micro_batch_tokens,
            "row_layout": row_layout,
            "dtype": dtype,
        }
        self._scorer: Scorer | None = None
        self._checked = False
        self._round: dict[str, tuple[Trajectory, str | None]] = {}

    @property
    def scorer(self) -> Scorer:
        """The teacher, once it is attached to a training."""
        assert self._scorer is not None, "attach comes first"
        return self._scorer

    def attach(self, student: Any, state: Mapping[str, Any] | None) -> None:
        """Make the teacher. `student`: the module in training; `state`: of the checkpoint, if there is one."""
        config = self.config
        if isinstance(self._teacher, Scorer):
            if self._teacher.temperature != self._options["temperature"]:
                raise TeacherError(
                    f"scores at temperature {self._teacher.temperature:g}, the rollouts have "
                    f"{self._options['temperature']:g}; they are not of one distribution",
                    name=self._teacher.name,
                )
            self._scorer = self._teacher
        elif self._teacher is not None:
            self._scorer = LocalScorer(self._teacher, **self._options)
        else:
            following = SelfScorer(
                student, refresh=config.refresh, every_n=config.every_n, tau=config.tau, **self._options
            )
            if state is not None:
                following.load_state_dict(dict(state["teacher"]))
            self._scorer = following
        self._checked = state is not None
        check_vocabulary(self._scorer, self.renderer)
        check_divergence(config.divergence, self._scorer)

    def state(self) -> Mapping[str, Any]:
        """Of a teacher that follows its student."""
        return {"teacher": self._scorer.state_dict() if isinstance(self._scorer, SelfScorer) else None}

    def identity(self) -> Mapping[str, Any]:
        """Plain values that tell this guide from another."""
        return self._identity

    def guide(
        self, groups: Sequence[TrajectoryGroup], tasks: Mapping[str, Task], student: Scorer, round_index: int
    ) -> GuidedRound:
        """Score and weigh the scored episodes of a round. What the teacher cannot score is masked and counted."""
        if isinstance(self.scorer, SelfScorer):
            self.scorer.on_round(round_index)
        found = [
            (trajectory, group.trajectories)
            for group in groups
            for trajectory in group.trajectories
            if trajectory.reward is not None and trajectory.steps
        ]
        texts = {
            one.trajectory_id: None if self.context is None else self.context.text(tasks[one.task_id], one, peers)
            for one, peers in found
        }
        trajectories = [one for one, _ in found]
        self._round = {one.trajectory_id: (one, texts[one.trajectory_id]) for one in trajectories}
        if not self._checked and trajectories:
            tolerance = self.config.self_score_tolerance
            self_score_check(
                student,
                trajectories[:CHUNK],
                self.renderer,
                self.play.context_rule,
                self.play.layout,
                tolerance=tolerance,
            )
            self._checked = True
        totals = _Totals()
        guidance: dict[str, Guidance] = {}
        for first in range(0, len(trajectories), CHUNK):
            for trajectory, mine, theirs in self._scored(trajectories[first : first + CHUNK], student, totals):
                guidance[trajectory.trajectory_id] = self._weigh(trajectory, tasks, mine, theirs, totals)
        return GuidedRound(
            guidance=guidance, metrics=totals.metrics(trajectories), teacher_tokens=totals.ledger["read_tokens"]
        )

    def distributions(self, trajectory_ids: Sequence[str]) -> dict[str, TrajectoryScores]:
        """Whole distributions of the teacher at the student's tokens, for trajectories of the round that was guided."""
        chosen = [self._round[one] for one in trajectory_ids]
        texts = None if self.context is None else [text for _, text in chosen]
        scores, _ = self._score(self.scorer, [trajectory for trajectory, _ in chosen], texts, access="full")
        return {one.trajectory_id: one for one in scores}

    def _score(
        self, scorer: Scorer, trajectories: Sequence[Trajectory], texts: Sequence[str | None] | None, **options: Any
    ) -> tuple[list[TrajectoryScores], TeacherLedger]:
        return score_steps(
            trajectories, texts, scorer, self.renderer, self.play.context_rule, self.play.layout,
            too_long=self.config.too_long, k=self.config.k, **options,
        )  # fmt: skip

    def _scored(
        self, trajectories: Sequence[Trajectory], student: Scorer, totals: _Totals
    ) -> Iterator[tuple[Trajectory, TrajectoryScores, TrajectoryScores]]:
        """Each trajectory with the student's and the teacher's scores of its steps."""
        needs = check_divergence(self.config.divergence, self.scorer, student=student)
        texts = None if self.context is None else [self._round[one.trajectory_id][1] for one in trajectories]
        if needs.student == "sampled":
            mine = [rollout_scores(one) for one in trajectories]
        else:
            mine, _ = self._score(student, trajectories, None, access=needs.student)
        candidates = {"candidates_of": mine} if needs.teacher == "candidates" else {}
        theirs, ledger = self._score(self.scorer, trajectories, texts, access=needs.teacher, **candidates)
        totals.add_ledger(ledger)
        yield from zip(trajectories, mine, theirs, strict=True)

    def _weigh(
        self,
        trajectory: Trajectory,
        tasks: Mapping[str, Task],
        mine: TrajectoryScores,
        theirs: TrajectoryScores,
        totals: _Totals,
    ) -> Guidance:
        config = self.config
        divergence = step_divergence(config.divergence, mine, theirs, config.direction)
        num_tokens = [0 if ids is None else len(ids) for ids in theirs.token_ids]
        began = time.perf_counter()
        footprints = None
        if needs_graph(config.step_weights):
            kind = config.step_weights[0].footprints
            footprints = footprints_of(trajectory, kind, tasks[trajectory.task_id])
        totals.graph_seconds += time.perf_counter() - began
        impact = self._impact(trajectory, tasks[trajectory.task_id], totals)
        began = time.perf_counter()
        chosen, aptitude = weigh_steps(
            config.step_weights,
            trajectory,
            footprints,
            divergence,
            [step.actor is Actor.STUDENT for step in trajectory.steps],
            num_tokens,
            seed=config.seed,
            impact=impact,
        )
        totals.graph_seconds += time.perf_counter() - began
        if footprints is not None:
            graph = build_graph(
                footprints, writer=config.step_weights[0].writer, ignore_keys=config.step_weights[0].ignore_keys
            )
            totals.figures.append(graph_statistics(graph, aptitude, chosen, num_tokens))
        totals.add_steps(chosen.step_mask, divergence)
        totals.add_gaps(trajectory, theirs)
        # Only the numbers of the sampled tokens are kept: whole distributions of a round would fill the memory.
        bare = tuple(
            None if one is None else replace(one, full=None, top_ids=None, top_logprobs=None) for one in theirs.steps
        )
        return Guidance(step_weights=chosen.step_weights, scores=replace(theirs, steps=bare))

    def _impact(self, trajectory: Trajectory, task: Task, totals: _Totals) -> tuple[float, ...] | None:
        """What the environment says of each step, where the weights ask for it. A record it rejects has no impact."""
        if self.config.step_weights[0].structure != IMPACT:
            return None
        began = time.perf_counter()
        try:
            measured = replay_impact(trajectory, task, self.play.make_env).impact
        except ReplayRejected as error:
            totals.ledger[f"impact_{error.reason}"] += 1
            measured = (0.0,) * len(trajectory.steps)
        totals.impact_seconds += time.perf_counter() - began
        return measured


class _Totals:
    """What is summed up over the trajectories of a round."""

    def __init__(self) -> None:
        self.ledger: Counter[str] = Counter()
        self.figures: list[dict[str, float]] = []
        self.gaps: list[float] = []
        self.divergences: list[float] = []
        self.kept_steps = 0
        self.graph_seconds = 0.0
        self.impact_seconds = 0.0

    def add_ledger(self, ledger: TeacherLedger) -> None:
        for name, value in ledger.to_json().items():
            self.ledger.update({f"failed_{k}": v for k, v in value.items()} if name == "failed" else {name: value})

    def add_steps(self, mask: Sequence[bool], divergence: Sequence[float | None]) -> None:
        self.kept_steps += sum(mask)
        self.divergences += [one for one in divergence if one is not None]

    def add_gaps(self, trajectory: Trajectory, theirs: TrajectoryScores) -> None:
        """Teacher's minus student's log-probability of each token that both have."""
        for step, scored in zip(trajectory.steps, theirs.steps, strict=True):
            recorded = step.action.rollout_logprobs
            if scored is not None and recorded is not None:
                self.gaps += (np.asarray(scored.logprobs, np.float64) - recorded).tolist()

    def metrics(self, trajectories: Sequence[Trajectory]) -> dict[str, float]:
        if trajectories and not self.ledger["scored_steps"]:
            reasons = {name: count for name, count in self.ledger.items() if name.startswith("failed_")}
            raise TeacherError(f"it scored no step of {len(trajectories)} episodes: {reasons}", name="teacher")
        gaps = np.array(self.gaps)
        return {
            "teacher/scored_steps": float(self.ledger["scored_steps"]),
            "teacher/failed_steps": float(sum(v for k, v in self.ledger.items() if k.startswith("failed_"))),
            "teacher/cut_steps": float(self.ledger["cut_steps"]),
            "teacher/read_tokens": float(self.ledger["read_tokens"]),
            "distill/gap": float(gaps.mean()) if len(gaps) else 0.0,
            "distill/positive_gap_share": float((gaps > 0).mean()) if len(gaps) else 0.0,
            "distill/divergence": float(np.mean(self.divergences)) if self.divergences else 0.0,
            "distill/taught_steps": float(self.kept_steps),
            "distill/taught_share": self.kept_steps / max(1, self.ledger["scored_steps"]),
            "time/graph_seconds": self.graph_seconds,
            "time/impact_seconds": self.impact_seconds,
        } | round_statistics(self.figures, [(one.reward or 0.0) > 0 for one in trajectories] if self.figures else None)


def _plain(config: GuideConfig) -> dict[str, Any]:
    aptitude, mask = config.step_weights
    return {**asdict(config), "step_weights": [asdict(aptitude), asdict(mask)]}
