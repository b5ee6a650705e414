"""Every environment's recipe runs to its report; a recipe goes to another environment by its line `env` alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tutelage as t
from tutelage.run_dir import RunDir


@pytest.mark.parametrize("env", ["search", "shop"])
def test_the_recipe_of_an_environment_runs(env: str, tmp_path: Path) -> None:
    run = t.run(f"smoke/{env}_oec", tmp_path / "run")
    assert run.table()
    assert (tmp_path / "run" / "report.html").is_file()
    assert {one.env for one in played(tmp_path / "run")} == {env}


@pytest.mark.usefixtures("python_sandbox")
def test_the_recipe_of_the_python_tool_runs(tmp_path: Path) -> None:
    t.run("smoke/python_oec", tmp_path / "run")
    assert {one.env for one in played(tmp_path / "run")} == {"python"}


@pytest.mark.parametrize(
    ("recipe", "env"),
    [("smoke/household_graphopd", {"name": "search"}), ("smoke/shop_oec", {"name": "household", "max_steps": 20})],
    ids=["graphopd on search", "shop's on household"],
)
def test_one_line_takes_a_recipe_to_another_environment(recipe: str, env: dict[str, Any], tmp_path: Path) -> None:
    t.run(recipe, tmp_path / "run", set={"env": env})
    assert (tmp_path / "run" / "report.html").is_file()
    assert {one.env for one in played(tmp_path / "run")} == {env["name"]}


def played(root: Path) -> list[t.Trajectory]:
    run = RunDir(root)
    return [
        one
        for arm in run.recipe().evaluated
        for one in t.RecordStore(run.evaluation_trajectories_path(arm), "trajectory")
    ]
