"""The privileged student against the plain one, from the start and from where the plain one stood, in one line."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tutelage.evaluation.privilege import compare_privileged
from tutelage.policies.base import PartialTrajectory, SingleActPolicy
from tutelage.policies.experts.household_planner import PlannerPolicy
from tutelage.policies.privileged import Peer, Plan
from tutelage.rollout.switch import AtStep, UniformStep
from tutelage.tasks.registry import load_tasks
from tutelage.testing import make_trajectory
from tutelage.types import Action, Task, Trajectory

TASKS = load_tasks("household", "validation", 0, 12, size="small", max_steps=30)


class Reader(SingleActPolicy):
    """Follows a plan if it is told one, else looks around."""

    name, version = "reader", "1"

    def act(self, so_far: PartialTrajectory) -> Action:
        first = (so_far.steps[0].observation if so_far.steps else so_far.observation).messages[0]
        commands = first.content.split("\n") if first.role == "system" else []
        return Action.of(commands[len(so_far.steps)] if len(so_far.steps) < len(commands) else "look")


class Replanner(Reader):
    """Told a plan, it goes on from wherever it stands, since it does not need what was done before."""

    name = "replanner"

    def act(self, so_far: PartialTrajectory) -> Action:
        first = (so_far.steps[0].observation if so_far.steps else so_far.observation).messages[0]
        return PlannerPolicy().act(so_far) if first.role == "system" else Action.of("look")


class Useless:
    """Tells the first half of the tasks something that wins nothing."""

    name = "useless"

    def text(self, task: Task, trajectory: Trajectory | None = None, group: Sequence[Trajectory] = ()) -> str | None:
        return "look" if task.task_id < TASKS[6].task_id else None


def test_one_that_can_use_its_plan_anywhere_is_fit_to_teach() -> None:
    found = compare_privileged(Replanner(), Plan(), TASKS, handover=UniformStep(0, 10))
    assert (found.plain.overall.num_solved, found.privileged.overall.num_solved) == (0, 12)
    assert (found.comparison.only_a, found.comparison.only_b, found.num_untold) == (0, 12, 0)
    assert found.takes_over.overall.num_solved == 12
    assert found.comparison.p_value == pytest.approx(2 / 2**12)
    assert found.is_better
    assert str(found) == (
        "privileged (plan) against plain 0.000 on 12 episodes: from the start 1.000, +1.000 [+1.000, +1.000], p 0.00049; "
        "taking over from it 1.000, +1.000 [+1.000, +1.000], p 0.00049"
    )


def test_one_that_is_lost_in_the_students_states_is_not() -> None:
    """It reads its plan line by line from the step it is at, so it wins from the start and never after a detour."""
    found = compare_privileged(Reader(), Plan("shortest"), TASKS, handover=AtStep(5))
    assert found.comparison.difference.estimate == 1.0
    assert found.takeover.difference.estimate == 0.0
    assert not found.is_better
    assert str(found).endswith(
        "taking over from it 0.000, +0.000 [+0.000, +0.000], p 1; NOT shown to be better, so not fit to teach"
    )


def test_what_does_not_help_is_not_fit_to_teach() -> None:
    found = compare_privileged(Reader(), Useless(), TASKS)
    assert not found.is_better
    assert str(found) == (
        "privileged (useless) against plain 0.000 on 12 episodes: from the start 0.000, +0.000 [+0.000, +0.000], p 1; "
        "taking over from it 0.000, +0.000 [+0.000, +0.000], p 1; "
        "6 episodes had no privileged text; NOT shown to be better, so not fit to teach"
    )


def test_peers_come_from_groups_and_samples_are_paired() -> None:
    task = TASKS[0]
    commands = (Plan("shortest").text(task) or "").split("\n")
    peer = make_trajectory("s" * len(commands), commands, task_id=task.task_id)
    found = compare_privileged(Reader(), Peer(), [task], groups={task.task_id: [peer]}, samples_per_task=3)
    assert found.comparison.num_pairs == 3
    assert found.privileged.overall.num_solved == 3
