"""One episode: actors, events, limits, retries of replies, labels."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from tutelage.errors import ConfigError, ContextOverflow, EnvError
from tutelage.policies.base import PartialTrajectory, SingleActPolicy
from tutelage.rollout.episode import Limits, run_episode
from tutelage.rollout.switch import AtStep, ExpertOnly, Mix, Never, Segments, SwitchRule, UniformStep
from tutelage.testing import CountingEnv, ScriptedPolicy, counting_task
from tutelage.types import Action, Actor, FailedAttempt, ParseOutcome, StopReason, SwitchEvent, Task, Trajectory

S, E = Actor.STUDENT, Actor.EXPERT
MALFORMED = Action(text="hm", parse=ParseOutcome.MALFORMED, token_ids=(1, 2))
CUT = Action(text="add", command="add", parse=ParseOutcome.ENDED_WITHOUT_STOP)


class Replies(SingleActPolicy):
    """Gives these actions one after the other, and keeps what it was shown."""

    def __init__(self, *replies: Action | str | Exception, name: str = "replies") -> None:
        self.name = name
        self.version = f"{name}-1"
        self.replies = list(replies)
        self.seen: list[PartialTrajectory] = []
        self.released: list[str] = []

    def act(self, so_far: PartialTrajectory) -> Action:
        self.seen.append(so_far)
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if isinstance(reply, Exception):
            raise reply
        return reply if isinstance(reply, Action) else Action.of(reply)

    def release(self, trajectory_id: str) -> None:
        self.released.append(trajectory_id)


def episode(
    rule: SwitchRule,
    student: Sequence[Action | str | Exception] = ("look",),
    expert: Sequence[Action | str | Exception] = ("add",),
    limits: Limits = Limits(),
    task: Task | None = None,
) -> Trajectory:
    task = task or counting_task(target=4)
    policies = {S: Replies(*student, name="student"), E: Replies(*expert, name="expert")}
    return run_episode(task, CountingEnv(task), policies, rule, limits, seed=0)


def letters(trajectory: Trajectory) -> str:
    return "".join(step.actor.value[0] for step in trajectory.steps)


def test_a_record_in_full() -> None:
    """T-01: the student acts three times, the expert finishes in the same live environment."""
    task = counting_task("count-9", target=5, kind="five")
    env = CountingEnv(task)
    student, expert = Replies("look", "add", "look", name="student"), Replies("add", name="expert")
    trajectory = run_episode(task, env, {S: student, E: expert}, AtStep(3), seed=7, sample_index=2, state_hashes=True)
    assert letters(trajectory) == "ssseeee"
    assert trajectory.trajectory_id == "count-9.at_step.s7.n2.a0"
    assert (trajectory.switch_index, trajectory.drawn_switch, trajectory.switch_rule) == (3, 3, "at_step")
    assert trajectory.switch_events == (SwitchEvent(step_index=3, actor=E, reason="at_step k=3"),)
    assert [step.observation.text for step in trajectory.steps] == [
        "Count to 5. The counter shows 0.",
        "The counter shows 0.",
        "The counter shows 1.",
        "The counter shows 1.",
        "The counter shows 2.",
        "The counter shows 3.",
        "The counter shows 4.",
    ]
    assert trajectory.final_observation is not None
    assert trajectory.final_observation.text == "The counter shows 5."
    assert [step.policy_version for step in trajectory.steps] == ["student-1"] * 3 + ["expert-1"] * 4
    assert [step.state_hash for step in trajectory.steps] == [f"count={n}" for n in (0, 1, 1, 2, 3, 4, 5)]
    assert (trajectory.stop_reason, trajectory.reward, trajectory.error) == (StopReason.COMPLETED, 1.0, None)
    assert (trajectory.task_kind, trajectory.env, trajectory.goal) == ("five", "counting", "count to 5")
    assert (trajectory.seed, trajectory.sample_index, trajectory.attempt) == (7, 2, 0)
    assert env.num_closed == 1
    assert student.released == expert.released == ["count-9.at_step.s7.n2.a0"]
    assert len(expert.seen[0].steps) == 3, "the expert sees what the student did"


def test_the_expert_from_step_zero_is_a_handover() -> None:
    """T-02."""
    trajectory = episode(AtStep(0))
    assert letters(trajectory) == "eeee"
    assert (trajectory.switch_index, trajectory.drawn_switch) == (0, 0)
    assert trajectory.switch_events == (SwitchEvent(step_index=0, actor=E, reason="at_step k=0"),)


def test_the_expert_alone_is_no_handover() -> None:
    trajectory = episode(ExpertOnly())
    assert letters(trajectory) == "eeee"
    assert (trajectory.switch_index, trajectory.drawn_switch, trajectory.switch_events) == (0, None, ())


def test_an_episode_that_ends_before_the_switch() -> None:
    """T-03."""
    trajectory = episode(AtStep(9), student=["look", "add"])
    assert letters(trajectory) == "sssss"
    assert (trajectory.switch_index, trajectory.drawn_switch, trajectory.switch_events) == (None, 9, ())
    assert trajectory.stop_reason is StopReason.COMPLETED


def test_a_reply_asked_for_again_does_not_advance_the_switch() -> None:
    """T-04: student's replies ok, malformed, ok; K = 2."""
    student = Replies("look", MALFORMED, "add", "never asked", name="student")
    task = counting_task(target=2)
    trajectory = run_episode(task, CountingEnv(task), {S: student, E: Replies("add")}, AtStep(2), seed=0)
    assert letters(trajectory) == "sse"
    assert len(student.seen) == 3
    assert trajectory.num_student_steps == 2
    assert trajectory.steps[1].action.attempts == (FailedAttempt(text="hm", num_tokens=2, error="malformed"),)
    assert trajectory.steps[1].action.command == "add"
    assert student.seen[1].seed != student.seen[2].seed, "else a policy that samples by the seed repeats itself"


def test_several_switches() -> None:
    """T-32: events where the actor changes."""
    rule = Segments([("student", 2), ("expert", 2), ("student", 1), ("expert", None)])
    trajectory = episode(rule, task=counting_task(target=4))
    assert letters(trajectory) == "sseesee"
    assert [(event.step_index, event.actor) for event in trajectory.switch_events] == [(2, E), (4, S), (5, E)]


def test_the_limit_of_the_student_hands_over_early() -> None:
    """T-10."""
    trajectory = episode(AtStep(5), limits=Limits(student_max_steps=2, on_student_limit="switch"))
    assert letters(trajectory) == "sseeee"
    assert trajectory.switch_events == (SwitchEvent(step_index=2, actor=E, reason="student_limit"),)
    assert trajectory.drawn_switch == 5


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (Limits(student_max_steps=2), "ss"),
        (Limits(student_max_steps=2, max_steps=1), "s"),
        (Limits(max_steps=7), "sssss" + "ee"),
        (Limits(expert_max_steps=3), "sssss" + "eee"),
        (Limits(student_max_steps=5, expert_max_steps=1), "sssss" + "e"),
    ],
)
def test_a_limit_on_steps_is_never_completed(limits: Limits, expected: str) -> None:
    """R1."""
    trajectory = episode(AtStep(5), limits=limits)
    assert letters(trajectory) == expected
    assert (trajectory.stop_reason, trajectory.reward) == (StopReason.MAX_STEPS, 0.0)


def test_the_limit_of_the_environment() -> None:
    trajectory = episode(Never(), task=counting_task(target=4, max_steps=3))
    assert (letters(trajectory), trajectory.stop_reason) == ("sss", StopReason.MAX_STEPS)


def test_a_win_on_the_last_allowed_step_is_completed() -> None:
    task = counting_task(target=2, max_steps=2)
    trajectory = episode(Never(), student=["add"], task=task, limits=Limits(max_steps=2))
    assert (letters(trajectory), trajectory.stop_reason, trajectory.reward) == ("ss", StopReason.COMPLETED, 1.0)


def test_a_reply_cut_off_ends_the_episode() -> None:
    """R1: finish reason "length" in step 1 of 3."""
    trajectory = episode(Never(), student=["add", CUT, "add"], task=counting_task(target=3))
    assert (letters(trajectory), trajectory.stop_reason, trajectory.reward) == ("ss", StopReason.MAX_TOKENS, 0.0)


def test_a_reply_cut_off_that_would_win_is_not_completed() -> None:
    """R1."""
    trajectory = episode(Never(), student=["add", CUT], task=counting_task(target=2))
    assert (letters(trajectory), trajectory.stop_reason) == ("ss", StopReason.MAX_TOKENS)


def test_a_reply_cut_off_can_hand_over_instead() -> None:
    limits = Limits(on_student_limit="switch")
    trajectory = episode(AtStep(9), student=["look", CUT, "look"], task=counting_task(target=3), limits=limits)
    assert letters(trajectory) == "ssee"
    assert trajectory.switch_events == (SwitchEvent(step_index=2, actor=E, reason="student_limit"),)
    assert trajectory.stop_reason is StopReason.COMPLETED


def test_malformed_replies_end_the_episode_with_all_of_them_kept() -> None:
    trajectory = episode(Never(), student=["add", MALFORMED])
    assert (letters(trajectory), trajectory.stop_reason, trajectory.reward) == ("ss", StopReason.PARSE_ERROR, 0.0)
    assert trajectory.steps[1].action.parse is ParseOutcome.MALFORMED
    assert len(trajectory.steps[1].action.attempts) == 2
    assert trajectory.final_observation is not None
    assert trajectory.final_observation.text == "Nothing happens."


def test_an_expert_that_cannot_speak_ends_the_episode() -> None:
    assert episode(AtStep(1), expert=[MALFORMED]).stop_reason is StopReason.PARSE_ERROR
    assert episode(AtStep(1), expert=[CUT]).stop_reason is StopReason.MAX_TOKENS


def test_a_full_context_ends_the_episode_or_hands_over() -> None:
    overflow = ContextOverflow("2060 tokens", trajectory_ids=("x",))
    ended = episode(AtStep(5), student=["add", overflow])
    assert (letters(ended), ended.stop_reason, ended.reward) == ("s", StopReason.CONTEXT_OVERFLOW, 0.0)
    handed = episode(AtStep(5), student=["add", overflow], limits=Limits(on_student_limit="switch"))
    assert (letters(handed), handed.stop_reason) == ("seee", StopReason.COMPLETED)
    assert handed.switch_events[0].reason == "student_limit"
    stuck = episode(AtStep(1), expert=[overflow])
    assert (letters(stuck), stuck.stop_reason, stuck.switch_events) == ("s", StopReason.CONTEXT_OVERFLOW, ())


def test_labels_at_every_state() -> None:
    """T-31: beta 0, student A B C, labels A X C: executed A B C; the history holds what was executed."""
    student, expert = Replies("A", "B", "C", name="student"), Replies("A", "X", "C", name="expert")
    task = counting_task(max_steps=3)
    trajectory = run_episode(task, CountingEnv(task), {S: student, E: expert}, Mix(beta=0.0), seed=0)
    assert letters(trajectory) == "sss"
    assert [step.action.command for step in trajectory.steps] == ["A", "B", "C"]
    assert [step.expert_action and step.expert_action.command for step in trajectory.steps] == ["A", "X", "C"]
    assert [step.action.command for step in expert.seen[2].steps] == ["A", "B"]


def test_the_expert_that_acts_in_a_mix_is_asked_once() -> None:
    expert = Replies("add", name="expert")
    task = counting_task(target=3)
    trajectory = run_episode(task, CountingEnv(task), {S: Replies("look"), E: expert}, Mix(beta=1.0), seed=0)
    assert letters(trajectory) == "eee"
    assert len(expert.seen) == 3
    assert all(step.expert_action == step.action for step in trajectory.steps)


def test_samples_of_a_task_differ_and_attempts_do_not() -> None:
    def seed_shown(sample_index: int, attempt: int) -> int:
        student, task = Replies("add"), counting_task(target=1)
        policies = {S: student}
        run_episode(task, CountingEnv(task), policies, Never(), seed=0, sample_index=sample_index, attempt=attempt)
        return student.seen[0].seed

    assert seed_shown(0, 0) == seed_shown(0, 1)
    assert seed_shown(0, 0) != seed_shown(1, 0)


def test_close_is_called_once_on_every_path() -> None:
    task = counting_task(die_at=1)
    env, student = CountingEnv(task), Replies("add")
    with pytest.raises(EnvError, match="the counter's process died"):
        run_episode(task, env, {S: student}, Never(), seed=0)
    assert env.num_closed == 1
    assert student.released == ["count-1.never.s0.n0.a0"]


def test_the_clock_is_read_between_steps() -> None:
    task = counting_task(target=100, hang_at=1, hang_seconds=0.05)
    limits = Limits(episode_seconds=0.03)
    trajectory = run_episode(task, CountingEnv(task), {S: Replies("add")}, Never(), limits, seed=0)
    assert (letters(trajectory), trajectory.stop_reason, trajectory.reward) == ("ss", StopReason.TIMEOUT, None)


def test_what_is_refused() -> None:
    task = counting_task()
    with pytest.raises(ConfigError, match="switch rule 'uniform' needs a policy for the role 'expert'"):
        run_episode(task, CountingEnv(task), {S: ScriptedPolicy(["add"])}, UniformStep(), seed=0)
    limits = Limits(on_student_limit="switch")
    with pytest.raises(ConfigError, match="on_student_limit 'switch' needs a policy for the role 'expert'"):
        run_episode(task, CountingEnv(task), {S: ScriptedPolicy(["add"])}, Never(), limits, seed=0)
    with pytest.raises(ConfigError, match=re.escape("limits: max_steps is 0, expected more than 0")):
        Limits(max_steps=0)
    with pytest.raises(ConfigError, match="on_student_limit is 'stop', expected 'end' or 'switch'"):
        Limits(on_student_limit="stop")  # type: ignore[arg-type]
