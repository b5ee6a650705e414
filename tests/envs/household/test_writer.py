"""What is written can be read again, by the same hash."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tutelage.envs.household.game import TASK_TYPES, Game
from tutelage.envs.household.generator import generate_game
from tutelage.envs.household.reader import find_games, read_game
from tutelage.envs.household.writer import problem_text, write_game


@pytest.mark.parametrize("size", ["small", "real"])
@pytest.mark.parametrize("task_type", TASK_TYPES)
def test_a_written_game_reads_as_the_same_game(tmp_path: Path, task_type: str, size: str) -> None:
    for seed in range(6):
        game = generate_game(seed, size=size, task_type=task_type)
        folder = tmp_path / str(seed)
        write_game(game, folder)
        read = read_game(folder, game_id=game.game_id)
        assert read == game
        assert read.content_hash == game.content_hash
    assert [folder.name for folder in find_games(tmp_path)] == ["0", "1", "2", "3", "4", "5"]


def test_doors_states_and_inner_objects_survive(tmp_path: Path, make_game: Callable[..., Game]) -> None:
    game = make_game(
        {"cabinet_bar__plus_01": "loc_1", "countertop_bar__plus_01": "loc_1"},
        {
            "apple_bar__plus_01": ["cabinet_bar__plus_01", "countertop_bar__plus_01"],
            "egg_bar__plus_01": [],
            "mug_bar__plus_01": ["countertop_bar__plus_01"],
        },
        ("pick_and_place_simple", "mug", "cabinet"),
        states=[("cool", "apple_bar__plus_01"), ("opened", "cabinet_bar__plus_01"), ("sliced", "egg_bar__plus_01")],
        inner={"mug_bar__plus_01": ("egg_bar__plus_01",)},
    )
    write_game(game, tmp_path)
    assert read_game(tmp_path, game_id="hand-made") == game


def test_the_files_hold_what_their_readers_look_for(tmp_path: Path) -> None:
    game = generate_game(4, task_type="pick_heat_then_place_in_recep")
    write_game(game, tmp_path, domain="(define (domain alfred))", grammar='"rhs": "Your task is to: UNKNOWN GOAL."')
    packed = json.loads((tmp_path / "game.tw-pddl").read_text())
    assert packed == {
        "pddl_domain": "(define (domain alfred))",
        "grammar": f'"rhs": "Your task is to: {game.task}."',
        "pddl_problem": problem_text(game),
        "solvable": True,
    }
    assert (tmp_path / "initial_state.pddl").read_text() == problem_text(game)
    told = json.loads((tmp_path / "traj_data.json").read_text())
    assert told["task_type"] == "pick_heat_then_place_in_recep"
    assert told["pddl_params"] == {
        "mrecep_target": "",
        "object_sliced": False,
        "object_target": game.goal.object_type,
        "parent_target": game.goal.receptacle_type,
        "toggle_target": "",
    }


def test_every_problem_declares_the_types_that_the_rules_name() -> None:
    text = problem_text(generate_game(0, task_type="look_at_obj_in_light", room="bedroom"))
    for name in ("sinkbasintype - rtype", "microwavetype - rtype", "fridgetype - rtype"):
        assert f"    {name}\n" in text
    for name in ("knifetype - otype", "butterknifetype - otype"):
        assert f"    {name}\n" in text
