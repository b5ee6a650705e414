"""Footprints of the python environment: the worked example, the table row by row, and any text at all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutelage.envs.action_formats import malformed
from tutelage.envs.python.env import ACTION_FORMAT, ANSWERED, NO_OUTPUT, STOPPED, UNREADABLE
from tutelage.envs.registry import make_env
from tutelage.policies.experts.python import PythonExpert
from tutelage.policies.scripted import ScriptedPolicy
from tutelage.rollout.episode import run_episode
from tutelage.rollout.switch import ExpertOnly, Never
from tutelage.supervision.dependency_graph import build_graph
from tutelage.supervision.footprints import footprints_of
from tutelage.supervision.footprints.python import is_failure, python_footprints, result_keys, uses_of
from tutelage.tasks.python import PythonTasks
from tutelage.testing import make_trajectory
from tutelage.types import Action, Actor, Effect

pytestmark = pytest.mark.usefixtures("python_sandbox")


def record(*turns: tuple[str, str]):
    """A trajectory of [(command, reply), ...]."""
    actions = [ACTION_FORMAT.apply(Action.of(command)) for command, _ in turns]
    return make_trajectory("s" * len(turns), actions, ["problem", *(reply for _, reply in turns)], env="python")


def keys(*turns: tuple[str, str]):
    return [(set(one.reads), set(one.writes), one.effect.value) for one in python_footprints(record(*turns))]


def run(code: str) -> str:
    return f"<python>{code}</python>"


E_14 = ["<python>x = 6*7; print(x)</python>", "<python>print(x+1)</python>", "<answer>43</answer>"]


def test_example_14():
    """The worked example, played: edges 0 -> 1 by symbol:x and 1 -> 2 by result:43."""
    task = PythonTasks(persist=True).load("train", 0, 1)[0]
    trajectory = run_episode(task, make_env(task), {Actor.STUDENT: ScriptedPolicy(E_14)}, Never(), seed=0)
    assert [step.observation.text for step in trajectory.steps[1:]] == ["42", "43"]
    footprints = footprints_of(trajectory)
    assert [(set(one.reads), set(one.writes)) for one in footprints] == [
        (set(), {"symbol:x", "call:print", "result:42"}),
        ({"symbol:x"}, {"call:print", "result:43"}),
        ({"result:43"}, {"answer_candidate:43"}),
    ]
    assert build_graph(footprints).edges == ((0, 1, 1), (1, 2, 1))


def test_the_expert_leaves_a_chain():
    task = PythonTasks(levels=["long_chains"]).load("train", 0, 1)[0]
    trajectory = run_episode(task, make_env(task), {Actor.EXPERT: PythonExpert()}, ExpertOnly(), seed=0)
    edges = {(source, target) for source, target, _ in build_graph(footprints_of(trajectory)).edges}
    assert {(0, 1), (1, 2), (2, 3)} <= edges


@pytest.mark.parametrize(
    ("code", "names", "writes", "calls"),
    [
        ("x = y", {"y"}, {"symbol:x"}, set()),
        ("x = 1; y = x", set(), {"symbol:x", "symbol:y"}, set()),
        ("x = x + 1", {"x"}, {"symbol:x"}, set()),
        ("x += 1", {"x"}, {"symbol:x"}, set()),
        ("x: int = y", {"y"}, {"symbol:x"}, set()),
        ("(x := y)", {"y"}, {"symbol:x"}, set()),
        ("a, (b, *c) = z", {"z"}, {"symbol:a", "symbol:b", "symbol:c"}, set()),
        ("Total = 1", set(), {"symbol:total"}, set()),
        ("d['k'] = v", {"d", "v"}, {"symbol:d"}, set()),
        ("o.part = v", {"o", "v"}, {"symbol:o"}, set()),
        ("del x", set(), {"symbol:x"}, set()),
        ("for i in xs: s = i", {"xs"}, {"symbol:i", "symbol:s"}, set()),
        ("with f as g: pass", {"f"}, {"symbol:g"}, set()),
        ("try: a\nexcept E as e: e", {"a", "e"}, set(), set()),
        ("[i * k for i in xs if i > n]", {"xs", "k", "n"}, set(), set()),
        ("{i: j for i, j in xs}", {"xs"}, set(), set()),
        ("lambda a: a + b", {"b"}, set(), set()),
        ("def f(a, b=c):\n  t = a + g\n  return t", {"c", "g"}, {"symbol:f"}, set()),
        ("def f(): return g\ng = 1", set(), {"symbol:f", "symbol:g"}, set()),
        ("class A(B):\n  x = y", {"b", "y"}, {"symbol:a"}, set()),
        ("import math\nmath.sqrt(x)", {"x"}, {"import:math"}, {"call:math.sqrt"}),
        ("import os.path as p\np.join(a)", {"a"}, {"import:os.path", "import:p"}, {"call:p.join"}),
        ("from math import sqrt as s\ns(x)", {"x"}, {"import:math", "import:s"}, {"call:s"}),
        ("from math import *", set(), {"import:math"}, set()),
        ("f(g(x))", {"f", "g", "x"}, set(), {"call:f", "call:g"}),
        ("xs[0]()", {"xs"}, set(), set()),
        ("match x:\n  case [a, *b]: pass", {"x"}, {"symbol:a", "symbol:b"}, set()),
    ],
)
def test_code(code, names, writes, calls):
    uses = uses_of(code)
    assert (uses.names, uses.writes, uses.calls) == (names, writes, calls)


def test_imports_are_used_in_later_steps():
    first, second = keys((run("import math"), NO_OUTPUT), (run("print(math.pi)"), "3.14"))
    assert first == (set(), {"import:math"}, "changed")
    assert second == ({"import:math"}, {"call:print", "result:3.14"}, "changed")


def test_literals_that_are_earlier_results():
    steps = keys((run("print(12 * 7)"), "84"), (run("print(84 % 9, -84, 7)"), "3 -84 7"), (run("f('3 -84 7')"), "x"))
    assert steps[0][0] == set()
    assert steps[1][0] == {"result:84"}
    assert steps[2][0] == {"symbol:f", "result:3 -84 7"}


@pytest.mark.parametrize(
    "reply", ["ZeroDivisionError: division by zero", "a\nKeyError: 'x'", "KeyboardInterrupt", *STOPPED.values()]
)
def test_a_failed_run_writes_its_calls_alone(reply):
    assert keys((run("x = f(y)"), reply)) == [({"symbol:f", "symbol:y"}, {"call:f"}, "changed")]
    assert keys((run("x = y"), reply)) == [({"symbol:y"}, set(), "no_effect")]


def test_code_that_cannot_be_read_and_code_without_traces():
    assert keys((run("x = ("), "SyntaxError: '(' was never closed")) == [(set(), set(), "no_effect")]
    assert keys((run("x"), NO_OUTPUT)) == [({"symbol:x"}, set(), "read_only")]


def test_answers():
    _, second = keys((run("print('alpha')"), "alpha"), ("<answer> Alpha </answer>", ANSWERED))
    assert second == ({"result:alpha"}, {"answer_candidate:alpha"}, "changed")
    assert keys(("<answer>some words</answer>", UNREADABLE)) == [(set(), set(), "no_effect")]
    assert keys((run("x = 1"), NO_OUTPUT), ("<answer>x</answer>", ANSWERED))[1][0] == {"symbol:x"}
    assert keys(("\\boxed{007}", ANSWERED)) == [(set(), {"answer_candidate:7"}, "changed")]


def test_malformed_steps():
    trajectory = make_trajectory("s", [malformed(Action.of("words"))], ["problem", ACTION_FORMAT.help], env="python")
    [footprint] = python_footprints(trajectory)
    assert (footprint.reads, footprint.writes, footprint.effect) == (frozenset(), frozenset(), Effect.MALFORMED)


@pytest.mark.parametrize(
    ("reply", "values"),
    [
        ("42", {"42"}),
        ("007", {"7"}),
        ("area 12\nside 3.50", {"area 12", "12", "side 3.50", "3.50"}),
        ("[1, -2]", {"[1, -2]", "1", "-2"}),
        ("x1 v1.2.3", {"x1 v1.2.3"}),
        ("a" * 81, set()),
        (NO_OUTPUT, set()),
    ],
)
def test_results(reply, values):
    assert result_keys(reply) == {f"result:{value}" for value in values}


def test_failures_are_told_by_their_last_line():
    assert is_failure("x\njson.decoder.JSONDecodeError: Expecting value")
    assert not is_failure("ValueError: a\nfine")
    assert not is_failure("no Error here")


@given(st.lists(st.tuples(st.text(), st.text()), min_size=1, max_size=4))
def test_no_text_makes_it_raise(turns):
    footprints = python_footprints(record(*((run(code) if code.strip() else "x", reply) for code, reply in turns)))
    assert len(footprints) == len(turns)


@given(st.text())
def test_any_code_is_read_or_not(code):
    uses_of(code)
