from __future__ import annotations

import json
import logging

import pytest

from tutelage.envs.household.engine import Engine
from tutelage.envs.household.game import Goal
from tutelage.envs.household.reader import find_games, read_game, scan_games
from tutelage.errors import FormatError

PLACE = """(:goal (and (exists (?r - receptacle) (exists (?o - object) (and
    (inReceptacle ?o ?r) (objectType ?o MugType) (receptacleType ?r DeskType) {more})))))"""
TWO = """(:goal (and (exists (?r - receptacle) (exists (?o1 - object) (and (objectType ?o1 MugType)
    (receptacleType ?r DeskType) (inReceptacle ?o1 ?r) (exists (?o2 - object) (and (not (= ?o1 ?o2))
    (objectType ?o2 {second}) (receptacleType ?r DeskType) (inReceptacle ?o2 ?r))))))))"""
LIGHT = """(:goal (and (exists (?ot - object ?r - receptacle ?a - agent ?l - location) (and
    (objectType ?ot DeskLampType) (toggleable ?ot) (isToggled ?ot) (receptacleAtLocation ?r ?l) (atLocation ?a ?l) (inReceptacle ?ot ?r)))
    (exists (?o - object ?a - agent) (and (objectType ?o MugType) (holds ?a ?o)))))"""

PROBLEM = (
    """
(define (problem plan_trial)
(:domain alfred)
(:objects agent1 - agent Mug - object MugType - otype DeskType - rtype) ; kinds
(:init
    (receptacleType Desk_bar__plus_00 DeskType)   (ReceptacleType Safe_bar__plus_00 SafeType)
    (receptacleAtLocation Desk_bar__plus_00 loc_bar_1) (receptacleAtLocation Safe_bar__plus_00
        loc_bar_2)
    (openable Safe_bar__plus_00)
    (objectType Mug_bar__plus_00 MugType) (objectType Egg_bar__plus_00 EggType)
    (pickupable Mug_bar__plus_00) (heatable Mug_bar__plus_00) (isReceptacleObject Mug_bar__plus_00)
    (isCool Mug_bar__plus_00)
    (inReceptacle Mug_bar__plus_00 Safe_bar__plus_00) (objectAtLocation Mug_bar__plus_00 loc_bar_2)
    (inReceptacleObject Egg_bar__plus_00 Mug_bar__plus_00)
    (canContain DeskType MugType) (canContain DeskType MugType)
    (atLocation agent1 loc_bar_0)
)
"""
    + PLACE.format(more="")
    + "\n)\n"
)

TRAJECTORY = {
    "task_id": "trial_1",
    "task_type": "pick_and_place_simple",
    "pddl_params": {"object_target": "Mug", "parent_target": "Desk", "toggle_target": "", "mrecep_target": ""},
}
PACKED = {
    "pddl_domain": "",
    "grammar": '"task": [{"rhs": "Your task is to: put some mug on desk."}],\n"other": []',
    "pddl_problem": PROBLEM,
    "solvable": True,
}


def write_folder(root, problem=PROBLEM, trajectory=TRAJECTORY, packed=PACKED, name="pick-Mug/trial_1"):
    """A game folder; None leaves a file out, text is written as it is."""
    folder = root / name
    folder.mkdir(parents=True)
    for file, content in (("initial_state.pddl", problem), ("traj_data.json", trajectory), ("game.tw-pddl", packed)):
        if content is not None:
            (folder / file).write_text(content if isinstance(content, str) else json.dumps(content))
    return folder


def with_goal(goal):
    return PROBLEM.replace(PLACE.format(more=""), goal)


def test_a_game_is_read_whole(tmp_path):
    game = read_game(write_folder(tmp_path))
    assert game.game_id == "pick-Mug/trial_1"
    assert game.task == "put some mug on desk"
    assert game.goal == Goal(task_type="pick_and_place_simple", object_type="mug", receptacle_type="desk")
    assert game.start_location == "loc_bar_0"
    assert [(r.id, r.type, r.location, r.openable) for r in game.receptacles] == [
        ("desk_bar__plus_00", "desk", "loc_bar_1", False),
        ("safe_bar__plus_00", "safe", "loc_bar_2", True),
    ]
    egg, mug = game.objects
    assert (egg.pickupable, egg.inner) == (False, ())
    assert (mug.pickupable, mug.heatable, mug.coolable, mug.is_receptacle_object) == (True, True, False, True)
    assert mug.inner == ("egg_bar__plus_00",)
    assert game.in_receptacle == (("mug_bar__plus_00", "safe_bar__plus_00"),)
    assert game.object_locations == (("mug_bar__plus_00", "loc_bar_2"),)
    assert game.initial_states == (("cool", "mug_bar__plus_00"),)
    assert game.can_contain == {("desk", "mug")}


def test_a_read_game_can_be_won(tmp_path):
    engine = Engine(read_game(write_folder(tmp_path)))
    for command in ("go to safe 1", "open safe 1", "take mug 1 from safe 1", "go to desk 1"):
        engine.step(command)
    assert engine.step("examine mug 1") == "This is a normal mug 1. In it, you see a egg 1."
    assert not engine.won
    engine.step("move mug 1 to desk 1")
    assert engine.won


def test_the_sentence_may_be_given(tmp_path):
    game = read_game(write_folder(tmp_path), "bring a mug to the desk", game_id="one")
    assert (game.game_id, game.task) == ("one", "bring a mug to the desk")


def test_the_problem_alone_is_enough(tmp_path):
    alone = read_game(write_folder(tmp_path, trajectory=None, packed=None))
    assert alone.task == "put a mug in desk"
    packed = read_game(write_folder(tmp_path, problem=None, trajectory=None, name="packed/trial"))
    assert packed.receptacles == alone.receptacles


def test_the_content_hash_covers_the_content_and_not_the_name(tmp_path):
    folder = write_folder(tmp_path)
    game = read_game(folder)
    assert len(game.content_hash) == 64
    assert read_game(folder, game_id="other").content_hash == game.content_hash
    assert read_game(folder, "put it there").content_hash != game.content_hash
    moved = PROBLEM.replace("(atLocation agent1 loc_bar_0)", "(atLocation agent1 loc_bar_1)")
    assert read_game(write_folder(tmp_path, moved, name="moved/trial")).content_hash != game.content_hash


@pytest.mark.parametrize(
    ("goal", "task_type", "target"),
    [
        (PLACE.format(more=""), "pick_and_place_simple", "desk"),
        (PLACE.format(more="(cleanable ?o) (isClean ?o)"), "pick_clean_then_place_in_recep", "desk"),
        (PLACE.format(more="(isHot ?o) (heatable ?o)"), "pick_heat_then_place_in_recep", "desk"),
        (PLACE.format(more="(coolable ?o) (isCool ?o)"), "pick_cool_then_place_in_recep", "desk"),
        (TWO.format(second="MugType"), "pick_two_obj_and_place", "desk"),
        (LIGHT, "look_at_obj_in_light", "desklamp"),
    ],
)
def test_the_six_goals_are_recognised(tmp_path, goal, task_type, target):
    read = read_game(write_folder(tmp_path, with_goal(goal), trajectory=None, packed=None)).goal
    assert (read.task_type, read.object_type, read.receptacle_type or read.lamp_type) == (task_type, "mug", target)


@pytest.mark.parametrize(
    ("goal", "message"),
    [
        (PLACE.format(more="(isSliced ?o)"), r"none of the six known kinds .* \(issliced \?o\)"),
        (PLACE.format(more="(isHot ?o)"), "none of the six known kinds"),
        (TWO.format(second="CupType"), "none of the six known kinds"),
        ("(:goal (and))", "none of the six known kinds"),
        ("(:goal (forall (?o - object) (isHot ?o)))", r"the goal has \(forall .* expected and, exists"),
        ("", "no :goal section"),
    ],
)
def test_other_goals_are_refused(tmp_path, goal, message):
    with pytest.raises(FormatError, match=message):
        read_game(write_folder(tmp_path, with_goal(goal), trajectory=None, packed=None))


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        ("", "an empty file, expected one"),
        ("not a problem", "3 words starting with 'not a problem', expected one"),
        (PROBLEM[: PROBLEM.index("(isCool")], r"(?s)ends inside 2 open brackets, .* It is truncated"),
        (PROBLEM + ")", "a closing bracket too many"),
        (PROBLEM.replace("(isCool M", "(isBlue M"), "unknown fact 'isblue' in :init. Known: atlocation, "),
        (PROBLEM.replace("(isCool Mug_bar__plus_00)", "(isCool)"), r"\(iscool\) has 0 arguments, expected 1"),
        (PROBLEM.replace("(isCool Mug_bar__plus_00)", "(isCool (Mug))"), "expected a fact such as"),
        (PROBLEM.replace("(atLocation agent1 loc_bar_0)", ""), "0 start locations"),
        (PROBLEM.replace("(receptacleAtLocation Desk_bar__plus_00 loc_bar_1)", ""), "00 has no receptacleAtLocation"),
        (PROBLEM.replace("(receptacleType Desk_bar__plus_00 DeskType)", ""), "desk_bar__plus_00 has no receptacleType"),
        (PROBLEM.replace("(isCool", "(objectType Mug_bar__plus_00 CupType) (isCool"), "two facts objectType, mugtype"),
        (PROBLEM.replace("(pickupable Mug", "(pickupable Cup"), "pickupable of cup_bar__plus_00, which has no type"),
        (PROBLEM.replace("(inReceptacle Mug_bar__plus_00 Safe", "(inReceptacle Mug_bar__plus_00 Bed"), "is no receptacle"),
    ],
)  # fmt: skip
def test_damaged_problems_are_refused_with_their_file(tmp_path, problem, message):
    folder = write_folder(tmp_path, problem)
    with pytest.raises(FormatError, match=message) as caught:
        read_game(folder)
    assert str(caught.value).startswith(str(folder / "initial_state.pddl"))


@pytest.mark.parametrize(
    ("trajectory", "message"),
    [
        ('{"task_type": ', r"traj_data.json: broken JSON at line 1"),
        ("[]", "a JSON list, expected an object"),
        ({**TRAJECTORY, "task_type": "juggle"}, "task_type is 'juggle', expected one of pick_and_place_simple, "),
        ({"task_type": "pick_and_place_simple"}, "pddl_params is None"),
        ({**TRAJECTORY, "task_type": "pick_two_obj_and_place"}, "do not belong together"),
        ({**TRAJECTORY, "pddl_params": {"object_target": "Cup", "parent_target": "Desk"}}, "do not belong together"),
    ],
)
def test_a_trajectory_file_must_agree_with_the_goal(tmp_path, trajectory, message):
    with pytest.raises(FormatError, match=message):
        read_game(write_folder(tmp_path, trajectory=trajectory))


def test_folders_without_a_game_are_refused(tmp_path):
    with pytest.raises(FormatError, match=r"(?s)neither initial_state.pddl nor .* It holds: nothing"):
        read_game(write_folder(tmp_path, None, None, None))
    with pytest.raises(FormatError, match="no such folder"):
        read_game(tmp_path / "absent")
    with pytest.raises(FormatError, match="no 'Your task is to: ' in the grammar"):
        read_game(write_folder(tmp_path, packed={**PACKED, "grammar": "none"}, name="mute/trial"))
    broken = write_folder(tmp_path, name="bytes/trial")
    (broken / "initial_state.pddl").write_bytes(b"(define \xff\xfe")
    with pytest.raises(FormatError, match=r"initial_state.pddl: byte 8 is no UTF-8 text"):
        read_game(broken)


def test_games_are_found_in_order_and_skips_are_told(tmp_path, caplog):
    for name in ("b/trial_2", "b/trial_10", "a/trial_1"):
        write_folder(tmp_path, name=name)
    write_folder(tmp_path, name="pick-Mug-Sliced/trial")
    write_folder(tmp_path, name="movable_recep/trial")
    write_folder(tmp_path, packed=None, name="unpacked/trial")
    write_folder(tmp_path, trajectory=None, name="untold/trial")
    write_folder(tmp_path, packed={**PACKED, "solvable": False}, name="unsolvable/trial")
    write_folder(tmp_path, packed={"grammar": ""}, name="unknown/trial")
    with caplog.at_level(logging.WARNING):
        found = find_games(tmp_path)
    assert [f.relative_to(tmp_path).as_posix() for f in found] == ["a/trial_1", "b/trial_10", "b/trial_2"]
    assert "3 games found, 6 skipped" in caplog.text
    reasons = {folder.parent.name: reason for folder, reason in scan_games(tmp_path).skipped}
    assert reasons == {
        "pick-Mug-Sliced": "with 'Sliced' in the path",
        "movable_recep": "with 'movable' in the path",
        "unpacked": "without game.tw-pddl",
        "untold": "without traj_data.json",
        "unsolvable": "not solvable",
        "unknown": "without 'solvable' in game.tw-pddl",
    }


def test_an_empty_folder_of_games_is_refused(tmp_path):
    with pytest.raises(FormatError, match=r"no game found below it, expected folders with traj_data\.json"):
        find_games(tmp_path)
    with pytest.raises(FormatError, match="no such folder"):
        find_games(tmp_path / "absent")
