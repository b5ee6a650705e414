"""Acting records again: equal, or the first differing step by name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tutelage.rollout.episode import run_episode
from tutelage.rollout.replay import ReplayMismatch, replay
from tutelage.rollout.switch import AtStep, Never
from tutelage.testing import CountingEnv, CountingWorld, ScriptedPolicy, counting_task
from tutelage.types import Action, Actor, Observation, Task, Trajectory

STUDENT = ScriptedPolicy(["look", "add"], then="add")


def played(task: Task) -> Trajectory:
    return run_episode(task, CountingEnv(task), {Actor.STUDENT: STUDENT}, Never(), seed=0, state_hashes=True)


def test_an_honest_world_replays_equal() -> None:
    task, world = counting_task(target=3), CountingWorld()
    result = replay(played(task), task, world.make)
    assert (result.same, result.num_steps, result.difference) == (True, 4, None)
    assert str(result) == "count-1.never.s0.n0.a0: 4 steps replayed, all equal"
    assert world.num_closed == 1


def test_a_hidden_clock_is_found() -> None:
    """E5."""
    task, world = counting_task(target=3, hidden_clock=True), CountingWorld()
    result = replay(played(task), task, world.make)
    assert not result.same
    assert result.difference is not None
    assert (result.difference.step_index, result.difference.what, result.num_steps) == (0, "observation", 0)
    assert world.num_closed == 1


def test_each_kind_of_difference_is_named() -> None:
    task = counting_task(target=3)
    record = played(task)

    def difference(changed: Trajectory) -> tuple[int, str, object, object]:
        found = replay(changed, task, CountingEnv).difference
        assert found is not None
        return (found.step_index, found.what, found.expected, found.got)

    steps = record.steps
    other = Observation.of("The counter shows 7.")
    seen = Observation.of("The counter shows 1.")
    assert difference(replace(record, steps=(*steps[:2], replace(steps[2], observation=other), steps[3]))) == (
        2,
        "observation",
        other,
        seen,
    )
    assert difference(replace(record, steps=(*steps[:1], replace(steps[1], state_hash="count=9"), *steps[2:]))) == (
        1,
        "state_hash",
        "count=9",
        "count=1",
    )
    assert difference(replace(record, reward=0.0)) == (4, "total reward", 0.0, 1.0)
    assert difference(replace(record, steps=steps[:2]))[:2] == (2, "observation")
    assert difference(replace(record, steps=(*steps, steps[3])))[:2] == (3, "end")


def test_a_stored_prefix_is_acted_again_and_goes_on() -> None:
    task = counting_task(target=3)
    record = played(task)
    expert = ScriptedPolicy([], then="add")
    policies = {Actor.STUDENT: STUDENT, Actor.EXPERT: expert}
    env = CountingEnv(task)
    again = run_episode(
        task,
        env,
        policies,
        AtStep(2),
        seed=0,
        state_hashes=True,
        prefix=record.steps[:2],
        parent_id=record.trajectory_id,
    )
    assert again.steps[:2] == record.steps[:2]
    assert [step.actor for step in again.steps] == [Actor.STUDENT] * 2 + [Actor.EXPERT] * 2
    assert (again.switch_index, again.parent_id, env.num_closed) == (2, record.trajectory_id, 1)


def test_a_prefix_that_replays_differently_is_refused() -> None:
    task = counting_task(target=3)
    record = played(task)
    prefix = (replace(record.steps[0], action=Action.of("add")), record.steps[1])
    env = CountingEnv(task)
    with pytest.raises(
        ReplayMismatch, match="task count-1, step 0: replay differs in state_hash: got 'count=1'"
    ) as info:
        run_episode(task, env, {Actor.STUDENT: STUDENT}, Never(), seed=0, prefix=prefix)
    assert (info.value.expected, info.value.got, env.num_closed) == ("count=0", "count=1", 1)
