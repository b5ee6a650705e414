"""Checks that act again: in this process, in a fresh one, and after going back to a snapshot."""

from __future__ import annotations

from tutelage.envs.base import Snapshotting
from tutelage.evaluation.env_check.case import EXPERT, RANDOM, Case
from tutelage.evaluation.env_check.play import Recording, Seen, look, replay, require_same, with_max_steps
from tutelage.evaluation.env_check.report import Fault, Skip


def check_reset(case: Case) -> str:
    """Two environments of one task, acted in turns, show what the recorded episode showed."""
    num_steps = 0
    for recording in case.some_recordings():
        first, second = case.make_env(recording.task), case.make_env(recording.task)
        try:
            one, other = replay(first, recording), replay(second, recording)
            for where, expected in recording.moments():
                for got in (next(one), next(other)):
                    require_same(
                        where,
                        got,
                        expected,
                        source="the first play",
                        remedy="Draw from a generator of the episode's own, seeded by the task; share nothing that changes "
                        "between environments; read no clock.",
                    )
                num_steps += 2
        finally:
            first.close()
            second.close()
    return f"{num_steps} moments of two environments in turns: all equal to the first play"


def check_replay(case: Case) -> str:
    """A fresh process, with another hash seed, shows the same at every step."""
    answer = case.fresh
    if isinstance(answer.replayed, str):
        raise Fault(
            "replay in a fresh process",
            got=f"{answer.replayed}{f' ({answer.ended})' if answer.ended else ''}",
            expected="the recorded episodes acted again",
            remedy="Build the world from the task's settings alone; a fresh process has nothing else.",
        )
    num_steps = 0
    recordings = case.recordings(EXPERT, RANDOM)
    for recording, again in zip(recordings, answer.replayed, strict=True):
        for (where, expected), got in zip(recording.moments(), again, strict=True):
            require_same(
                f"{where}, in a fresh process",
                got,
                expected,
                source="this process",
                remedy="Sort every set, dict of ids and folder listing before it becomes text; use stable_hash, not hash().",
            )
            num_steps += 1
    return f"{num_steps} moments of {len(recordings)} episodes equal in a fresh process"


def check_snapshot(case: Case) -> str:
    """After going back to a snapshot, also from the end, the same actions show the same; the step limit goes back too."""
    num_steps = 0
    for recording in case.some_recordings():
        num_steps += _go_back(case, recording)
    return f"{num_steps} steps acted again after going back: all equal"


def _go_back(case: Case, recording: Recording) -> int:
    # The limit is met by the last step: an environment that forgets to count it back ends too early.
    task = with_max_steps(recording.task, len(recording.actions))
    env = case.make_env(task)
    if not isinstance(env, Snapshotting):
        env.close()
        raise Skip("not offered")
    half = len(recording.actions) // 2
    try:
        moment = look(env, env.reset(task.seed))
        for action in recording.actions[:half]:
            moment = look(env, env.step(action))
        snapshot = env.snapshot()
        first = [look(env, env.step(action)) for action in recording.actions[half:]]
        for _ in range(2):
            env.restore(snapshot)
            here = look(env, moment.observation)
            _same(f"{recording.where}, back at step {half}", here, _quiet(moment))
            for index, (action, expected) in enumerate(zip(recording.actions[half:], first, strict=True), half):
                _same(
                    f"{recording.where}, step {index} after going back to {half}", look(env, env.step(action)), expected
                )
        reward = env.reward()
    finally:
        env.close()
    if reward != recording.reward and first[-1].terminated:
        raise Fault(
            f"{recording.where}, after going back to {half}",
            got=f"reward {reward}",
            expected=f"{recording.reward}",
            remedy="Keep everything that the reward reads in the snapshot.",
        )
    try:
        env.restore(snapshot)
    except Exception:
        return 2 * len(first)
    raise Fault(
        f"{recording.where}, restore after close",
        got="it went through",
        expected="an EnvError",
        remedy="Raise EnvError in restore once the environment is closed.",
    )


def _quiet(moment: Seen) -> Seen:
    """A moment as it looks after going back to it: no step was made."""
    return Seen(
        observation=moment.observation,
        state_hash=moment.state_hash,
        admissible=moment.admissible,
        progress=moment.progress,
    )


def _same(where: str, got: Seen, expected: Seen) -> None:
    require_same(
        where,
        got,
        expected,
        source="the first time",
        remedy="Let snapshot() copy everything that a step changes, the number of steps included, and restore() put it back.",
    )
