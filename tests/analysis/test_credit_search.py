"""The search: its grid, its signals against the aptitude's, its order."""

from __future__ import annotations

import numpy as np
import pytest

from tutelage.analysis.credit_search import (
    Audited,
    Found,
    candidate_signals,
    candidates,
    search_signals,
    signal_scores,
)
from tutelage.analysis.ranks import average_ranks, hit_share, rank_correlation
from tutelage.envs.registry import make_env
from tutelage.policies.experts.household import HouseholdExpert
from tutelage.policies.scripted import RandomPolicy, ScriptedPolicy
from tutelage.rollout.episode import run_episode
from tutelage.rollout.switch import AtStep, Never
from tutelage.supervision.aptitude import AptitudeConfig, step_aptitude
from tutelage.supervision.dependency_graph import build_graph
from tutelage.supervision.footprints import KINDS, footprints_of
from tutelage.supervision.replay_impact import replay_impact
from tutelage.tasks.registry import load_tasks
from tutelage.types import Actor, Task


@pytest.fixture(scope="module")
def audited() -> list[Audited]:
    return [play(task) for task in load_tasks("household", "train", 0, 4)]


def play(task: Task) -> Audited:
    env = make_env(task)
    policies = {
        Actor.STUDENT: RandomPolicy(lambda so_far: env.admissible() or (), seed=1),
        Actor.EXPERT: HouseholdExpert(),
    }
    trajectory = run_episode(task, env, policies, AtStep(5), seed=0)
    return Audited(trajectory, task, replay_impact(trajectory, task))


def test_the_grid_has_every_candidate_once() -> None:
    grid = candidates()
    assert len({one.config_id for one in grid}) == len(set(grid)) == len(grid)
    assert {one.footprints for one in grid} == set(KINDS)
    published = AptitudeConfig(footprints="text", alpha=0.0)
    assert published in grid
    assert {one.footprints for one in candidates(["needs"])} == {"needs"}
    assert len(candidates(["needs"])) == len(grid) / len(KINDS)


def test_signals_rank_steps_like_the_aptitude(audited: list[Audited]) -> None:
    grid = candidates()[::37]
    for trajectory, task, _ in audited[:2]:
        signals = candidate_signals(trajectory, task, grid)
        for config, signal in zip(grid, signals, strict=True):
            graph = build_graph(footprints_of(trajectory, config.footprints, task), writer=config.writer)
            expected = np.array(step_aptitude(graph, None, config).l_graph)
            assert average_ranks(np.round(signal, 7)).tolist() == average_ranks(np.round(expected, 7)).tolist()


def test_scores_are_those_of_the_audit(audited: list[Audited]) -> None:
    grid = [
        AptitudeConfig(footprints="text", alpha=0.0),
        AptitudeConfig(footprints="needs", alpha=0.0, structure="degree"),
    ]
    told: list[int] = []
    rho, hit = signal_scores(audited, grid, on_progress=told.append)
    assert told == [1, 2, 3, 4]
    trajectory, task, impact = audited[2]
    signals, target = candidate_signals(trajectory, task, grid), np.array(impact.impact)
    assert rho[2].tolist() == rank_correlation(signals, target).tolist()
    assert hit[2].tolist() == hit_share(signals, target).tolist()


def test_the_best_comes_first_and_of_equals_the_earlier(audited: list[Audited]) -> None:
    impact_like = AptitudeConfig(footprints="causal", alpha=0.0, structure="graph_impact")
    walk = AptitudeConfig(footprints="text", alpha=0.0)
    same = AptitudeConfig(footprints="text", alpha=0.0, dangling="self")
    found = search_signals(audited, [same, walk, impact_like])
    assert found[0].config == impact_like
    assert [one.objective for one in found] == sorted((one.objective for one in found), reverse=True)
    assert Found(config=walk, rho=0.5, hit=0.3).objective == 0.4
    tied = search_signals(audited[:1], [walk, walk])
    assert [one.config for one in tied] == [walk, walk]


def test_nothing_to_rank_by_is_refused() -> None:
    with pytest.raises(ValueError, match="no trajectory given"):
        signal_scores([], candidates()[:1])
    task = load_tasks("household", "train", 0, 1, max_steps=2)[0]
    policies = {Actor.STUDENT: ScriptedPolicy(["look", "look"])}
    trajectory = run_episode(task, make_env(task), policies, Never(), seed=0)
    with pytest.raises(ValueError, match="constant impact, nothing to rank by"):
        signal_scores([Audited(trajectory, task, replay_impact(trajectory, task))], candidates()[:1])
