from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tutelage.envs.action_formats import action_of
from tutelage.envs.repo.settings import FORMATS
from tutelage.supervision.dependency_graph import build_graph
from tutelage.supervision.footprints import footprints_of
from tutelage.supervision.footprints.repo import repo_footprints
from tutelage.testing.trajectories import make_trajectory
from tutelage.types import Action, Effect, ParsedCall, ParseOutcome, Trajectory

Played = tuple[dict[str, Any] | None, str]


def played(*steps: Played) -> Trajectory:
    """A trajectory of calls (arguments with the tool's name; None: malformed) and replies."""
    actions = [
        Action(text="?", parse=ParseOutcome.MALFORMED)
        if call is None
        else action_of(
            FORMATS["functions"],
            ParsedCall(name=call["name"], arguments={k: v for k, v in call.items() if k != "name"}),
        )
        for call, _ in steps
    ]
    return make_trajectory("s" * len(steps), actions, ["issue", *(reply for _, reply in steps)], env="repo")


def bash(command: str, reply: str) -> Played:
    return {"name": "bash", "command": command}, reply


def edit(command: str, path: str, reply: str = "Edited", **more: str) -> Played:
    return {"name": "edit", "command": command, "path": path, **more}, reply


def keys(trajectory: Trajectory) -> list[tuple[set[str], set[str], Effect]]:
    return [(set(one.reads), set(one.writes), one.effect) for one in repo_footprints(trajectory)]


EXPERT: Sequence[Played] = (
    bash("grep -rn --include='*.py' 'def price' . | sort", "./shop/prices.py:1:def price(x):\n[exit status 0]"),
    edit("view", "shop/Prices.py", "     1\tdef price(x):"),
    bash(
        "python -m pytest -q tests/test_a.py | tail -n 30",
        "FAILED tests/test_a.py::test_price - assert 1 == 2\n1 failed, 2 passed in 0.00s\n[exit status 0]",
    ),
    edit("str_replace", "/workspace/shop/prices.py", "Edited shop/prices.py:", old_str="a", new_str="b"),
    bash("python -m pytest -q tests/test_a.py", "3 passed in 0.00s\n[exit status 0]"),
    ({"name": "submit"}, "Submitted."),
)


def test_the_table_row_by_row() -> None:
    assert keys(played(*EXPERT)) == [
        ({"file:shop/prices.py"}, {"seen:shop/prices.py"}, Effect.CHANGED),
        ({"file:shop/prices.py"}, {"seen:shop/prices.py"}, Effect.CHANGED),
        (
            {"file:tests/test_a.py"},
            {"test_result:tests/test_a.py::test_price", "test_result:tests/test_a.py"},
            Effect.CHANGED,
        ),
        ({"seen:shop/prices.py", "file:shop/prices.py"}, {"file:shop/prices.py"}, Effect.CHANGED),
        ({"file:tests/test_a.py", "file:shop/prices.py"}, {"test_result:tests/test_a.py"}, Effect.CHANGED),
        (
            {"test_result:tests/test_a.py::test_price", "test_result:tests/test_a.py", "file:shop/prices.py"},
            {"submission"},
            Effect.CHANGED,
        ),
    ]


def test_the_graph_of_an_expert() -> None:
    graph = build_graph(footprints_of(played(*EXPERT)))
    # view -> edit; edit -> second test run; both test runs and the edit -> submit.
    assert graph.edges == ((1, 3, 1), (2, 5, 1), (3, 4, 1), (3, 5, 1), (4, 5, 1))


def test_writes_of_any_command_come_from_the_last_line() -> None:
    found = keys(
        played(
            bash("cat a.py > b.py", '[exit status 0; changed +b.py, -"Old Name.txt"]'),
            bash("python make.py", "[exit status 1; changed b.py]"),
            bash("sed -i s/x/y/ b.py", "[stopped: ran longer than 60 s; changed b.py]"),
        )
    )
    assert found[0] == (
        {"file:a.py", "file:b.py", "seen:b.py", "file:old name.txt", "seen:old name.txt"},
        {"file:b.py", "file:old name.txt"},
        Effect.CHANGED,
    )
    # Running Python may use every file written so far.
    assert found[1] == (
        {"file:make.py", "file:b.py", "seen:b.py", "file:old name.txt"},
        {"file:b.py"},
        Effect.CHANGED,
    )
    assert found[2] == ({"file:b.py", "seen:b.py"}, {"file:b.py"}, Effect.CHANGED)


@pytest.mark.parametrize(
    ("step", "reads", "writes", "effect"),
    [
        (bash("cat src/a.py README.md", "text\n[exit status 0]"), {"file:src/a.py", "file:readme.md"}, {"seen:src/a.py", "seen:readme.md"}, Effect.CHANGED),
        (bash("cd src && head -n 3 a.py | cat -A", "x\n[exit status 0; working directory src]"), {"file:src/a.py"}, {"seen:src/a.py"}, Effect.CHANGED),
        (bash("cat nothing.py", "cat: nothing.py: No such file\n[exit status 1]"), {"file:nothing.py"}, set(), Effect.READ_ONLY),
        (bash("ls -la src", "a.py\n[exit status 0]"), set(), set(), Effect.READ_ONLY),
        (bash("find . -name '*.py'", "./a.py\n[exit status 0]"), set(), set(), Effect.READ_ONLY),
        (bash("grep x src/a.py", "x = 1\n[exit status 0]"), {"file:src/a.py"}, {"seen:src/a.py"}, Effect.CHANGED),
        (bash("grep -rn x src", "src/a.py:3:x\nsrc/b.py-4-y\n[exit status 0]"), {"file:src/a.py", "file:src/b.py"}, {"seen:src/a.py", "seen:src/b.py"}, Effect.CHANGED),
        (bash("git status", "On branch main\n[exit status 0]"), set(), set(), Effect.READ_ONLY),
        (bash("sleep 99", "[stopped: ran longer than 60 s]"), set(), set(), Effect.NO_EFFECT),
        (bash("pytest -q", "no such option\n[exit status 4]"), set(), set(), Effect.READ_ONLY),
        (bash("pytest", "== 2 passed in 0.00s ==\n[exit status 0]"), set(), {"test_result:all"}, Effect.CHANGED),
        (bash("pytest -v tests/test_a.py::test_x", "tests/test_a.py::test_x PASSED [100%]\n1 passed in 0.00s\n[exit status 0]"), {"file:tests/test_a.py"}, {"test_result:tests/test_a.py::test_x", "test_result:tests/test_a.py"}, Effect.CHANGED),
        (bash("cat a.py", ""), {"file:a.py"}, set(), Effect.NO_EFFECT),
        (edit("view", ".", "a.py\nsrc/"), {"file:."}, set(), Effect.READ_ONLY),
        (edit("view", "a.py", "Error: a.py: no such file or directory."), {"file:a.py"}, set(), Effect.NO_EFFECT),
        (edit("create", "new.py", "Created new.py, 1 line.", file_text="x"), {"file:new.py", "seen:new.py"}, {"file:new.py"}, Effect.CHANGED),
        (edit("undo", "a.py", "Error: edit has made no change"), {"file:a.py", "seen:a.py"}, set(), Effect.NO_EFFECT),
        (({"name": "submit"}, "These are your changes. Submit again"), set(), set(), Effect.READ_ONLY),
        ((None, "No call was found"), set(), set(), Effect.MALFORMED),
    ],
)  # fmt: skip
def test_single_steps(step: Played, reads: set[str], writes: set[str], effect: Effect) -> None:
    assert keys(played(step)) == [(reads, writes, effect)]


def test_paths_are_relative_to_the_working_directory() -> None:
    found = keys(
        played(
            bash("cd src", "[exit status 0; working directory src]"),
            edit("view", "../a.py", "     1\tx"),
            bash("cat b.py", "x\n[exit status 0]"),
            bash("cat b.py", "x\n[exit status 0]"),
        )
    )
    assert [writes for _, writes, _ in found] == [set(), {"seen:a.py"}, {"seen:src/b.py"}, {"seen:b.py"}]


@settings(max_examples=60)
@given(st.text(max_size=60), st.text(max_size=60))
def test_no_text_makes_it_raise(command: str, reply: str) -> None:
    call = ParsedCall(name="bash", arguments={"command": command})
    action = Action(text="?", command="?", call=call)
    for end in ("", "\n[exit status 0; changed a.py]"):
        repo_footprints(make_trajectory("s", [action], ["issue", reply + end], env="repo"))
