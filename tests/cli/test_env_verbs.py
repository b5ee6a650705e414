"""`env list`, `env check` and `env new`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tutelage.cli.env import is_installed
from tutelage.cli.main import main
from tutelage.cli.new_env import write_environment
from tutelage.envs.registry import ADAPTERS, ENVIRONMENTS
from tutelage.errors import ConfigError
from tutelage.pipeline.parts import make_expert, task_set
from tutelage.recipe import load_recipe

BUILT_IN = {*ENVIRONMENTS, *ADAPTERS}


def said(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    capsys.readouterr()
    assert main(list(arguments)) == code
    return capsys.readouterr().out


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder to be in; what is imported from it is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.split(".")[0] in ("orchard", "lighthouse"):
            del sys.modules[name]


# list


def test_list_says_what_each_environment_has(capsys: pytest.CaptureFixture[str]) -> None:
    lines = said(capsys, "env", "list").splitlines()
    assert lines[0].split(maxsplit=1) == ["household", "the ALFWorld text game, as an engine of our own"]
    assert lines[1].strip() == (
        "tasks generated, folder; experts household, household_planner; footprints text, needs, exact, causal"
    )
    assert {line.split()[0] for line in lines[::2]} >= BUILT_IN
    assert lines[-1].strip() == "adapter; the environment behind it is named by options"


def test_list_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    household, alfworld = json.loads(said(capsys, "env", "list", "--json"))[:2]
    assert household == {
        "name": "household",
        "summary": "the ALFWorld text game, as an engine of our own",
        "adapter": False,
        "sources": ["generated", "folder"],
        "experts": ["household", "household_planner"],
        "footprints": ["text", "needs", "exact", "causal"],
        "extra": None,
        "installed": True,
    }
    assert (alfworld["extra"], alfworld["installed"]) == ("alfworld", is_installed("alfworld"))


def test_an_extra_is_installed_or_not_or_nobodys() -> None:
    assert is_installed("dev") is True
    assert is_installed("no_such_extra") is None


# check


def test_check_prints_a_line_per_check(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["env", "check", "household", "--tasks", "1", "--episodes", "9", "--set", "size=small"]
    *lines, last = said(capsys, *arguments).splitlines()
    assert [line.split()[0] for line in lines] == ["ok"] * 17
    assert last.startswith("household is sound: 17 checks passed, ")


def test_check_fails_with_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["env", "check", "household", "--tasks", "1", "--episodes", "3", "--expert-at-least", "1.5", "--json"]
    data = json.loads(said(capsys, *arguments, code=1))
    assert data["passed"] is False
    assert [one["check"] for one in data["checks"] if one["outcome"] == "failed"] == ["reward"]
    assert [one["problem"]["expected"] for one in data["checks"] if one["problem"]] == ["at least 1.5"]


def test_check_of_nothing_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["env", "check", "houshold"]) == 2
    assert "Did you mean 'household'?" in capsys.readouterr().err
    assert main(["env", "check", "household", "--set", "size"]) == 2
    assert "--set size: expected KEY=VALUE" in capsys.readouterr().err


# new


def test_new_writes_an_environment_that_is_sound(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = said(capsys, "env", "new", "orchard")
    written = sorted(str(path.relative_to(here)) for path in here.rglob("*") if path.is_file())
    assert shown.splitlines()[: len(written)] == written
    assert len(written) == 10
    assert "@name@" not in "".join((here / name).read_text() for name in written)
    # From the folder above the project, and from the project itself.
    options = ["--tasks", "2", "--episodes", "12"]
    assert said(capsys, "env", "check", "orchard", *options).splitlines()[-1].startswith("orchard is sound: 17 checks")
    recipe = load_recipe("orchard/recipe.yaml")
    assert make_expert(recipe, recipe.expert).name == "orchard_expert"
    assert task_set(recipe, recipe.evaluate.tasks)[0].task_id == "orchard-test-000000"


def test_what_new_writes_is_tidy(here: Path) -> None:
    write_environment("lighthouse", here / "project")
    arguments = ["--isolated", "--line-length", "120"]
    rules = ["--select", "E,F,W,I,B,UP,SIM,C4,RUF,PT,NPY,RET"]
    for command in (["check", *arguments, *rules], ["format", "--check", *arguments]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "."],
            cwd=here / "project", check=False, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout


def test_once_installed_it_is_known_everywhere(here: Path) -> None:
    write_environment("lighthouse", here / "project")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(here / "dist")]
    subprocess.run(build, cwd=here / "project", check=True, capture_output=True)
    with zipfile.ZipFile(next((here / "dist").glob("lighthouse-*.whl"))) as wheel:
        wheel.extractall(here / "site")
    (here / "elsewhere").mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "tutelage", "env", "list", "--json"],
        cwd=here / "elsewhere", env={**os.environ, "PYTHONPATH": str(here / "site")}, check=True, capture_output=True,
    )  # fmt: skip
    assert next(one for one in json.loads(done.stdout) if one["name"] not in BUILT_IN) == {
        "name": "lighthouse",
        "summary": "a village in text: find a parcel and bring it to the right place",
        "adapter": False,
        "sources": ["generated"],
        "experts": ["lighthouse"],
        "footprints": ["text"],
        "extra": None,
        "installed": True,
    }


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("My_World", "cannot be the name of a Python package"),
        ("my-world", "cannot be the name of a Python package"),
        ("2d", "cannot be the name of a Python package"),
        ("wörld", "cannot be the name of a Python package"),
        ("class", "cannot be the name of a Python package"),
        ("../up", "cannot be the name of a Python package"),
        ("household", "there is an environment 'household' already"),
        ("json", "the module 'json' is taken"),
        ("tutelage", "the module 'tutelage' is taken"),
        ("tests", "the module 'tests' is taken"),
    ],
)
def test_a_name_that_cannot_be_taken(name: str, message: str, here: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        write_environment(name, here / "project")
    assert list(here.iterdir()) == []


def test_what_is_there_is_never_overwritten(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "orchard").mkdir()
    (here / "orchard" / "mine.txt").write_text("mine")
    assert main(["env", "new", "orchard"]) == 2
    assert "orchard is there already and is left as it is" in capsys.readouterr().err
    assert [path.name for path in (here / "orchard").iterdir()] == ["mine.txt"]
