"""Checks of limits: of steps, of time, and what a reply without an action costs."""

from __future__ import annotations

import time
from statistics import median
from typing import Final

from tutelage.envs.base import Env
from tutelage.evaluation.env_check.case import EXPERT, SLACK, Case
from tutelage.evaluation.env_check.counted import CountedEnvs
from tutelage.evaluation.env_check.leftovers import ActsAgain
from tutelage.evaluation.env_check.play import (
    MALFORMED,
    NONSENSE,
    Recording,
    Seen,
    look,
    replay,
    step_limit,
    with_max_steps,
)
from tutelage.evaluation.env_check.report import Fault, short
from tutelage.rollout.episode import Limits
from tutelage.rollout.runner import make_jobs, run_rollouts
from tutelage.rollout.switch import ExpertOnly
from tutelage.types import Action, Actor, ParseOutcome, StopReason

INLINE_SECONDS: Final = 0.005
"""Most wall-clock time of a step, by the median, of an environment that is played without threads."""
CLOSE_SECONDS: Final = 5.0
"""How long an environment may take to close after its time was over."""
ALMOST_NO_TIME: Final = 1e-6

_LIMIT_REMEDY: Final = (
    "After each step: terminated if the task itself ended; else truncated if as many steps were made as "
    "settings['max_steps'] says."
)

_NOTHING_REMEDY: Final = "Answer it before anything else of step() runs; count the step and change nothing."


def check_truncation(case: Case) -> str:
    """The episode is truncated at exactly the step limit, and a win on the last allowed step is terminated."""
    cut = won = 0
    for recording in filter(_is_clean, case.recordings()):
        limit = step_limit(recording.task)
        length = len(recording.actions)
        if limit is None:
            continue
        if length > limit or (recording.seen and recording.seen[-1].truncated and length != limit):
            raise Fault(
                recording.where,
                got=f"an episode of {length} steps",
                expected=f"its end at the limit of {limit} steps, not before and not after",
                remedy=f"{_LIMIT_REMEDY}\nWhere the world behind it has a limit of its own, let max_steps be None.",
            )
    clean = [one for one in case.some_recordings() if _is_clean(one)]
    for recording in clean or case.some_recordings():
        length = len(recording.actions)
        if recording.seen[-1].terminated:
            _ends(case, recording, length, terminated=True)
            won += 1
        shorter = length - 1 if recording.seen[-1].ended else max(1, length // 2)
        if shorter >= 1:
            _ends(case, recording, shorter, terminated=False)
            cut += 1
    return f"{cut} episodes cut at exactly the limit, {won} that ended on the last allowed step terminated"


def _is_clean(recording: Recording) -> bool:
    """What a malformed action costs is another check's business."""
    return all(action.parse is not ParseOutcome.MALFORMED for action in recording.actions)


def _ends(case: Case, recording: Recording, max_steps: int, *, terminated: bool) -> None:
    """Act a recording's first `max_steps` actions under that limit, and look at the flags."""
    env = case.make_env(with_max_steps(recording.task, max_steps))
    try:
        moments = list(replay(env, recording, max_steps))[1:]
    finally:
        env.close()
    for index, moment in enumerate(moments):
        last = index == max_steps - 1
        expected = (last and terminated, last and not terminated)
        if (moment.terminated, moment.truncated) != expected:
            raise Fault(
                f"{recording.where} with max_steps {max_steps}, step {index}",
                got=_flags(moment.terminated, moment.truncated),
                expected=_flags(*expected),
                remedy=_LIMIT_REMEDY,
            )


def _flags(terminated: bool, truncated: bool) -> str:
    return "terminated" if terminated else "truncated" if truncated else "neither terminated nor truncated"


def check_malformed(case: Case) -> str:
    """A reply without an action costs a step, changes nothing, and is answered with the help; nonsense changes nothing."""
    num_tried = 0
    for recording in case.some_recordings():
        length = len(recording.actions)
        for index in sorted({0, length // 2, length - 1}):
            for action in (MALFORMED, Action.of(NONSENSE)):
                _changes_nothing(case, recording, index, action)
                num_tried += 1
        _costs_a_step(case, recording)
    return f"{num_tried} replies without a command: answered, nothing changed, a step each"


def _changes_nothing(case: Case, recording: Recording, index: int, action: Action) -> None:
    """One bad reply before step `index`; what follows goes on as recorded."""
    limit = step_limit(recording.task)
    env = case.make_env(recording.task if limit is None else with_max_steps(recording.task, limit + SLACK))
    what = "a malformed action" if action is MALFORMED else f"the command {action.command!r}"
    where = f"{recording.where}, {what} before step {index}"
    try:
        *_, before = replay(env, recording, index)
        after = look(env, env.step(action))
        # A world with a limit of its own may have met it by this very step.
        truncated = after.truncated and limit is not None
        for name, got, expected in (
            ("state_hash", after.state_hash, before.state_hash),
            ("admissible", after.admissible, before.admissible),
            ("progress", after.progress, before.progress),
            ("reward of the step", after.reward or 0.0, 0.0),
            ("end", _flags(after.terminated, truncated), _flags(False, False)),
        ):
            if got != expected:
                raise Fault(f"{where}: {name}", got=short(got), expected=short(expected), remedy=_NOTHING_REMEDY)
        _check_answer(case, where, after, malformed=action is MALFORMED or case.action_format is not None)
        if not after.ended:
            _goes_on(env, where, recording, index)
    finally:
        env.close()


def _goes_on(env: Env, where: str, recording: Recording, index: int) -> None:
    """The rest of the recording is worth what it was worth without the bad reply; what is hidden has not changed either."""
    for number, recorded in enumerate(recording.seen[index:], index):
        moment = look(env, env.step(recording.actions[number]))
        if (moment.reward, moment.terminated) != (recorded.reward, recorded.terminated):
            raise Fault(
                f"{where}, then step {number} as recorded",
                got=f"reward {moment.reward}, {_flags(moment.terminated, moment.truncated)}",
                expected=f"reward {recorded.reward}, {_flags(recorded.terminated, False)}",
                remedy=_NOTHING_REMEDY,
            )
        if moment.ended:
            return


def _check_answer(case: Case, where: str, after: Seen, *, malformed: bool) -> None:
    text = after.observation.text
    if malformed and case.action_format is not None and text != case.action_format.help:
        raise Fault(
            f"{where}: answer",
            got=short(text),
            expected=f"the help of its action format, {short(case.action_format.help)}",
            remedy="Answer an action whose command is None with self.action_format.help.",
        )
    if not text.strip():
        raise Fault(
            f"{where}: answer",
            got="an empty text",
            expected="a sentence that tells what an action looks like",
            remedy="Answer an action whose command is None with one fixed sentence.",
        )


def _costs_a_step(case: Case, recording: Recording) -> None:
    env = case.make_env(with_max_steps(recording.task, 3))
    try:
        env.reset(recording.task.seed)
        answers = []
        for index in range(3):
            answers.append(env.step(MALFORMED))
            if answers[-1].truncated != (index == 2):
                raise Fault(
                    f"{recording.where}, with max_steps 3, malformed action {index + 1}",
                    got=_flags(answers[-1].terminated, answers[-1].truncated),
                    expected=_flags(False, index == 2),
                    remedy="Count a malformed action as a step, or an agent that says nothing plays for ever.",
                )
    finally:
        env.close()


def check_time_limit(case: Case) -> str:
    """An episode whose time is over ends as a timeout, unscored and closed; the next ones are played as ever."""
    inline = case.is_inline(case.tasks[0])
    if inline:
        _is_quick(case)
    tasks = case.few_tasks
    time.monotonic()
    envs = CountedEnvs(case.make_env)
    recordings = case.recordings(EXPERT) if case.has_expert else case.recordings()
    policy = {Actor.EXPERT: ActsAgain(recordings)}
    late = run_rollouts(
        make_jobs(tasks),
        policies=policy,
        rule=ExpertOnly(),
        limits=Limits(episode_seconds=ALMOST_NO_TIME),
        retries=0,
        make_env=envs.make,
    )
    for one in late.trajectories:
        if one.stop_reason is not StopReason.TIMEOUT or one.reward is not None:
            raise Fault(
                f"task {one.task_id}, with {ALMOST_NO_TIME:g} s for the episode",
                got=f"{one.stop_reason}, reward {one.reward}{f' ({one.error})' if one.error else ''}",
                expected="timeout, reward None",
                remedy="Raise nothing when closing interrupts a reset or a step but EnvError.",
            )
    if not envs.wait_until_closed(CLOSE_SECONDS):
        raise Fault(
            "episodes whose time was over",
            got=f"{envs.num_open} of {len(envs.made)} environments still open after {CLOSE_SECONDS:g} s",
            expected="closed",
            remedy="Let close() wake whatever reset() or step() waits for.",
        )
    after = run_rollouts(make_jobs(tasks), policies=policy, rule=ExpertOnly(), retries=0, make_env=case.make_env)
    for one in after.trajectories:
        if one.stop_reason.is_infrastructure:
            raise Fault(
                f"task {one.task_id}, after others had run out of time",
                got=f"{one.stop_reason}: {one.error}",
                expected="an episode as any other",
                remedy="Share nothing between environments that a close in mid-step can spoil.",
            )
    how = "in the runner's thread" if inline else "in a thread of its own"
    return f"{len(tasks)} timeouts, unscored and closed, then {len(tasks)} episodes as ever; a step runs {how}"


def _is_quick(case: Case) -> None:
    """An inline environment holds up every other episode while it steps."""
    seconds = [one for recording in case.recordings() for one in recording.step_seconds]
    middle = median(seconds) if seconds else 0.0
    if middle > INLINE_SECONDS:
        raise Fault(
            "inline",
            got=f"steps of {1000 * middle:.1f} ms (median of {len(seconds)}) in an environment with inline = True",
            expected=f"at most {1000 * INLINE_SECONDS:g} ms, since the runner plays it without a thread and cannot interrupt it",
            remedy="Set inline = False.",
        )
