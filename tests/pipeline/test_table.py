"""The table at the end of a run, by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tutelage.evaluation.metrics import success_table
from tutelage.evaluation.run import result_of
from tutelage.pipeline.table import Arm, ancestors, arms, plain_table
from tutelage.recipe import load_recipe
from tutelage.run_dir import RunDir, StageRecord, write_json
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


def test_reinforcement_adds_what_it_played_and_what_a_teacher_read() -> None:
    imitation = arm("imitation", {"pick": [True]}, trajectories=600, expert_steps=7000, trained_tokens=1000)
    grpo = arm("grpo", {"pick": [True]}, trajectories=600, trained_tokens=3000, own_episodes=2560, teacher_tokens=0)
    taught = arm("graphopd", {"pick": [True]}, trained_tokens=3100, own_episodes=2560, teacher_tokens=91234)
    rows = {line.split("  ")[0]: line.split("  ")[1:] for line in plain_table([imitation, grpo, taught]).splitlines()}

    def cells(name: str) -> list[str]:
        return [cell.strip() for cell in rows[name] if cell.strip()]

    assert cells("own episodes learnt from") == ["-", "2 560", "2 560"]
    assert cells("tokens read by a teacher") == ["-", "0", "91 234"]
    assert "tokens read by a teacher" not in plain_table([imitation, grpo])
    assert taught.to_json()["own_episodes"] == 2560


def test_the_budget_of_a_model_without_data_of_its_own(tmp_path: Path) -> None:
    run, recipe = RunDir(tmp_path), load_recipe("smoke/household_graphopd")
    write_json(run.sample_ledger_path("imitation"), {"sources": {"expert": {"trajectories": 8, "expert_steps": 96}}})
    figures: dict[str, dict[str, Any]] = {
        "imitation": {"trained_tokens": 500},
        "grpo": {"trained_tokens": 30, "num_episodes": 16, "teacher_tokens": 0},
        "graphopd": {"trained_tokens": 40, "num_episodes": 17, "teacher_tokens": 900},
    }
    for name, summary in figures.items():
        run.write_record(f"train:{name}", StageRecord(state="done", inputs="", summary=summary))
        write_json(run.result_path(name), result_of([played("pick", True, 0)], name=name).to_json())
    found = [
        (one.name, one.trajectories, one.expert_steps, one.trained_tokens, one.own_episodes, one.teacher_tokens)
        for one in arms(run, recipe)
    ]
    assert found == [
        ("imitation", 8, 96, 500, None, None),
        ("grpo", 8, 96, 530, 16, 0),
        ("graphopd", 8, 96, 540, 17, 900),
    ]


def test_no_arms_yet() -> None:
    assert plain_table([]) == "Nothing was evaluated yet."


def test_the_line_of_a_model() -> None:
    recipe = load_recipe("household_oec")
    assert ancestors(recipe, "corrected") == ["corrected", "imitation"]
    assert ancestors(recipe, "start") == []
