"""Ways to fail at a software task."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import cycle

import tutelage as t
from judge_cases.base import Case, Play, Script, expert_until, prose, tasks
from tutelage.envs.action_formats import action_of
from tutelage.envs.repo.problem import problem_of
from tutelage.envs.repo.settings import action_format_named
from tutelage.policies.base import PartialTrajectory
from tutelage.types import Action, ParsedCall, Task
from tutelage.types import FailureCategory as C

_FORMAT = action_format_named("functions")


def bash(command: str) -> Action:
    return action_of(_FORMAT, ParsedCall(name="bash", arguments={"command": command}))


def edit(command: str, path: str, **arguments: str) -> Action:
    return action_of(_FORMAT, ParsedCall(name="edit", arguments={"command": command, "path": path, **arguments}))


SUBMIT = action_of(_FORMAT, ParsedCall(name="submit"))


def repo_cases() -> Iterator[Case]:
    problems = {one.task_id.removeprefix("repo-"): one for one in tasks("repo", 14, (("max_steps", 30),))}
    by_order = list(problems.values())
    yield from _without_result(by_order)
    yield from _wrong_files(by_order)
    yield from _wrong_results(problems)
    for number, problem in enumerate(by_order[3:6]):
        yield Case(f"repo-lost-bracket-{number}", C.SYNTAX_ERROR, problem, _lose_bracket(run_tests=number == 0))
    expert = t.make_expert("repo")
    short = replace(by_order[6], settings={**by_order[6].settings, "max_steps": 3})
    yield Case("repo-too-few-steps", C.OTHER, short, expert_until(expert, lambda _: False, _never))
    yield Case("repo-gives-up", C.OTHER, by_order[7], in_order(bash("ls"), edit("view", "README.md"), SUBMIT))


def _never(so_far: PartialTrajectory, action: Action) -> Script:
    yield SUBMIT


def _without_result(problems: list[Task]) -> Iterator[Case]:
    first, second, third, fourth = problems[:4]
    for number, problem in enumerate((first, second)):
        yield Case(
            f"repo-tests-again-{number}", C.INFINITE_LOOP, problem, again(bash("python -m pytest -q 2>&1 | tail -n 3"))
        )
        path = fix_path(problem)
        yield Case(
            f"repo-view-and-test-{number}",
            C.INFINITE_LOOP,
            problem,
            again(edit("view", path), bash("python -m pytest -q 2>&1 | tail -n 3"), bash(f"grep -n def {path}")),
        )
    for number, problem in enumerate((second, third)):
        yield Case(f"repo-reads-{number}", C.ENDLESS_FILE_READING, problem, _read_everything)
    for number, problem in enumerate((third, fourth)):
        listing = ("find / -type f 2>/dev/null | sort", "ls -R /usr/lib", "find /usr/share | sort")
        yield Case(
            f"repo-lists-the-disk-{number}",
            C.CONTEXT_OVERFLOW_FROM_LISTING,
            problem,
            in_order(bash("ls"), *map(bash, listing), SUBMIT),
            max_chars=20_000,
        )
    yield Case("repo-reads-until-full", C.ENDLESS_FILE_READING, first, _read_everything, max_chars=20_000)
    yield Case("repo-absent-programs", C.TOOL_ERROR, second, _absent_programs)
    yield Case("repo-edits-that-do-not-match", C.TOOL_ERROR, third, _unmatched_edits)
    yield Case("repo-prose", C.TOOL_ERROR, fourth, prose)


def _wrong_files(problems: list[Task]) -> Iterator[Case]:
    for number, problem in enumerate(problems[6:9]):
        yield Case(
            f"repo-another-module-{number}", C.IDENTIFIED_INCORRECT_FILE, problem, _change_another(run_tests=True)
        )
    yield Case("repo-another-module-unseen", C.IDENTIFIED_INCORRECT_FILE, problems[9], _change_another(run_tests=False))
    for number, problem in enumerate(problems[10:12]):
        yield Case(f"repo-changes-the-tests-{number}", C.IDENTIFIED_INCORRECT_FILE, problem, _change_tests)
    for number, problem in enumerate(problems[12:14]):
        yield Case(f"repo-writes-a-manual-{number}", C.MISUNDERSTOOD_PROBLEM_STATEMENT, problem, _write_manual)


def _wrong_results(problems: dict[str, Task]) -> Iterator[Case]:
    """By hand, since what is nearly right differs from fault to fault."""
    numerals = problems["textkit.numerals-swap_operator-1078-1080"]
    tests = "python -m pytest -q tests/test_{}.py 2>&1 | tail -n 12"
    yield Case(
        "repo-one-example-repaired",
        C.MISSED_EDGE_CASE,
        numerals,
        repair(
            "textkit/numerals.py",
            "if total < 1 and to_roman(total) != letters.upper():",
            'if total < 1 or letters.upper() == "IIII":',
            before=bash(tests.format("numerals")),
            after=bash("python -m pytest -q 'tests/test_numerals.py::test_from_roman_refuses[IIII]' 2>&1 | tail -n 5"),
        ),
    )
    yield Case(
        "repo-negative-numbers-forgotten",
        C.MISSED_EDGE_CASE,
        problems["purse.amounts-swap_operator-966-967"],
        repair(
            "purse/amounts.py",
            "quotient // 2 == 1):",
            "quotient > 0 and quotient % 2 == 1):",
            before=bash(tests.format("amounts")),
            after=bash(tests.format("amounts")),
        ),
    )
    derivative = problems["gridmath.poly-swap_operator-1119-1120"]
    yield Case(
        "repo-second-derivative-forgotten",
        C.MISSED_EDGE_CASE,
        derivative,
        repair(
            "gridmath/poly.py",
            "    for _ in range(times):\n        poly = [index + coefficient for index, coefficient in enumerate(poly)][1:]",
            "    poly = [index * coefficient for index, coefficient in enumerate(poly)][1:]",
            before=bash(tests.format("poly")),
            after=bash(tests.format("poly")),
        ),
    )
    yield Case(
        "repo-second-derivative-untested",
        C.MISSED_EDGE_CASE,
        derivative,
        repair(
            "gridmath/poly.py",
            "    for _ in range(times):\n        poly = [index + coefficient for index, coefficient in enumerate(poly)][1:]",
            "    poly = [index * coefficient for index, coefficient in enumerate(poly)][1:]",
        ),
    )
    wrong = {
        "purse.plans-wrong_default-100-101": ("plans", "years=2", "years=3"),
        "spans.basic-flip_comparison-397-399": ("basic", "outer[0] < inner[0]", "outer[0] > inner[0]"),
        "gridmath.matrix-swap_operator-846-847": (
            "matrix",
            "line[:column] - line[column + 1 :]",
            "line[:column] + line[column:]",
        ),
    }
    for number, (name, (module, old, new)) in enumerate(wrong.items()):
        path = f"{name.split('.')[0]}/{module}.py"
        run = bash(tests.format(module))
        yield Case(
            f"repo-another-fault-{number}",
            C.WRONG_SOLUTION,
            problems[name],
            repair(path, old, new, before=run, after=run),
        )
    name = "gridmath.matrix-swap_operator-846-847"
    yield Case(
        "repo-another-fault-untested", C.WRONG_SOLUTION, problems[name], repair("gridmath/matrix.py", *wrong[name][1:])
    )


# Scripts


def in_order(*actions: Action) -> Play:
    def play(so_far: PartialTrajectory) -> Script:
        yield from (action for action in actions)

    return play


def again(*actions: Action) -> Play:
    def play(so_far: PartialTrajectory) -> Script:
        yield from (action for action in cycle(actions))

    return play


def repair(path: str, old: str, new: str, *, before: Action | None = None, after: Action | None = None) -> Play:
    name = path.rpartition("/")[2].removesuffix(".py")
    steps = [bash(f"grep -rn {name} --include='*.py' . | head -n 20"), edit("view", path)]
    steps += [before] if before else []
    steps += [edit("str_replace", path, old_str=old, new_str=new)]
    return in_order(*steps, *([after] if after else []), SUBMIT)


def fix_path(problem: Task) -> str:
    fix = problem_of(problem.settings).fix
    assert fix is not None
    return next(iter(fix))


def sources_of(problem: Task) -> list[str]:
    tree = problem_of(problem.settings).tree
    return sorted(
        path for path in tree if path.endswith(".py") and not path.startswith("tests/") and "__init__" not in path
    )


def _read_everything(so_far: PartialTrajectory) -> Script:
    """Every file whole and in parts, and nothing but reading."""
    problem = problem_of(so_far.task.settings)
    paths = sorted(path for path in problem.tree if path.endswith((".py", ".md")))
    for first in range(1, 200, 15):
        for path in paths:
            yield bash(f"sed -n '{first},{first + 60}p' {path}")


def _absent_programs(so_far: PartialTrajectory) -> Script:
    for program in (
        "open_file",
        "goto",
        "search_dir",
        "find_file",
        "scroll_down",
        "edit_lines",
        "create_file",
        "undo_edit",
    ):
        yield bash(f"{program} {fix_path(so_far.task)} 12")
    yield SUBMIT


def _unmatched_edits(so_far: PartialTrajectory) -> Script:
    """Edits of text that is not in the file, each in other words, never having looked."""
    path = fix_path(so_far.task)
    for name in ("compute", "process", "handle", "parse", "convert", "apply", "update", "main"):
        yield edit("str_replace", path, old_str=f"def {name}_value(x):", new_str=f"def {name}_value(x, y):")
    yield SUBMIT


def _change_another(run_tests: bool) -> Play:
    def play(so_far: PartialTrajectory) -> Script:
        right = fix_path(so_far.task)
        other = next(path for path in sources_of(so_far.task) if path != right)
        if run_tests:
            yield bash("ls */*.py && python -m pytest -q 2>&1 | tail -n 12")
        so_far = yield edit("view", other)
        function = re.search(r"\d+\t(def (\w+)\(.*\):)", so_far.observation.text)
        assert function is not None
        head = function[1]
        yield edit(
            "str_replace",
            other,
            old_str=head,
            new_str=f"def {function[2]}_checked(*values):\n    return {function[2]}(*values)\n\n\n{head}",
        )
        if run_tests:
            yield bash("python -m pytest -q 2>&1 | tail -n 12")
        yield SUBMIT

    return play


def _change_tests(so_far: PartialTrajectory) -> Script:
    """Make the failing tests agree with the fault."""
    problem = problem_of(so_far.task.settings)
    file = problem.fail_to_pass[0].split("::")[0]
    yield bash(f"python -m pytest -q {file} 2>&1 | tail -n 12")
    yield edit("view", file)
    names = "|".join(sorted({test.split("::")[1].split("[")[0] for test in problem.fail_to_pass}))
    yield bash(f"sed -i -E 's/def ({names})\\(/def off_\\1(/' {file}")
    yield bash(f"python -m pytest -q {file} 2>&1 | tail -n 12")
    yield SUBMIT


def _write_manual(so_far: PartialTrajectory) -> Script:
    """Describes the failing tests in a text instead of repairing anything."""
    problem = problem_of(so_far.task.settings)
    yield bash("ls; cat README.md")
    text = "# Failing tests\n\n" + "\n".join(f"- {test} fails" for test in problem.fail_to_pass) + "\n"
    yield edit("create", "FAILURES.md", file_text=text)
    yield SUBMIT


def _lose_bracket(run_tests: bool) -> Play:
    def play(so_far: PartialTrajectory) -> Script:
        path = fix_path(so_far.task)
        so_far = yield edit("view", path)
        function = re.search(r"\d+\t(def \w+\(.*)\):", so_far.observation.text)
        assert function is not None
        so_far = yield edit("str_replace", path, old_str=f"{function[1]}):", new_str=f"{function[1]}:")
        if run_tests:
            yield bash("python -m pytest -q 2>&1 | tail -n 12")
        yield SUBMIT

    return play
