from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tutelage.envs.repo.bugs import MUTANT_LIMITS, Bugs, bug_maker, mutated, statement_of
from tutelage.envs.repo.embedded import BUG_LIST, PACKAGES, embedded_package
from tutelage.envs.repo.env import RepoEnv
from tutelage.envs.repo.make_bugs import PER_FUNCTION, bug_rows
from tutelage.envs.repo.mutate import Mutation, mutations
from tutelage.envs.repo.problem import Problem
from tutelage.envs.repo.tree import Entry, Tree
from tutelage.envs.sandbox.base import Sandbox
from tutelage.errors import FormatError
from tutelage.tasks.repo import RepoTasks

SOURCE = b"""\
def price(pieces, each=3):
    if pieces < 0:
        raise ValueError
    return pieces * each


def spin(left):
    while left > 0:
        left -= 1
    return left
"""
TESTS = b"""\
from shop.prices import price, spin


def test_price():
    assert price(4) == 12


def test_spin():
    assert spin(2) == 0
"""


@pytest.fixture
def clean(shop: Problem) -> Tree:
    return shop.tree.changed({"shop/prices.py": Entry(SOURCE), "tests/test_prices.py": Entry(TESTS)})


def place(mutator: str, old: bytes, new: str) -> Mutation:
    start = SOURCE.index(old)
    return Mutation(path="shop/prices.py", function="", mutator=mutator, start=start, end=start + len(old), new=new)


def test_what_becomes_of_mutations(clean: Tree, sandbox: Sandbox, tmp_path: Path) -> None:
    with bug_maker(clean, sandbox, limits=replace(MUTANT_LIMITS, cpu_seconds=1)) as maker:
        assert maker.tests == ("tests/test_prices.py::test_price", "tests/test_prices.py::test_spin")
        found = maker.try_out(place("swap_operator", b"*", "+"))
        assert not isinstance(found, str)
        assert found.fail_to_pass == ("tests/test_prices.py::test_price",)
        assert maker.try_out(place("drop_statement", b"raise ValueError", "pass")) == "survived"
        assert maker.try_out(place("drop_statement", b"def spin", "def spun")) == "broken"
        assert maker.try_out(place("swap_operator", b"left -= 1", "left += 1")) == "stopped"
        names = [one.mutator for one in maker.candidates(1)]
        assert len(names) == 2
        # The draw hangs on nothing but the names.
        assert maker.candidates(1) == maker.candidates(1)
        assert set(maker.candidates(1)) < set(maker.candidates(3))
    # The user's package as rows, and back as tasks.
    bugs = Bugs(tests=maker.tests, bugs=(found,), rejected=Counter())
    (tmp_path / "shop").mkdir()
    clean.write(tmp_path / "shop")
    rows = list(bug_rows(clean, bugs, "shop"))
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    tasks = RepoTasks(source="rows", path=path, repositories=tmp_path)
    assert (
        tasks.report()
        == f"{len(rows)} rows of kind swe_smith (patch makes the bug, the repair is its reverse), 0 left out"
    )
    (task, *_) = tasks.load("train")
    env = RepoEnv(task)
    env.reset(0)
    assert env.problem.tree == mutated(clean, bugs.bugs[0].mutation)
    env.close()


@pytest.mark.parametrize(
    ("tests", "said"),
    [
        (b"def test_x(): assert 1 == 2\n", "twice: tests/test_prices.py::test_x"),
        (b"import os, pytest\n@pytest.mark.parametrize('x', [os.urandom(4).hex()])\ndef test_x(x): pass\n", "two runs differ"),
    ],
)  # fmt: skip
def test_a_tree_whose_tests_do_not_pass_is_refused(clean: Tree, sandbox: Sandbox, tests: bytes, said: str) -> None:
    with (
        pytest.raises(FormatError, match=said),
        bug_maker(clean.changed({"tests/test_prices.py": Entry(tests)}), sandbox),
    ):
        pass


def test_a_statement_names_the_tests_and_nothing_else() -> None:
    assert statement_of("purse", ["t.py::test_a"], 9) == (
        "1 of the 9 tests of the package purse fails since the last change:\n\n- t.py::test_a\n\n"
        "Find the cause in the package and repair it, so that all tests pass. The tests are right as they are."
    )
    many = statement_of("purse", [f"t.py::test_{letter}" for letter in "abcdefg"], 9).split("\n")
    assert many[0] == "7 of the 9 tests of the package purse fail since the last change:"
    assert many[2:8] == [*(f"- t.py::test_{letter}" for letter in "abcde"), "- and 2 more"]


def test_the_list_of_embedded_bugs_names_candidates_of_the_maker() -> None:
    lines = [json.loads(line) for line in BUG_LIST.read_text().splitlines()]
    assert [line["package"] for line in lines if "package" in line] == list(PACKAGES)
    for name in PACKAGES:
        package = embedded_package(name)
        (head,) = (line for line in lines if line.get("package") == name)
        per_function: dict[tuple[str, str], int] = {}
        for bug in package.bugs:
            key = (bug.mutation.path, bug.mutation.function)
            per_function[key] = per_function.get(key, 0) + 1
            assert bug.fail_to_pass
        assert max(per_function.values()) <= PER_FUNCTION
        # What was found and what was rejected are all candidates.
        drawn = len(package.bugs) + sum(head["rejected"].values())
        functions = {
            (path, one.function)
            for path, entry in package.tree.items()
            if path.startswith(f"{name}/")
            for one in mutations(path, entry.data)
        }
        assert len(functions) <= drawn <= PER_FUNCTION * len(functions)


def test_embedded_bugs_are_made_again_the_same(sandbox: Sandbox) -> None:
    """A sample; `python -m tutelage.envs.repo.make_bugs` compares the whole list."""
    package = embedded_package("spans")
    with bug_maker(package.tree, sandbox, "spans") as maker:
        assert maker.tests == package.tests
        candidates = maker.candidates(PER_FUNCTION)
        assert {bug.mutation for bug in package.bugs} <= set(candidates)
        for bug in package.bugs[::40]:
            assert maker.try_out(bug.mutation) == bug


def test_the_packages_are_found_where_tutelage_is() -> None:
    assert {path.name for path in BUG_LIST.parent.iterdir() if path.is_dir() and path.name != "__pycache__"} == set(
        PACKAGES
    )
