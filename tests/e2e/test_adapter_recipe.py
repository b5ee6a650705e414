"""A recipe whose environment is on a server: its worker processes make their environments from the tasks alone."""

from __future__ import annotations

from pathlib import Path

from tutelage.envs.adapters.serve import serve_env
from tutelage.envs.registry import make_env
from tutelage.pipeline.run import run
from tutelage.recipe import load_recipe
from tutelage.run_dir import read_json
from tutelage.store import RecordStore
from tutelage.tasks.registry import load_tasks
from tutelage.types import StopReason

RECIPE = """
name: household_by_http
description: The expert alone, on a server of household games.
workers: 2
env: {{name: http, url: "{url}", tasks: server}}
expert: {{name: household}}
rollouts:
  first:
    switch: {{name: expert_only}}
    tasks: {{split: train, start: 0, count: 4}}
evaluate:
  tasks: {{split: test, start: 0, count: 3}}
  models: [expert]
"""


def test_a_recipe_runs_on_a_served_environment(tmp_path: Path) -> None:
    tasks = [*load_tasks("household", "train", count=4), *load_tasks("household", "test", count=3)]
    with serve_env(make_env, tasks) as server:
        path = tmp_path / "recipe.yaml"
        path.write_text(RECIPE.format(url=server.url))
        done = run(load_recipe(path), tmp_path / "run")
        assert done.unfinished() == []
        assert server.num_live == 0
    found = list(RecordStore(done.dir.trajectories_path("first"), "trajectory"))
    assert sorted((one.task_id, one.env, one.stop_reason, one.reward) for one in found) == [
        (task.task_id, "http", StopReason.COMPLETED, 1.0) for task in tasks[:4]
    ]
    assert read_json(done.dir.result_path("expert"))["num_tasks"] == 3
