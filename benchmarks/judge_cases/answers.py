"""Ways to fail where one answer ends the task: search and python."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import tutelage as t
from judge_cases.base import Case, Play, Script, expert_until, once, prose, repeat, tasks
from tutelage.envs.python.templates import match_template
from tutelage.policies.base import PartialTrajectory
from tutelage.types import Action
from tutelage.types import FailureCategory as C


def search_cases() -> Iterator[Case]:
    asked = tasks("search", 12)
    expert = t.make_expert("search")

    def answers(action: Action) -> bool:
        return (action.command or "").startswith("<answer>")

    for number, question in enumerate(asked[:2]):
        yield Case(f"search-same-query-{number}", C.INFINITE_LOOP, question, repeat(search("the answer")))
        yield Case(
            f"search-never-answers-{number}",
            C.ENDLESS_FILE_READING,
            question,
            repeat(*(search(f"{word} {question.goal}") for word in ("what", "please", "tell me", "who knows", "so"))),
        )
        yield Case(f"search-prose-{number}", C.TOOL_ERROR, question, prose)
        yield Case(
            f"search-guess-{number}", C.WRONG_SOLUTION, question, once(answer("Martin Example"), then=answer("x"))
        )
        yield Case(
            f"search-wrong-in-the-end-{number}",
            C.WRONG_SOLUTION,
            question,
            expert_until(expert, answers, give("Harold Nobody")),
        )
    for number, question in enumerate(asked[2:5]):
        yield Case(
            f"search-answers-the-way-there-{number}", C.MISUNDERSTOOD_PROBLEM_STATEMENT, question, _one_hop_short
        )
    for number, question in enumerate(asked[5:7]):
        yield Case(
            f"search-answers-in-prose-{number}", C.TOOL_ERROR, question, expert_until(expert, answers, _unmarked)
        )


def search(query: str) -> str:
    return f"<search>{query}</search>"


def answer(text: str) -> str:
    return f"<answer>{text}</answer>"


def give(text: str) -> Callable[[PartialTrajectory, Action], Script]:
    def after(so_far: PartialTrajectory, action: Action) -> Script:
        yield Action.of(answer(text))

    return after


def _unmarked(so_far: PartialTrajectory, action: Action) -> Script:
    """The right answer, said without the tags, again and again in other words."""
    right = (action.command or "").removeprefix("<answer>").removesuffix("</answer>")
    for words in ("It is", "The answer is", "I am sure that it is", "As I said, it is", "Once more:"):
        yield Action.of(f"{words} {right}.")


def _one_hop_short(so_far: PartialTrajectory) -> Script:
    """Answer with the name on the way, as if that had been asked."""
    expert = t.make_expert("search")
    so_far = yield expert.act(so_far)
    name = (expert.act(so_far).command or "").removeprefix("<search>").removesuffix("</search>")
    yield Action.of(answer(name))


# Python


def python_cases() -> Iterator[Case]:
    problems = tasks("python", 24, (("max_steps", 8),))
    for number, problem in enumerate(problems[:2]):
        yield Case(f"python-same-code-{number}", C.INFINITE_LOOP, problem, repeat(run_code("print('Let me see')")))
        yield Case(f"python-broken-code-{number}", C.SYNTAX_ERROR, problem, _broken_code)
        yield Case(f"python-unreadable-{number}", C.TOOL_ERROR, problem, once(answer("that depends"), then=answer("x")))
        yield Case(f"python-unknown-names-{number}", C.TOOL_ERROR, problem, _shell_words)
        yield Case(f"python-off-by-one-{number}", C.WRONG_SOLUTION, problem, _wrong_by(1))
    several = [one for one in problems if (found := match_template(one.goal)) and len(found[0].steps) > 1]
    for number, problem in enumerate(several[:2]):
        yield Case(f"python-answers-the-first-part-{number}", C.MISUNDERSTOOD_PROBLEM_STATEMENT, problem, _first_part)
    for number, problem in enumerate(problems[4:6]):
        yield Case(f"python-explores-{number}", C.OTHER, problem, _explore)


def run_code(code: str) -> str:
    return f"<python>{code}</python>"


def _broken_code(so_far: PartialTrajectory) -> Script:
    """Code that never parses, each time another, then a guess."""
    for code in ("print(1 +", "for x in range(3) print(x)", "def f(:\n    return 1", "x = = 3\nprint(x)"):
        yield Action.of(run_code(code))
    yield Action.of(answer("-1"))


def _shell_words(so_far: PartialTrajectory) -> Script:
    """The Python tool taken for a calculator with words of its own: every run fails."""
    for name in ("calc", "solve", "bc", "eval_expr", "compute", "wolfram", "result", "ans"):
        yield Action.of(run_code(f"{name}(problem)"))


def _wrong_by(offset: int) -> Play:
    def after(so_far: PartialTrajectory, action: Action) -> Script:
        right = (action.command or "").removeprefix("<answer>").removesuffix("</answer>")
        yield Action.of(answer(str(int(right) + offset)))

    return expert_until(t.make_expert("python"), lambda a: (a.command or "").startswith("<answer>"), after)


def _first_part(so_far: PartialTrajectory) -> Script:
    """The first step of the calculation, answered as if it were all that was asked."""
    expert = t.make_expert("python")
    so_far = yield expert.act(so_far)
    yield Action.of(answer(so_far.observation.text.strip()))


def _explore(so_far: PartialTrajectory) -> Script:
    """Runs code that works, on something else each time, until the steps are over."""
    for number in range(200):
        yield Action.of(run_code(f"print(sum(range({number + 3})))"))
