"""Checks of what happens at the end: closing on every path, and nothing left behind."""

from __future__ import annotations

import sys
from collections.abc import Callable

from tutelage.envs.base import Env
from tutelage.evaluation.env_check.case import EXPERT, RANDOM, Case
from tutelage.evaluation.env_check.counted import CountedEnvs
from tutelage.evaluation.env_check.leftovers import ActsAgain
from tutelage.evaluation.env_check.play import MALFORMED, Recording, must_refuse, with_max_steps
from tutelage.evaluation.env_check.report import Fault, Skip, listed, short
from tutelage.rollout.episode import Limits
from tutelage.rollout.runner import make_jobs, run_rollouts
from tutelage.rollout.switch import ExpertOnly
from tutelage.types import Actor

_SINGLE_USE = (
    "Keep whether reset and step are allowed now, and raise EnvError if not: one environment plays one episode."
)


def check_close(case: Case) -> str:
    """Closing works at every moment, twice as well; a closed or ended episode cannot go on; the runner closes once."""
    recording = case.some_recordings()[0]
    moments: dict[str, Callable[[Env], None]] = {
        "before reset": lambda env: None,
        "after reset": lambda env: _act(env, recording, 0),
        "in the middle": lambda env: _act(env, recording, max(1, len(recording.actions) // 2)),
        "at the end": lambda env: _act(env, recording, len(recording.actions)),
    }
    for moment, reach in moments.items():
        _close_twice(case, recording, moment, reach)
    _refuses_out_of_turn(case, recording)
    num_closed = _runner_closes_once(case, recording)
    return (
        f"closed at {len(moments)} moments, twice each; {num_closed} episodes with four kinds of end closed once each"
    )


def _act(env: Env, recording: Recording, num_steps: int) -> None:
    env.reset(recording.task.seed)
    for action in recording.actions[:num_steps]:
        env.step(action)


def _close_twice(case: Case, recording: Recording, moment: str, reach: Callable[[Env], None]) -> None:
    env = case.make_env(with_max_steps(recording.task, len(recording.actions)))
    where = f"task {recording.task.task_id}, close {moment}"
    try:
        reach(env)
    finally:
        env.close()
    try:
        env.close()
    except Exception as error:
        raise Fault(
            f"{where}, a second time",
            got=f"{type(error).__name__}: {short(str(error))}",
            expected="nothing",
            remedy="Return at once from close() where the environment is closed already.",
        ) from None
    must_refuse(where, "a step after it", lambda: env.step(MALFORMED), _SINGLE_USE)
    must_refuse(where, "a reset after it", lambda: env.reset(recording.task.seed), _SINGLE_USE)


def _refuses_out_of_turn(case: Case, recording: Recording) -> None:
    """A step before the reset, a second reset, a step after the end."""
    where = f"task {recording.task.task_id}"
    env = case.make_env(with_max_steps(recording.task, 1))
    try:
        must_refuse(where, "a step before the reset", lambda: env.step(MALFORMED), _SINGLE_USE)
    finally:
        env.close()
    env = case.make_env(with_max_steps(recording.task, 1))
    try:
        env.reset(recording.task.seed)
        must_refuse(where, "a second reset", lambda: env.reset(recording.task.seed), _SINGLE_USE)
        if env.step(MALFORMED).truncated:  # If not, the checks of limits say so.
            must_refuse(where, "a step after the end", lambda: env.step(MALFORMED), _SINGLE_USE)
    finally:
        env.close()


def _runner_closes_once(case: Case, recording: Recording) -> int:
    """Episodes that end by themselves, by the environment's limit, by a failing policy, by the clock."""
    task = recording.task
    ways = {
        "by itself": (task, None, Limits()),
        "at its own limit": (with_max_steps(task, 1), None, Limits()),
        "with its policy": (task, 1 if len(recording.actions) > 1 else 0, Limits()),
        "with its time": (task, None, Limits(episode_seconds=1e-6)),
    }
    for how, (played, fail_at, limits) in ways.items():
        envs = CountedEnvs(case.make_env)
        run_rollouts(
            make_jobs([played]),
            policies={Actor.EXPERT: ActsAgain([recording], fail_at=fail_at)},
            rule=ExpertOnly(),
            limits=limits,
            retries=0,
            make_env=envs.make,
        )
        envs.wait_until_closed(5.0)
        if [env.num_closed for env in envs.made] != [1]:
            raise Fault(
                f"task {task.task_id}, an episode that ended {how}",
                got=f"closed {listed(env.num_closed for env in envs.made)} times without an error",
                expected="once",
                remedy="Let close() work at every moment, from another thread as well, and raise nothing.",
            )
    return len(ways)


def check_leaks(case: Case) -> str:
    """After many short episodes no thread, process, descriptor or temporary file is there that was not there before."""
    case.recordings(EXPERT, RANDOM)  # Skipped where there is nothing to act again.
    if not sys.platform.startswith("linux"):
        raise Skip("counted through /proc, which this system does not have")
    answer = case.fresh
    if isinstance(answer.leftovers, str):
        raise Fault(
            "episodes in a fresh process",
            got=f"{answer.leftovers}{f' ({answer.ended})' if answer.ended else ''}",
            expected=f"{case.num_episodes} episodes",
            remedy="Run them in a plain process, as a worker of a rollout does.",
        )
    found = answer.leftovers
    spoilt = {name: number for name, number in found.endings.items() if name in ("env_error", "timeout")}
    if spoilt:
        raise Fault(
            f"{found.num_episodes} short episodes in a fresh process",
            got=", ".join(f"{number} {name}" for name, number in spoilt.items()),
            expected="none that the machinery spoilt",
            remedy="Run it with few episodes (--episodes 20): what fails only after many has run out.",
        )
    if answer.orphans or found.grown:
        grown = {kind: f"{len(names)} {kind} ({listed(sorted(set(names)), 3)})" for kind, names in found.grown.items()}
        outlived = [f"{len(answer.orphans)} processes that outlived it ({listed(answer.orphans, 2)}; they were ended)"]
        raise Fault(
            f"after {found.num_episodes} short episodes",
            got=", ".join([*grown.values(), *(outlived if answer.orphans else [])]),
            expected="no more than after the first ones",
            remedy="Let close() end, join and close everything that this environment started or opened.",
        )
    if answer.ended:
        raise Fault(
            f"the process of {found.num_episodes} short episodes",
            got=answer.ended,
            expected="its end in order",
            remedy="Let close() join threads that are not daemons.",
        )
    endings = ", ".join(f"{number} {name}" for name, number in sorted(found.endings.items()))
    return f"{found.num_episodes} episodes ({endings}): no thread, process, descriptor or temporary file left"
