"""Playing many episodes: batches, threads, one time limit each, retries, resume.

    jobs = make_jobs(tasks, seed=0, samples_per_task=2)
    policies = {Actor.STUDENT: student, Actor.EXPERT: expert}
    summary = run_rollouts(jobs, policies=policies, rule=UniformStep(0, 30), store=store)

What an episode becomes depends on its job alone, not on concurrency, order or interruptions.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tutelage.envs.base import Env
from tutelage.envs.registry import make_env as make_registered_env
from tutelage.errors import ConfigError, ContextOverflow, RunStopped, StoreError
from tutelage.policies.base import Policy
from tutelage.rollout.episode import Ask, Episode, Limits
from tutelage.rollout.live import Failure, Limit, Live, guarded
from tutelage.rollout.summary import JobKey, RolloutSummary, job_key, latest_attempts
from tutelage.rollout.switch import RuleSeed, SwitchRule
from tutelage.store import RecordStore
from tutelage.types import Action, Actor, Step, StopReason, Task, Trajectory

BATCH_WAIT_SECONDS = 0.02
"""How long a batch waits for one more episode whose environment is still working."""
CLOSE_WAIT_SECONDS = 0.25
"""How long the end of a run waits for environments that hang in close."""


@dataclass(frozen=True, slots=True)
class Job:
    """One episode to play."""

    task: Task
    seed: int = 0
    sample_index: int = 0
    prefix: tuple[Step, ...] = ()
    """Steps of a stored trajectory to act again before anybody is asked; each is checked."""
    parent_id: str | None = None
    """The trajectory that `prefix` comes from."""

    @property
    def key(self) -> JobKey:
        return (self.task.task_id, self.seed, self.sample_index)


def make_jobs(tasks: Iterable[Task], *, seed: int = 0, samples_per_task: int = 1) -> list[Job]:
    """Each task `samples_per_task` times; all first samples come first."""
    tasks = list(tasks)
    return [Job(task, seed, sample_index) for sample_index in range(samples_per_task) for task in tasks]


def run_rollouts(
    jobs: Iterable[Job],
    *,
    policies: Mapping[Actor, Policy],
    rule: SwitchRule,
    limits: Limits = Limits(),
    store: RecordStore | None = None,
    concurrency: int = 32,
    retries: int = 1,
    make_env: Callable[[Task], Env] = make_registered_env,
    state_hashes: bool = False,
    on_trajectory: Callable[[Trajectory], None] | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> RolloutSummary:
    """Play what the store lacks of `jobs`, `concurrency` episodes at a time.

    A batched policy gets all episodes that wait for it in one call, from this thread. Episodes whose environment is
    not inline, or that have a policy with `blocking = True` (an endpoint), are played in threads, and end as `timeout`
    when their seconds are over, wherever they hang. Other episodes are played in this thread; their clock is read
    between steps. `make_env` only constructs: slow work belongs into `reset`.

    An episode that the machinery spoilt (`env_error`, `policy_error`, `timeout`) is played again, up to `retries` times
    in one run, as the next attempt with the same seeds; every attempt is stored. Jobs whose latest stored attempt was
    spoilt or interrupted are played again when a run is resumed.

    `on_trajectory` gets each record once it is stored; `on_progress` the numbers of finished jobs and of all jobs.
    On KeyboardInterrupt, SystemExit and `RunStopped` the live episodes are stored as `interrupted`, then it goes on up.
    """
    jobs = list(jobs)
    _check(jobs, policies, rule, concurrency, retries)
    stored = _stored_attempts(jobs, rule, store)
    finished = {key for key, trajectory in stored.items() if not trajectory.stop_reason.is_infrastructure}
    pending = deque(
        _Start(job, first, first + retries)
        for job in jobs
        if job.key not in finished
        for first in [stored[job.key].attempt + 1 if job.key in stored else 0]
    )

    def new_episode(start: _Start) -> Live:
        episode = Episode(
            task=start.job.task,
            policies=policies,
            rule=rule,
            limits=limits,
            seed=start.job.seed,
            sample_index=start.job.sample_index,
            attempt=start.attempt,
            state_hashes=state_hashes,
            prefix=start.job.prefix,
            parent_id=start.job.parent_id,
        )
        return Live(episode, make_env, policies)

    records: list[Trajectory] = []
    num_done = len(finished)

    def take(trajectory: Trajectory, final: bool) -> None:
        nonlocal num_done
        if store is not None:
            store.append(trajectory)
        records.append(trajectory)
        num_done += final
        if on_trajectory is not None:
            on_trajectory(trajectory)
        if on_progress is not None:
            on_progress(num_done, len(jobs))

    started = time.monotonic()
    if on_progress is not None:
        on_progress(num_done, len(jobs))
    _Runner(pending=pending, policies=policies, concurrency=concurrency, new_episode=new_episode, take=take).run()
    return RolloutSummary.of(
        stored=list(stored.values()),
        played=records,
        order=[job.key for job in jobs],
        seconds=time.monotonic() - started,
    )


def _check(
    jobs: Sequence[Job], policies: Mapping[Actor, Policy], rule: SwitchRule, concurrency: int, retries: int
) -> None:
    if concurrency < 1 or retries < 0:
        raise ConfigError(f"rollout: concurrency is {concurrency} and retries {retries}, expected at least 1 and 0")
    for role in sorted(rule.roles - policies.keys()):
        raise ConfigError(f"switch rule '{rule.name}' needs a policy for the role '{role}'; none was given")
    seen: set[JobKey] = set()
    for job in jobs:
        if job.key in seen:
            raise ConfigError(
                f"rollout: task {job.task.task_id} with seed {job.seed}, sample {job.sample_index} is there twice. "
                "Give samples of one task different sample indices (make_jobs does)."
            )
        seen.add(job.key)


def _stored_attempts(jobs: Sequence[Job], rule: SwitchRule, store: RecordStore | None) -> dict[JobKey, Trajectory]:
    """The latest stored attempt of each job. Raises `StoreError` if it was played under another rule."""
    wanted = {job.key for job in jobs}
    latest = {job_key(trajectory): trajectory for trajectory in latest_attempts(store or ())}
    for key in wanted & latest.keys():
        drawn = rule.drawn(RuleSeed(key[1], key[0], key[2]))
        trajectory = latest[key]
        if (trajectory.switch_rule, trajectory.drawn_switch) != (rule.name, drawn):
            assert store is not None
            raise StoreError(
                f"{store.path}: {trajectory.trajectory_id} was played under '{trajectory.switch_rule}' with drawn switch "
                f"{trajectory.drawn_switch}, this run asks for '{rule.name}' with {drawn}. Use another run directory."
            )
    return {key: latest[key] for key in wanted & latest.keys()}


@dataclass(frozen=True, slots=True)
class _Start:
    job: Job
    attempt: int
    last_attempt: int
    """With it, this run gives up on the job."""


@dataclass(kw_only=True)
class _Runner:
    """The coordinator: one thread that starts episodes, answers batches, keeps the clock and takes the records."""

    pending: deque[_Start]
    policies: Mapping[Actor, Policy]
    concurrency: int
    new_episode: Callable[[_Start], Live]
    take: Callable[[Trajectory, bool], None]
    """Called with each record, and whether its job is done with it."""
    live: dict[Live, _Start] = field(default_factory=dict)
    waiting: dict[Live, Ask] = field(default_factory=dict)
    """Episodes that wait for a batched policy."""
    running: set[Live] = field(default_factory=set)
    """Episodes that a thread is driving."""
    driven: queue.SimpleQueue[tuple[Live, Ask | None, BaseException | None]] = field(default_factory=queue.SimpleQueue)
    """What threads came back with."""
    closers: list[threading.Thread] = field(default_factory=list)

    def run(self) -> None:
        try:
            while self.pending or self.live:
                while self.pending and len(self.live) < self.concurrency:
                    self._start(self.pending.popleft())
                self._collect()
                if len(self.live) == self.concurrency or not self.pending:
                    self._answer_waiting()
        except (KeyboardInterrupt, SystemExit, RunStopped):
            for live in list(self.live):
                live.give_up(StopReason.INTERRUPTED)
                self._finish(live)
            raise
        finally:
            for live in self.live:
                live.give_up(StopReason.INTERRUPTED)
                self._close_aside(live)
            until = time.monotonic() + CLOSE_WAIT_SECONDS
            for closer in self.closers:
                closer.join(max(0.0, until - time.monotonic()))

    def _start(self, start: _Start) -> None:
        live = self.new_episode(start)
        self.live[live] = start
        if live.outcome is None:
            self._drive(live, None)
        else:
            self._finish(live)

    def _drive(self, live: Live, answer: Action | Limit | None) -> None:
        if not live.needs_thread:
            self._driven(live, live.drive(answer))
            return
        self.running.add(live)
        threading.Thread(target=self._drive_in_thread, args=(live, answer), daemon=True).start()

    def _drive_in_thread(self, live: Live, answer: Action | Limit | None) -> None:
        try:
            self.driven.put((live, live.drive(answer), None))
        except BaseException as error:
            # A bug, or an error of the user's: raised again by the coordinator.
            self.driven.put((live, None, error))

    def _driven(self, live: Live, ask: Ask | None) -> None:
        if ask is None:
            self._finish(live)
        else:
            self.waiting[live] = ask

    def _collect(self) -> None:
        """Take what threads came back with. Wait for it as long as nothing else can be done."""
        while self.running:
            try:
                live, ask, error = self._next_driven()
            except queue.Empty:
                overdue = [live for live in self.running if live.episode.deadline <= time.monotonic()]
                for live in overdue:
                    live.give_up(StopReason.TIMEOUT, f"no end after {live.episode.limits.episode_seconds:g} s")
                    self._finish(live)
                if overdue or self.waiting:
                    return
                continue
            if live not in self.running:
                continue  # Given up before.
            self.running.remove(live)
            if error is not None:
                raise error
            self._driven(live, ask)
            if ask is None:
                return  # Its place is free for the next episode.

    def _next_driven(self) -> tuple[Live, Ask | None, BaseException | None]:
        """What came back first. Raises `queue.Empty` when it is time to do something else."""
        wait = min(live.episode.deadline for live in self.running) - time.monotonic()
        if self.waiting:
            wait = min(wait, BATCH_WAIT_SECONDS)
        # Zero, not less: who came back in time is taken before anybody is called overdue.
        return self.driven.get(timeout=max(0.0, min(wait, threading.TIMEOUT_MAX)))

    def _answer_waiting(self) -> None:
        """Ask each batched policy once for all that wait for it."""
        waiting, self.waiting = self.waiting, {}
        for policy in {id(policy): policy for policy in self.policies.values()}.values():
            asks = {live: ask for live, ask in waiting.items() if self.policies[ask.actor] is policy}
            if asks:
                self._answer(policy, asks)

    def _answer(self, policy: Policy, asks: Mapping[Live, Ask]) -> None:
        try:
            so_far = [ask.so_far for ask in asks.values()]
            actions = guarded(StopReason.POLICY_ERROR, lambda: policy.act_batch(so_far))
        except ContextOverflow as error:
            full = [live for live, ask in asks.items() if ask.so_far.trajectory_id in error.trajectory_ids]
            for live in full or asks:
                self._drive(live, error)
            if full and len(full) < len(asks):
                self._answer(policy, {live: ask for live, ask in asks.items() if live not in full})
        except Failure as failure:
            if len(asks) > 1:
                # Whose fault it was shows when each is asked alone.
                for live, ask in asks.items():
                    self._answer(policy, {live: ask})
                return
            for live in asks:
                live.fail(failure)
                self._finish(live)
        else:
            for live, action in zip(asks, actions, strict=True):
                self._drive(live, action)

    def _finish(self, live: Live) -> None:
        """Take the record of an episode that has ended, and start it again if the machinery spoilt it."""
        self._close_aside(live)
        for policy in self.policies.values():
            policy.release(live.episode.trajectory_id)
        trajectory, start = live.outcome, self.live[live]
        assert trajectory is not None
        interrupted = trajectory.stop_reason is StopReason.INTERRUPTED
        again = trajectory.stop_reason.is_infrastructure and not interrupted and start.attempt < start.last_attempt
        self.take(trajectory, not again and not interrupted)
        self.running.discard(live)
        self.waiting.pop(live, None)
        del self.live[live]
        if again:
            self.pending.appendleft(_Start(start.job, start.attempt + 1, start.last_attempt))

    def _close_aside(self, live: Live) -> None:
        """Close an environment that a thread may still be using: closing is what wakes it up, or may hang as well."""
        if live.abandoned and live.needs_thread:
            closer = threading.Thread(target=live.close, daemon=True)
            closer.start()
            self.closers.append(closer)
        else:
            live.close()
