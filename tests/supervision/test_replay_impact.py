"""Taking steps away: numbers by hand, snapshots against fresh environments, records that are refused."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tutelage.envs.registry import make_env
from tutelage.policies.experts.household import HouseholdExpert
from tutelage.policies.scripted import RandomPolicy, ScriptedPolicy
from tutelage.rollout.episode import Limits, run_episode
from tutelage.rollout.switch import AtStep, ExpertOnly, Never
from tutelage.supervision.replay_impact import ReplayRejected, replay_impact
from tutelage.tasks.registry import load_tasks
from tutelage.testing import CountingEnv, CountingWorld, counting_task
from tutelage.types import Actor, Observation, StopReason, Task, Trajectory


def counted(task: Task, *commands: str, **limits: int) -> Trajectory:
    return run_episode(
        task, CountingEnv(task), {Actor.STUDENT: ScriptedPolicy(commands)}, Never(), Limits(**limits), seed=0
    )


def household(task: Task, num_random: int = 0, max_steps: int | None = None) -> Trajectory:
    """The expert's episode after some random steps."""
    env = make_env(task)
    policies = {
        Actor.STUDENT: RandomPolicy(lambda so_far: env.admissible() or (), seed=num_random),
        Actor.EXPERT: HouseholdExpert(),
    }
    rule = AtStep(num_random) if num_random else ExpertOnly()
    return run_episode(task, env, policies, rule, Limits(max_steps=max_steps), seed=0)


def test_a_counter_by_hand() -> None:
    """Count to 2: without either `add` it fails, without `look` nothing changes. The counter tells no progress."""
    task, world = counting_task(target=2), CountingWorld()
    impact = replay_impact(counted(task, "add", "look", "add"), task, world.make)
    assert impact.success
    assert impact.success_drop == (1.0, 0.0, 1.0)
    assert impact.progress_drop is None
    assert impact.invalid_share == (0.0, 0.0, 0.0)
    assert impact.impact == (1.0, 0.0, 1.0)
    # 3 for the record, then 2 without each step: this environment cannot go back.
    assert impact.num_env_steps == 9
    assert (world.num_made, world.num_closed) == (4, 4)


def test_noop_spends_the_step_that_omit_saves() -> None:
    task = counting_task(target=2, max_steps=3)
    record = counted(task, "jump", "add", "look")
    assert record.stop_reason is StopReason.MAX_STEPS
    assert replay_impact(record, task, CountingEnv).success_drop == (0.0, 0.0, 0.0)
    added = replay_impact(record, task, CountingEnv, "noop", idle_command="add")
    # An idle `add` in place of `jump` or `look` reaches 2: a failure becomes a success.
    assert added.success_drop == (-1.0, 0.0, -1.0)
    # Won at the second step in place of `jump`: `look` is not reached.
    assert added.num_env_steps == 3 + 2 + 3 + 3


def test_a_household_success_by_hand() -> None:
    """The six-step episode of the specification's examples 1 and 6, on a generated game."""
    task = load_tasks("household", "train", 0, 1)[0]
    commands = [
        "go to sinkbasin 1",
        "go to countertop 1",
        "take soapbar 3 from countertop 1",
        "go to cabinet 1",
        "open cabinet 1",
        "move soapbar 3 to cabinet 1",
    ]
    record = run_episode(task, make_env(task), {Actor.STUDENT: ScriptedPolicy(commands)}, Never(), seed=0)
    assert record.reward == 1.0
    impact = replay_impact(record, task)
    assert impact.success_drop == (0, 1, 1, 1, 1, 1)
    # Without step 1 the take and the move fail; without step 3 the open and the move fail.
    assert impact.invalid_share == (0, 2 / 4, 1 / 3, 2 / 2, 1 / 1, 0)
    # This kind of goal has one condition, so progress drops with success.
    assert impact.progress_drop == (0, 1, 1, 1, 1, 1)
    assert impact.impact == pytest.approx((0, 2.25, 2 + 1 / 6, 2.5, 2.5, 2))
    assert impact.num_env_steps == 6 + 5 + 4 + 3 + 2 + 1
    assert replay_impact(record, task, use_snapshots=False).num_env_steps == 6 + 6 * 5
    assert replace(impact, progress_drop=None).impact == pytest.approx((0, 1.25, 1 + 1 / 6, 1.5, 1.5, 1))


def test_progress_counts_the_conditions_that_are_lost() -> None:
    task = load_tasks("household", "train", 1, 1)[0]
    assert task.kind == "look_at_obj_in_light"
    record = household(task)
    impact = replay_impact(record, task)
    commands = [str(step.action.command) for step in record.steps]
    take = next(index for index, command in enumerate(commands) if command.startswith("take"))
    assert commands[-1].startswith("use")
    assert impact.progress_drop is not None
    # Without the lamp the object is held, without the take the lamp is on: each 1 of 3 conditions.
    assert impact.progress_drop[-1] == pytest.approx(2 / 3)
    assert impact.progress_drop[take] == pytest.approx(2 / 3)


def test_refused_commands_do_not_become_invalid() -> None:
    """`take` of what is not there is refused in the record, so no step gets credit for its being refused."""
    task = load_tasks("household", "train", 0, 1)[0]
    record = run_episode(
        task,
        make_env(task),
        {Actor.STUDENT: ScriptedPolicy(["go to nowhere", "take sky 1 from roof 1", "look"])},
        Never(),
        Limits(max_steps=3),
        seed=0,
    )
    impact = replay_impact(record, task)
    assert not impact.success
    assert impact.impact == (0.0, 0.0, 0.0)


@settings(max_examples=20, deadline=None)
@given(index=st.integers(0, 400), num_random=st.integers(0, 25), noop=st.booleans())
def test_going_back_equals_fresh_environments(index: int, num_random: int, noop: bool) -> None:
    task = load_tasks("household", "train", index, 1)[0]
    record = household(task, num_random, max_steps=20)
    how = "noop" if noop else "omit"
    quick, plain = (
        replay_impact(record, task, intervention=how),
        replay_impact(record, task, intervention=how, use_snapshots=False),
    )
    assert replace(quick, num_env_steps=0) == replace(plain, num_env_steps=0)
    assert quick.num_env_steps <= plain.num_env_steps
    n = len(record.steps)
    if quick.success and not noop and set(quick.success_drop) == {1.0}:
        assert quick.num_env_steps == n + n * (n - 1) // 2


@settings(max_examples=20, deadline=None)
@given(index=st.integers(0, 400), num_random=st.integers(1, 20))
def test_bounds_and_the_last_step(index: int, num_random: int) -> None:
    task = load_tasks("household", "train", index, 1)[0]
    record = household(task, num_random)
    impact = replay_impact(record, task)
    assert impact.progress_drop is not None
    assert all(-1.0 <= one <= 1.0 for one in (*impact.success_drop, *impact.progress_drop))
    assert all(0.0 <= one <= 1.0 for one in impact.invalid_share)
    assert impact.invalid_share[-1] == 0.0
    if impact.success:
        assert impact.success_drop[-1] == 1.0


def test_records_that_are_not_met_are_rejected_with_a_reason() -> None:
    task = counting_task(target=2)
    record = counted(task, "add", "look", "add")

    def reason(changed: Trajectory, on: Task = task) -> str:
        with pytest.raises(ReplayRejected) as rejected:
            replay_impact(changed, on, CountingEnv)
        assert rejected.value.trajectory_id == changed.trajectory_id
        return rejected.value.reason

    other = Observation.of("The counter shows 7.")
    steps = record.steps
    assert reason(replace(record, steps=(steps[0], replace(steps[1], observation=other), steps[2]))) == "observation"
    assert reason(replace(record, final_observation=other)) == "observation"
    assert reason(replace(record, steps=(replace(steps[0], reward=1.0), *steps[1:]))) == "reward"
    assert reason(replace(record, steps=(replace(steps[0], state_hash="count=9"), *steps[1:]))) == "state_hash"
    assert reason(replace(record, reward=0.5)) == "total_reward"
    assert reason(replace(record, stop_reason=StopReason.MAX_STEPS)) == "stop_reason"
    assert reason(replace(record, steps=())) == "no_steps"
    assert reason(replace(record, stop_reason=StopReason.TIMEOUT, reward=None)) == "not_scored"
    assert reason(record, counting_task("count-2", target=2)) == "other_task"
    assert reason(record, counting_task(target=1)) == "observation"
    assert reason(record, counting_task(target=2, die_at=1)) == "env_error"


def test_an_end_that_only_the_record_has_is_rejected() -> None:
    """Cut by a limit of the rollout is fine; called completed though the environment goes on is not."""
    task = counting_task(target=3)
    record = counted(task, "add", "look", max_steps=2)
    assert record.stop_reason is StopReason.MAX_STEPS
    assert replay_impact(record, task, CountingEnv).impact == (0.0, 0.0)
    with pytest.raises(ReplayRejected, match=r"rejected \(stop_reason\)"):
        replay_impact(replace(record, stop_reason=StopReason.COMPLETED), task, CountingEnv)


def test_a_rejection_travels_between_processes() -> None:
    error = pickle.loads(pickle.dumps(ReplayRejected("t-1", "observation", "step 3: ...")))
    assert (error.trajectory_id, error.reason, str(error)) == (
        "t-1",
        "observation",
        "trajectory t-1: replay rejected (observation): step 3: ...",
    )


def test_environments_are_closed_when_a_record_is_rejected() -> None:
    task, world = counting_task(target=2), CountingWorld()
    record = replace(counted(task, "add", "add"), reward=0.5)
    with pytest.raises(ReplayRejected):
        replay_impact(record, task, world.make)
    assert (world.num_made, world.num_closed) == (1, 1)


def test_an_unknown_intervention_is_refused() -> None:
    task = counting_task(target=1)
    with pytest.raises(ValueError, match="expected one of omit, noop"):
        replay_impact(counted(task, "add"), task, CountingEnv, "skip")  # type: ignore[arg-type]
