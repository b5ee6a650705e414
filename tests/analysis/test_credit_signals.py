"""Signals by name: what each is made of, who lacks one, names that are none."""

from __future__ import annotations

import pytest

from tutelage.analysis.credit_signals import (
    CONTROLS,
    DEFAULT_SIGNALS,
    GRAPH_SIGNALS,
    SIGNALS,
    check_signals,
    default_signals,
    signals_of,
)
from tutelage.envs.registry import make_env
from tutelage.errors import ConfigError, SupervisionError
from tutelage.policies.scripted import ScriptedPolicy
from tutelage.rollout.episode import run_episode
from tutelage.rollout.switch import Never
from tutelage.supervision.aptitude import normalise, step_aptitude
from tutelage.supervision.dependency_graph import build_graph
from tutelage.supervision.footprints import KINDS, footprints_of
from tutelage.tasks.registry import load_tasks
from tutelage.testing import make_trajectory
from tutelage.types import Actor, Task, Trajectory

COMMANDS = [
    "go to sinkbasin 1",
    "go to countertop 1",
    "take soapbar 3 from countertop 1",
    "go to cabinet 1",
    "open cabinet 1",
    "move soapbar 3 to cabinet 1",
]


@pytest.fixture(scope="module")
def task() -> Task:
    return load_tasks("household", "train", 0, 1)[0]


@pytest.fixture(scope="module")
def trajectory(task: Task) -> Trajectory:
    return run_episode(task, make_env(task), {Actor.STUDENT: ScriptedPolicy(COMMANDS)}, Never(), seed=0)


def test_example_1(task: Task, trajectory: Trajectory) -> None:
    signals = signals_of(trajectory, task, SIGNALS)
    assert list(signals) == [name for name in SIGNALS if name not in ("divergence", "aptitude")]
    # Example 1 of the specification: its z of pi symmetrised, and of the degrees.
    assert signals["l_graph"] == pytest.approx((-1.7110, 1.1084, -0.4692, 0.8148, -0.5524, 0.8092), abs=1e-4)
    assert signals["degree"] == pytest.approx((-1.7889, 0.8944, -0.4472, 0.8944, -0.4472, 0.8944), abs=1e-4)
    assert signals["position"] == (0, 1, 2, 3, 4, 5)
    assert signals["reverse_position"] == (0, -1, -2, -3, -4, -5)
    assert signals["effective"] == (1, 1, 1, 1, 1, 1)
    assert sorted(signals["shuffled"]) == sorted(signals["l_graph"])
    expected, _ = normalise([0, 1.25, 1 + 1 / 6, 1.5, 1.5, 1])
    assert signals["graph_impact_needs"] == pytest.approx(expected.tolist())


def test_names_come_in_the_order_of_tables() -> None:
    assert check_signals(["position", "degree_needs", "l_graph", "degree_needs"]) == (
        "l_graph",
        "degree_needs",
        "position",
    )
    assert set(DEFAULT_SIGNALS) <= set(SIGNALS)
    assert len(SIGNALS) == len(set(SIGNALS)) == len(KINDS) * len(GRAPH_SIGNALS) + 2 + len(CONTROLS)
    with pytest.raises(ConfigError, match="Did you mean 'degree'"):
        check_signals(["degre"])
    with pytest.raises(ConfigError, match="no signal named"):
        check_signals([])


def test_divergence_is_there_where_a_teacher_scored_every_step(task: Task, trajectory: Trajectory) -> None:
    graph = build_graph(footprints_of(trajectory))
    names = ["divergence", "aptitude"]
    scored = step_aptitude(graph, [0.31, 0.22, 0.18, 0.36, 0.24, 0.20])
    found = signals_of(trajectory, task, names, scored)
    assert found["divergence"] == (0.31, 0.22, 0.18, 0.36, 0.24, 0.20)
    # Example 1: A at alpha .5.
    assert found["aptitude"] == pytest.approx((-0.3951, 0.3043, -0.8002, 1.2624, -0.3683, -0.0031), abs=1e-4)
    assert signals_of(trajectory, task, names) == {}
    assert signals_of(trajectory, task, names, step_aptitude(graph, [None, 0.2, 0.1, 0.3, 0.2, 0.2])) == {}
    other = step_aptitude(build_graph(footprints_of(make_trajectory("ss", env="household"))), [0.1, 0.2])
    with pytest.raises(SupervisionError, match="divergence has 2 entries, expected 6"):
        signals_of(trajectory, task, names, other)


def test_an_environment_without_footprints_is_an_error(task: Task) -> None:
    with pytest.raises(SupervisionError, match="environment 'counting' has no footprints"):
        signals_of(make_trajectory("sss"), task, ["degree"])


def test_an_environment_is_audited_by_the_signals_it_has():
    assert default_signals("household") == DEFAULT_SIGNALS
    assert "l_graph" in default_signals("search")
    assert not [name for name in default_signals("search") if name.endswith(("_exact", "_needs", "_causal"))]
    assert "position" in default_signals("search")
