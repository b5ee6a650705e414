from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from tutelage.envs.household.engine import Engine
from tutelage.envs.household.game import TASK_SENTENCES, TASK_TYPES, Goal, HouseholdObject, Receptacle
from tutelage.errors import FormatError


def test_every_task_type_has_two_sentences():
    assert tuple(TASK_SENTENCES) == TASK_TYPES
    goal = Goal(task_type="pick_and_place_simple", object_type="cd", receptacle_type="safe")
    assert (goal.sentence(), goal.sentence(1)) == ("put a cd in safe", "put some cd on safe")
    light = Goal(task_type="look_at_obj_in_light", object_type="bowl", lamp_type="desklamp")
    assert (light.sentence(), light.sentence(1)) == (
        "look at bowl under the desklamp",
        "examine the bowl with the desklamp",
    )


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"task_type": "juggle", "object_type": "cd"}, "unknown task type 'juggle', expected one of pick_and"),
        ({"task_type": "pick_and_place_simple", "object_type": "cd"}, "receptacle_type=None"),
        ({"task_type": "look_at_obj_in_light", "object_type": "cd", "receptacle_type": "bed"}, "takes a lamp type"),
        ({"task_type": "pick_and_place_simple", "object_type": "CD", "receptacle_type": "bed"}, "type 'CD', expected"),
    ],
)
def test_goals_are_checked(values, message):
    with pytest.raises(FormatError, match=message):
        Goal(**values)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task": "put it there."}, "without a final full stop"),
        ({"task": ""}, "expected one line of text"),
        ({"start_location": "Loc 1"}, "start location: id 'Loc 1', expected lower-case"),
        ({"receptacles": ()}, "no receptacle, expected at least one"),
        ({"in_receptacle": (("apple_bar__plus_01", "bed_bar_1"),)}, "'bed_bar_1' is no receptacle of this game"),
        ({"in_receptacle": (("cd_bar_1", "fridge_bar__plus_01"),)}, "'cd_bar_1' is no object of this game"),
        ({"object_locations": (("cd_bar_1", "loc_east"),)}, "'cd_bar_1' is no object"),
        ({"initial_states": (("blue", "apple_bar__plus_01"),)}, "unknown state 'blue', expected one of opened, hot"),
        ({"initial_states": (("hot", "fridge_bar__plus_01"),)}, "is no object"),
        ({"initial_states": (("opened", "apple_bar__plus_01"),)}, "is no receptacle"),
        (
            {"initial_states": (("hot", "apple_bar__plus_02"), ("hot", "apple_bar__plus_01"))},
            "expected ascending order",
        ),
        ({"objects": (HouseholdObject(id="fridge_bar__plus_01", type="fridge"),)}, "is a receptacle and an object"),
    ],
)
def test_games_are_checked_at_birth(kitchen, changes, message):
    with pytest.raises(FormatError, match=f"game hand-made: .*{message}|{message}"):
        replace(kitchen, **changes)


def test_things_are_checked_at_birth():
    with pytest.raises(FormatError, match=r"receptacle: id 'bed\(1\)'"):
        Receptacle(id="bed(1)", type="bed", location="loc_1")
    with pytest.raises(FormatError, match=r"object mug_bar_1: inner: 'a' comes after 'b'"):
        HouseholdObject(id="mug_bar_1", type="mug", inner=("b", "a"))


def test_a_copy_is_equal_and_carries_no_derived_values(kitchen):
    Engine(kitchen)
    assert kitchen.cache
    for copy in (pickle.loads(pickle.dumps(kitchen)), replace(kitchen)):
        assert copy == kitchen
        assert hash(copy) == hash(kitchen)
        assert copy.content_hash == kitchen.content_hash
        assert set(copy.cache) == {"content_hash"}
    assert replace(kitchen, task="put it there").content_hash != kitchen.content_hash
    assert "tables" not in repr(kitchen)
