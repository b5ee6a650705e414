from __future__ import annotations

import os
from pathlib import Path

import pytest

from tutelage.envs.household.game import TASK_TYPES
from tutelage.envs.household.generator import generate_game
from tutelage.envs.household.reader import find_games, read_game
from tutelage.errors import ConfigError
from tutelage.policies.base import Policy
from tutelage.policies.experts.household import SEARCH_ORDERS, HouseholdExpert
from tutelage.policies.experts.household_planner import shortest_plan
from tutelage.policies.experts.household_sense import fits, likely_order, list_order_is_short
from tutelage.policies.scripted import LoopingPolicy, RandomPolicy
from tutelage.types import stable_hash

REPOSITORY = Path(__file__).parents[3]
REAL_GAMES = Path(os.environ.get("TUTELAGE_SHARED_DATA", REPOSITORY.parent / "shared" / "data")) / "alfworld"


def intro(task, receptacles="a drawer 2, a drawer 1, a fridge 1, a microwave 1, a sinkbasin 1, and a shelf 1"):
    return (
        "-= Welcome to TextWorld, ALFRED! =-\n\nYou are in the middle of a room. Looking quickly around you, you see "
        f"{receptacles}.\n\nYour task is to: {task}."
    )


SHELF_MUG = ("go to shelf 1", "You arrive at shelf 1. On the shelf 1, you see a mug 1.")
TAKE_MUG = ("take mug 1 from shelf 1", "You pick up the mug 1 from the shelf 1.")
HEAT_MUG = (
    "go to microwave 1", "You arrive at microwave 1. The microwave 1 is closed.",
    "heat mug 1 with microwave 1", "You heat the mug 1 using the microwave 1.",
)  # fmt: skip
COOL_MUG = (
    "go to fridge 1", "You arrive at fridge 1. The fridge 1 is closed.",
    "cool mug 1 with fridge 1", "You cool the mug 1 using the fridge 1.",
)  # fmt: skip
SHELF_EGG = ("go to shelf 1", "You arrive at shelf 1. On the shelf 1, you see a egg 1.")
TAKE_EGG = ("take egg 1 from shelf 1", "You pick up the egg 1 from the shelf 1.")
DRAWER_2_SHUT = ("go to drawer 2", "You arrive at drawer 2. The drawer 2 is closed.")
NO = "Nothing happens."


@pytest.mark.parametrize(
    ("why", "history", "command"),
    [
        ("search in the order of the intro", [], "go to drawer 2"),
        ("open what is shut", [*DRAWER_2_SHUT], "open drawer 2"),
        (
            "go on when it is not there",
            [*DRAWER_2_SHUT, "open drawer 2", "You open the drawer 2. The drawer 2 is open. In it, you see nothing."],
            "go to drawer 1",
        ),
        ("a neighbour of a type with doors is opened", [*DRAWER_2_SHUT, "go to drawer 1", NO], "open drawer 2"),
        ("take what is seen", [*SHELF_MUG], "take mug 1 from shelf 1"),
        ("fetch what was seen", [*SHELF_MUG, *DRAWER_2_SHUT], "go to shelf 1"),
        ("treat it", [*SHELF_MUG, *TAKE_MUG], "go to microwave 1"),
        (
            "no door needs to be open for that",
            [*SHELF_MUG, *TAKE_MUG, "go to microwave 1", "You arrive at microwave 1. The microwave 1 is closed."],
            "heat mug 1 with microwave 1",
        ),
        ("place it", [*SHELF_MUG, *TAKE_MUG, *HEAT_MUG], "go to drawer 2"),
        ("through the door", [*SHELF_MUG, *TAKE_MUG, *HEAT_MUG, *DRAWER_2_SHUT], "open drawer 2"),
        ("heat again what was cooled", [*SHELF_MUG, *TAKE_MUG, *HEAT_MUG, *COOL_MUG], "go to microwave 1"),
        ("put down a wrong thing where it fits", [*SHELF_EGG, *TAKE_EGG], "go to fridge 1"),
        (
            "within reach if it fits there",
            [*SHELF_EGG, *TAKE_EGG, "go to fridge 1", "You arrive at fridge 1. The fridge 1 is closed.",
             "open fridge 1", "You open the fridge 1. The fridge 1 is open. In it, you see nothing."],
            "move egg 1 to fridge 1",
        ),
        ("refused commands change nothing", ["", NO, "go to", NO, "eat apple", NO], "go to drawer 2"),
    ],
)  # fmt: skip
def test_one_decision(why, history, command, partial_of):
    task = intro("put a hot mug in drawer")
    assert HouseholdExpert().act(partial_of([task, *history])).command == command, why


def test_a_hot_one_elsewhere_is_preferred_to_a_cold_one_here(partial_of):
    history = [
        *SHELF_MUG, *TAKE_MUG, *HEAT_MUG, "move mug 1 to microwave 1", "You move the mug 1 to the microwave 1.",
        "go to sinkbasin 1", "You arrive at sinkbasin 1. On the sinkbasin 1, you see a mug 2.",
    ]  # fmt: skip
    assert (
        HouseholdExpert().act(partial_of([intro("put a hot mug in drawer"), *history])).command == "go to microwave 1"
    )


def test_a_neighbour_without_door_is_examined_after_opening_failed(partial_of):
    # Drawer 1 shares the spot and is searched next; its text has never been seen.
    history = [
        *DRAWER_2_SHUT, "open drawer 2", "You open the drawer 2. The drawer 2 is open. In it, you see nothing.",
        "go to drawer 1", NO,
    ]  # fmt: skip
    expert, task = HouseholdExpert(), intro("put a hot mug in drawer")
    assert expert.act(partial_of([task, *history])).command == "open drawer 1"
    assert expert.act(partial_of([task, *history, "open drawer 1", NO])).command == "examine drawer 1"


def test_the_second_of_two_goes_where_the_first_lies(partial_of):
    history = [
        *SHELF_MUG, "go to drawer 2", "You arrive at drawer 2. On the drawer 2, you see nothing.",
        "go to drawer 1", "You arrive at drawer 1. On the drawer 1, you see a mug 2.",
    ]  # fmt: skip
    expert, task = HouseholdExpert(), intro("put two mug in drawer")
    assert expert.act(partial_of([task, *history])).command == "go to shelf 1"
    history += ["go to shelf 1", SHELF_MUG[1], *TAKE_MUG]
    assert expert.act(partial_of([task, *history])).command == "go to drawer 1"


def test_two_that_lie_in_two_targets_are_joined_without_walking_to_and_fro(partial_of):
    at_2 = ("go to drawer 2", "You arrive at drawer 2. On the drawer 2, you see a mug 1.")
    at_1 = ("go to drawer 1", "You arrive at drawer 1. On the drawer 1, you see a mug 2.")
    expert, task = HouseholdExpert(), intro("put two mug in drawer")
    assert expert.act(partial_of([task, *at_2, *at_1])).command == "take mug 2 from drawer 1"
    assert expert.act(partial_of([task, *at_1, *at_2])).command == "take mug 1 from drawer 2"


def test_the_lamp_is_used_or_only_approached_when_it_is_on(partial_of):
    rooms = "a bed 1, a desk 1, and a sidetable 1"
    expert, task = HouseholdExpert(), intro("look at book under the desklamp", rooms)
    desk = ("go to desk 1", "You arrive at desk 1. On the desk 1, you see a desklamp 1.")
    bed = ("go to bed 1", "You arrive at bed 1. On the bed 1, you see a book 1.")
    take = ("take book 1 from bed 1", "You pick up the book 1 from the bed 1.")
    assert expert.act(partial_of([task, *desk])).command == "go to bed 1"
    assert expert.act(partial_of([task, *desk, *bed, *take])).command == "go to desk 1"
    assert expert.act(partial_of([task, *bed, *take])).command == "go to desk 1"
    assert expert.act(partial_of([task, *bed, *take, *desk])).command == "use desklamp 1"


def test_what_fits_nowhere_is_tried_everywhere_once(partial_of):
    rooms = "a shelf 2, and a shelf 1"
    history = [
        "go to shelf 2", "You arrive at shelf 2. On the shelf 2, you see a teddybear 1.",
        "take teddybear 1 from shelf 2", "You pick up the teddybear 1 from the shelf 2.",
    ]  # fmt: skip
    expert, task = HouseholdExpert(), intro("put a mug in shelf", rooms)
    said = []
    for reply in [NO, "You arrive at shelf 1. On the shelf 1, you see nothing.", NO, NO]:
        said.append(expert.act(partial_of([task, *history])).command)
        history += [said[-1], reply]
    assert said == ["move teddybear 1 to shelf 2", "go to shelf 1", "move teddybear 1 to shelf 1", "look"]


def test_search_orders():
    few = ("cabinet 2", "cabinet 1", "coffeemachine 1", "countertop 1", "fridge 1")
    assert HouseholdExpert(search="list").order(few, "apple", 0) == few
    assert HouseholdExpert(search="auto").order(few, "apple", 0) == few
    likely = ("countertop 1", "fridge 1", "coffeemachine 1", "cabinet 2", "cabinet 1")
    assert HouseholdExpert(search="likely").order(few, "apple", 0) == likely
    skipped = ("countertop 1", "fridge 1", "cabinet 2", "cabinet 1", "coffeemachine 1")
    assert HouseholdExpert(skip=True).order(few, "apple", 0) == skipped
    drawn = [HouseholdExpert(search="random").order(few, "apple", seed) for seed in range(20)]
    assert all(sorted(order) == sorted(few) for order in drawn)
    assert len(set(drawn)) > 10
    many = (*[f"cabinet {number}" for number in range(25, 0, -1)], "countertop 1")
    assert HouseholdExpert().order(many, "apple", 0) == ("countertop 1", *many[:-1])


def test_the_list_order_is_short_up_to_42_steps_of_search():
    assert list_order_is_short([f"drawer {number}" for number in range(21)])
    assert not list_order_is_short([f"drawer {number}" for number in range(21)] + ["shelf 1"])


def test_common_sense():
    assert fits("mug", "coffeemachine 1")
    assert not fits("apple", "coffeemachine 1")
    assert fits("desklamp", "sidetable 2")
    assert not fits("desklamp", "drawer 2")
    assert not fits("mug", "unheardof 1")
    assert likely_order((), "mug") == ()


def test_an_unknown_search_order_is_refused():
    with pytest.raises(ConfigError, match=r"unknown 'lst'\. Did you mean 'list'"):
        HouseholdExpert(search="lst")


def test_it_is_a_policy_that_forgets_on_release(play):
    expert = HouseholdExpert()
    assert isinstance(expert, Policy)
    game = play(generate_game(0))
    game.run(expert, 3)
    before = expert.act(game.so_far)
    expert.release(game.so_far.trajectory_id)
    expert.release("never heard of")
    assert expert.act(game.so_far) == before
    assert expert.act_batch([game.so_far, game.so_far]) == [before, before]


@pytest.mark.parametrize("search", SEARCH_ORDERS)
def test_a_fresh_expert_gives_the_same_command_at_every_step(search, play):
    expert = HouseholdExpert(search=search)
    for seed in range(6):
        game = play(generate_game(seed), seed)
        game.run(RandomPolicy(lambda _, game=game: game.engine.admissible(), seed=seed), 12)
        for _ in range(12):
            command = expert.act(game.so_far).command
            assert HouseholdExpert(search=search).act(game.so_far).command == command
            game.do(command)


GENERATED = [(size, task_type) for size in ("small", "real") for task_type in TASK_TYPES]


@pytest.mark.parametrize(("size", "task_type"), GENERATED)
def test_generated_games_are_won_from_the_start(size, task_type, play):
    expert = HouseholdExpert()
    lengths = []
    for seed in range(40):
        game = play(generate_game(seed, size=size, task_type=task_type))
        lengths.append(game.run(expert, 50))
        assert game.engine.won, game.so_far.trajectory_id
    assert sum(lengths) / len(lengths) < (20 if size == "small" else 28)


def random_student(game, draw):
    return RandomPolicy(lambda _: game.engine.admissible(), seed=draw)


def looping_student(game, draw):
    start = 1 + draw % 12
    return LoopingPolicy(random_student(game, draw), start=start, period=min(start, 1 + draw % 3))


@pytest.mark.parametrize("student", [random_student, looping_student])
@pytest.mark.parametrize("size", ["small", "real"])
def test_generated_games_are_won_after_a_student(size, student, play):
    expert = HouseholdExpert()
    num_games, failed = 150, []
    for seed in range(num_games):
        game = play(generate_game(1000 + seed, size=size))
        draw = stable_hash(size, seed)
        game.run(student(game, draw >> 8), draw % 31)
        game.run(expert, 50)
        if not game.engine.won:
            failed.append(game.so_far.trajectory_id)
    assert len(failed) <= 0.01 * num_games, failed


def real_games():
    if not REAL_GAMES.exists():
        pytest.skip(f"no real games at {REAL_GAMES}; set TUTELAGE_SHARED_DATA to the folder that holds 'alfworld'")
    return [read_game(folder) for folder in find_games(REAL_GAMES)]


def test_all_real_games_are_won_from_the_start(play):
    games = real_games()
    expert = HouseholdExpert()
    for game in map(play, games):
        game.run(expert, 50)
        assert game.engine.won, game.so_far.trajectory_id
    assert len(games) == 189


@pytest.mark.parametrize("student", [random_student, looping_student])
def test_real_games_are_won_after_a_student_unless_nobody_can(student, play):
    expert, failed, lost, games = HouseholdExpert(), [], 0, real_games()
    for seed, record in enumerate(games):
        game = play(record)
        draw = stable_hash("real", seed)
        game.run(student(game, draw >> 8), draw % 31)
        if shortest_plan(game.engine) is None:
            lost += 1
            continue
        game.run(expert, 50)
        if not game.engine.won:
            failed.append(game.so_far.trajectory_id)
    assert len(failed) <= 0.01 * len(games), failed
    assert lost <= 0.05 * len(games)
