"""Many episodes: each job once, whatever the order, the failures and the interruptions."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tutelage.envs.base import StepResult
from tutelage.errors import ConfigError, ContextOverflow, MissingExtra, PolicyError, StoreError
from tutelage.policies.base import PartialTrajectory, SingleActPolicy
from tutelage.rollout.episode import Limits, run_episode
from tutelage.rollout.runner import make_jobs, run_rollouts
from tutelage.rollout.summary import RolloutSummary, latest_attempts
from tutelage.rollout.switch import AtStep, ExpertOnly, Mix, Never, RuleSeed, UniformStep
from tutelage.store import RecordStore
from tutelage.testing import CountingEnv, CountingWorld, ScriptedPolicy, counting_task
from tutelage.types import Action, Actor, StopReason, Task, Trajectory, stable_hash

S, E = Actor.STUDENT, Actor.EXPERT
ADD = ScriptedPolicy([], then="add", name="adder")
LOOK = ScriptedPolicy([], then="look", name="looker")


class Dice(SingleActPolicy):
    """``add`` or ``look`` by the seed of trajectory and step, as a sampled model does; keeps the sizes of its batches."""

    name, version = "dice", "dice-1"

    def __init__(self, *, batched: bool = False, blocking: bool = False) -> None:
        self.batched = batched
        self.blocking = blocking
        self.batch_sizes: list[int] = []
        self.released: list[str] = []

    def act(self, so_far: PartialTrajectory) -> Action:
        return Action.of("add" if stable_hash(so_far.seed, len(so_far.steps)) % 3 == 0 else "look")

    def act_batch(self, so_far: Sequence[PartialTrajectory]) -> list[Action]:
        self.batch_sizes.append(len(so_far))
        return [self.act(one) for one in so_far]

    def release(self, trajectory_id: str) -> None:
        self.released.append(trajectory_id)


def same(trajectory: Trajectory) -> Trajectory:
    """Without what the clock says."""
    return replace(trajectory, seconds=0.0)


def letters(trajectory: Trajectory) -> str:
    return "".join(step.actor.value[0] for step in trajectory.steps)


@settings(deadline=None, max_examples=60)
@given(
    data=st.lists(
        st.fixed_dictionaries(
            {"target": st.integers(1, 4), "inline": st.booleans()},
            optional={"die_at": st.integers(0, 3), "crash_at": st.integers(0, 3), "reward_none": st.just(True)},
        ),
        max_size=8,
    ),
    concurrency=st.integers(1, 9),
    retries=st.integers(0, 2),
    samples=st.integers(1, 2),
    batched=st.booleans(),
    blocking=st.booleans(),
    cut=st.integers(0, 20),
)
def test_each_job_once_and_equal_in_any_order(
    data: list[dict], concurrency: int, retries: int, samples: int, batched: bool, blocking: bool, cut: int
) -> None:
    tasks = [counting_task(f"c-{index}", max_steps=6, **options) for index, options in enumerate(data)]
    jobs = make_jobs(tasks, seed=3, samples_per_task=samples)
    world, dice = CountingWorld(), Dice(batched=batched, blocking=blocking)
    records: list[Trajectory] = []
    progress: list[tuple[int, int]] = []
    summary = run_rollouts(
        jobs,
        policies={S: dice, E: ADD},
        rule=UniformStep(0, 4),
        concurrency=concurrency,
        retries=retries,
        make_env=world.make,
        on_trajectory=records.append,
        on_progress=lambda done, total: progress.append((done, total)),
    )
    assert [(t.task_id, t.sample_index) for t in summary.trajectories] == [
        (job.task.task_id, job.sample_index) for job in jobs
    ]
    assert len({t.trajectory_id for t in records}) == len(records) == world.num_made == world.num_closed
    assert sorted(dice.released) == sorted(t.trajectory_id for t in records)
    assert progress[0] == (0, len(jobs))
    assert progress[-1] == (len(jobs), len(jobs))
    for job, got in zip(jobs, summary.trajectories, strict=True):
        if got.stop_reason.is_infrastructure:
            assert got.attempt == retries
            assert got.reward is None
        else:
            alone = run_episode(
                job.task,
                CountingEnv(job.task),
                {S: Dice(), E: ADD},
                UniformStep(0, 4),
                seed=3,
                sample_index=job.sample_index,
            )
            assert same(got) == same(alone)
            assert got.attempt == 0


def test_a_batched_policy_gets_all_live_episodes_at_once() -> None:
    tasks = [counting_task(f"c-{index}", target=2) for index in range(6)]
    policy = ScriptedPolicy([], then="add")
    sizes: list[int] = []

    class Batched(ScriptedPolicy):
        batched = True

        def act_batch(self, so_far: Sequence[PartialTrajectory]) -> list[Action]:
            sizes.append(len(so_far))
            return [policy.act(one) for one in so_far]

    run_rollouts(make_jobs(tasks), policies={S: Batched([])}, rule=Never(), concurrency=4, make_env=CountingEnv)
    assert sizes == [4, 4, 2, 2]


def test_a_batched_policy_waits_for_environments_in_threads() -> None:
    tasks = [counting_task(f"c-{index}", target=2, inline=False) for index in range(4)]
    dice = Dice(batched=True)
    run_rollouts(make_jobs(tasks), policies={S: dice}, rule=Never(), concurrency=4, make_env=CountingEnv)
    assert dice.batch_sizes[0] == 4


def test_two_batched_policies_are_asked_apart() -> None:
    student, expert = Dice(batched=True), Dice(batched=True)
    tasks = [counting_task(f"c-{index}", target=9, max_steps=2) for index in range(3)]
    policies = {S: student, E: expert}
    summary = run_rollouts(make_jobs(tasks), policies=policies, rule=AtStep(1), make_env=CountingEnv)
    assert [letters(t) for t in summary.trajectories] == ["se"] * 3
    assert (student.batch_sizes, expert.batch_sizes) == ([3], [3])
    mixed = run_rollouts(make_jobs(tasks), policies=policies, rule=Mix(0.0), make_env=CountingEnv)
    assert all(step.expert_action is not None for t in mixed.trajectories for step in t.steps)


def test_one_clock_over_all_phases() -> None:
    """R5: the reward sleeps 5 s, the limit is 1 s over everything; siblings finish."""
    tasks = [
        counting_task("reward", target=1, inline=False, hang_reward=5.0),
        counting_task("step", target=1, inline=False, hang_at=0, hang_seconds=5.0),
        counting_task("reset", target=1, inline=False, hang_reset=5.0),
        counting_task("sum", target=2, inline=False, hang_at=1, hang_seconds=0.6, hang_reward=0.7),
        counting_task("fine-a", target=1, inline=False),
        counting_task("fine-b", target=1),
    ]
    world = CountingWorld()
    started = time.monotonic()
    summary = run_rollouts(
        make_jobs(tasks),
        policies={S: ADD},
        rule=Never(),
        limits=Limits(episode_seconds=1.0),
        retries=0,
        make_env=world.make,
    )
    assert time.monotonic() - started < 1.5
    got = {t.task_id: (t.stop_reason, t.reward, letters(t)) for t in summary.trajectories}
    late, done = StopReason.TIMEOUT, StopReason.COMPLETED
    assert got == {
        "reward": (late, None, "s"),
        "step": (late, None, ""),
        "reset": (late, None, ""),
        "sum": (late, None, "ss"),
        "fine-a": (done, 1.0, "s"),
        "fine-b": (done, 1.0, "s"),
    }
    assert summary.trajectories[0].error == "no end after 1 s"
    assert world.num_closed == 6


def test_an_environment_that_dies_ends_at_once_and_is_tried_again() -> None:
    """R5: it dies at step 2; both records are kept, the last attempt counts."""
    records: list[Trajectory] = []
    summary = run_rollouts(
        make_jobs([counting_task("dead", die_at=2, target=9), counting_task("alive", target=1)]),
        policies={S: ADD},
        rule=Never(),
        retries=1,
        make_env=CountingEnv,
        on_trajectory=records.append,
    )
    dead = [t for t in records if t.task_id == "dead"]
    assert [(t.attempt, t.stop_reason, letters(t), t.reward) for t in dead] == [
        (0, StopReason.ENV_ERROR, "ss", None),
        (1, StopReason.ENV_ERROR, "ss", None),
    ]
    assert dead[0].error == "EnvError: task dead, step 2: the counter's process died"
    assert dead[0].final_observation is not None
    assert dead[0].final_observation.text == "The counter shows 2."
    assert summary.attempts == {0: 2, 1: 1}
    assert summary.stop_reasons == {StopReason.ENV_ERROR: 1, StopReason.COMPLETED: 1}
    assert (summary.num_jobs, summary.num_played, summary.num_scored, summary.mean_reward) == (2, 3, 1, 1.0)


def test_a_retry_can_succeed_and_draws_the_same_switch() -> None:
    world = CountingWorld()

    def make_env(task: Task) -> CountingEnv:
        broken = world.num_made == 0
        return world.make(counting_task(task.task_id, crash_at=1) if broken else task)

    summary = run_rollouts(
        make_jobs([counting_task("c", target=2)]), policies={S: LOOK, E: ADD}, rule=UniformStep(), make_env=make_env
    )
    (got,) = summary.trajectories
    assert (got.attempt, got.stop_reason, got.drawn_switch) == (
        1,
        StopReason.COMPLETED,
        UniformStep().drawn(RuleSeed(0, "c")),
    )


def test_foreign_exceptions_name_their_place() -> None:
    task = counting_task("c", crash_at=0)
    summary = run_rollouts(make_jobs([task]), policies={S: ADD}, rule=Never(), retries=0, make_env=CountingEnv)
    error = summary.trajectories[0].error
    assert error is not None
    assert error.startswith("RuntimeError: counter out of order (counting.py:")


class Failing(Dice):
    """Raises for one task, alone or in a batch."""

    def __init__(self, error: Exception, **options: bool) -> None:
        super().__init__(**options)
        self.error = error

    def act(self, so_far: PartialTrajectory) -> Action:
        if so_far.task.task_id == "bad" and len(so_far.steps) == 1:
            raise self.error
        return super().act(so_far)


@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize(
    ("error", "stop_reason", "reward"),
    [
        (PolicyError("no answer", role="student"), StopReason.POLICY_ERROR, None),
        (RuntimeError("out of memory"), StopReason.POLICY_ERROR, None),
        (ContextOverflow("full", trajectory_ids=("bad.never.s0.n0.a0",)), StopReason.CONTEXT_OVERFLOW, 0.0),
    ],
)
def test_a_failing_policy_ends_only_its_episode(
    batched: bool, error: Exception, stop_reason: StopReason, reward: float | None
) -> None:
    tasks = [counting_task(name, target=1, max_steps=4) for name in ("a", "bad", "b")]
    jobs = make_jobs(tasks)
    policy = Failing(error, batched=batched)
    summary = run_rollouts(jobs, policies={S: policy}, rule=Never(), retries=0, make_env=CountingEnv)
    alone = run_rollouts(jobs, policies={S: Dice()}, rule=Never(), make_env=CountingEnv)
    got = summary.trajectories
    assert (got[1].stop_reason, got[1].reward, letters(got[1])) == (stop_reason, reward, "s")
    assert [same(got[0]), same(got[2])] == [same(alone.trajectories[0]), same(alone.trajectories[2])]


def test_errors_of_the_user_end_the_run() -> None:
    def missing(task: Task) -> CountingEnv:
        raise MissingExtra("environment 'alfworld'", "alfworld")

    jobs = make_jobs([counting_task(f"c-{index}") for index in range(3)])
    with pytest.raises(MissingExtra, match="needs the extra 'alfworld'"):
        run_rollouts(jobs, policies={S: ADD}, rule=Never(), make_env=missing)
    world = CountingWorld()
    policy = Failing(ConfigError("no such model"))
    tasks = [counting_task("bad", inline=False), counting_task("b", inline=False, hang_at=0)]
    with pytest.raises(ConfigError, match="no such model"):
        run_rollouts(make_jobs(tasks), policies={S: policy}, rule=Never(), make_env=world.make)
    assert world.num_closed == 2


def test_a_close_that_fails_or_hangs_changes_no_result() -> None:
    task = counting_task("c", target=1, close_raises=True)
    summary = run_rollouts(make_jobs([task]), policies={S: ADD}, rule=Never(), make_env=CountingEnv)
    (got,) = summary.trajectories
    assert (got.stop_reason, got.reward) == (StopReason.COMPLETED, 1.0)
    assert got.error is not None
    assert got.error.startswith("close failed: RuntimeError: cannot close")

    class HangsInClose(CountingEnv):
        inline = False

        def close(self) -> None:
            super().close()
            time.sleep(0.6)

    limits = Limits(episode_seconds=0.2)
    started = time.monotonic()
    task = counting_task("c", target=1, inline=False)
    summary = run_rollouts(make_jobs([task]), policies={S: ADD}, rule=Never(), limits=limits, make_env=HangsInClose)
    assert summary.stop_reasons == {StopReason.COMPLETED: 1}
    assert time.monotonic() - started < 0.55


def test_what_is_refused() -> None:
    jobs = make_jobs([counting_task("c")])
    with pytest.raises(ConfigError, match="task c with seed 0, sample 0 is there twice"):
        run_rollouts([*jobs, *jobs], policies={S: ADD}, rule=Never(), make_env=CountingEnv)
    with pytest.raises(ConfigError, match="switch rule 'uniform' needs a policy for the role 'expert'"):
        run_rollouts(jobs, policies={S: ADD}, rule=UniformStep(), make_env=CountingEnv)
    with pytest.raises(ConfigError, match="concurrency is 0"):
        run_rollouts(jobs, policies={S: ADD}, rule=Never(), concurrency=0, make_env=CountingEnv)


def test_resume_plays_only_what_is_missing(tmp_path: Path) -> None:
    store = RecordStore(tmp_path / "t.jsonl", "trajectory")
    tasks = [counting_task(f"c-{index}", target=2) for index in range(6)]
    jobs = make_jobs(tasks)

    def play(jobs: list, store: RecordStore | None) -> RolloutSummary:
        return run_rollouts(
            jobs, policies={S: Dice(), E: ADD}, rule=UniformStep(0, 3), store=store, make_env=CountingEnv
        )

    whole = play(jobs, None)
    first = play(jobs[:4], store)
    assert (first.num_played, first.num_resumed) == (4, 0)
    second = play(jobs, store)
    assert (second.num_played, second.num_resumed) == (2, 4)
    third = play(jobs, RecordStore(store.path, "trajectory"))
    assert (third.num_played, third.num_resumed) == (0, 6)
    for summary in (second, third):
        assert [same(t) for t in summary.trajectories] == [same(t) for t in whole.trajectories]
    assert len(store) == 6


def test_spoilt_and_interrupted_episodes_are_played_again_and_count_once(tmp_path: Path) -> None:
    store = RecordStore(tmp_path / "t.jsonl", "trajectory")
    jobs = make_jobs([counting_task(f"c-{index}", target=2) for index in range(3)])
    done = run_rollouts(jobs, policies={S: ADD}, rule=Never(), make_env=CountingEnv).trajectories
    for stop_reason, record in zip((StopReason.INTERRUPTED, StopReason.ENV_ERROR), done[:2], strict=True):
        store.append(replace(record, stop_reason=stop_reason, reward=None, steps=record.steps[:1]))
    store.append(done[2])
    summary = run_rollouts(jobs, policies={S: ADD}, rule=Never(), store=store, make_env=CountingEnv)
    assert (summary.num_played, summary.num_resumed) == (2, 1)
    assert store.ids[3:] == ("c-0.never.s0.n0.a1", "c-1.never.s0.n0.a1")
    assert [t.attempt for t in latest_attempts(store)] == [1, 1, 0]
    assert summary.stop_reasons == {StopReason.COMPLETED: 3}
    assert summary.attempts == {0: 3, 1: 2}


def test_a_store_of_another_rule_is_refused(tmp_path: Path) -> None:
    store = RecordStore(tmp_path / "t.jsonl", "trajectory")
    jobs = make_jobs([counting_task("c")])
    run_rollouts(jobs, policies={S: ADD, E: ADD}, rule=AtStep(2), store=store, make_env=CountingEnv)
    message = "was played under 'at_step' with drawn switch 2, this run asks for 'at_step' with 1. Use another run"
    with pytest.raises(StoreError, match=message):
        run_rollouts(jobs, policies={S: ADD, E: ADD}, rule=AtStep(1), store=store, make_env=CountingEnv)


def test_an_interrupt_stores_the_live_episodes(tmp_path: Path) -> None:
    """C3: the exception comes in the middle of a step; the partial record is kept, the others are not lost."""
    store = RecordStore(tmp_path / "t.jsonl", "trajectory")
    world = CountingWorld()

    class Interrupted(Dice):
        armed = True

        def act(self, so_far: PartialTrajectory) -> Action:
            if self.armed and so_far.task.task_id == "c-3" and len(so_far.steps) == 2:
                raise KeyboardInterrupt
            return Action.of("add")

    tasks = [counting_task(f"c-{index}", target=4) for index in range(4)]
    tasks.append(counting_task("c-4", target=4, inline=False, hang_at=1))
    jobs = make_jobs([tasks[4], *tasks[:4]])
    policy = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        run_rollouts(jobs, policies={S: policy}, rule=Never(), store=store, make_env=world.make, concurrency=2)
    assert world.num_closed == 5
    got = {t.task_id: (t.stop_reason, letters(t), t.reward) for t in store}
    finished = (StopReason.COMPLETED, "ssss", 1.0)
    assert got == {
        "c-0": finished,
        "c-1": finished,
        "c-2": finished,
        "c-3": (StopReason.INTERRUPTED, "ss", None),
        "c-4": (StopReason.INTERRUPTED, "s", None),
    }
    policy.armed = False
    jobs = make_jobs([replace(task, settings={"target": 4}) for task in tasks])
    summary = run_rollouts(jobs, policies={S: policy}, rule=Never(), store=store, make_env=world.make)
    assert (summary.num_played, summary.num_resumed) == (2, 3)
    assert [(t.attempt, letters(t)) for t in summary.trajectories] == [(0, "ssss")] * 3 + [(1, "ssss")] * 2


def test_a_store_that_cannot_be_written_ends_the_run_with_every_environment_closed(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    store = RecordStore(tmp_path / "file" / "t.jsonl", "trajectory")
    world = CountingWorld()
    tasks = [counting_task("a", target=1), counting_task("b", inline=False, hang_at=0)]
    with pytest.raises(StoreError, match="cannot write"):
        run_rollouts(make_jobs(tasks[::-1]), policies={S: ADD}, rule=Never(), store=store, make_env=world.make)
    assert world.num_made == world.num_closed == 2


def test_nothing_leaks() -> None:
    """E1: 200 rollouts, a third at the step cap, some by exception, some in threads."""

    def census() -> tuple[int, int]:
        return threading.active_count(), len(os.listdir("/proc/self/fd"))

    def some(count: int, world: CountingWorld) -> RolloutSummary:
        ends: list[dict] = [
            {"target": 1},
            {"target": 99, "max_steps": 5},
            {"die_at": 1},
            {"target": 1, "inline": False},
        ]
        ends += [{"hang_at": 1, "inline": False}, {"target": 99, "max_steps": 5, "inline": False}]
        tasks = [counting_task(f"c-{index}", **ends[index % 6]) for index in range(count)]
        limits = Limits(episode_seconds=0.5)
        return run_rollouts(
            make_jobs(tasks),
            policies={S: Dice(batched=True), E: ADD},
            rule=AtStep(2),
            limits=limits,
            retries=0,
            make_env=world.make,
            concurrency=40,
        )

    some(6, CountingWorld())
    before, world = census(), CountingWorld()
    summary = some(200, world)
    assert summary.num_played == world.num_made == world.num_closed == 200
    assert [env.num_closed for env in world.envs] == [1] * 200
    assert summary.stop_reasons == {
        StopReason.COMPLETED: 67,
        StopReason.MAX_STEPS: 67,
        StopReason.ENV_ERROR: 33,
        StopReason.TIMEOUT: 33,
    }
    # Not more than before: a thread of an earlier test may have ended meanwhile.
    until = time.monotonic() + 5.0
    while not all(now <= then for now, then in zip(census(), before, strict=True)):
        assert time.monotonic() < until, (census(), before)
        time.sleep(0.01)


class Slow(CountingEnv):
    """Its steps take a while, and closing does not wake it."""

    def step(self, action: Action) -> StepResult:
        time.sleep(0.3)
        return super().step(action)


class Counted(ScriptedPolicy):
    """Adds; keeps whom it was asked for; the task ``stop`` gets a Ctrl-C."""

    asked: list[str]

    def act(self, so_far: PartialTrajectory) -> Action:
        if so_far.task.task_id == "stop":
            raise KeyboardInterrupt
        self.asked.append(so_far.trajectory_id)
        return Action.of("add")


def test_a_thread_that_comes_back_late_touches_nothing() -> None:
    """R5 (seen: 300 steps burned on a dead container): after a timeout, and after an interrupt."""
    policy, limits = Counted([]), Limits(episode_seconds=0.1)
    policy.asked = []
    jobs = make_jobs([counting_task("c", target=9, inline=False)])
    summary = run_rollouts(jobs, policies={S: policy}, rule=Never(), limits=limits, retries=0, make_env=Slow)
    assert [(t.stop_reason, letters(t)) for t in summary.trajectories] == [(StopReason.TIMEOUT, "")]
    jobs = make_jobs([counting_task("d", target=9, inline=False), counting_task("stop")])
    records: list[Trajectory] = []
    with pytest.raises(KeyboardInterrupt):
        run_rollouts(jobs, policies={S: policy}, rule=Never(), make_env=Slow, on_trajectory=records.append)
    assert [t.stop_reason for t in records] == [StopReason.INTERRUPTED] * 2
    time.sleep(0.5)
    assert policy.asked == ["c.never.s0.n0.a0", "d.never.s0.n0.a0"]


def test_the_summary_in_words() -> None:
    tasks = [counting_task(f"c-{index}", target=2) for index in range(3)]
    policies = {S: LOOK, E: ADD}
    summary = run_rollouts(make_jobs(tasks), policies=policies, rule=AtStep(4), make_env=CountingEnv)
    text = str(summary)
    assert text.startswith(
        "3 episodes  3 completed   mean reward 1.000   steps 12 student, 6 expert   expert acted in 3 (mean switch 4.0)"
    )
    expert_only = run_rollouts(make_jobs(tasks), policies=policies, rule=ExpertOnly(), make_env=CountingEnv)
    assert "switch" not in str(expert_only)
