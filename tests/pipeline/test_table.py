"""The table at the end of a run, by hand."""

from __future__ import annotations

import json

from tutelage.evaluation.metrics import success_table
from tutelage.pipeline.table import Arm, ancestors, plain_table
from tutelage.recipe import load_recipe
from tutelage.testing.trajectories import make_trajectory
from tutelage.types import StopReason, Trajectory


def played(kind: str, solved: bool | None, number: int) -> Trajectory:
    ending = {True: StopReason.COMPLETED, False: StopReason.MAX_STEPS, None: StopReason.TIMEOUT}[solved]
    reward = None if solved is None else float(solved)
    return make_trajectory("ss", task_id=f"{kind}-{number}", task_kind=kind, stop_reason=ending, reward=reward)


def arm(name: str, outcomes: dict[str, list[bool | None]], **counts: int | None) -> Arm:
    trajectories = [played(kind, one, i) for kind, solved in outcomes.items() for i, one in enumerate(solved)]
    defaults: dict[str, int | None] = {"trajectories": None, "expert_steps": None, "trained_tokens": None}
    return Arm(name=name, rows=tuple(success_table(trajectories)), **{**defaults, **counts})


def test_arms_side_by_side() -> None:
    first = arm("a", {"pick": [True] * 8 + [False] * 2, "pick_two": [False]}, expert_steps=12345, trained_tokens=0)
    second = arm("better", {"pick": [True] * 10, "pick_two": [None]}, trajectories=600)
    assert plain_table([first, second]).splitlines() == [
        "success                               a           better",
        "--------------------------------------------------------",
        "pick (10)                 80 % [49, 94]  100 % [72, 100]",
        "pick two (1)                0 % [0, 79]                -",
        "all (11)                  73 % [43, 90]  100 % [72, 100]",
        "--------------------------------------------------------",
        "mean steps                          2.0              2.0",
        "commands without effect           0.0 %            0.0 %",
        "episodes with a loop              0.0 %            0.0 %",
        "trajectories learnt from              -              600",
        "expert steps used                12 345                -",
        "trained tokens                        0                -",
    ]
    assert json.loads(json.dumps(second.to_json(), allow_nan=False))["rows"][1]["mean_steps"] is None


def test_no_arms_yet() -> None:
    assert plain_table([]) == "Nothing was evaluated yet."


def test_the_line_of_a_model() -> None:
    recipe = load_recipe("household_oec")
    assert ancestors(recipe, "corrected") == ["corrected", "imitation"]
    assert ancestors(recipe, "start") == []
