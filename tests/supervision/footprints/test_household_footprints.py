"""What household steps read and write, from their texts: one case per row of the table, and any text at all."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tutelage.envs.household.env import FORMAT_HELP, HouseholdEnv
from tutelage.errors import SupervisionError
from tutelage.supervision.dependency_graph import build_graph
from tutelage.supervision.footprints import footprints_of, has_footprints
from tutelage.supervision.footprints.household import Command, household_footprints, parse_command
from tutelage.tasks.household import HouseholdTasks
from tutelage.testing import make_trajectory
from tutelage.types import Action, Effect, Footprint, Observation, ParseOutcome, Split, Trajectory

TRANSCRIPTS = Path(__file__).parents[2] / "fixtures" / "household" / "transcripts.jsonl.gz"
NOTHING = "Nothing happens."
INTRO = (
    "-= Welcome to TextWorld, ALFRED! =-\n\nYou are in the middle of a room. Looking quickly around you, you see a "
    "fridge 1, a countertop 1, and a sidetable 1.\n\nYour task is to: put a hot egg in countertop."
)
MALFORMED = Action(text="hm", command=None, parse=ParseOutcome.MALFORMED)


def texts(*turns: tuple[str | Action, str], intro: str = INTRO) -> Trajectory:
    """A stored trajectory of (command, reply) pairs."""
    commands, replies = zip(*turns, strict=True)
    return make_trajectory("s" * len(turns), list(commands), [intro, *replies], env="household")


def played(index: int, *commands: str, size: str = "small") -> Trajectory:
    """Commands in a generated game, with the engine's own texts."""
    [task] = HouseholdTasks(size).load(Split.TRAIN, index, 1)
    engine = HouseholdEnv(task).engine
    replies = [engine.reset(), *map(engine.step, commands)]
    return make_trajectory("s" * len(commands), commands, replies, env="household", task_id=task.task_id)


def last(*turns: tuple[str | Action, str]) -> tuple[set[str], set[str], Effect]:
    """Reads, writes and effect of the last step."""
    footprint = household_footprints(texts(*turns))[-1]
    return set(footprint.reads), set(footprint.writes), footprint.effect


def pairs(footprints: tuple[Footprint, ...]) -> list[tuple[int, int]]:
    return [edge[:2] for edge in build_graph(footprints).edges]


# The specification's examples, played


def test_heating_an_egg() -> None:
    trajectory = played(
        34, "go to fridge 1", "open fridge 1", "take egg 1 from fridge 1", "go to microwave 1",
        "heat egg 1 with microwave 1",
    )  # fmt: skip
    assert trajectory.final_observation == Observation.of("You heat the egg 1 using the microwave 1.")
    footprints = footprints_of(trajectory)
    assert pairs(footprints) == [(0, 1), (0, 2), (0, 3), (1, 2), (2, 4), (3, 4)]
    assert [footprint.step_index for footprint in footprints] == [0, 1, 2, 3, 4]
    assert {footprint.trajectory_id for footprint in footprints} == {trajectory.trajectory_id}


def test_six_steps_that_win() -> None:
    footprints = footprints_of(
        played(
            0, "go to sinkbasin 1", "go to countertop 1", "take soapbottle 1 from countertop 1", "go to cabinet 1",
            "open cabinet 1", "move soapbottle 1 to cabinet 1",
        )
    )  # fmt: skip
    assert [(set(one.reads), set(one.writes)) for one in footprints] == [
        (set(), {"location:sinkbasin 1", "visible_at:sinkbasin 1"}),
        ({"location:sinkbasin 1"}, {"location:countertop 1", "visible_at:countertop 1"}),
        (
            {"location:countertop 1", "visible_at:countertop 1"},
            {"holding:soapbottle 1", "visible_at:countertop 1"},
        ),
        ({"location:countertop 1"}, {"location:cabinet 1", "container_state:cabinet 1"}),
        (
            {"location:cabinet 1", "container_state:cabinet 1"},
            {"container_state:cabinet 1", "visible_at:cabinet 1"},
        ),
        (
            {"holding:soapbottle 1", "location:cabinet 1", "container_state:cabinet 1"},
            {"placed:soapbottle 1@cabinet 1", "holding:soapbottle 1", "visible_at:cabinet 1"},
        ),
    ]
    assert build_graph(footprints).edges == (
        (0, 1, 1), (1, 2, 2), (1, 3, 1), (2, 5, 1), (3, 4, 2), (3, 5, 1), (4, 5, 1),
    )  # fmt: skip


def test_a_fridge_opened_twice() -> None:
    """By the table, close and open also read what was seen inside; the worked example leaves that key out."""
    commands = ("go to fridge 1", "open fridge 1", "close fridge 1", "open fridge 1", "take apple 1 from fridge 1")
    footprints = footprints_of(played(15, *commands))
    at, door, inside = "location:fridge 1", "container_state:fridge 1", "visible_at:fridge 1"
    assert [(set(one.reads), set(one.writes)) for one in footprints] == [
        (set(), {at, door}),
        ({at, door}, {door, inside}),
        ({at, door, inside}, {door}),
        ({at, door, inside}, {door, inside}),
        ({at, door, inside}, {"holding:apple 1", inside}),
    ]
    without = [
        replace(one, reads=one.reads - {inside}) if step.action.command in ("open fridge 1", "close fridge 1") else one
        for one, step in zip(footprints, played(15, *commands).steps, strict=True)
    ]
    assert pairs(tuple(without)) == [(0, 1), (0, 2), (0, 3), (0, 4), (1, 2), (2, 3), (3, 4)]
    assert pairs(footprints) == [(0, 1), (0, 2), (0, 3), (0, 4), (1, 2), (1, 3), (2, 3), (3, 4)]


def test_only_the_named_receptacle_of_a_shared_spot_is_entered() -> None:
    """Drawers 1 and 2 stand at one spot."""
    trajectory = played(13, "go to drawer 1", "go to drawer 2", "open drawer 2", "open drawer 1")
    assert trajectory.steps[2].observation.text == NOTHING
    footprints = footprints_of(trajectory)
    assert footprints[1].effect is Effect.NO_EFFECT
    assert footprints[2].reads == {"location:drawer 2", "container_state:drawer 2"}
    assert footprints[2].effect is Effect.CHANGED
    assert pairs(footprints) == [(0, 1), (0, 3)]


# Rows

AT_FRIDGE = ("go to fridge 1", "You arrive at fridge 1. The fridge 1 is closed.")
OPENED = ("open fridge 1", "You open the fridge 1. The fridge 1 is open. In it, you see a egg 1, and a cup 1.")
TOOK = ("take egg 1 from fridge 1", "You pick up the egg 1 from the fridge 1.")
AT_TOP = ("go to countertop 1", "You arrive at countertop 1. On the countertop 1, you see nothing.")
HEATED = ("heat egg 1 with microwave 1", "You heat the egg 1 using the microwave 1.")
MOVED = ("move egg 1 to countertop 1", "You move the egg 1 to the countertop 1.")


def test_go_to_an_open_container_reads_what_is_known_of_it() -> None:
    assert last(AT_FRIDGE) == (set(), {"location:fridge 1", "container_state:fridge 1"}, Effect.CHANGED)
    assert last(AT_TOP) == (set(), {"location:countertop 1", "visible_at:countertop 1"}, Effect.CHANGED)
    back = ("go to fridge 1", "You arrive at fridge 1. The fridge 1 is open. In it, you see a egg 1, and a cup 1.")
    assert last(AT_FRIDGE, OPENED, AT_TOP, back) == (
        {"location:countertop 1", "visible_at:fridge 1", "container_state:fridge 1"},
        {"location:fridge 1", "visible_at:fridge 1", "container_state:fridge 1"},
        Effect.CHANGED,
    )


def test_open_and_close() -> None:
    assert last(AT_FRIDGE, OPENED) == (
        {"location:fridge 1", "container_state:fridge 1"},
        {"container_state:fridge 1", "visible_at:fridge 1"},
        Effect.CHANGED,
    )
    assert last(AT_FRIDGE, OPENED, ("close fridge 1", "You close the fridge 1.")) == (
        {"location:fridge 1", "container_state:fridge 1", "visible_at:fridge 1"},
        {"container_state:fridge 1"},
        Effect.CHANGED,
    )


def test_take_reads_the_door_only_where_there_is_one() -> None:
    assert last(AT_FRIDGE, OPENED, TOOK) == (
        {"location:fridge 1", "visible_at:fridge 1", "container_state:fridge 1"},
        {"holding:egg 1", "visible_at:fridge 1"},
        Effect.CHANGED,
    )
    doorless = ("go to cabinet 1", "You arrive at cabinet 1. On the cabinet 1, you see a cup 1.")
    took = ("take cup 1 from cabinet 1", "You pick up the cup 1 from the cabinet 1.")
    assert last(doorless, took)[0] == {"location:cabinet 1", "visible_at:cabinet 1"}
    assert last(("take cup 1 from cabinet 1", NOTHING)) == (
        {"location:cabinet 1", "visible_at:cabinet 1", "container_state:cabinet 1"}, set(), Effect.NO_EFFECT,
    )  # fmt: skip


@pytest.mark.parametrize(
    "moved",
    [
        ("move egg 1 to countertop 1", "You move the egg 1 to the countertop 1."),
        ("put egg 1 in/on countertop 1", "You put the egg 1 in/on the countertop 1."),
        ("put egg 1 on countertop 1", "You move the egg 1 to the countertop 1."),
        ("put egg 1 in countertop 1", "You move the egg 1 to the countertop 1."),
        ("put egg 1 to countertop 1", "You move the egg 1 to the countertop 1."),
        (" Put  Egg 1 in/on CounterTop 1 ", "You put the egg 1 in/on the countertop 1. You won!"),
    ],
)
def test_placing_reads_every_known_state(moved: tuple[str, str]) -> None:
    assert last(AT_FRIDGE, OPENED, TOOK, HEATED, AT_TOP, moved) == (
        {"holding:egg 1", "location:countertop 1", "object_state:egg 1:hot"},
        {"placed:egg 1@countertop 1", "holding:egg 1", "visible_at:countertop 1"},
        Effect.CHANGED,
    )


def test_placing_reads_the_door_if_known() -> None:
    back = ("move egg 1 to fridge 1", "You move the egg 1 to the fridge 1.")
    assert last(AT_FRIDGE, OPENED, TOOK, back)[0] == {"holding:egg 1", "location:fridge 1", "container_state:fridge 1"}


@pytest.mark.parametrize(
    ("verb", "appliance", "state"),
    [("heat", "microwave 1", "hot"), ("cool", "fridge 1", "cold"), ("clean", "sinkbasin 1", "clean")],
)
def test_states(verb: str, appliance: str, state: str) -> None:
    done = (f"{verb} egg 1 with {appliance}", f"You {verb} the egg 1 using the {appliance}.")
    reads = {"holding:egg 1", f"location:{appliance}"}
    assert last(done) == (reads, {f"object_state:egg 1:{state}"}, Effect.CHANGED)
    assert last((done[0], NOTHING)) == (reads, set(), Effect.NO_EFFECT)
    door = (f"go to {appliance}", f"You arrive at {appliance}. The {appliance} is closed.")
    assert last(door, done)[0] == {*reads, f"container_state:{appliance}"}


def test_lamp() -> None:
    lit = ("use desklamp 1", "You turn on the desklamp 1.")
    at_table = ("go to sidetable 1", "You arrive at sidetable 1. On the sidetable 1, you see a desklamp 1.")
    assert last(at_table, lit) == ({"location:sidetable 1"}, {"object_state:desklamp 1:on"}, Effect.CHANGED)
    assert last(AT_FRIDGE, OPENED, TOOK, at_table, lit)[0] == {"location:sidetable 1", "holding:egg 1"}
    assert last(lit) == (set(), {"object_state:desklamp 1:on"}, Effect.CHANGED)


def test_slice() -> None:
    at_top = (
        "go to countertop 1",
        "You arrive at countertop 1. On the countertop 1, you see a bread 1, and a knife 1.",
    )
    took = ("take knife 1 from countertop 1", "You pick up the knife 1 from the countertop 1.")
    cut = ("slice bread 1 with knife 1", "You sliced the bread 1 with the knife 1.")
    assert last(at_top, took, cut) == (
        {"holding:knife 1", "location:countertop 1", "visible_at:countertop 1"},
        {"object_state:bread 1:sliced"},
        Effect.CHANGED,
    )


def test_look_and_examine_a_receptacle() -> None:
    facing = ("look", "You are facing the fridge 1. Next to it, you see nothing.")
    room = ("look", "You are in the middle of a room. Looking quickly around you, you see nothing.")
    assert last(room) == (set(), set(), Effect.READ_ONLY)
    assert last(AT_FRIDGE, facing) == ({"location:fridge 1"}, {"visible_at:fridge 1"}, Effect.CHANGED)
    shut = ("examine fridge 1", "The fridge 1 is closed.")
    assert last(AT_FRIDGE, shut) == ({"location:fridge 1"}, set(), Effect.READ_ONLY)
    seen = ("examine countertop 1", "On the countertop 1, you see nothing.")
    assert last(AT_TOP, seen) == (
        {"location:countertop 1", "visible_at:countertop 1"}, {"visible_at:countertop 1"}, Effect.CHANGED,
    )  # fmt: skip
    assert last(AT_FRIDGE, ("examine sidetable 1", NOTHING)) == ({"location:fridge 1"}, set(), Effect.NO_EFFECT)


def test_inventory_examine_an_object_and_help() -> None:
    in_hand = (AT_FRIDGE, OPENED, TOOK, HEATED)
    carrying = ("inventory", "You are carrying: a egg 1.")
    assert last(*in_hand, carrying) == ({"holding:egg 1"}, set(), Effect.READ_ONLY)
    assert last(("inventory", "You are not carrying anything.")) == (set(), set(), Effect.READ_ONLY)
    hot = ("examine egg 1", "This is a hot egg 1.")
    reads = {"holding:egg 1", "object_state:egg 1:hot"}
    assert last(*in_hand, hot) == (reads, set(), Effect.READ_ONLY)
    assert last(*in_hand, ("examine cup 1", NOTHING)) == ({"holding:egg 1"}, set(), Effect.NO_EFFECT)
    assert last(*in_hand, AT_TOP, MOVED, ("inventory", "You are not carrying anything."))[0] == set()
    assert last(("help", "Available commands:\n  look: ...")) == (set(), set(), Effect.READ_ONLY)


def test_what_does_nothing() -> None:
    assert last(AT_FRIDGE, ("go to fridge 1", NOTHING)) == (
        {"location:fridge 1", "container_state:fridge 1"}, set(), Effect.NO_EFFECT,
    )  # fmt: skip
    for command in ("", "open", "go to", "eat apple", "take egg 1", "put egg 1", "look at egg 1", "heat egg 1 with "):
        assert last(AT_FRIDGE, (command, NOTHING)) == (set(), set(), Effect.NO_EFFECT)
    assert last(AT_FRIDGE, (MALFORMED, FORMAT_HELP)) == (set(), set(), Effect.MALFORMED)


def test_a_reply_to_something_else_confirms_nothing() -> None:
    assert last(AT_FRIDGE, ("open fridge 1", "You close the fridge 1."))[1:] == (set(), Effect.NO_EFFECT)
    assert last(("take egg 1 from fridge 1", "You pick up the egg 1 from the fridge 10."))[1:] == (
        set(), Effect.NO_EFFECT,
    )  # fmt: skip


def test_the_last_reply_is_the_final_observation() -> None:
    trajectory = texts(AT_FRIDGE, OPENED)
    assert household_footprints(trajectory)[-1].writes == {"container_state:fridge 1", "visible_at:fridge 1"}
    cut_off = replace(trajectory, final_observation=None)
    assert household_footprints(cut_off)[-1].effect is Effect.NO_EFFECT


def test_texts_of_other_interfaces() -> None:
    """Older games say where one arrives by number; some interfaces cut that off."""
    at_loc = ("go to fridge 1", "You arrive at loc 4. The fridge 1 is closed.")
    bare = ("go to fridge 1", "The fridge 1 is closed.\n")
    assert last(at_loc)[1] == last(bare)[1] == {"location:fridge 1", "container_state:fridge 1"}


def test_experts_and_students_are_treated_alike() -> None:
    trajectory = texts(AT_FRIDGE, OPENED, TOOK)
    expert = make_trajectory(
        "see",
        [step.action.command or "" for step in trajectory.steps],
        [INTRO, AT_FRIDGE[1], OPENED[1], TOOK[1]],
        env="alfworld",
    )
    assert footprints_of(expert) == household_footprints(trajectory)


def test_recorded_play_of_the_original_game() -> None:
    """Every effective command is confirmed, and no other."""
    effects: Counter[Effect] = Counter()
    with gzip.open(TRANSCRIPTS, "rt", encoding="utf-8") as lines:
        for episode in map(json.loads, lines):
            commands, replies = zip(*((step[0], step[1]) for step in episode["steps"]), strict=True)
            trajectory = make_trajectory("s" * len(commands), commands, [episode["intro"], *replies], env="alfworld")
            for footprint, reply in zip(footprints_of(trajectory), replies, strict=True):
                effects[footprint.effect] += 1
                assert (footprint.effect is Effect.NO_EFFECT) == (reply == NOTHING)
    assert effects.keys() == {Effect.CHANGED, Effect.READ_ONLY, Effect.NO_EFFECT}


# Any text


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_no_text_raises(data: st.DataObject) -> None:
    word = st.sampled_from(
        [
            "go to",
            "take",
            "from",
            "put",
            "in/on",
            "to",
            "examine",
            "open",
            "use",
            "heat",
            "with",
            "fridge 1",
            "İ 1",
            "ΣΑΣ",
        ]
    )
    text = st.one_of(st.text(max_size=20), st.lists(word, max_size=5).map(" ".join))
    reply = st.one_of(
        text,
        text.map(lambda name: f"You arrive at {name}. On the {name}, you see nothing."),
        text.map(lambda name: f"You open the {name}. The {name} is open. In it, you see {name}."),
        st.just(NOTHING),
    )
    commands = data.draw(st.lists(st.one_of(text, st.just(MALFORMED)), max_size=6))
    observations = data.draw(st.lists(reply, min_size=len(commands) + 1, max_size=len(commands) + 1))
    trajectory = make_trajectory("s" * len(commands), commands, observations, env="household")
    footprints = household_footprints(trajectory)
    assert len(footprints) == len(commands)
    for index, footprint in enumerate(footprints):
        if observations[index + 1] == NOTHING:
            assert not footprint.writes
            assert footprint.effect in (Effect.NO_EFFECT, Effect.MALFORMED)


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("go to fridge 1", Command("go", "fridge 1")),
        ("  Take Egg 1 from  Fridge 1 ", Command("take", "egg 1", "fridge 1")),
        ("put egg 1 in/on fridge 1", Command("move", "egg 1", "fridge 1")),
        ("slice bread 1 with butterknife 2", Command("slice", "bread 1", "butterknife 2")),
        ("goto fridge 1", Command("")),
        ("look around", Command("")),
        ("put egg 1", Command("")),
        ("", Command("")),
    ],
)
def test_commands_are_taken_apart(text: str, command: Command) -> None:
    assert parse_command(text) == command


def test_an_environment_without_extractor_is_an_error() -> None:
    with pytest.raises(SupervisionError, match=r"environment 'counting' has no footprints; household, alfworld, shop"):
        footprints_of(make_trajectory("s"))
    assert has_footprints("household", "exact")
    assert has_footprints("alfworld")
    assert not has_footprints("alfworld", "exact")


def test_a_trajectory_without_steps_has_none() -> None:
    assert footprints_of(make_trajectory("", env="household")) == ()
