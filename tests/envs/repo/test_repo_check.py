"""What decides the reward cannot easily be forged by the tree that is judged."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tutelage.envs.repo.check import CHECK_LIMITS, guarded_tree, is_guarded, remove_folder, run_tests
from tutelage.envs.repo.judge import Judgement, judge
from tutelage.envs.repo.problem import Problem
from tutelage.envs.repo.toolbox import Toolbox
from tutelage.envs.repo.tree import LINK, Entry, Tree
from tutelage.envs.sandbox.base import Sandbox
from tutelage.errors import EnvError

PASSING = Entry(b"def test_price(): pass\ndef test_price_of_other(): pass\ndef test_total(): pass\n")
PASS_ALL = b"""import pytest
@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    outcome.get_result().outcome = "passed"
"""

LEFT_OUT = {
    "tests/test_prices.py": PASSING,
    "tests/__init__.py": Entry(b""),
    "tests/random.py": Entry(b"raise SystemExit"),
    "conftest.py": Entry(PASS_ALL),
    "shop/conftest.py": Entry(PASS_ALL),
    "pyproject.toml": Entry(b'[tool.pytest.ini_options]\naddopts = "--collect-only -p shop.plugin"\n'),
    "pytest.ini": Entry(b"[pytest]\npython_functions = nothing\n"),
    "sitecustomize.py": Entry(b"import os; os._exit(0)\n"),
    "json.py": Entry(b"import os; os._exit(0)\n"),
    "_pytest/__init__.py": Entry(b"import os; os._exit(0)\n"),
    "pytest.py": Entry(b"import os; os._exit(0)\n"),
    "evil.pth": Entry(b"import os; os._exit(0)\n"),
    f"tests/__pycache__/test_prices.cpython-3{sys.version_info.minor}-pytest-9.2.0.pyc": Entry(b"x"),
}
"""Changes of a tree that must not count, for better or worse."""

TAMPERING = {
    "a patched test runner": (
        b"import _pytest.runner as r\ndef f(item): pass\nr.pytest_runtest_call.__code__ = f.__code__\n",
        "tampered: _pytest.runner.pytest_runtest_call is not what it was; a planted test that fails was reported otherwise",
    ),
    "a plugin found in memory": (
        b"import gc\nfrom _pytest.config import PytestPluginManager\nclass P:\n    def pytest_runtest_logreport(self, report):"
        b" report.outcome = 'passed'\n[o.register(P()) for o in gc.get_objects() if isinstance(o, PytestPluginManager)]\n",
        "tampered: a foreign plugin, P; a planted test that fails was reported otherwise",
    ),
    "a report of one's own": (
        b"import os\nfor fd in range(3, 40):\n    try: os.write(fd, b'00 {\"outcomes\": {}}\\n')\n    except OSError: pass\n",
        "tampered: lines without a seal",
    ),
    "tests rewritten while they run": (
        b"from pathlib import Path\np = Path(__file__).parents[1] / 'tests/test_prices.py'\n"
        b"p.write_text(p.read_text().replace('12', '7').replace('10', '7'))\n",
        "tampered: tests/test_prices.py was changed",
    ),
    "an import hook": (
        b"import sys\nclass F:\n    def find_spec(self, *a): return None\nsys.meta_path.insert(0, F())\n",
        "tampered: an import hook ahead of pytest's",
    ),
    "an early end": (b"import os; os._exit(0)\n", "ended early, exit status 0"),
}


@pytest.fixture
def judged(shop: Problem, sandbox: Sandbox, tmp_path: Path) -> Callable[[Tree], Judgement]:
    (tmp_path / "tools").mkdir()
    toolbox = Toolbox(sandbox, tmp_path / "tools")
    return lambda tree: judge(shop, tree, sandbox=sandbox, toolbox=toolbox, scratch=tmp_path)


def test_a_bug_and_its_repair(shop: Problem, judged: Callable[[Tree], Judgement]) -> None:
    found = judged(shop.tree)
    assert (found.solved, found.num_passed, found.num_tests, found.trouble) == (False, 1, 3, "")
    assert found.failing == shop.fail_to_pass
    assert shop.fix is not None
    assert judged(shop.tree.changed(shop.fix)).solved


def test_tests_and_their_configuration_are_the_tasks_own(shop: Problem, judged: Callable[[Tree], Judgement]) -> None:
    assert guarded_tree(shop.tree.changed(LEFT_OUT), shop.tests, shop.tree) == shop.tree
    found = judged(shop.tree.changed(LEFT_OUT))
    assert (found.solved, found.num_passed, found.trouble) == (False, 1, "")
    assert shop.fix is not None
    assert judged(shop.tree.changed({**LEFT_OUT, **shop.fix})).solved


@pytest.mark.parametrize("name", TAMPERING)
def test_a_tree_that_meddles_with_its_tests_solves_nothing(
    name: str, shop: Problem, judged: Callable[[Tree], Judgement]
) -> None:
    code, trouble = TAMPERING[name]
    assert shop.fix is not None
    found = judged(shop.tree.changed({**shop.fix, "shop/__init__.py": Entry(code)}))
    assert (found.solved, found.num_passed, found.trouble) == (False, 0, trouble)


@pytest.mark.parametrize("in_the_way", [{"tests": Entry(b"/etc", LINK)}, {"tests": Entry(b"a file")}, {"tests/test_prices.py/x": Entry(b"")}])  # fmt: skip
def test_what_stands_where_tests_belong_goes_away(shop: Problem, in_the_way: dict[str, Entry]) -> None:
    final = shop.tree.changed({"tests/test_prices.py": None}).changed(in_the_way)
    assert guarded_tree(final, shop.tests, shop.tree) == shop.tree


def test_deleted_tests_come_back_and_deleted_sources_do_not(shop: Problem) -> None:
    assert guarded_tree(Tree({}), shop.tests, shop.tree) == shop.tests


def test_own_modules_stay() -> None:
    own = Tree(
        {
            "shop/json.py": Entry(b""),
            "helper.py": Entry(b""),
            "docs/statistics.md": Entry(b""),
            "random": Entry(b""),
            "src/packaging/version.py": Entry(b""),
        }
    )
    # A project may be called like a module, if it always was.
    assert guarded_tree(own, Tree({}), Tree({"src/packaging/tags.py": Entry(b"")})) == own
    assert list(guarded_tree(own, Tree({}), Tree({}))) == ["docs/statistics.md", "helper.py", "random", "shop/json.py"]


@pytest.mark.parametrize(
    ("path", "guarded"),
    [
        ("tests/data/x.json", True),
        ("pkg/test_a.py", True),
        ("pkg/a_test.py", True),
        ("pkg/testing.py", False),
        ("pkg/contest.py", False),
        ("test_data.csv", False),
        ("a/conftest.py", True),
        ("setup.cfg", True),
        ("setup.py", False),
    ],
)
def test_which_paths_are_guarded(path: str, guarded: bool) -> None:
    assert is_guarded(path) is guarded


def test_a_run_that_hangs_solves_nothing(shop: Problem, sandbox: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    run = run_tests(
        shop.tree.changed({"shop/__init__.py": Entry(b"while True: pass")}),
        shop.test_files,
        sandbox=sandbox,
        toolbox=Toolbox(sandbox, tmp_path / "tools"),
        scratch=tmp_path,
        limits=replace(CHECK_LIMITS, cpu_seconds=1),
    )
    assert run.trouble == "stopped: cpu"
    assert not run.passed(shop.pass_to_pass[0])
    assert [path.name for path in tmp_path.iterdir()] == ["tools"]


def test_a_run_that_cannot_begin_says_nothing_about_the_tree(shop: Problem, sandbox: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    toolbox = Toolbox(sandbox, tmp_path / "tools")
    toolbox.check_script = "/nowhere.py"
    with pytest.raises(EnvError, match="the tests could not be started"):
        judge(shop, shop.tree, sandbox=sandbox, toolbox=toolbox, scratch=tmp_path)


def test_skipped_tests_have_not_passed(sandbox: Sandbox, tmp_path: Path) -> None:
    source = b"""import pytest
def test_a(): pytest.skip("no")
@pytest.mark.xfail
def test_b(): assert False
@pytest.mark.xfail
def test_c(): pass
def test_d(): pass
@pytest.fixture
def broken(): raise ValueError
def test_e(broken): pass
"""
    (tmp_path / "tools").mkdir()
    run = run_tests(
        Tree({"test_x.py": Entry(source), "test_y.py": Entry(b"import nothing_there")}),
        ["test_x.py", "test_y.py"],
        sandbox=sandbox,
        toolbox=Toolbox(sandbox, tmp_path / "tools"),
        scratch=tmp_path,
    )
    names = {name.removeprefix("test_x.py::test_"): outcome for name, outcome in run.outcomes.items()}
    assert names == {"a": "skipped", "b": "xfailed", "c": "xpassed", "d": "passed", "e": "error"}
    assert run.broken == ("test_y.py",)
    assert [name for name in names if run.passed(f"test_x.py::test_{name}")] == ["b", "d"]


def test_folders_of_an_agent_can_be_removed(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    (folder / "locked" / "deep").mkdir(parents=True)
    (folder / "locked" / "deep" / "file").write_text("x")
    (folder / "link").symlink_to(tmp_path)
    (folder / "locked" / "deep").chmod(0)
    (folder / "locked").chmod(0)
    remove_folder(folder)
    assert list(tmp_path.iterdir()) == []
