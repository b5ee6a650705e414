"""Closed loop: a step is taken away, and the policy goes on by itself instead of repeating the record.

For each step t of a trajectory with commands a_0 .. a_{N-1} and a limit of M steps:
  intact   the policy goes on after a_0 .. a_t,     K times, with M - t - 1 steps left
  omitted  the policy goes on after a_0 .. a_{t-1}, K times, with M - t - 1 steps left as well
  impact   mean success of the first minus mean success of the second: how far the step could not be made up for

The continuations after a_0 .. a_{t-1} serve twice, as `omitted` of t and as `intact` of t - 1: the same episodes, won
one step earlier or not. So N + 1 prefixes are played K times each, not 2 N.

Example, K = 2, M = 10: after 3 steps the policy wins at steps 6 and 10, after 4 steps at steps 6 and 9
  intact of step 3 is 2/2; omitted of step 3 is 1/2, as step 10 would be the one that is not left; impact 0.5
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tutelage.envs.base import Env
from tutelage.envs.registry import make_env as make_registered_env
from tutelage.errors import ConfigError, FormatError, StoreError
from tutelage.policies.base import Policy
from tutelage.rollout.episode import Limits
from tutelage.rollout.runner import Job, run_rollouts
from tutelage.rollout.switch import Never
from tutelage.store import write_atomic
from tutelage.types import Actor, StopReason, Task, Trajectory

NUM_CONTINUATIONS: Final = 4
"""K: one for each of the seeds 0, 1, 2, 3."""
MAX_PREFIXES: Final = 1000
"""Sets the samples of one trajectory's prefixes apart from those of another sample of the task."""
EPISODES_PER_CALL: Final = 512
"""About so many continuations are played together, and stored when all of them are done."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ClosedLoop:
    """How a policy fares after every prefix of one trajectory."""

    trajectory_id: str
    max_steps: int
    """M, counted from the start of the episode."""
    solved_at: tuple[tuple[int | None, ...], ...]
    """[N + 1][K] after t steps of the record, the number of steps at which each continuation had won. None: it had not."""

    @property
    def intact(self) -> tuple[float, ...]:
        """[N] mean success after a_0 .. a_t."""
        return tuple(_share(one, self.max_steps) for one in self.solved_at[1:])

    @property
    def omitted(self) -> tuple[float, ...]:
        """[N] mean success after a_0 .. a_{t-1} with as many steps left."""
        return tuple(_share(one, self.max_steps - 1) for one in self.solved_at[:-1])

    @property
    def impact(self) -> tuple[float, ...]:
        """[N] `intact` minus `omitted`, from -1 to 1."""
        return tuple(intact - omitted for intact, omitted in zip(self.intact, self.omitted, strict=True))


def _share(solved_at: Sequence[int | None], within: int) -> float:
    return sum(one is not None and one <= within for one in solved_at) / len(solved_at)


def closed_loop_impact(
    trajectories: Iterable[Trajectory],
    tasks: Mapping[str, Task],
    policy: Policy,
    *,
    max_steps: int,
    num_continuations: int = NUM_CONTINUATIONS,
    path: Path | None = None,
    make_env: Callable[[Task], Env] = make_registered_env,
    concurrency: int = 128,
    on_progress: Callable[[int, int], None] | None = None,
) -> dict[str, ClosedLoop]:
    """Trajectory id -> how `policy` fares after each of its prefixes.

    max_steps: the limit of the episodes the trajectories come from. path: a JSON lines file; what it has is not played
    again. on_progress gets the numbers of trajectories done and in all.

    A trajectory is left out where a continuation was not scored: its record is not met, or the machinery failed.
    Raises StoreError where `path` was made under other settings, ConfigError where a task is missing.
    """
    wanted = list(trajectories)
    for one in wanted:
        if one.task_id not in tasks or len(one.steps) > max_steps:
            raise ConfigError(
                f"closed loop: trajectory {one.trajectory_id} has {len(one.steps)} steps on task {one.task_id}; expected at "
                f"most max_steps {max_steps}, and its task among the {len(tasks)} given."
            )
    settings = {"policy": policy.version, "max_steps": max_steps, "num_continuations": num_continuations}
    settings |= {"temperature": getattr(policy, "temperature", None)}
    rows = _stored(path, settings)
    waiting = [one for one in wanted if one.trajectory_id not in rows]
    for chunk in _chunks(waiting, num_continuations):
        if on_progress is not None:
            on_progress(sum(one.trajectory_id in rows for one in wanted), len(wanted))
        jobs = [job for one in chunk for job in _jobs(one, tasks[one.task_id], num_continuations)]
        played = run_rollouts(
            jobs,
            policies={Actor.STUDENT: policy},
            rule=Never(),
            limits=Limits(max_steps=max_steps),
            concurrency=concurrency,
            make_env=make_env,
        )
        outcome = {job.key: trajectory for job, trajectory in zip(jobs, played.trajectories, strict=True)}
        for one in chunk:
            ends = [outcome[job.key] for job in _jobs(one, tasks[one.task_id], num_continuations)]
            rows[one.trajectory_id] = _solved_at(ends, num_continuations)
        _store(path, settings, rows)
    if on_progress is not None:
        on_progress(len(wanted), len(wanted))
    return {
        one.trajectory_id: ClosedLoop(
            trajectory_id=one.trajectory_id, max_steps=max_steps, solved_at=tuple(map(tuple, solved_at))
        )
        for one in wanted
        if (solved_at := rows[one.trajectory_id]) is not None
    }


def _jobs(trajectory: Trajectory, task: Task, num_continuations: int) -> list[Job]:
    """K continuations after each prefix, the shortest prefix first. They depend on the trajectory alone."""
    return [
        Job(
            task,
            seed=seed,
            sample_index=trajectory.sample_index * MAX_PREFIXES + num_steps,
            prefix=trajectory.steps[:num_steps],
            parent_id=trajectory.trajectory_id,
        )
        for num_steps in range(len(trajectory.steps) + 1)
        for seed in range(num_continuations)
    ]


def _chunks(trajectories: Iterable[Trajectory], num_continuations: int) -> Iterator[list[Trajectory]]:
    """Trajectories to play together; two records of one sample of a task (its jobs have one name) never are."""
    chunk: list[Trajectory] = []
    size = 0
    for one in trajectories:
        if size >= EPISODES_PER_CALL or any(
            (one.task_id, one.sample_index) == (other.task_id, other.sample_index) for other in chunk
        ):
            yield chunk
            chunk, size = [], 0
        chunk.append(one)
        size += (len(one.steps) + 1) * num_continuations
    if chunk:
        yield chunk


def _solved_at(ends: Sequence[Trajectory], num_continuations: int) -> list[list[int | None]] | None:
    """[N + 1][K] steps at the win. None: some continuation was not scored."""
    if any(one.reward is None for one in ends):
        return None
    won = [
        len(one.steps) if one.stop_reason is StopReason.COMPLETED and (one.reward or 0.0) >= 1.0 else None
        for one in ends
    ]
    return [won[first : first + num_continuations] for first in range(0, len(won), num_continuations)]


def _stored(path: Path | None, settings: Mapping[str, Any]) -> dict[str, list[list[int | None]] | None]:
    if path is None or not path.is_file():
        return {}
    try:
        header, *rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        stored = {row["trajectory_id"]: row["solved_at"] for row in rows}
    except (ValueError, KeyError, TypeError) as error:
        raise FormatError(f"{path}: no continuations that can be read ({error!r}). Delete it and run again.") from error
    if header != settings:
        raise StoreError(
            f"{path}: was played with {header}, now it is {dict(settings)}. Choose another folder with --out."
        )
    return stored


def _store(path: Path | None, settings: Mapping[str, Any], rows: Mapping[str, list[list[int | None]] | None]) -> None:
    if path is not None:
        lines = [dict(settings), *({"trajectory_id": name, "solved_at": solved_at} for name, solved_at in rows.items())]
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, "".join(f"{json.dumps(line)}\n" for line in lines).encode())
