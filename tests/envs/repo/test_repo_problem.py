from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tutelage.envs.repo.patch import make_patch
from tutelage.envs.repo.problem import Problem, content_hash_of, problem_of
from tutelage.envs.repo.tree import Entry, Tree, run_git
from tutelage.errors import ConfigError, FormatError
from tutelage.types import Task

FIXED_TESTS = Entry(b"from shop.prices import price\n\n\ndef test_price(): assert price(4) == 12\n")


def settings_of(folder: Path, tree: Tree, **more: Any) -> dict[str, Any]:
    (folder / "tree").mkdir()
    tree.write(folder / "tree")
    shared = {"statement": "Prices are wrong.", "fail_to_pass": ["tests/test_prices.py::test_price"]}
    return {"root": str(folder), "folder": "tree", **shared, **more}


def test_a_patch_that_makes_the_bug(shop: Problem, tmp_path: Path) -> None:
    assert shop.fix is not None
    fixed = shop.tree.changed(shop.fix)
    problem = problem_of(settings_of(tmp_path, fixed, bug_patch=make_patch(fixed, shop.tree).decode()))
    assert problem.tree == shop.tree
    assert problem.fix == shop.fix
    assert problem.tests == shop.tests


def test_a_patch_that_repairs_and_hidden_tests(shop: Problem, tmp_path: Path) -> None:
    assert shop.fix is not None
    old = shop.tree.changed({"tests/test_prices.py": Entry(b"")})
    hidden = old.changed({"tests/test_prices.py": FIXED_TESTS, "data/expected.txt": Entry(b"12")})
    problem = problem_of(
        settings_of(
            tmp_path,
            old,
            fix_patch=make_patch(old, old.changed(shop.fix)).decode(),
            test_patch=make_patch(old, hidden).decode(),
        )
    )
    assert problem.tree == old
    assert problem.fix == shop.fix
    assert list(problem.tests) == ["data/expected.txt", "pyproject.toml", "tests/test_prices.py"]
    assert problem.tests["tests/test_prices.py"] == FIXED_TESTS


def test_a_repair_of_a_guarded_file_is_left_to_the_agent(shop: Problem, tmp_path: Path) -> None:
    broken = shop.tree.changed({"pyproject.toml": Entry(b"[tool")})
    problem = problem_of(settings_of(tmp_path, broken, fix_patch=make_patch(broken, shop.tree).decode()))
    assert list(problem.tests) == ["tests/test_prices.py"]


def test_a_problem_without_a_known_repair(shop: Problem, tmp_path: Path) -> None:
    assert problem_of(settings_of(tmp_path, shop.tree)).fix is None


def test_test_files_of_both_lists(shop: Problem) -> None:
    assert shop.test_files == ("tests/test_prices.py",)


def test_a_commit_is_known_by_its_id_alone(shop: Problem, tmp_path: Path) -> None:
    settings = settings_of(tmp_path, shop.tree)
    folder = tmp_path / "tree"
    run_git(["init", "--quiet"], folder)
    run_git(["add", "."], folder)
    run_git(["commit", "--quiet", "-m", "x"], folder)
    commit = run_git(["rev-parse", "HEAD"], folder).decode().strip()
    pinned = {**settings, "commit": commit}
    first = content_hash_of(pinned)
    assert content_hash_of({**pinned, "root": "/elsewhere", "max_steps": 3}) == first
    assert content_hash_of({**pinned, "statement": "other"}) != first
    (folder / "shop/prices.py").write_bytes(b"changed later")
    assert problem_of(pinned).tree == shop.tree


def test_content_is_what_counts_without_a_commit(shop: Problem, tmp_path: Path) -> None:
    settings = settings_of(tmp_path, shop.tree)
    first = content_hash_of(settings)
    other = tmp_path / "other"
    other.mkdir()
    assert content_hash_of(settings_of(other, shop.tree)) == first
    assert content_hash_of({**settings, "pass_to_pass": ["tests/test_prices.py::test_total"]}) != first


@pytest.mark.parametrize(
    ("more", "error", "said"),
    [
        ({"fail_to_pass": []}, ConfigError, "'fail_to_pass' and 'statement' must say what is to be done"),
        ({"bug_patch": "x", "fix_patch": "y"}, ConfigError, "both 'bug_patch' and 'fix_patch'"),
        ({"bug_patch": "no patch at all"}, FormatError, "patch does not apply"),
        ({"folder": "nowhere"}, FormatError, "nowhere: no such folder"),
    ],
)
def test_settings_without_a_problem(
    shop: Problem, tmp_path: Path, more: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        problem_of(settings_of(tmp_path, shop.tree) | more)


def test_settings_of_a_task_are_plain_json(shop_task: Callable[..., Task]) -> None:
    task = shop_task()
    assert problem_of(task.settings) is problem_of(dict(task.settings))
