"""Each rule on a trajectory of its own, spelled in commands and replies."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest

from tutelage.evaluation.judge.evidence import Evidence, longest_loop, longest_run
from tutelage.evaluation.judge.repo_facts import repo_facts
from tutelage.evaluation.judge.rules import RulesJudge
from tutelage.testing import make_trajectory
from tutelage.types import Action, Judgement, ParsedCall, ParseOutcome, StopReason, Trajectory

COMPLETED, CUT, FULL = StopReason.COMPLETED, StopReason.MAX_STEPS, StopReason.CONTEXT_OVERFLOW
MALFORMED = Action(text="well", parse=ParseOutcome.MALFORMED)


def failed(
    env: str,
    steps: Sequence[tuple[str | Action, str]],
    stop_reason: StopReason = CUT,
    *,
    first: str = "start",
    goal: str = "",
) -> Trajectory:
    """Pairs of an action and what it brought."""
    return make_trajectory(
        "s" * len(steps),
        [action for action, _ in steps],
        [first, *(reply for _, reply in steps)],
        env=env,
        stop_reason=stop_reason,
        reward=0.0,
        goal=goal,
    )


def judged(*arguments: Any, **options: Any) -> Judgement:
    return RulesJudge().judge(failed(*arguments, **options))


def said(one: Judgement) -> tuple[str, str, tuple[int, int] | None]:
    return (str(one.category), one.rule, one.span)


def call(name: str, **arguments: object) -> Action:
    return Action(text=f"{name} {arguments}", command=name, call=ParsedCall(name=name, arguments=arguments))


def replace_command(action: Action, command: str) -> Action:
    return dataclasses.replace(action, command=command)


def bash(command: str) -> Action:
    return call("bash", command=command)


OK = "[exit status 0]"


# Loops, readings, listings, calls


@pytest.mark.parametrize(
    ("keys", "found"),
    [
        ("", None),
        ("aab", None),
        ("aaab", ((0, 2), 1)),
        ("xabababa", ((1, 7), 2)),
        ("aaaa", ((0, 3), 1)),
        ("abcabcabcx", ((0, 8), 3)),
        ("aaabababab", ((2, 9), 2)),
        ("abab", None),
    ],
)
def test_longest_loop(keys: str, found: object) -> None:
    assert longest_loop(keys, 4, 3) == found


def test_longest_run() -> None:
    assert longest_run([True, False, True, True]) == (2, 3)
    assert longest_run([True, False, True]) == (2, 2)
    assert longest_run([False]) is None


def test_the_same_action_into_the_limit() -> None:
    steps = [("go to shelf 1", "You are there."), *[("look", "You see nothing.")] * 4]
    got = judged("household", steps)
    assert said(got) == ("infinite_loop", "repeated_actions", (1, 4))
    assert got.explanation == "the same action over and over, 4 steps long"


def test_a_loop_that_was_left_is_not_the_cause() -> None:
    steps = [
        *[("look", "You see nothing.")] * 3,
        *((f"go to shelf {n}", f"You arrive at shelf {n}. On the shelf {n}, you see nothing.") for n in range(5)),
    ]
    assert said(judged("household", steps)) == ("other", "", None)


def test_turning_pages_is_no_loop() -> None:
    pages = [("click[next >]", f"Page about {name}") for name in ("mugs", "cups", "bowls", "plates", "pans")]
    assert judged("somebody's", pages).category == "other"
    same = [("click[next >]", f"Page {number}: nothing") for number in range(5)]
    assert judged("somebody's", same).category == "infinite_loop"


def test_going_round_in_circles_of_five() -> None:
    steps = [
        (f"go to shelf {n % 5}", f"You arrive at shelf {n % 5}. On the shelf {n % 5}, you see nothing.")
        for n in range(25)
    ]
    assert said(judged("household", steps)) == ("infinite_loop", "circles", (0, 20))


def test_twenty_reads_in_a_row() -> None:
    reads = [(bash(f"cat f{n}.py"), f"text {n}\n{OK}") for n in range(20)]
    got = judged("repo", [*reads, (call("submit"), "Submitted.")], COMPLETED)
    assert said(got) == ("endless_file_reading", "reading_run", (0, 19))
    assert judged("repo", [*reads[:19], (call("submit"), "Submitted.")], COMPLETED).category == "other"


def test_only_reading_before_a_limit() -> None:
    reads = [(bash(f"cat f{n}.py"), f"text {n}\n{OK}") for n in range(6)]
    assert said(judged("repo", reads)) == ("endless_file_reading", "only_reading", (0, 5))
    changed = [(bash("sed -i s/a/b/ a.py"), "[exit status 0; changed a.py]"), *reads]
    assert judged("repo", changed).category == "other"


def test_searching_without_ever_answering() -> None:
    steps = [(call("search", query=f"q{n}"), f"<information>\nDoc 1: T{n}\nx\n</information>") for n in range(4)]
    assert said(judged("search", steps)) == ("endless_file_reading", "only_reading", (0, 3))


@pytest.mark.parametrize("command", ["find / -type f", "ls -R /usr", "cd /a && tree", "git ls-files"])
def test_a_listing_that_filled_the_window(command: str) -> None:
    steps = [(bash("cat a.py"), "x" * 100), (bash(command), "y" * 900)]
    got = judged("repo", steps, FULL)
    assert said(got) == ("context_overflow_from_listing", "listing_filled_window", (1, 1))
    assert got.explanation == "listings are 900 of 1,000 characters that were seen; the largest came at step 1"
    assert judged("repo", steps, CUT).category != "context_overflow_from_listing"


def test_files_that_filled_the_window_are_no_listing() -> None:
    steps = [(bash("ls"), f"a.py\n{OK}"), *((bash(f"cat f{n}.py"), "x" * 900 + f"\n{OK}") for n in range(4))]
    assert judged("repo", steps, FULL).category == "endless_file_reading"


def test_replies_without_an_action() -> None:
    assert said(judged("shop", [("look", "a"), (MALFORMED, "help")], StopReason.PARSE_ERROR)) == (
        "tool_error",
        "unreadable_replies",
        (1, 1),
    )
    assert judged("shop", [*[("a", "b")] * 9, (MALFORMED, "help")], COMPLETED).category != "tool_error"


def test_calls_that_are_refused() -> None:
    edits = [
        (call("edit", command="str_replace", path=f"f{n}", old_str="a"), f"Error: no file f{n}.") for n in range(4)
    ]
    assert said(judged("repo", [*edits, (call("submit"), "Submitted.")], COMPLETED)) == (
        "tool_error",
        "failing_calls",
        (0, 3),
    )
    programs = [(bash(f"open_file {n}"), "bash: open_file: command not found\n[exit status 127]") for n in range(3)]
    assert judged("repo", programs).category == "tool_error"


def test_replies_of_other_shells_are_no_failures() -> None:
    """Imported episodes lack the last line that our shell writes, and their editor refuses in other words."""
    plain = [(bash(f"sed -i s/a/{n}/ f{n}.py"), "") for n in range(4)]
    assert judged("repo", [*plain, (call("submit"), "")], COMPLETED).category == "other"
    refused = [
        (
            call("str_replace_editor", command="str_replace", path="/a.py", old_str=str(n)),
            "No replacement was performed, x",
        )
        for n in range(3)
    ]
    assert said(judged("repo", refused)) == ("tool_error", "failing_calls", (0, 2))


def test_a_test_that_fails_is_no_misuse() -> None:
    steps = [(bash(f"pytest -q t{n}.py"), f"{n} failed\n[exit status 1]") for n in range(4)]
    assert judged("repo", steps).category == "other"


# Software


def view(path: str, text: str) -> tuple[Action, str]:
    shown = "\n".join(f"{number:6d}\t{line}" for number, line in enumerate(text.splitlines(), start=1))
    return call("edit", command="view", path=path), shown


def replace(path: str, old: str, new: str) -> tuple[Action, str]:
    return call("edit", command="str_replace", path=path, old_str=old, new_str=new), f"Edited {path}:"


def pytest_run(failures: int, *names: str) -> tuple[Action, str]:
    told = "\n".join(f"FAILED {name}" for name in names)
    summary = f"{failures} failed, 3 passed in 0.00s" if failures else "4 passed in 0.00s"
    return bash("python -m pytest -q"), f"{told}\n{summary}\n[exit status {int(bool(failures))}]"


SUBMITTED = (call("submit"), "Submitted.")


def test_a_file_that_no_longer_parses() -> None:
    steps = [view("p/a.py", "def f(x):\n    return x"), replace("p/a.py", "f(x):", "f(x:"), SUBMITTED]
    got = judged("repo", steps, COMPLETED)
    assert said(got) == ("syntax_error", "left_syntax_error", (1, 1))
    assert got.explanation == "p/a.py does not parse as it was left"


def test_a_syntax_error_that_a_run_reports() -> None:
    error = '  File "/workspace/p/a.py", line 3\nSyntaxError: invalid syntax\n[exit status 1]'
    steps = [replace("p/a.py", "x", "y"), (bash("python -m pytest -q"), error), SUBMITTED]
    assert said(judged("repo", steps, COMPLETED)) == ("syntax_error", "left_syntax_error", (0, 1))
    mended = [*steps[:2], replace("p/a.py", "y", "x"), pytest_run(0), SUBMITTED]
    assert judged("repo", mended, COMPLETED).category != "syntax_error"


def test_only_tests_were_changed() -> None:
    steps = [replace("tests/test_a.py", "1", "2"), SUBMITTED]
    assert said(judged("repo", steps, COMPLETED)) == ("identified_incorrect_file", "changed_only_tests", (0, 0))


def test_tests_of_a_module_that_was_seen_and_not_changed() -> None:
    goal = "2 tests fail:\n- tests/test_paths.py::test_a\n- tests/test_paths.py::test_b"
    steps = [(bash("ls p"), f"order.py\npaths.py\n{OK}"), replace("p/order.py", "1", "2"), SUBMITTED]
    got = judged("repo", steps, COMPLETED, goal=goal)
    assert said(got) == ("identified_incorrect_file", "tests_of_another_module", (1, 1))
    assert got.explanation == "the failing tests are of paths; changed was p/order.py"
    unseen = [replace("p/order.py", "1", "2"), SUBMITTED]
    assert judged("repo", unseen, COMPLETED, goal=goal).category == "other"
    right = [(bash("ls p"), f"paths.py\n{OK}"), replace("p/paths.py", "1", "2"), SUBMITTED]
    assert judged("repo", right, COMPLETED, goal=goal).category == "other"


def test_fewer_tests_fail_than_before() -> None:
    steps = [pytest_run(3), replace("p/a.py", "1", "2"), pytest_run(1), SUBMITTED]
    got = judged("repo", steps, COMPLETED)
    assert said(got) == ("missed_edge_case", "fewer_tests_fail", (0, 2))
    assert got.explanation == "3 tests failed before the change and 1 do after it"


def test_as_many_tests_fail_as_before() -> None:
    steps = [pytest_run(2), replace("p/a.py", "1", "2"), pytest_run(2), SUBMITTED]
    assert said(judged("repo", steps, COMPLETED)) == ("wrong_solution", "finished_while_failing", (1, 2))


def test_its_own_tests_passed() -> None:
    steps = [replace("p/a.py", "1", "2"), pytest_run(0), SUBMITTED]
    assert said(judged("repo", steps, COMPLETED)) == ("missed_edge_case", "own_tests_passed", (0, 1))


def test_facts_of_a_repo_episode() -> None:
    steps = [
        view("p/a.py", "a = 1\nb = 2"),
        (call("edit", command="insert", path="p/a.py", insert_line=1, insert_text="c = 3"), "Edited p/a.py:"),
        (bash("touch p/b.py; cd p"), "[exit status 0; working directory p; changed +p/b.py]"),
        (call("edit", command="create", path="c.py", file_text="x"), "Created p/c.py, 1 line."),
        (bash("rm b.py"), "[exit status 0; working directory p; changed -p/b.py]"),
        (bash("pytest"), "old line: 9 failed\n1 failed, 2 errors in 0.00s\n[exit status 1; working directory p]"),
    ]
    facts = repo_facts(Evidence(failed("repo", steps)))
    assert facts.changed == {"p/a.py": 1, "p/c.py": 3}
    assert facts.texts == {"p/a.py": "a = 1\nc = 3\nb = 2\n", "p/c.py": "x"}
    assert [(run.step, run.num_failed) for run in facts.runs] == [(5, 3)]
    assert facts.unparsable() == {}


# Household, shop, answers


HOUSE = "You pick up the {0} 1 from the shelf 1."


def test_an_object_that_the_goal_does_not_name() -> None:
    steps = [("take pan 1 from shelf 1", HOUSE.format("pan")), ("go to bed 1", "You are there.")]
    got = judged("household", steps, goal="put a soapbar in cabinet")
    assert said(got) == ("identified_incorrect_file", "moved_wrong_thing", (0, 0))


def test_a_place_that_the_goal_does_not_name() -> None:
    steps = [
        ("take soapbar 1 from shelf 1", HOUSE.format("soapbar")),
        ("move soapbar 1 to bed 1", "You move the soapbar 1 to the bed 1."),
    ]
    got = judged("household", steps, goal="put a soapbar in cabinet")
    assert said(got) == ("identified_incorrect_file", "moved_wrong_thing", (1, 1))


@pytest.mark.parametrize(
    ("goal", "more", "category"),
    [
        ("put a clean soapbar in cabinet", [], "missed_edge_case"),
        ("put a hot soapbar in cabinet", [], "missed_edge_case"),
        ("put two soapbar in cabinet", [], "missed_edge_case"),
        ("put a soapbar in cabinet", [], "other"),
        (
            "put a clean soapbar in cabinet",
            [("clean soapbar 1 with sink 1", "You clean the soapbar 1 using the sink 1.")],
            "other",
        ),
    ],
)
def test_a_condition_of_the_household_goal(goal: str, more: list[tuple[str, str]], category: str) -> None:
    steps = [
        ("take soapbar 1 from shelf 1", HOUSE.format("soapbar")),
        *more,
        ("move soapbar 1 to cabinet 1", "You move the soapbar 1 to the cabinet 1."),
    ]
    assert judged("household", steps, goal=goal).category == category


WISH = "buy a soft rug with color: blue, and price lower than 40.00 dollars"
SEARCH = f"WebShop [SEP] Instruction: [SEP] {WISH} [SEP] Search"
RESULTS = f"Instruction: [SEP] {WISH} [SEP] Back to Search [SEP] Page 1 (Total results: 1) [SEP] Next > [SEP] B1 [SEP] rug [SEP] $9.0"
DONE = "Thank you for shopping with us! [SEP] Your score (min 0.0, max 1.0) [SEP] 0.0"


def item(title: str, price: str) -> str:
    return (
        f"Instruction: [SEP] {WISH} [SEP] Back to Search [SEP] < Prev [SEP] color [SEP] red [SEP] blue [SEP] {title} [SEP] "
        f"Price: {price} [SEP] Rating: N.A. [SEP] Description [SEP] Features [SEP] Reviews [SEP] Buy Now"
    )


@pytest.mark.parametrize(
    ("title", "price", "clicks", "category", "rule"),
    [
        ("hard lamp", "$9.0", ["blue"], "identified_incorrect_file", "bought_wrong_product"),
        ("soft rug", "$41.0", ["blue"], "missed_edge_case", "bought_against_a_condition"),
        ("soft rug", "$9.0", [], "missed_edge_case", "bought_against_a_condition"),
        ("soft rug", "$9.0", ["red"], "missed_edge_case", "bought_against_a_condition"),
        ("soft rug", "$9.0", ["blue"], "wrong_solution", "bought_in_vain"),
    ],
)
def test_purchases(title: str, price: str, clicks: list[str], category: str, rule: str) -> None:
    page = item(title, price)
    steps = [
        ("search[rug]", RESULTS),
        ("click[b1]", page),
        *((f"click[{value}]", page) for value in clicks),
        ("click[buy now]", DONE),
    ]
    got = judged("shop", steps, COMPLETED, first=SEARCH, goal=WISH)
    assert (got.category, got.rule) == (category, rule)
    assert got.span == (1, len(steps) - 1)


def test_answers() -> None:
    answer = call("answer", text="42")
    wrong = judged("python", [(call("python", code="1"), "1"), (answer, "The answer was taken.")], COMPLETED)
    assert said(wrong) == ("wrong_solution", "wrong_answer", (1, 1))
    unreadable = judged("python", [(answer, "The answer was taken, but nothing could be read in it.")], COMPLETED)
    assert said(unreadable) == ("tool_error", "unreadable_answer", (0, 0))
    program = call("answer", text="def f(:\n    return 1")
    assert said(judged("python", [(program, "The answer was taken.")], COMPLETED))[0] == "syntax_error"


def test_code_that_never_parses() -> None:
    runs = [(call("python", code=f"({n}"), "SyntaxError: '(' was never closed") for n in range(2)]
    got = judged("python", [*runs, (call("answer", text="1"), "The answer was taken.")], COMPLETED)
    assert said(got) == ("syntax_error", "code_never_parsed", (0, 1))


def test_what_no_rule_finds_is_other_and_says_so() -> None:
    runs = [replace_command(call("python", code=f"print({n})"), f"<python>print({n})</python>") for n in range(8)]
    got = judged("python", [(run, str(number)) for number, run in enumerate(runs)])
    assert got == Judgement(
        trajectory_id="task-1.test.s0.n0.a0",
        source="",
        judge="rules-1",
        attempt=0,
        category=got.category,
        explanation="no rule found a cause",
    )
    assert got.category == "other"


@pytest.mark.parametrize("env", ["household", "alfworld", "shop", "search", "python", "repo", "somebody's"])
def test_rules_take_any_record(env: str) -> None:
    judge = RulesJudge()
    for one in (
        make_trajectory("", reward=0.0, env=env, stop_reason=CUT),
        make_trajectory("s", [MALFORMED], reward=0.0, env=env, stop_reason=CUT),
        make_trajectory("se", ["\udc80 {", call("edit", command=3, path=None)], ["", "", ""], reward=0.0, env=env),
        make_trajectory("s", reward=0.0, env=env),
    ):
        assert judge.judge(one).category is not None
