"""What commands need: the table by hand, and the structures that the audit found, on hand-drawn graphs."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tutelage.envs.registry import make_env
from tutelage.errors import ConfigError, SupervisionError
from tutelage.policies.scripted import ScriptedPolicy
from tutelage.rollout.episode import Limits, run_episode
from tutelage.rollout.switch import Never
from tutelage.supervision.aptitude import AptitudeConfig, normalise, step_aptitude
from tutelage.supervision.dependency_graph import build_graph, dependent_share, graph_impact
from tutelage.supervision.footprints import footprints_of
from tutelage.supervision.footprints.household_exact import causal_household_footprints, exact_household_footprints
from tutelage.supervision.footprints.household_needs import needed_household_footprints
from tutelage.supervision.step_credit import step_weights, weigh_steps
from tutelage.tasks.registry import load_tasks
from tutelage.testing import make_trajectory
from tutelage.types import Action, Actor, DependencyGraph, Effect, Footprint, ParseOutcome, StopReason, Trajectory

COMMANDS = [
    "go to sinkbasin 1",
    "go to countertop 1",
    "take soapbar 3 from countertop 1",
    "go to cabinet 1",
    "open cabinet 1",
    "move soapbar 3 to cabinet 1",
]


def played(commands: list[str]) -> Trajectory:
    task = load_tasks("household", "train", 0, 1)[0]
    policies = {Actor.STUDENT: ScriptedPolicy(commands)}
    return run_episode(task, make_env(task), policies, Never(), Limits(max_steps=len(commands)), seed=0)


def keys(footprints: tuple[Footprint, ...]) -> list[tuple[str, str]]:
    return [(" ".join(sorted(one.reads)), " ".join(sorted(one.writes))) for one in footprints]


def test_the_needs_of_example_1() -> None:
    footprints = needed_household_footprints(played(COMMANDS))
    assert [(sorted(one.reads), sorted(one.writes)) for one in footprints] == [
        ([], ["location:sinkbasin 1"]),
        ([], ["location:countertop 1"]),
        (["location:countertop 1"], ["hand", "holding:soapbar 3"]),
        ([], ["container_state:cabinet 1", "location:cabinet 1"]),
        (["container_state:cabinet 1", "location:cabinet 1"], ["container_state:cabinet 1"]),
        (
            ["container_state:cabinet 1", "holding:soapbar 3", "location:cabinet 1"],
            ["hand", "holding:soapbar 3", "placed:soapbar 3@cabinet 1"],
        ),
    ]
    graph = build_graph(footprints)
    # Nothing hangs on where the agent was before: step 0 is alone.
    assert graph.edges == ((1, 2, 1), (2, 5, 1), (3, 4, 2), (3, 5, 1), (4, 5, 1))
    # Later steps 5 4 3 2 1 0; that depend on it 0 2 1 2 1 0: the very shares that a replay measures.
    assert dependent_share(graph).tolist() == [0, 2 / 4, 1 / 3, 2 / 2, 1 / 1, 0]
    assert graph_impact(graph).tolist() == pytest.approx([0, 1.25, 1 + 1 / 6, 1.5, 1.5, 1])


def test_refused_and_idle_commands_need_nothing() -> None:
    commands = ["go to cabinet 1", "take sky 1 from cabinet 1", "look", "inventory", "help", "examine cabinet 1"]
    footprints = needed_household_footprints(played(commands))
    assert [one.effect for one in footprints] == [
        Effect.CHANGED,
        Effect.NO_EFFECT,
        Effect.READ_ONLY,
        Effect.READ_ONLY,
        Effect.READ_ONLY,
        Effect.READ_ONLY,
    ]
    assert [sorted(one.reads) for one in footprints] == [[], [], [], [], [], ["location:cabinet 1"]]


def test_the_hand_has_to_be_free_and_things_are_where_they_were_put() -> None:
    commands = [
        "go to countertop 1",
        "take soapbar 3 from countertop 1",
        "move soapbar 3 to countertop 1",
        "take soapbar 3 from countertop 1",
    ]
    first, take, move, again = needed_household_footprints(played(commands))
    assert take.reads == {"location:countertop 1"}
    assert again.reads == {"location:countertop 1", "hand", "placed:soapbar 3@countertop 1"}
    assert build_graph((first, take, move, again)).edges == ((0, 1, 1), (0, 2, 1), (0, 3, 1), (1, 2, 1), (2, 3, 2))


def test_the_door_of_an_appliance_does_not_matter() -> None:
    trajectory = make_trajectory(
        "sss",
        ["go to microwave 1", "take egg 1 from microwave 1", "heat egg 1 with microwave 1"],
        [
            "-= Welcome =-",
            "You arrive at microwave 1. The microwave 1 is open. In it, you see a egg 1.",
            "You pick up the egg 1 from the microwave 1.",
            "You heat the egg 1 using the microwave 1.",
        ],
        env="household",
    )
    assert keys(needed_household_footprints(trajectory))[1:] == [
        ("container_state:microwave 1 location:microwave 1", "hand holding:egg 1"),
        ("holding:egg 1 location:microwave 1", "object_state:egg 1:hot"),
    ]


def test_a_reply_without_a_command() -> None:
    trajectory = make_trajectory(
        "s",
        [Action(text="hm", parse=ParseOutcome.MALFORMED)],
        ["start", "?"],
        stop_reason=StopReason.MAX_STEPS,
        reward=0.0,
    )
    (footprint,) = needed_household_footprints(trajectory)
    assert (footprint.reads, footprint.writes, footprint.effect) == (frozenset(), frozenset(), Effect.MALFORMED)


def graph(num_steps: int, *edges: tuple[int, int]) -> DependencyGraph:
    return DependencyGraph(
        trajectory_id="t", num_steps=num_steps, edges=tuple((*edge, 1) for edge in edges), writer_rule="last"
    )


def test_an_end_that_used_nothing_says_nothing() -> None:
    """The last step of a failure may be any idle command: then only the shares are left."""
    assert graph_impact(graph(4, (0, 1), (1, 2))).tolist() == pytest.approx([1 / 3, 1 / 4, 0, 0])
    assert graph_impact(graph(4, (0, 1), (1, 3))).tolist() == pytest.approx([1 + 1 / 3, 1 + 1 / 4, 0, 1])
    assert dependent_share(graph(1)).tolist() == [0]
    assert graph_impact(graph(1)).tolist() == [0]


@pytest.mark.parametrize(
    ("structure", "values"), [("dependent_share", dependent_share), ("graph_impact", graph_impact)]
)
def test_they_are_structures_of_the_aptitude(structure: str, values: object) -> None:
    drawn = graph(4, (0, 1), (1, 3))
    aptitude = step_aptitude(drawn, None, AptitudeConfig(structure=structure, alpha=0.0))
    assert callable(values)
    assert aptitude.l_graph == tuple(normalise(np.asarray(values(drawn)))[0].tolist())


def test_footprints_come_by_kind() -> None:
    trajectory, task = played(COMMANDS), load_tasks("household", "train", 0, 1)[0]
    assert footprints_of(trajectory, "needs") == needed_household_footprints(trajectory)
    assert footprints_of(trajectory, "exact", task) == exact_household_footprints(trajectory, task)
    assert footprints_of(trajectory, "causal", task) == causal_household_footprints(trajectory, task)
    assert footprints_of(trajectory) == footprints_of(trajectory, "text", task)
    with pytest.raises(ConfigError, match="Did you mean 'causal'"):
        footprints_of(trajectory, "casual")
    with pytest.raises(ConfigError, match="footprints 'exact' act the record again; give the task of"):
        footprints_of(trajectory, "exact")
    real = dataclasses.replace(trajectory, env="alfworld")
    assert footprints_of(real, "needs") == needed_household_footprints(real)
    with pytest.raises(SupervisionError, match="'alfworld' has no footprints of kind 'causal'; household have"):
        footprints_of(real, "causal", task)


def test_the_audited_preset() -> None:
    aptitude, mask = step_weights("graph_audited")
    assert (aptitude.footprints, aptitude.structure, aptitude.writer, aptitude.alpha) == (
        "needs",
        "graph_impact",
        "last",
        0.5,
    )
    assert mask == step_weights("graphopd")[1]
    trajectory = played(COMMANDS)
    chosen, found = weigh_steps(
        step_weights("graph_audited", alpha=0.0),
        trajectory,
        footprints_of(trajectory, aptitude.footprints),
        None,
        [True] * 6,
        [3] * 6,
        seed=0,
    )
    # Impact as the graph tells it: 0, 1.25, 1.1667, 1.5, 1.5, 1, mean 1.0694.
    assert chosen.step_mask == (False, True, True, True, True, False)
    assert found.config_id == "footprints=needs,structure=graph_impact,alpha=0.0"
    with pytest.raises(ConfigError, match="footprints: unknown 'want'"):
        step_weights("graphopd", footprints="want")
