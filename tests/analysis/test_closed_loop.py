"""Going on after each prefix: by hand, against the protocol spelled out, resumed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tutelage.analysis.closed_loop import MAX_PREFIXES, ClosedLoop, closed_loop_impact
from tutelage.envs.registry import make_env
from tutelage.errors import ConfigError, FormatError, StoreError
from tutelage.policies.base import PartialTrajectory
from tutelage.policies.experts.household import HouseholdExpert
from tutelage.policies.scripted import RandomPolicy, ScriptedPolicy
from tutelage.rollout.episode import Limits, run_episode
from tutelage.rollout.switch import ExpertOnly, Never
from tutelage.tasks.registry import load_tasks
from tutelage.testing import CountingEnv, counting_task
from tutelage.types import Action, Actor, Task, Trajectory

ADD = ScriptedPolicy([], then="add")


class Counted(ScriptedPolicy):
    """Counts how often it is asked."""

    def __init__(self) -> None:
        super().__init__([], then="add")
        self.num_asked = 0

    def act(self, so_far: PartialTrajectory) -> Action:
        self.num_asked += 1
        return super().act(so_far)


def counted(task: Task, *commands: str, sample_index: int = 0) -> Trajectory:
    policies = {Actor.STUDENT: ScriptedPolicy(commands)}
    limits = Limits(max_steps=len(commands))
    return run_episode(task, CountingEnv(task), policies, Never(), limits, seed=0, sample_index=sample_index)


def loop(record: Trajectory, task: Task, max_steps: int, **options: int) -> ClosedLoop:
    found = closed_loop_impact(
        [record], {task.task_id: task}, ADD, max_steps=max_steps, make_env=CountingEnv, **options
    )
    return found[record.trajectory_id]


def test_the_example_of_the_docstring() -> None:
    solved_at = ((None, None), (None, None), (None, None), (6, 10), (6, 9), (None, None))
    found = ClosedLoop(trajectory_id="t", max_steps=10, solved_at=solved_at)
    assert found.intact == (0, 0, 1, 1, 0)
    assert found.omitted == (0, 0, 0, 0.5, 1)
    assert found.impact == (0, 0, 1, 0.5, -1)


def test_a_policy_that_makes_up_for_a_lost_step() -> None:
    """Count to 3 with a policy that adds: with 4 steps one may be lost, with 3 none."""
    task = counting_task(target=3)
    record = counted(task, "add", "add", "add")
    spare = loop(record, task, 4)
    assert spare.solved_at == ((3,) * 4,) * 4
    assert spare.impact == (0, 0, 0)
    assert loop(record, task, 3).impact == (1, 1, 1)
    assert loop(record, task, 3, num_continuations=1).solved_at == ((3,),) * 4


def test_a_wasted_step_costs_what_it_wastes() -> None:
    """look look add look, at most 4 steps: one look may be, two may not."""
    task = counting_task(target=3)
    found = loop(counted(task, "look", "look", "add", "look"), task, 4, num_continuations=1)
    assert found.solved_at == ((3,), (4,), (None,), (None,), (None,))
    # After the first look 3 steps are left, and 3 without it: equal. After the second, 2 are left, and 2 without it.
    assert found.impact == (0, 0, 0, 0)


def test_equal_to_the_protocol_spelled_out() -> None:
    """Both sides of every step played apart, the omitted one with a limit of one step less."""
    task = load_tasks("household", "train", 0, 1, max_steps=14)[0]
    env = make_env(task)
    record = run_episode(task, env, {Actor.EXPERT: HouseholdExpert()}, ExpertOnly(), seed=0)
    policy = RandomPolicy(lambda so_far: commands(task, so_far), invalid=0.0, seed=5)
    max_steps = 14

    def share(num_steps: int, limit: int) -> float:
        ends = [
            run_episode(
                task,
                make_env(task),
                {Actor.STUDENT: policy},
                Never(),
                Limits(max_steps=limit),
                seed=seed,
                sample_index=num_steps,
                prefix=record.steps[:num_steps],
            )
            for seed in range(4)
        ]
        return sum(end.reward or 0.0 for end in ends) / 4

    found = closed_loop_impact([record], {task.task_id: task}, policy, max_steps=max_steps)[record.trajectory_id]
    indices = range(len(record.steps))
    assert found.intact == tuple(share(index + 1, max_steps) for index in indices)
    assert found.omitted == tuple(share(index, max_steps - 1) for index in indices)
    assert any(0 < one < 1 for one in found.omitted)


def commands(task: Task, so_far: PartialTrajectory) -> tuple[str, ...]:
    """What is admissible after these steps, without the commands that only read."""
    env = make_env(task)
    env.reset(task.seed)
    for step in so_far.steps:
        env.step(step.action)
    return tuple(one for one in env.admissible() or () if one.split()[0] in ("move", "take", "open", "go"))


def test_it_goes_on_where_it_was(tmp_path: Path) -> None:
    path, tasks = tmp_path / "closed.jsonl", [counting_task(f"count-{i}", target=3) for i in range(3)]
    records = [counted(task, "add", "look", "add") for task in tasks]
    by_id = {task.task_id: task for task in tasks}

    def run(policy: ScriptedPolicy, number: int, max_steps: int = 5) -> dict[str, ClosedLoop]:
        return closed_loop_impact(records[:number], by_id, policy, max_steps=max_steps, path=path, make_env=CountingEnv)

    first, second, third = Counted(), Counted(), Counted()
    two = run(first, 2)
    assert (len(two), first.num_asked > 0) == (2, True)
    assert run(second, 2) == two
    assert second.num_asked == 0
    three = run(third, 3)
    assert third.num_asked == first.num_asked / 2
    assert {name: three[name] for name in two} == two
    assert len(path.read_text().splitlines()) == 4
    with pytest.raises(StoreError, match=r"was played with .* Choose another folder"):
        run(third, 3, max_steps=6)
    path.write_text("{}\nnot json\n")
    with pytest.raises(FormatError, match="Delete it and run again"):
        run(third, 3)


def test_samples_of_one_task_are_kept_apart() -> None:
    task = counting_task(target=3)
    records = [counted(task, "add", sample_index=0), counted(task, "look", sample_index=1)]
    found = closed_loop_impact(records, {task.task_id: task}, ADD, max_steps=3, make_env=CountingEnv)
    assert [one.impact for one in found.values()] == [(1,), (0,)]
    assert len(records[0].steps) < MAX_PREFIXES


def test_progress_is_told_and_the_unscored_left_out() -> None:
    told: list[tuple[int, int]] = []
    good, bad = counting_task("good", target=2), counting_task("bad", target=2, die_at=2)
    records = [counted(good, "add", "look"), counted(bad, "look", "look")]
    found = closed_loop_impact(
        records,
        {"good": good, "bad": bad},
        ADD,
        max_steps=4,
        make_env=CountingEnv,
        on_progress=lambda done, total: told.append((done, total)),
    )
    assert list(found) == [records[0].trajectory_id]
    assert (told[0], told[-1]) == ((0, 2), (2, 2))


def test_wrong_input_is_refused() -> None:
    task = counting_task(target=3)
    record = counted(task, "add", "look")
    with pytest.raises(ConfigError, match="has 2 steps on task count-1; expected at most max_steps 1"):
        loop(record, task, 1)
    with pytest.raises(ConfigError, match="its task among the 0 given"):
        closed_loop_impact([record], {}, ADD, max_steps=3)
