from __future__ import annotations

import pickle
import random
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tutelage.envs.household.engine import HELP, NOTHING_HAPPENS, Engine

WEST, EAST = "loc_west", "loc_east"


def play(engine, *commands):
    """Do all commands, each of which must have an effect; the last answer."""
    reply = ""
    for command in commands:
        reply = engine.step(command)
        assert reply != NOTHING_HAPPENS, command
    return reply


def start(game, *commands, **options):
    engine = Engine(game, **options)
    play(engine, *commands)
    return engine


# Intro, look, going about


def test_intro_lists_all_receptacles_and_a_later_look_none(make_game):
    game = make_game({"drawer_bar_1": WEST, "drawer_bar_2": EAST, "safe_bar_1": EAST}, {"cd_bar_1": ["drawer_bar_1"]})
    engine = Engine(game)
    assert engine.reset() == (
        "-= Welcome to TextWorld, ALFRED! =-\n\n"
        "You are in the middle of a room. Looking quickly around you, you see a drawer 2, a drawer 1, and a safe 1."
        "\n\nYour task is to: put a cd in safe."
    )
    assert engine.step("look") == "You are in the middle of a room. Looking quickly around you, you see nothing."
    assert engine.task == "put a cd in safe"


def test_a_start_at_receptacles_faces_them(make_game):
    game = make_game(
        {"drawer_bar_1": WEST, "safe_bar_1": WEST, "bed_bar_1": EAST}, {"cd_bar_1": ["drawer_bar_1"]}, start=WEST
    )
    assert Engine(game).reset() == (
        "-= Welcome to TextWorld, ALFRED! =-\n\nYou are facing the drawer 1, and safe 1. Next to it, you see nothing."
        "\n\nYour task is to: put a cd in safe."
    )


def test_go_to_excludes_every_receptacle_here(kitchen):
    engine = start(kitchen, "go to fridge 1")
    travel = [c for c in engine.admissible() if c.startswith("go to")]
    assert travel == [
        "go to cabinet 1", "go to cabinet 2", "go to countertop 1", "go to microwave 1", "go to sinkbasin 1",
        "go to stoveburner 1", "go to stoveburner 2",
    ]  # fmt: skip
    assert engine.step("go to garbagecan 1") == NOTHING_HAPPENS
    assert engine.here == ("fridge 1", "garbagecan 1")
    assert engine.step("go to microwave 1") == "You arrive at microwave 1. The microwave 1 is closed."


def test_doors(kitchen):
    engine = start(kitchen, "go to fridge 1")
    assert engine.step("examine fridge 1") == "The fridge 1 is closed."
    assert engine.step("take egg 1 from fridge 1") == NOTHING_HAPPENS
    assert engine.step("open fridge 1") == (
        "You open the fridge 1. The fridge 1 is open. In it, you see a apple 1, and a egg 1."
    )
    assert engine.is_open("fridge 1")
    assert engine.step("open fridge 1") == NOTHING_HAPPENS
    assert engine.step("close fridge 1") == "You close the fridge 1."
    assert engine.step("close fridge 1") == NOTHING_HAPPENS


def test_all_commands_at_one_place(kitchen):
    engine = start(kitchen, "go to countertop 1", "take mug 2 from countertop 1")
    travel = [c for c in engine.admissible() if c.startswith("go to")]
    assert list(engine.admissible()) == [
        "examine countertop 1", "examine mug 2", *travel, "help", "inventory", "look", "move mug 2 to countertop 1",
    ]  # fmt: skip
    assert engine.step("help") == HELP
    assert HELP.startswith("Available commands:\n  look: ")
    assert len(HELP.splitlines()) == 14
    assert HELP.endswith("\n")


def test_commands_are_sorted_as_text(make_game):
    game = make_game({f"shelf_bar_{i:02d}": f"loc_{i}" for i in range(11)}, {})
    travel = [c for c in Engine(game).admissible() if c.startswith("go to")]
    assert travel[:4] == ["go to shelf 1", "go to shelf 10", "go to shelf 11", "go to shelf 2"]


@pytest.mark.parametrize(
    "command",
    ["", "  ", "open", "go to", "eat apple", "Look", "go  to fridge 1", "go to Fridge 1", "put x in/on y",
     "take apple 1 from fridge 1", "examine apple 1", "go to apple 1", "open fridge 1", "look look"],
)  # fmt: skip
def test_anything_else_does_nothing(kitchen, command):
    engine = start(kitchen)
    before = engine.state_hash()
    assert engine.step(command) == NOTHING_HAPPENS
    assert engine.state_hash() == before


def test_commands_are_stripped_at_both_ends(kitchen):
    assert start(kitchen).step(" \tlook\n").startswith("You are in the middle of a room.")


def test_inventory_and_taking(kitchen):
    engine = start(kitchen, "go to countertop 1")
    assert engine.step("inventory") == "You are not carrying anything."
    assert engine.step("take apple 2 from countertop 1") == "You pick up the apple 2 from the countertop 1."
    assert engine.step("inventory") == "You are carrying: a apple 2."
    assert engine.held == "apple 2"
    assert engine.step("take mug 2 from countertop 1") == NOTHING_HAPPENS
    assert engine.step("move apple 2 to countertop 1") == "You move the apple 2 to the countertop 1."
    assert engine.contents("countertop 1") == ("apple 2", "knife 1", "mug 2")


def test_what_a_receptacle_takes_is_decided_by_types(make_game):
    game = make_game({"safe_bar_1": WEST, "bed_bar_1": WEST}, {"cd_bar_1": ["bed_bar_1"]}, can_contain=[("bed", "cd")])
    engine = start(game, "go to safe 1", "open safe 1", "take cd 1 from bed 1")
    assert [c for c in engine.admissible() if c.startswith("move")] == ["move cd 1 to bed 1"]


def test_moved_objects_lie_next_to_the_receptacle_they_left(make_game):
    # E-02
    game = make_game({"drawer_bar_1": WEST, "dresser_bar_1": WEST}, {"cd_bar_1": ["drawer_bar_1"]})
    engine = start(game, "go to drawer 1", "open drawer 1", "take cd 1 from drawer 1", "move cd 1 to dresser 1")
    assert engine.step("look") == "You are facing the drawer 1, and dresser 1. Next to it, you see a cd 1."
    play(engine, "take cd 1 from dresser 1")
    assert engine.step("look").endswith("Next to it, you see nothing.")
    # Back in the drawer it still counts as having left the dresser.
    play(engine, "move cd 1 to drawer 1")
    assert engine.step("look").endswith("Next to it, you see a cd 1.")


def test_an_object_left_by_two_receptacles_is_listed_twice(make_game):
    game = make_game(
        {"stoveburner_bar_1": WEST, "stoveburner_bar_2": WEST, "sidetable_bar_1": WEST},
        {"pan_bar_1": ["stoveburner_bar_1", "stoveburner_bar_2"]},
    )
    engine = start(
        game,
        "go to stoveburner 1",
        "take pan 1 from stoveburner 1", "move pan 1 to sidetable 1",
        "take pan 1 from stoveburner 2", "move pan 1 to sidetable 1",
    )  # fmt: skip
    assert engine.step("look").endswith("Next to it, you see a pan 1, and a pan 1.")


def test_an_object_in_two_receptacles_stays_in_the_other_one(kitchen):
    engine = start(kitchen, "go to stoveburner 1", "take pan 1 from stoveburner 1")
    assert engine.containers("pan 1") == ("stoveburner 2",)
    assert engine.step("go to stoveburner 2").endswith("On the stoveburner 2, you see a pan 1.")
    assert engine.step("take pan 1 from stoveburner 2") == NOTHING_HAPPENS
    assert engine.step("move pan 1 to stoveburner 2") == "You move the pan 1 to the stoveburner 2."
    assert engine.step("examine stoveburner 2") == "On the stoveburner 2, you see a pan 1."
    assert engine.step("take pan 1 from stoveburner 2") == "You pick up the pan 1 from the stoveburner 2."


# Changing things


@pytest.mark.parametrize(
    ("verb", "receptacle", "state"),
    [("heat", "microwave 1", "hot"), ("cool", "fridge 1", "cool"), ("clean", "sinkbasin 1", "clean")],
)
def test_treatments_need_no_open_door_and_may_be_repeated(kitchen, verb, receptacle, state):
    engine = start(kitchen, "go to countertop 1", "take mug 2 from countertop 1", f"go to {receptacle}")
    for _ in range(2):
        assert engine.step(f"{verb} mug 2 with {receptacle}") == f"You {verb} the mug 2 using the {receptacle}."
        assert engine.held == "mug 2"
        assert engine.states("mug 2") == {state}


def test_treatments_need_the_right_receptacle_and_object(kitchen):
    engine = start(kitchen, "go to countertop 1", "take knife 1 from countertop 1", "go to microwave 1")
    assert engine.step("heat knife 1 with microwave 1") == NOTHING_HAPPENS
    play(
        engine, "go to countertop 1", "move knife 1 to countertop 1", "take mug 2 from countertop 1", "go to cabinet 1"
    )
    for verb in ("heat", "cool", "clean"):
        assert engine.step(f"{verb} mug 2 with cabinet 1") == NOTHING_HAPPENS


def test_heating_ends_cool_and_cooling_ends_hot(kitchen):
    engine = start(
        kitchen, "go to countertop 1", "take apple 2 from countertop 1",
        "go to fridge 1", "cool apple 2 with fridge 1", "go to microwave 1", "heat apple 2 with microwave 1",
    )  # fmt: skip
    assert engine.states("apple 2") == {"hot"}
    play(engine, "go to fridge 1", "cool apple 2 with fridge 1")
    assert engine.states("apple 2") == {"cool"}


def test_a_lamp_used_twice_stays_on(kitchen):
    # It stands in a closed cabinet and is in reach all the same, also from the cabinet beside it.
    engine = start(kitchen, "go to cabinet 1")
    for _ in range(2):
        assert engine.step("use desklamp 1") == "You turn on the desklamp 1."
        assert engine.states("desklamp 1") == {"toggled"}
    assert engine.step("open cabinet 2").endswith("you see a desklamp 1.")
    assert engine.step("take desklamp 1 from cabinet 2") == NOTHING_HAPPENS


def test_slicing_reaches_through_a_closed_door_and_keeps_the_name(kitchen):
    engine = start(kitchen, "go to countertop 1", "take knife 1 from countertop 1")
    assert engine.step("slice apple 2 with knife 1") == "You sliced the apple 2 with the knife 1."
    assert engine.step("go to fridge 1").endswith("The fridge 1 is closed.")
    assert [c for c in engine.admissible() if c.startswith("slice")] == [
        "slice apple 1 with knife 1", "slice egg 1 with knife 1",
    ]  # fmt: skip
    assert engine.step("slice egg 1 with knife 1") == "You sliced the egg 1 with the knife 1."
    assert engine.step("open fridge 1").endswith("you see a apple 1, and a egg 1.")
    assert engine.states("egg 1") == {"sliced"}


def test_held_objects_cannot_be_sliced(kitchen):
    engine = start(kitchen, "go to countertop 1", "take apple 2 from countertop 1")
    assert not [c for c in engine.admissible() if c.startswith("slice")]
    assert engine.step("slice apple 2 with knife 1") == NOTHING_HAPPENS


# Examining


def test_only_held_objects_can_be_examined(kitchen):
    engine = start(kitchen, "go to countertop 1")
    assert engine.step("examine apple 2") == NOTHING_HAPPENS
    engine.step("take apple 2 from countertop 1")
    assert engine.step("examine apple 2") == "There's nothing special about apple 2."


def test_conditions_of_a_held_egg_and_a_vessel(kitchen):
    # E-03
    engine = start(kitchen, "go to fridge 1", "open fridge 1", "take egg 1 from fridge 1", "cool egg 1 with fridge 1")
    assert engine.step("examine egg 1") == "This is a cold egg 1."
    play(engine, "go to sinkbasin 1", "clean egg 1 with sinkbasin 1")
    assert engine.step("examine egg 1") == "This is a cool and clean egg 1."
    play(engine, "go to countertop 1", "move egg 1 to countertop 1")
    play(engine, "take mug 2 from countertop 1", "go to microwave 1", "heat mug 2 with microwave 1")
    assert engine.step("examine mug 2") == "This is a normal mug 2. In it, you see nothing."
    play(
        engine,
        "go to countertop 1",
        "move mug 2 to countertop 1",
        "go to stoveburner 1",
        "take pan 1 from stoveburner 1",
    )
    assert engine.step("examine pan 1") == "This is a normal pan 1. In it, you see a egg 1."


@pytest.mark.parametrize(
    ("states", "text"),
    [
        ("clean hot sliced", "This is a hot and clean sliced apple 1."),
        ("clean cool sliced", "This is a cool and clean sliced apple 1."),
        ("clean sliced", "This is a clean sliced apple 1."),
        ("hot sliced", "This is a hot sliced apple 1."),
        ("cool sliced", "This is a cool sliced apple 1."),
        ("clean hot", "This is a hot and clean apple 1."),
        ("clean cool", "This is a cool and clean apple 1."),
        ("hot", "This is a hot apple 1."),
        ("clean", "This is a clean apple 1."),
        ("cool", "This is a cold apple 1."),
        ("sliced", "This is a sliced apple 1."),
        ("", "There's nothing special about apple 1."),
    ],
)
def test_every_condition_has_its_words(make_game, states, text):
    game = make_game(
        {"bed_bar_1": WEST}, {"apple_bar_1": ["bed_bar_1"]}, states=[(s, "apple_bar_1") for s in states.split()]
    )
    assert start(game, "go to bed 1", "take apple 1 from bed 1").step("examine apple 1") == text


# Winning


def cds(make_game, goal, **options):
    return make_game(
        {"cabinet_bar_1": WEST, "cabinet_bar_2": EAST, "bed_bar_1": "loc_bed", "fridge_bar_1": "loc_fridge",
         "microwave_bar_1": "loc_microwave", "sink_bar_1_bar_sinkbasin": "loc_sink"},
        {"mug_bar_1": ["bed_bar_1"], "mug_bar_2": ["bed_bar_1"], "pan_bar_1": ["bed_bar_1"],
         "desklamp_bar_1": ["bed_bar_1"]},
        goal,
        **options,
    )  # fmt: skip


def test_pick_and_place_is_won_with_the_door_shut(make_game):
    game = cds(make_game, ("pick_and_place_simple", "mug", "cabinet"))
    engine = start(game, "go to bed 1", "take mug 1 from bed 1", "go to cabinet 1", "open cabinet 1")
    assert not engine.won
    engine.step("move mug 1 to cabinet 1")
    assert engine.won
    engine.step("close cabinet 1")
    assert engine.won
    play(engine, "open cabinet 1", "take mug 1 from cabinet 1")
    assert not engine.won
    play(engine, "go to bed 1", "move mug 1 to bed 1", "take pan 1 from bed 1", "go to cabinet 1")
    play(engine, "move pan 1 to cabinet 1")
    assert not engine.won


@pytest.mark.parametrize(
    ("kind", "verb", "receptacle"),
    [("clean", "clean", "sinkbasin 1"), ("heat", "heat", "microwave 1"), ("cool", "cool", "fridge 1")],
)
def test_treated_objects_win_in_either_place(make_game, kind, verb, receptacle):
    game = cds(make_game, (f"pick_{kind}_then_place_in_recep", "mug", "cabinet"))
    to_cabinet = ["go to cabinet 2", "open cabinet 2", "move mug 1 to cabinet 2"]
    assert not start(game, "go to bed 1", "take mug 1 from bed 1", *to_cabinet).won
    treated = ["go to bed 1", "take mug 1 from bed 1", f"go to {receptacle}", f"{verb} mug 1 with {receptacle}"]
    assert not start(game, *treated).won
    assert start(game, *treated, *to_cabinet).won


def test_a_mug_heated_then_cooled_is_not_hot(make_game):
    # E-04
    game = cds(make_game, ("pick_heat_then_place_in_recep", "mug", "cabinet"))
    assert not start(
        game, "go to bed 1", "take mug 1 from bed 1", "go to microwave 1", "heat mug 1 with microwave 1",
        "go to fridge 1", "cool mug 1 with fridge 1", "go to cabinet 1", "open cabinet 1", "move mug 1 to cabinet 1",
    ).won  # fmt: skip


def test_an_object_cool_from_the_start_counts(make_game):
    game = cds(make_game, ("pick_cool_then_place_in_recep", "mug", "cabinet"), states=[("cool", "mug_bar_1")])
    fetch = ["go to bed 1", "take mug {} from bed 1", "go to cabinet 1", "open cabinet 1", "move mug {} to cabinet 1"]
    assert start(game, *(c.format(2) for c in fetch)).won
    assert not start(game, *(c.format(1) for c in fetch)).won


def test_pick_two_needs_one_receptacle(make_game):
    # E-05
    game = cds(make_game, ("pick_two_obj_and_place", "mug", "cabinet"))
    apart = [
        "go to bed 1", "take mug 1 from bed 1", "go to cabinet 1", "open cabinet 1", "move mug 1 to cabinet 1",
        "go to bed 1", "take mug 2 from bed 1", "go to cabinet 2", "open cabinet 2", "move mug 2 to cabinet 2",
    ]  # fmt: skip
    engine = start(game, *apart)
    assert not engine.won
    play(engine, "take mug 2 from cabinet 2", "go to cabinet 1", "move mug 2 to cabinet 1")
    assert engine.won


def test_light_task_in_either_order(make_game):
    game = cds(make_game, ("look_at_obj_in_light", "mug", "desklamp"))
    engine = start(game, "go to bed 1", "take mug 1 from bed 1")
    assert not engine.won
    engine.step("use desklamp 1")
    assert engine.won
    engine.step("go to cabinet 1")
    assert not engine.won
    engine.step("go to bed 1")
    assert engine.won
    assert start(game, "go to bed 1", "use desklamp 1", "take mug 1 from bed 1").won
    assert not start(game, "go to bed 1", "use desklamp 1", "take pan 1 from bed 1").won


FETCH = ("go to bed 1", "take mug 1 from bed 1")
PLACE = ("go to cabinet 1", "open cabinet 1", "move mug 1 to cabinet 1")
HEAT = ("go to microwave 1", "heat mug 1 with microwave 1")
SECOND = ("go to bed 1", "take mug 2 from bed 1")


@pytest.mark.parametrize(
    ("goal", "commands", "expected"),
    [
        ("pick_and_place_simple mug cabinet", FETCH, (False,)),
        ("pick_and_place_simple mug cabinet", (*FETCH, *PLACE), (True,)),
        ("pick_two_obj_and_place mug cabinet", (), (False, False)),
        ("pick_two_obj_and_place mug cabinet", (*FETCH, *PLACE), (True, False)),
        (
            "pick_two_obj_and_place mug cabinet",
            (*FETCH, *PLACE, *SECOND, "go to cabinet 2", "open cabinet 2", "move mug 2 to cabinet 2"),
            (True, False),
        ),
        (
            "pick_two_obj_and_place mug cabinet",
            (*FETCH, *PLACE, *SECOND, "go to cabinet 1", "move mug 2 to cabinet 1"),
            (True, True),
        ),
        ("pick_heat_then_place_in_recep mug cabinet", (*FETCH, *PLACE), (True, False, False)),
        ("pick_heat_then_place_in_recep mug cabinet", (*FETCH, *HEAT), (False, True, False)),
        (
            "pick_heat_then_place_in_recep mug cabinet",
            (*FETCH, *PLACE, *SECOND, "go to microwave 1", "heat mug 2 with microwave 1"),
            (True, True, False),
        ),
        ("pick_heat_then_place_in_recep mug cabinet", (*FETCH, *HEAT, *PLACE), (True, True, True)),
        (
            "pick_clean_then_place_in_recep mug cabinet",
            (*FETCH, "go to sinkbasin 1", "clean mug 1 with sinkbasin 1"),
            (False, True, False),
        ),
        (
            "pick_cool_then_place_in_recep mug cabinet",
            (*FETCH, "go to fridge 1", "cool mug 1 with fridge 1", *PLACE),
            (True, True, True),
        ),
        ("look_at_obj_in_light mug desklamp", FETCH, (True, False, False)),
        ("look_at_obj_in_light mug desklamp", ("go to bed 1", "use desklamp 1"), (False, True, False)),
        ("look_at_obj_in_light mug desklamp", (*FETCH, "use desklamp 1"), (True, True, True)),
        ("look_at_obj_in_light mug desklamp", (*FETCH, "use desklamp 1", "go to cabinet 1"), (True, True, False)),
    ],
)
def test_the_conditions_of_a_goal(make_game, goal, commands, expected):
    engine = start(cds(make_game, tuple(goal.split())), *commands)
    assert engine.conditions() == expected
    assert engine.won == all(expected)


# Older form of move


@pytest.mark.parametrize("between", ["in/on", "in", "on", "to"])
def test_put_is_read_as_move_when_asked(kitchen, between):
    before = ["go to countertop 1", "take mug 2 from countertop 1"]
    put = f"put mug 2 {between} countertop 1"
    assert start(kitchen, *before).step(put) == NOTHING_HAPPENS
    engine = start(kitchen, *before, accept_put=True)
    assert "move mug 2 to countertop 1" in engine.admissible()
    assert not [c for c in engine.admissible() if c.startswith("put")]
    assert engine.step(put) == "You move the mug 2 to the countertop 1."
    assert engine.step(put) == NOTHING_HAPPENS


# States


def test_unknown_names_are_refused(kitchen):
    with pytest.raises(KeyError, match="no object 'spoon 1'"):
        Engine(kitchen).states("spoon 1")
    with pytest.raises(KeyError, match="no receptacle 'spoon 1'"):
        Engine(kitchen).contents("spoon 1")


def test_a_snapshot_belongs_to_its_game(kitchen, make_game):
    other = Engine(make_game({"bed_bar_1": WEST}, {}))
    with pytest.raises(ValueError, match=r"snapshot of game 'hand-made' given to an engine of 'hand-made'"):
        other.restore(Engine(kitchen).snapshot())


def test_renumbered_names_play_the_same_game(make_game):
    game = make_game({f"drawer_bar_{i}": f"loc_{i}" for i in range(9)}, {"cd_bar_1": ["drawer_bar_3"]})
    plain, renamed = Engine(game), Engine(game, renumber=3)
    assert plain.receptacle_names != renamed.receptacle_names
    for old, new in zip(plain.receptacle_names, renamed.receptacle_names, strict=True):
        plain.step(f"go to {old}")
        renamed.step(f"go to {new}")
        assert plain.state_hash() == renamed.state_hash()


def random_walk(engine, seed, length):
    """Commands and state hashes of a random play with some impossible commands."""
    rng = random.Random(seed)
    engine.reset()
    for _ in range(length):
        local = [c for c in engine.admissible() if not c.startswith("go to")]
        command = rng.choice([*local, *engine.admissible(), "eat apple"])
        engine.step(command)
        yield command, engine.state_hash()


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32), length=st.integers(1, 60))
def test_replay_passes_through_the_same_states(kitchen, seed, length):
    # A copy has tables and cached texts of its own.
    engine, again = Engine(kitchen), Engine(replace(kitchen))
    walk = list(random_walk(engine, seed, length))
    again.reset()
    for command, state in walk:
        again.step(command)
        assert again.state_hash() == state
    assert again.snapshot().flags == engine.snapshot().flags
    assert again.admissible() == engine.admissible()


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32), cut=st.integers(0, 40), length=st.integers(0, 20))
def test_restore_undoes_everything_since_the_snapshot(kitchen, seed, cut, length):
    engine = Engine(kitchen)
    for _ in random_walk(engine, seed, cut):
        pass
    before = (engine.state_hash(), engine.admissible(), engine.won, engine.step("look"), engine.step("inventory"))
    snapshot = engine.snapshot()
    rng = random.Random(seed)
    commands = []
    for _ in range(length):
        commands.append(rng.choice(engine.admissible()))
        engine.step(commands[-1])
    after = engine.state_hash()
    other = Engine(kitchen)
    for machine in (engine, other):
        machine.restore(snapshot)
        now = (machine.state_hash(), machine.admissible(), machine.won, machine.step("look"), machine.step("inventory"))
        assert now == before
        play(machine, *commands)
        assert machine.state_hash() == after


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_exactly_the_admissible_commands_are_answered(kitchen, seed):
    engine, probe = Engine(kitchen), Engine(kitchen)
    vocabulary = set()
    for _ in random_walk(engine, seed, 25):
        vocabulary.update(engine.admissible())
        assert list(engine.admissible()) == sorted(set(engine.admissible()))
    for command in sorted(vocabulary):
        probe.restore(engine.snapshot())
        answered = probe.step(command) != NOTHING_HAPPENS
        assert answered == (command in engine.admissible()), command
        if not answered:
            assert probe.state_hash() == engine.state_hash()


def test_state_hashes_are_equal_in_every_process(kitchen):
    code = (
        "import pickle, sys; from tutelage.envs.household.engine import Engine\n"
        "engine = Engine(pickle.load(sys.stdin.buffer))\n"
        "for c in ('go to fridge 1', 'open fridge 1', 'take egg 1 from fridge 1'): engine.step(c)\n"
        "print(engine.state_hash(), engine.game.content_hash)"
    )
    outputs = set()
    for hash_seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", code],
            input=pickle.dumps(kitchen), capture_output=True, check=True,
            env={"PYTHONHASHSEED": hash_seed, "PYTHONPATH": ":".join(sys.path)},
        )  # fmt: skip
        outputs.add(done.stdout.decode().split()[0])
    engine = start(kitchen, "go to fridge 1", "open fridge 1", "take egg 1 from fridge 1")
    assert outputs == {engine.state_hash()}
