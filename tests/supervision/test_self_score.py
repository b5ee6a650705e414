"""A model finds its own log-probabilities again; a shift, another template, temperature or context is caught."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from tutelage.errors import TeacherError
from tutelage.policies.base import Access, ScoreFailure, ScoreRequest, TokenScores
from tutelage.policies.local import LocalPolicy
from tutelage.policies.privileged import Plan, PrivilegedPolicy
from tutelage.policies.scorer import LocalScorer
from tutelage.rendering.context import LastObservations
from tutelage.rendering.load import load_renderer
from tutelage.rendering.role_tokens import RoleTokenRenderer
from tutelage.rollout.runner import make_jobs, run_rollouts
from tutelage.rollout.switch import Never
from tutelage.students import student_path
from tutelage.supervision.self_score import self_score_check
from tutelage.tasks.registry import load_tasks
from tutelage.testing import make_trajectory
from tutelage.types import Action, Actor, Observation, Trajectory

TINY = "builtin:household_tiny"
TEMPERATURE = 0.7
TASKS = load_tasks("household", "train", 0, 6, size="small", max_steps=8)
RENDERER = load_renderer(student_path(TINY))


def play(policy: LocalPolicy | PrivilegedPolicy) -> list[Trajectory]:
    jobs = make_jobs(TASKS, seed=0)
    return list(run_rollouts(jobs, policies={Actor.STUDENT: policy}, rule=Never()).trajectories)


@pytest.fixture(scope="module")
def trajectories() -> list[Trajectory]:
    return play(LocalPolicy(TINY, temperature=TEMPERATURE))


@pytest.fixture(scope="module")
def scorer() -> LocalScorer:
    return LocalScorer(TINY, temperature=TEMPERATURE, name="itself")


def test_a_model_finds_its_own_log_probabilities(scorer: LocalScorer, trajectories: list[Trajectory]) -> None:
    found = self_score_check(scorer, trajectories, RENDERER)
    assert found.num_tokens == sum(len(step.action.token_ids or ()) for one in trajectories for step in one.steps)
    assert found.num_tokens > 100
    assert abs(found.mean) <= found.mean_abs < 1e-5
    assert found.max_abs < 1e-4
    assert f"{found.num_tokens} tokens, mean difference" in str(found)


def test_greedy_play_is_found_at_temperature_1() -> None:
    assert self_score_check(LocalScorer(TINY), play(LocalPolicy(TINY, temperature=0.0)), RENDERER).mean_abs < 1e-5


def test_under_a_context_rule_and_with_privilege(scorer: LocalScorer) -> None:
    rule = LastObservations(2)
    shortened = play(LocalPolicy(TINY, temperature=TEMPERATURE, context_rule=rule))
    assert self_score_check(scorer, shortened, RENDERER, rule, "per_step").mean_abs < 1e-5
    with pytest.raises(TeacherError, match="another chat template, renderer or context rule"):
        self_score_check(scorer, shortened, RENDERER)
    plan = Plan("shortest")
    told = play(PrivilegedPolicy(LocalPolicy(TINY, temperature=TEMPERATURE), plan))
    texts = [plan.text(task) for task in TASKS]
    assert self_score_check(scorer, told, RENDERER, texts=texts).mean_abs < 1e-5
    with pytest.raises(TeacherError, match="does not find its own log-probabilities again"):
        self_score_check(scorer, told, RENDERER)


@pytest.mark.parametrize("shift", [-1, 1])
def test_a_shift_by_one_is_caught(trajectories: list[Trajectory], shift: int) -> None:
    class Shifted(LocalScorer):
        """Reads the model's output one position early or late."""

        def score(
            self, requests: Sequence[ScoreRequest], access: Access = "sampled", *, k: int = 64
        ) -> list[TokenScores | ScoreFailure]:
            moved = [
                replace(one, token_ids=np.append(one.token_ids, 0), positions=one.positions + shift) for one in requests
            ]
            return [
                TokenScores(request_id=one.request_id, logprobs=np.take_along_axis(answer.full, ids[:, None], 1)[:, 0])
                for one, answer in zip(requests, super().score(moved, "full"), strict=True)
                if isinstance(answer, TokenScores) and answer.full is not None
                for ids in [one.token_ids[one.positions]]
            ]

    with pytest.raises(TeacherError, match="positions shifted by one"):
        self_score_check(Shifted(TINY, temperature=TEMPERATURE), trajectories, RENDERER)


def test_another_template_is_caught(scorer: LocalScorer, trajectories: list[Trajectory]) -> None:
    class Unprompted(RoleTokenRenderer):
        """Leaves the generation prompt out."""

        def observation_ids(self, observation: Observation, *, after: Action | None) -> list[int]:
            return super().observation_ids(observation, after=after)[:-1]

    with pytest.raises(TeacherError, match="another chat template"):
        self_score_check(scorer, trajectories, Unprompted.from_folder(student_path(TINY)))


def test_another_temperature_is_caught(trajectories: list[Trajectory]) -> None:
    with pytest.raises(TeacherError, match=r"another temperature \(this scorer has 1\)"):
        self_score_check(LocalScorer(TINY, temperature=1.0), trajectories, RENDERER)


def test_nothing_to_check_is_an_error(scorer: LocalScorer) -> None:
    with pytest.raises(
        TeacherError, match="teacher 'itself': no token to check in 1 trajectories with 1 student steps"
    ):
        self_score_check(scorer, [make_trajectory("s", ["look"])], RENDERER)
