from __future__ import annotations

import pytest

from tutelage.envs.household.engine import NOTHING_HAPPENS as ENGINE_NOTHING_HAPPENS
from tutelage.envs.household.game import Goal
from tutelage.envs.household.generator import generate_game
from tutelage.errors import PolicyError
from tutelage.policies.experts.household_belief import NOTHING_HAPPENS, Belief, Beliefs, parse_task, type_of
from tutelage.policies.scripted import RandomPolicy

INTRO = (
    "-= Welcome to TextWorld, ALFRED! =-\n\nYou are in the middle of a room. Looking quickly around you, you see "
    "a drawer 2, a drawer 1, a fridge 1, and a shelf 1.\n\nYour task is to: put a cool mug in shelf."
)


def belief_after(*pairs):
    belief = Belief(INTRO)
    for command, reply in pairs:
        belief.observe(command, reply)
    return belief


@pytest.mark.parametrize(
    ("sentence", "goal"),
    [
        ("put a cd in safe", ("pick_and_place_simple", "cd", "safe")),
        ("put some cd on safe", ("pick_and_place_simple", "cd", "safe")),
        ("look at book under the desklamp", ("look_at_obj_in_light", "book", "desklamp")),
        ("examine the book with the floorlamp", ("look_at_obj_in_light", "book", "floorlamp")),
        ("put a clean apple in fridge", ("pick_clean_then_place_in_recep", "apple", "fridge")),
        ("clean some apple and put it in fridge", ("pick_clean_then_place_in_recep", "apple", "fridge")),
        ("put a hot egg in garbagecan", ("pick_heat_then_place_in_recep", "egg", "garbagecan")),
        ("heat some egg and put it in garbagecan", ("pick_heat_then_place_in_recep", "egg", "garbagecan")),
        ("put a cool pan in countertop", ("pick_cool_then_place_in_recep", "pan", "countertop")),
        ("cool some pan and put it in countertop", ("pick_cool_then_place_in_recep", "pan", "countertop")),
        ("put two pillow in sofa", ("pick_two_obj_and_place", "pillow", "sofa")),
        ("find two pillow and put them in sofa", ("pick_two_obj_and_place", "pillow", "sofa")),
    ],
)
def test_every_task_sentence_gives_its_goal(sentence, goal):
    task_type, object_type, target = goal
    lamp = task_type == "look_at_obj_in_light"
    assert parse_task(sentence) == Goal(
        task_type=task_type,
        object_type=object_type,
        receptacle_type=None if lamp else target,
        lamp_type=target if lamp else None,
    )


@pytest.mark.parametrize("sentence", ["", "put the cd away", "put a warm egg in fridge", "put a cd in safe 1"])
def test_other_sentences_give_no_goal(sentence):
    assert parse_task(sentence) is None


def test_the_intro_gives_goal_and_receptacles_in_its_order():
    belief = Belief(INTRO)
    assert belief.goal.sentence() == "put a cool mug in shelf"
    assert belief.receptacles == ["drawer 2", "drawer 1", "fridge 1", "shelf 1"]
    assert belief.here == []
    assert belief.held is None


@pytest.mark.parametrize("text", ["hello", INTRO.replace("put a cool mug in shelf", "tidy up")])
def test_an_intro_without_a_known_task_is_an_error_that_says_so(text):
    with pytest.raises(PolicyError, match="in the first observation; expected one of the twelve sentences"):
        Belief(text)


def test_the_word_for_refusal_is_the_engines():
    assert NOTHING_HAPPENS == ENGINE_NOTHING_HAPPENS


def test_doors_contents_hand_and_states_follow_the_replies():
    belief = belief_after(
        ("go to fridge 1", "You arrive at fridge 1. The fridge 1 is closed."),
        ("open fridge 1", "You open the fridge 1. The fridge 1 is open. In it, you see a mug 2, and a egg 1."),
        ("take mug 2 from fridge 1", "You pick up the mug 2 from the fridge 1."),
        ("cool mug 2 with fridge 1", "You cool the mug 2 using the fridge 1."),
        ("close fridge 1", "You close the fridge 1."),
        ("look", "You are facing the fridge 1. Next to it, you see a mug 2."),
        ("dance", "Nothing happens."),
    )
    assert belief.contents == {"fridge 1": ["egg 1"]}
    assert belief.door == {"fridge 1": False}
    assert belief.held == "mug 2"
    assert belief.states == {"mug 2": {"cool"}}
    assert not belief.is_accessible("fridge 1")
    belief.observe("go to shelf 1", "You arrive at shelf 1. On the shelf 1, you see nothing.")
    belief.observe("move mug 2 to shelf 1", "You move the mug 2 to the shelf 1.")
    assert belief.contents == {"fridge 1": ["egg 1"], "shelf 1": ["mug 2"]}
    assert belief.held is None


def test_heating_ends_coolness_and_cooling_ends_heat():
    belief = belief_after(
        ("heat mug 1 with microwave 1", "You heat the mug 1 using the microwave 1."),
        ("clean mug 1 with sinkbasin 1", "You clean the mug 1 using the sinkbasin 1."),
    )
    assert belief.states == {"mug 1": {"hot", "clean"}}
    belief.observe("cool mug 1 with fridge 1", "You cool the mug 1 using the fridge 1.")
    assert belief.states == {"mug 1": {"cool", "clean"}}


@pytest.mark.parametrize(
    ("reply", "states"),
    [
        ("This is a cold egg 1.", {"cool"}),
        ("This is a cool and clean egg 1.", {"cool", "clean"}),
        ("This is a hot and clean sliced egg 1.", {"hot", "clean"}),
        ("There's nothing special about egg 1.", None),
        ("This is a normal mug 1. In it, you see nothing.", None),
    ],
)
def test_examining_a_held_object_tells_states_it_had_before(reply, states):
    assert belief_after(("examine egg 1", reply)).states.get("egg 1") == states


def test_a_refused_go_to_a_listed_receptacle_means_it_stands_here():
    belief = belief_after(
        ("go to drawer 2", "You arrive at drawer 2. The drawer 2 is closed."),
        ("go to drawer 1", "Nothing happens."),
        ("go to garbagecan 1", "Nothing happens."),
    )
    assert belief.here == ["drawer 2", "drawer 1"]
    belief.observe("go to shelf 1", "You arrive at shelf 1. On the shelf 1, you see nothing.")
    assert belief.here == ["shelf 1"]
    belief.observe("go to drawer 1", "You arrive at drawer 1. The drawer 1 is closed.")
    assert belief.here == ["drawer 2", "drawer 1"]


def test_two_spots_that_prove_to_be_one_are_joined():
    belief = belief_after(
        ("go to drawer 2", "You arrive at drawer 2. The drawer 2 is closed."),
        ("go to shelf 1", "You arrive at shelf 1. On the shelf 1, you see nothing."),
        ("go to drawer 1", "You arrive at drawer 1. The drawer 1 is closed."),
    )
    assert belief.here == ["drawer 1"]
    belief.observe("look", "You are facing the drawer 2, and drawer 1. Next to it, you see nothing.")
    assert belief.here == ["drawer 2", "drawer 1"]


def test_only_refusals_that_cannot_be_explained_otherwise_are_remembered():
    belief = belief_after(
        ("go to shelf 1", "You arrive at shelf 1. On the shelf 1, you see a desklamp 1, and a mug 1."),
        ("take desklamp 1 from shelf 1", "Nothing happens."),
        ("take mug 2 from shelf 1", "Nothing happens."),
        ("move mug 1 to shelf 1", "Nothing happens."),
        ("take mug 1 from shelf 1", "You pick up the mug 1 from the shelf 1."),
        ("take desklamp 1 from shelf 1", "Nothing happens."),
        ("move mug 1 to drawer 1", "Nothing happens."),
        ("move mug 1 to shelf 1", "Nothing happens."),
    )
    assert belief.refused == {"take desklamp 1 from shelf 1", "move mug 1 to shelf 1"}


def test_the_guessed_commands_at_a_place():
    belief = belief_after(
        ("go to fridge 1", "You arrive at fridge 1. The fridge 1 is closed."),
        ("open fridge 1", "You open the fridge 1. The fridge 1 is open. In it, you see a mug 2."),
    )
    elsewhere = ("go to drawer 1", "go to drawer 2", "go to shelf 1", "inventory", "look")
    assert belief.commands() == ("close fridge 1", "examine fridge 1", *elsewhere, "take mug 2 from fridge 1")
    belief.observe("take mug 2 from fridge 1", "You pick up the mug 2 from the fridge 1.")
    assert belief.commands() == (
        "close fridge 1", "cool mug 2 with fridge 1", "examine fridge 1", *elsewhere, "move mug 2 to fridge 1",
    )  # fmt: skip


@pytest.mark.parametrize("size", ["small", "real"])
@pytest.mark.parametrize("seed", range(12))
def test_in_random_play_every_belief_is_true(size, seed, play):
    game = play(generate_game(seed, size=size))
    engine, beliefs = game.engine, Beliefs()
    student = RandomPolicy(lambda _: engine.admissible(), seed=seed)
    for _ in range(60):
        game.do(student.act(game.so_far).command)
        belief = beliefs.of(game.so_far)
        assert belief.held == engine.held
        assert set(belief.here) <= set(engine.here)
        assert set(belief.receptacles) == set(engine.receptacle_names)
        for receptacle, inside in belief.contents.items():
            assert set(inside) <= set(engine.contents(receptacle))
        for receptacle in belief.seen:
            assert set(belief.contents[receptacle]) == set(engine.contents(receptacle))
            assert belief.door.get(receptacle, False) == engine.is_open(receptacle)
        for name, states in belief.states.items():
            assert states == engine.states(name) & {"hot", "cool", "clean"}
        assert {name for name in engine.object_names if "toggled" in engine.states(name)} == belief.lit
        assert set(belief.commands()) - {"help"} <= {*engine.admissible()} | {
            # The text does not tell what shares a spot, what fits, and what cannot be taken or treated.
            command for command in belief.commands() if command.split()[0] in ("go", "move", "take", "clean", "heat", "cool")
        }  # fmt: skip


def test_beliefs_kept_between_calls_equal_those_made_anew(play):
    for seed in range(6):
        game = play(generate_game(seed))
        student = RandomPolicy(lambda _, game=game: game.engine.admissible(), seed=seed)
        kept = Beliefs()
        for _ in range(25):
            game.do(student.act(game.so_far).command)
            assert vars(kept.of(game.so_far)) == vars(Beliefs().of(game.so_far))


def test_another_history_under_the_same_id_is_read_from_its_start(partial_of):
    beliefs = Beliefs()
    shelf = ("go to shelf 1", "You arrive at shelf 1. On the shelf 1, you see a mug 1.")
    fridge = ("go to fridge 1", "You arrive at fridge 1. The fridge 1 is closed.")
    assert beliefs.of(partial_of([INTRO, *shelf, *fridge])).here == ["fridge 1"]
    assert beliefs.of(partial_of([INTRO, *shelf])).here == ["shelf 1"]
    assert beliefs.of(partial_of([INTRO, *fridge])).contents == {}
    assert beliefs.of(partial_of([INTRO.replace("mug", "egg"), *fridge])).goal.object_type == "egg"
    assert beliefs.of(partial_of([INTRO])).here == []


def test_type_of_a_name():
    assert type_of("drawer 12") == "drawer"
