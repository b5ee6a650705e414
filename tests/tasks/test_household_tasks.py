from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tutelage.envs.household.env import game_of
from tutelage.envs.household.game import TASK_TYPES
from tutelage.envs.household.generator import generate_game
from tutelage.envs.household.layout import layout_of
from tutelage.envs.household.writer import write_game
from tutelage.envs.registry import make_env
from tutelage.errors import ConfigError, FormatError
from tutelage.tasks.base import check_disjoint, manifest_hash
from tutelage.tasks.household import HouseholdTasks
from tutelage.tasks.registry import load_tasks, make_task_set
from tutelage.types import Split, Task

NUM_PER_SPLIT = 1500


@pytest.fixture(scope="module")
def panels() -> dict[Split, list[Task]]:
    tasks = HouseholdTasks()
    return {split: tasks.load(split, 0, NUM_PER_SPLIT) for split in Split}


def test_a_task_says_everything_about_its_game() -> None:
    task = HouseholdTasks("small").load("train", start=7, count=1)[0]
    game = generate_game(21, task_type="look_at_obj_in_light", layouts="seen")
    assert task == Task(
        task_id="hh-small-train-000007",
        env="household",
        goal=game.task,
        split=Split.TRAIN,
        kind="look_at_obj_in_light",
        settings={
            "size": "small",
            "game_seed": 21,
            "task_type": "look_at_obj_in_light",
            "layouts": "seen",
            "content_hash": game.content_hash,
            "max_steps": 50,
        },
    )
    assert json.loads(json.dumps(task.settings)) == task.settings


def test_panels_are_balanced_and_ranges_of_one_panel() -> None:
    tasks = HouseholdTasks()
    assert [task.kind for task in tasks.load("test", 0, 8)] == [*TASK_TYPES, *TASK_TYPES[:2]]
    assert tasks.load("test", 3, 4) == tasks.load("test", 0, 8)[3:7]
    assert Counter(task.kind for task in tasks.load("test")) == dict.fromkeys(TASK_TYPES, 20)


def test_splits_are_disjoint_by_id_and_by_content(panels: dict[Split, list[Task]]) -> None:
    check_disjoint(*panels.values())
    for split, tasks in panels.items():
        assert {task.split for task in tasks} == {split}
        assert len({task.task_id for task in tasks}) == NUM_PER_SPLIT
        assert len({task.settings["content_hash"] for task in tasks}) == NUM_PER_SPLIT


def test_test_plays_in_layouts_that_the_other_splits_never_have(panels: dict[Split, list[Task]]) -> None:
    layouts = {split: {layout_of(game_of(task.settings)).key for task in tasks} for split, tasks in panels.items()}
    assert not layouts[Split.TEST] & (layouts[Split.TRAIN] | layouts[Split.VALIDATION])
    assert layouts[Split.TRAIN] & layouts[Split.VALIDATION]


def test_the_manifest_is_the_same_in_another_process() -> None:
    code = (
        "from tutelage.tasks.base import manifest_hash\n"
        "from tutelage.tasks.registry import load_tasks\n"
        "print(manifest_hash(load_tasks('household', 'validation', start=5, count=20, size='real')))\n"
    )
    environment = {"PYTHONHASHSEED": "7"}
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    here = load_tasks("household", "validation", start=5, count=20, size="real")
    assert result.stdout.strip() == manifest_hash(here)


def test_options_reach_the_environment() -> None:
    task = HouseholdTasks(max_steps=3, accept_put=True).load("train", 0, 1)[0]
    assert task.settings["max_steps"] == 3
    assert task.settings["accept_put"] is True


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """Two games of three types in valid_unseen, one of train, and four that are left out."""
    for index, task_type in enumerate(TASK_TYPES[:3] * 2):
        game = generate_game(index, task_type=task_type)
        write_game(game, tmp_path / "valid_unseen" / f"{task_type}-{index}" / "trial_1")
    write_game(generate_game(9, task_type=TASK_TYPES[3]), tmp_path / "train" / "heat" / "trial_1")
    game = generate_game(10)
    for name in ("pick_and_place_with_movable_recep-1", "pick-Sliced-1", "unsolved", "bare"):
        write_game(game, tmp_path / "valid_unseen" / name / "trial_1")
    unsolved = tmp_path / "valid_unseen" / "unsolved" / "trial_1" / "game.tw-pddl"
    unsolved.write_text(json.dumps(json.loads(unsolved.read_text()) | {"solvable": False}))
    (tmp_path / "valid_unseen" / "bare" / "trial_1" / "game.tw-pddl").unlink()
    return tmp_path


def test_a_folder_gives_its_games_by_split_in_turns_of_the_types(release: Path) -> None:
    tasks = HouseholdTasks(source="folder", root=release)
    test = tasks.load("test")
    first, second, third = TASK_TYPES[:3]
    assert [task.task_id for task in test] == [
        f"hh-valid_unseen.{first}-0.trial_1",
        f"hh-valid_unseen.{second}-1.trial_1",
        f"hh-valid_unseen.{third}-2.trial_1",
        f"hh-valid_unseen.{first}-3.trial_1",
        f"hh-valid_unseen.{second}-4.trial_1",
        f"hh-valid_unseen.{third}-5.trial_1",
    ]
    game = generate_game(0, task_type=first)
    assert test[0].settings == {
        "folder": f"valid_unseen/{first}-0/trial_1",
        "root": str(release),
        "content_hash": game.content_hash,
        "max_steps": 50,
    }
    assert (test[0].goal, test[0].kind, test[0].split) == (game.task, first, Split.TEST)
    assert tasks.load("test", start=4, count=10) == test[4:]
    assert [task.kind for task in tasks.load("train")] == [TASK_TYPES[3]]
    assert tasks.splits == (Split.TRAIN, Split.TEST)
    assert make_env(test[0]).reset(0).text.endswith(f"Your task is to: {game.task}.")


def test_skipped_folders_are_reported_with_their_reasons(release: Path) -> None:
    tasks = HouseholdTasks(source="folder", root=str(release))
    assert {path.parent.name: reason for path, reason in tasks.skipped} == {
        "bare": "without game.tw-pddl",
        "pick-Sliced-1": "with 'Sliced' in the path",
        "pick_and_place_with_movable_recep-1": "with 'movable' in the path",
        "unsolved": "not solvable",
    }
    assert tasks.report() == (
        "7 games, 4 skipped (1 not solvable, 1 with 'Sliced' in the path, 1 with 'movable' in the path, "
        "1 without game.tw-pddl)"
    )


def test_a_root_inside_a_release_keeps_its_split_and_any_other_is_test(release: Path, tmp_path: Path) -> None:
    assert len(HouseholdTasks(source="folder", root=release / "train").load("train")) == 1
    write_game(generate_game(0), tmp_path / "mine")
    alone = HouseholdTasks(source="folder", root=tmp_path / "mine").load("test")
    assert [(task.task_id, task.settings["folder"]) for task in alone] == [("hh-mine", ".")]


def test_a_folder_without_games_names_what_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"no game found below it, expected folders with traj_data.json and game"):
        HouseholdTasks(source="folder", root=tmp_path).load("test")


def test_a_split_without_games_tells_where_they_are(release: Path) -> None:
    with pytest.raises(FormatError, match=r"no game of split 'validation' below it; there are 1 of train, 6 of test"):
        HouseholdTasks(source="folder", root=release).load("validation")


def test_a_folder_of_skipped_games_tells_why(tmp_path: Path) -> None:
    write_game(generate_game(0), tmp_path / "pick-Sliced" / "trial")
    with pytest.raises(FormatError, match=r"0 games, 1 skipped \(1 with 'Sliced' in the path\), expected at least"):
        HouseholdTasks(source="folder", root=tmp_path).load("test")


@pytest.mark.parametrize("text", ["", "[1]", '{"task_type": "pick_three"}'])
def test_a_broken_file_is_named(tmp_path: Path, text: str) -> None:
    write_game(generate_game(0), tmp_path / "trial")
    (tmp_path / "trial" / "traj_data.json").write_text(text)
    with pytest.raises(FormatError, match=r"trial/traj_data.json: "):
        HouseholdTasks(source="folder", root=tmp_path).load("test")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": "smal"}, "household tasks: size: unknown 'smal'. Did you mean 'small'?"),
        ({"source": "folders"}, "household tasks: source: unknown 'folders'. Did you mean 'folder'?"),
        ({"source": "folder"}, "household tasks: source 'folder' with root None."),
        ({"root": "games"}, "household tasks: source 'generated' with root 'games'."),
        ({"max_steps": 0}, "household tasks: max_steps is 0, expected at least 1."),
        ({"sise": "small"}, "household tasks: option: unknown 'sise'. Did you mean 'size'?"),
    ],
)
def test_a_wrong_option_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make_task_set("household", **options)
    assert message in str(caught.value)


def test_a_wrong_range_or_environment_is_refused() -> None:
    with pytest.raises(ConfigError, match="start -1 and count None"):
        HouseholdTasks().load("train", start=-1)
    with pytest.raises(ConfigError, match="start 0 and count 0"):
        HouseholdTasks().load("train", count=0)
    with pytest.raises(ConfigError, match=r"tasks: environment: unknown 'house'. Did you mean 'household'?"):
        load_tasks("house", "train")
