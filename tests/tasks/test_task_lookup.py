"""Tasks found again by their ids."""

from __future__ import annotations

from pathlib import Path

import pytest

from tutelage.envs.household.generator import generate_game
from tutelage.envs.household.writer import write_game
from tutelage.errors import ConfigError
from tutelage.tasks.household import HouseholdTasks
from tutelage.tasks.lookup import household_tasks


def test_generated_games_are_made_anew() -> None:
    tasks = [
        *HouseholdTasks(max_steps=40).load("train", 12_345, 2),
        *HouseholdTasks(size="real", max_steps=40).load("test", 3, 1),
    ]
    found = household_tasks([task.task_id for task in tasks], options={"max_steps": 40})
    assert list(found.values()) == tasks


def test_games_of_a_folder_are_found_below_it(tmp_path: Path) -> None:
    for seed in (1, 2):
        write_game(generate_game(seed), tmp_path / "valid_unseen" / f"game-{seed}" / "trial")
    tasks = HouseholdTasks(source="folder", root=tmp_path).load("test")
    ids = [task.task_id for task in tasks]
    assert household_tasks(ids, games=tmp_path) == dict(zip(ids, tasks, strict=True))
    mixed = household_tasks([ids[1], "hh-small-train-000000", ids[1]], games=tmp_path)
    assert list(mixed) == [ids[1], "hh-small-train-000000"]


def test_what_cannot_be_found_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"task hh-valid_unseen\.x\.y: not a generated .*\n  Give the folder"):
        household_tasks(["hh-valid_unseen.x.y"])
    write_game(generate_game(1), tmp_path / "game")
    with pytest.raises(ConfigError, match=r"task hh-other: not among the 1 games below"):
        household_tasks(["hh-other"], games=tmp_path)
    with pytest.raises(ConfigError, match="size"):
        household_tasks(["hh-huge-train-000001"])
