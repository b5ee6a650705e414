"""A tiny repository with one bug, and the sandbox that works here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tutelage.envs.action_formats import action_of
from tutelage.envs.base import StepResult
from tutelage.envs.repo.check import is_guarded
from tutelage.envs.repo.env import RepoEnv, shared_sandbox
from tutelage.envs.repo.problem import Problem
from tutelage.envs.repo.tree import Entry, Tree
from tutelage.envs.sandbox.base import Sandbox
from tutelage.errors import ConfigError
from tutelage.types import ParsedCall, Task

BUGGY = b"def price(pieces, each=3):\n    return pieces + each\n\n\ndef total(prices):\n    return sum(prices)\n"
FIXED = BUGGY.replace(b"pieces + each", b"pieces * each")

TESTS = b"""from shop.prices import price, total


def test_price():
    assert price(4) == 12


def test_price_of_other():
    assert price(2, each=5) == 10


def test_total():
    assert total([1, 2]) == 3
"""

SHOP = Tree(
    {
        "README.md": Entry(b"# shop\n"),
        "pyproject.toml": Entry(b'[tool.pytest.ini_options]\ntestpaths = ["tests"]\npythonpath = ["."]\n'),
        "shop/__init__.py": Entry(b""),
        "shop/prices.py": Entry(BUGGY),
        "tests/test_prices.py": Entry(TESTS),
    }
)
FAIL_TO_PASS = ("tests/test_prices.py::test_price", "tests/test_prices.py::test_price_of_other")
PASS_TO_PASS = ("tests/test_prices.py::test_total",)


@pytest.fixture(scope="session")
def shop() -> Problem:
    """The repository, its hidden tests and its repair."""
    return Problem(
        tree=SHOP,
        statement="Prices are wrong.",
        fail_to_pass=FAIL_TO_PASS,
        pass_to_pass=PASS_TO_PASS,
        tests=SHOP.only(is_guarded),
        fix={"shop/prices.py": Entry(FIXED)},
    )


@pytest.fixture(scope="session")
def sandbox() -> Sandbox:
    try:
        return shared_sandbox("auto", False)
    except ConfigError as error:
        pytest.skip(f"no sandbox works here: {error}")


Play = Callable[..., StepResult]


@pytest.fixture
def shop_task(tmp_path: Path) -> Callable[..., Task]:
    """Makes a task of the tiny repository, with the settings given."""
    (tmp_path / "shop").mkdir()
    SHOP.write(tmp_path / "shop")

    def make(**settings: Any) -> Task:
        source = {
            "root": str(tmp_path),
            "folder": "shop",
            "statement": "Prices are wrong.",
            "fail_to_pass": list(FAIL_TO_PASS),
            "pass_to_pass": list(PASS_TO_PASS),
        }
        return Task(task_id="shop-1", env="repo", goal="Prices are wrong.", settings=source | settings)

    return make


@pytest.fixture
def episode(shop_task: Callable[..., Task], sandbox: Sandbox) -> Iterator[Callable[..., tuple[RepoEnv, Play]]]:
    """Begins an episode: the environment, and a function that makes a call and gives the result."""
    begun: list[RepoEnv] = []

    def begin(**settings: Any) -> tuple[RepoEnv, Play]:
        env = RepoEnv(shop_task(**settings))
        begun.append(env)
        env.reset(0)

        def play(name: str, **arguments: Any) -> StepResult:
            return env.step(action_of(env.action_format, ParsedCall(name=name, arguments=arguments)))

        return env, play

    yield begin
    for env in begun:
        env.close()
