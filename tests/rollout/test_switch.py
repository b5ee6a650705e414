"""Who acts when: every rule, actors spelled in full."""

from __future__ import annotations

import re
from dataclasses import FrozenInstanceError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutelage.errors import ConfigError
from tutelage.policies.base import PartialTrajectory
from tutelage.rollout.switch import (
    SWITCH_RULES,
    AtStep,
    ExpertOnly,
    HandBack,
    Mix,
    Never,
    OnFailure,
    OnLoop,
    RuleSeed,
    Segments,
    SwitchRule,
    UniformFraction,
    UniformStep,
    make_rule,
)
from tutelage.testing import counting_task, make_trajectory
from tutelage.types import Actor, Observation


def actors(
    rule: SwitchRule,
    num_steps: int,
    commands: list[str] | None = None,
    answers: list[str] | None = None,
    seed: RuleSeed = RuleSeed(0, "tw-0001"),
) -> str:
    """The letters of `num_steps` steps played under a rule; answers[t] is the observation after step t."""
    letters = ""
    for index in range(num_steps):
        steps = make_trajectory(
            letters,
            None if commands is None else commands[:index],
            None if answers is None else ["start", *answers][:index],
        ).steps
        observation = "start" if answers is None or index == 0 else answers[index - 1]
        so_far = PartialTrajectory(
            trajectory_id="t",
            task=counting_task(),
            steps=steps,
            observation=Observation.of(f"see {index}" if answers is None else observation),
            seed=0,
        )
        letters += rule.next_actor(so_far, seed).value[0]
    return letters


def test_one_actor() -> None:
    assert actors(Never(), 4) == "ssss"
    assert actors(ExpertOnly(), 4) == "eeee"
    assert Never.roles == {Actor.STUDENT}
    assert ExpertOnly.roles == {Actor.EXPERT}
    assert ExpertOnly().drawn(RuleSeed(0, "a")) is None


def test_at_step() -> None:
    """T-01 and T-02."""
    assert actors(AtStep(3), 7) == "ssseeee"
    assert actors(AtStep(0), 4) == "eeee"
    assert AtStep(3).describe(RuleSeed(0, "a")) == "at_step k=3"


@pytest.mark.parametrize(
    ("seed", "task_id", "expected"),
    [
        (0, "tw-0001", [25, 14, 3]),
        (0, "tw-0002", [21, 0, 5]),
        (0, "tw-0003", [24, 28, 14]),
    ],
)
def test_uniform_draws(seed: int, task_id: str, expected: list[int]) -> None:
    """T-05: the draw is a hash of seed, task and sample."""
    assert [UniformStep(0, 30).drawn(RuleSeed(seed, task_id, sample)) for sample in range(3)] == expected


def test_uniform_draws_of_another_seed() -> None:
    """T-05, seed 1."""
    assert [UniformStep().drawn(RuleSeed(1, f"tw-000{n}")) for n in (1, 2, 3)] == [14, 10, 3]


def test_uniform_reaches_both_ends_evenly() -> None:
    counts = [0] * 5
    for index in range(5000):
        counts[UniformStep(2, 4).drawn(RuleSeed(0, f"t{index}"))] += 1
    assert counts[:2] == [0, 0]
    assert min(counts[2:]) > 1550  # 1667 expected, standard deviation 33


def test_uniform_plays_what_it_drew() -> None:
    seed = RuleSeed(0, "tw-0001", 2)
    assert actors(UniformStep(), 6, seed=seed) == "ssseee"
    assert UniformStep().describe(seed) == "uniform k=3"


def test_uniform_fraction() -> None:
    rule = UniformFraction(max_steps=50, low=0.1, high=0.5)
    drawn = {rule.drawn(RuleSeed(0, f"t{index}")) for index in range(2000)}
    assert drawn == set(range(5, 26))


def test_on_loop_fires_after_three_identical_actions() -> None:
    assert actors(OnLoop(3), 6, ["a", "b", "b ", "b", "c", "d"], list("uvwxyz")) == "ssssee"
    assert actors(OnLoop(3), 4, ["a", "b", "a", "b"], list("uvwx")) == "ssss"


def test_on_loop_fires_when_an_action_meets_its_answer_for_the_third_time() -> None:
    commands, answers = ["a", "b", "a", "c", "a", "d"], ["1", "2", "1", "3", "1", "4"]
    assert actors(OnLoop(3), 6, commands, answers) == "ssssse"
    assert actors(OnLoop(3), 6, commands, ["1", "2", "1", "3", "0", "4"]) == "ssssss"


@pytest.mark.parametrize(
    "error",
    [
        "Nothing happens.",
        "bash: no such file\n(exit code 2)",
        "exit status: 127",
        "exited with code -9",
        "Invalid action: fly",
        "ran\nTraceback (most recent call last):\n  File",
    ],
)
def test_on_failure_fires_at_the_first_error(error: str) -> None:
    assert actors(OnFailure(), 5, list("abcde"), ["ok", error, "ok", "ok", "ok"]) == "sseee"


@pytest.mark.parametrize("fine", ["exit code 0", "exit status: 0", "You see nothing happens here", "tests passed"])
def test_on_failure_leaves_successes_alone(fine: str) -> None:
    assert actors(OnFailure(), 4, list("abcd"), [fine] * 4) == "ssss"


def test_on_failure_counts_errors_in_a_row() -> None:
    answers = ["Nothing happens.", "ok", "Nothing happens.", "Nothing happens.", "ok"]
    assert actors(OnFailure(patience=2), 6, list("abcdef"), [*answers, "ok"]) == "ssssee"


def test_a_trigger_falls_back_on_a_draw() -> None:
    rule = OnFailure(fallback=AtStep(3))
    assert actors(rule, 5, list("abcde"), ["ok"] * 5) == "sssee"
    assert actors(rule, 5, list("abcde"), ["Nothing happens."] * 5) == "seeee"
    assert rule.drawn(RuleSeed(0, "a")) == 3


def test_mix_draws_at_every_step() -> None:
    assert Mix.labels
    assert actors(Mix(0.0), 6) == "ssssss"
    assert actors(Mix(1.0), 6) == "eeeeee"
    letters = actors(Mix(0.6), 50)
    assert letters == actors(Mix(0.6), 50)
    assert letters != actors(Mix(0.6), 50, seed=RuleSeed(0, "tw-0001", 1))
    assert 20 <= letters.count("e") <= 40


def test_mix_schedules() -> None:
    """Published max(0.6, 1 - 0.2 (r-1)), and geometric 1.0 and 0.5."""
    assert [Mix.for_round(r).beta for r in (1, 2, 3, 4)] == pytest.approx([1.0, 0.8, 0.6, 0.6])
    assert [Mix.for_round(r, decay=0.5).beta for r in (1, 2, 3)] == [1.0, 0.5, 0.25]


def test_hand_back() -> None:
    assert actors(HandBack(AtStep(2), after=3), 11) == "sseeesseeee"
    assert actors(HandBack(AtStep(1), after=1, max_handbacks=2), 8) == "seseseee"


def test_hand_back_after_one_repaired_step() -> None:
    """One-step repair: the expert mends only the failing step."""
    rule = HandBack(OnFailure(), after=1, max_handbacks=99)
    answers = ["ok", "Nothing happens.", "ok", "Nothing happens.", "ok", "ok"]
    assert actors(rule, 6, list("abcdef"), answers) == "sseses"


def test_segments() -> None:
    """T-32."""
    rule = Segments([("student", 2), ("expert", 2), ("student", 1), ("expert", None)])
    assert actors(rule, 7) == "sseesee"


def test_segments_with_drawn_lengths() -> None:
    rule = Segments([(Actor.STUDENT, (1, 3)), (Actor.EXPERT, 2)])
    lengths = {actors(rule, 6, seed=RuleSeed(0, f"t{index}")).index("e") for index in range(50)}
    assert lengths == {1, 2, 3}


@given(seed=st.integers(0, 2**64 - 1), task_id=st.text(max_size=8), low=st.integers(0, 40), extra=st.integers(0, 40))
def test_draws_are_in_range_and_depend_on_nothing_else(seed: int, task_id: str, low: int, extra: int) -> None:
    rule = UniformStep(low, low + extra)
    drawn = rule.drawn(RuleSeed(seed, task_id, 3))
    assert low <= drawn <= low + extra
    assert drawn == make_rule("uniform", low=low, high=low + extra).drawn(RuleSeed(seed, task_id, 3))


def test_rules_are_frozen_and_fit_the_protocol() -> None:
    assert isinstance(AtStep(3), SwitchRule)
    assert AtStep(3) == AtStep(k=3)
    with pytest.raises(FrozenInstanceError):
        AtStep(3).k = 4  # type: ignore[misc]
    assert sorted(SWITCH_RULES) == [
        "at_step",
        "expert_only",
        "hand_back",
        "mix",
        "never",
        "on_failure",
        "on_loop",
        "segments",
        "uniform",
        "uniform_fraction",
    ]


def test_make_rule() -> None:
    assert make_rule("uniform", low=0, high=9) == UniformStep(0, 9)
    assert make_rule("hand_back", rule={"name": "on_failure"}, after=1) == HandBack(OnFailure(), after=1)
    assert make_rule("segments", segments=[["student", 2], ["expert", None]]) == Segments(
        [("student", 2), ("expert", None)]
    )


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("unifrom", {}, "switch rule: unknown 'unifrom'. Did you mean 'uniform'?"),
        ("uniform", {"hihg": 3}, "switch rule 'uniform', option: unknown 'hihg'. Did you mean 'high'?"),
        ("uniform", {"low": 5, "high": 3}, "low, high is (5, 3), expected 0 <= low <= high"),
        ("at_step", {"k": -1}, "k is -1, expected >= 0"),
        ("at_step", {}, "missing 1 required positional argument: 'k'"),
        ("mix", {"beta": 1.5}, "beta is 1.5, expected a probability"),
        ("segments", {"segments": [["teacher", 2]]}, "segments[0] is 'teacher', expected student or expert"),
        ("segments", {"segments": [["student", None], ["expert", 1]]}, "only the last goes to the end"),
        ("hand_back", {"rule": {"name": "nevr"}}, "unknown 'nevr'. Did you mean 'never'?"),
    ],
)
def test_what_a_rule_refuses(name: str, options: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        make_rule(name, **options)
