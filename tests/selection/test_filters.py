"""Tables of tiny trajectories and their verdicts."""

from __future__ import annotations

import math
import re

import pytest

from tutelage.errors import ConfigError
from tutelage.selection.filters import FILTERS, Filter, HasExpertSteps, NoRepetition, NotTruncated, PerTaskCap, Solved
from tutelage.selection.reads import is_read, reads_shell
from tutelage.testing import make_trajectory
from tutelage.types import Action, ParsedCall, ParseOutcome, StopReason, Verdict

COMPLETED, MAX_STEPS, ENV_ERROR = StopReason.COMPLETED, StopReason.MAX_STEPS, StopReason.ENV_ERROR


def call(name: str, **arguments: object) -> Action:
    return Action(text=f"{name} {arguments}", command=name, call=ParsedCall(name=name, arguments=arguments))


@pytest.mark.parametrize(
    ("reward", "stop_reason", "reason"),
    [
        (1.0, COMPLETED, "kept"),
        (0.0, COMPLETED, "not_successful"),
        (None, ENV_ERROR, "unscored"),
        (1.0, MAX_STEPS, "truncated_success"),
        (0.0, MAX_STEPS, "not_successful"),
        (None, COMPLETED, "unscored"),
        (math.nan, COMPLETED, "non_finite"),
    ],
)
def test_solved(reward: float | None, stop_reason: StopReason, reason: str) -> None:
    """T-11."""
    got = Solved().judge(make_trajectory("e", reward=reward, stop_reason=stop_reason))
    assert got == Verdict(trajectory_id="task-1.test.s0.n0.a0", keep=reason == "kept", filter="solved", reason=reason)


def test_solved_with_options() -> None:
    cut = make_trajectory("e", reward=0.7, stop_reason=MAX_STEPS)
    assert Solved(min_reward=0.5).judge(cut).reason == "truncated_success"
    assert Solved(min_reward=0.5, keep_truncated_success=True).judge(cut).reason == "kept"
    assert Solved(keep_truncated_success=True).judge(cut).reason == "not_successful"


def test_not_truncated_asks_for_no_reward() -> None:
    reasons = {
        stop: NotTruncated().judge(make_trajectory("e", reward=None, stop_reason=stop)).reason for stop in StopReason
    }
    assert reasons == {stop: "kept" if stop is COMPLETED else "truncated" for stop in StopReason}


def test_has_expert_steps() -> None:
    """T-03, and it does not matter what ended the episode."""
    assert HasExpertSteps().judge(make_trajectory("sse")).keep
    for stop_reason in (COMPLETED, MAX_STEPS, ENV_ERROR):
        assert HasExpertSteps().judge(make_trajectory("sss", stop_reason=stop_reason)).reason == "no_expert_steps"


@pytest.mark.parametrize(
    ("actors", "commands", "span"),
    [
        ("eeeee", "AABAA", None),  # T-12
        ("eeee", "AAAB", (0, 2)),  # T-13
        ("sseee", "BAAAB", (1, 3)),
        ("eeeeee", "BAAAAA", (1, 5)),
    ],
)
def test_identical_actions(actors: str, commands: str, span: tuple[int, int] | None) -> None:
    got = NoRepetition().judge(make_trajectory(actors, list(commands)))
    assert (got.reason, got.span) == ("kept" if span is None else "identical_actions", span)


def test_scope() -> None:
    """T-14: sA sA eA eB."""
    trajectory = make_trajectory("ssee", list("AAAB"))
    assert NoRepetition(scope="all").judge(trajectory).span == (0, 2)
    assert NoRepetition(scope="trained").judge(trajectory).reason == "kept"
    handed_back = make_trajectory("eesee", list("AAAAA"))
    assert NoRepetition(scope="trained").judge(handed_back).reason == "kept", "a student step breaks the run"
    assert NoRepetition(scope="trained").judge(make_trajectory("seees", list("AAAAA"))).span == (1, 3)
    student = NoRepetition(scope="trained", trained="student")  # type: ignore[arg-type]
    assert student.judge(make_trajectory("ssse", list("AAAB"))).span == (0, 2)


def read_run(*commands: str, env: str = "repo") -> Verdict:
    return NoRepetition().judge(make_trajectory("e" * len(commands), list(commands), env=env))


def test_reading_runs() -> None:
    """T-15, T-16, T-17."""
    reads = [f"cat file_{index}" for index in range(40)]
    assert read_run(*reads[:19], "python edit.py", *reads[20:39]).reason == "kept"
    got = read_run(*reads[:20])
    assert (got.reason, got.span) == ("reading_run", (0, 19))
    assert read_run(*reads[:10], "cat a > b", *reads[10:20]).reason == "kept"
    assert read_run("make", *reads[:25]).span == (1, 25)
    assert NoRepetition(max_reads=30).judge(make_trajectory("e" * 25, reads[:25], env="repo")).reason == "kept"


def test_reads_of_other_environments() -> None:
    looks = [f"examine shelf {index}" for index in range(18)] + ["look", "inventory"]
    assert read_run(*looks, env="household").span == (0, 19)
    assert read_run(*looks, env="python").reason == "kept"


def test_white_space_around_a_command_makes_no_difference() -> None:
    """T-18."""
    assert read_run("ls ", "ls", " ls").reason == "identical_actions"


def test_identity() -> None:
    views = [call("edit", command="view", path=path) for path in ("/a", " /a", "/a ")]
    trajectory = make_trajectory("eee", views)
    assert NoRepetition().judge(trajectory).reason == "identical_actions"
    assert NoRepetition(identity="raw").judge(trajectory).reason == "kept"
    others = [
        call("edit", path="/a", lines=[1, 2]),
        call("edit", lines=[1, 2], path="/a"),
        call("edit", path="/a", lines=[1, 3]),
    ]
    assert NoRepetition(max_identical=2).judge(make_trajectory("ee", others[:2])).span == (0, 1)
    assert NoRepetition(max_identical=2).judge(make_trajectory("ee", others[1:])).reason == "kept"


def test_polling_is_no_repetition_where_observations_count() -> None:
    waiting = make_trajectory("eeee", ["wait"] * 4, ["start", "10 %", "20 %", "30 %", "done"])
    assert NoRepetition().judge(waiting).span == (0, 3)
    assert NoRepetition(identity="action_and_observation").judge(waiting).reason == "kept"
    stuck = make_trajectory("eeee", ["wait"] * 4, ["start", "10 %", "10 %", "10 %", "done"])
    assert NoRepetition(identity="action_and_observation").judge(stuck).span == (0, 2)


def test_replies_without_a_command_compare_by_text() -> None:
    replies = [Action(text=text, parse=ParseOutcome.MALFORMED) for text in ("hm", " hm", "hm\n")]
    assert NoRepetition().judge(make_trajectory("eee", replies)).span == (0, 2)


def test_loops_of_longer_periods() -> None:
    loop = make_trajectory("e" * 8, list("xABABABA"))
    assert NoRepetition().judge(loop).reason == "kept"
    got = NoRepetition(max_period=2).judge(loop)
    assert (got.reason, got.span) == ("action_loop", (1, 7))
    assert NoRepetition(max_period=3).judge(make_trajectory("e" * 9, list("ABCABCABC"))).span == (0, 8)
    assert NoRepetition(max_period=3).judge(make_trajectory("e" * 8, list("ABCABCAB"))).reason == "kept"


def test_per_task_cap() -> None:
    rows = [("a", 2), ("b", 0), ("a", 0), ("a", 1)]
    trajectories = [make_trajectory("e", task_id=task, sample_index=sample) for task, sample in rows]
    got = PerTaskCap(2).judge_all(trajectories)
    assert [one.reason for one in got] == ["over_task_cap", "kept", "kept", "kept"]
    assert [one.trajectory_id for one in got] == [one.trajectory_id for one in trajectories]


def test_names_and_refusals() -> None:
    assert sorted(FILTERS) == ["has_expert_steps", "no_repetition", "not_truncated", "per_task_cap", "solved"]
    assert all(isinstance(one, Filter) for one in (Solved(), HasExpertSteps(), NoRepetition(), PerTaskCap(1)))
    with pytest.raises(
        ConfigError, match=re.escape("filter 'no_repetition', scope: unknown 'trian'. Did you mean 'trained'?")
    ):
        NoRepetition(scope="trian")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="max_identical is 1, expected >= 2"):
        NoRepetition(max_identical=1)
    with pytest.raises(ConfigError, match="cap is 0, expected >= 1"):
        PerTaskCap(0)


@pytest.mark.parametrize(
    "command",
    [
        "cat a",
        "cat a b | head -n 3 | wc -l",
        "ls -la && cat README.md",
        "cd /repo && grep -rn 'def f' src; ls",
        "sed -n '10,20p' a.py",
        "find . -name '*.py' 2>/dev/null",
        "rg foo 2>&1 | head",
        "grep 'a > b' notes",
        "head a\ntail a",
        "wc -l < a",
    ],
)
def test_shell_commands_that_read(command: str) -> None:
    assert reads_shell(command)


@pytest.mark.parametrize(
    "command",
    [
        "",
        "cd /repo",
        "cat a > b",
        "cat a >> b",
        "cat a 2> errors",
        "ls &> out",
        "cat a | tee b",
        "cat a && rm a",
        "python a.py",
        "sed -i s/a/b/ a.py",
        "sed -n -i p a.py",
        "find . -delete",
        "find . -name x -exec rm {} ;",
        "cat $(rm a)",
        "cat `rm a`",
        "cat 'a",
        "tail -f log &",
        "(cat a)",
        "cat a | cd b",
    ],
)
def test_shell_commands_that_may_do_more(command: str) -> None:
    assert not reads_shell(command)


def test_reads_by_environment() -> None:
    def reads(env: str, *commands: str) -> list[bool]:
        return [is_read(env, Action.of(command)) for command in commands]

    assert (
        reads("household", "look", "inventory", "examine bed 1", "go to bed 1", "looking") == [True] * 3 + [False] * 2
    )
    assert reads("shop", "click[description]", "click[Next >]", "click[< Prev]", "click[buy now]") == [True] * 3 + [
        False
    ]
    assert reads("search", "look") == [False]
    editor = [call("str_replace_editor", command=command) for command in ("view", "create")]
    assert [is_read("repo", action) for action in editor] == [True, False]
    assert [is_read("repo", call("bash", command=command)) for command in ("ls", "rm a")] == [True, False]
    assert not is_read("repo", Action(text="ls", parse=ParseOutcome.MALFORMED))
    typed = ("str_replace_editor view /a.py", "str_replace_editor create /a.py --file_text x", "cat /a.py")
    assert [is_read("repo", Action.of(command)) for command in typed] == [True, False, True]
