"""Random play: what it wins is what the engine says, and hindsight changes nothing but the task."""

import dataclasses
import itertools
import re

import numpy as np
import pytest

from tutelage.envs.household.engine import NOTHING_HAPPENS, Engine
from tutelage.envs.household.game import LIGHT_TASK, TASK_TYPES, Goal
from tutelage.envs.household.generator import generate_game
from tutelage.training.random_play import Habits, Play, achievements, hindsight_play, random_play

GAMES = [generate_game(seed) for seed in range(40)]


def won_after(game, goal, commands):
    """Number of commands after which the task is won. None: never."""
    engine = Engine(dataclasses.replace(game, goal=goal, task=goal.sentence()))
    engine.reset()
    for index, command in enumerate(commands, start=1):
        engine.step(command)
        if engine.won:
            return index
    return None


def all_goals(game):
    objects, receptacles = ({thing.type for thing in things} for things in (game.objects, game.receptacles))
    for task_type in TASK_TYPES:
        for kind in objects:
            if task_type == LIGHT_TASK:
                yield Goal(task_type=task_type, object_type=kind, lamp_type="desklamp")
                continue
            for place in receptacles:
                yield Goal(task_type=task_type, object_type=kind, receptacle_type=place)


def test_a_play_is_what_the_engine_answers():
    play = random_play(GAMES[0], np.random.default_rng(0), max_steps=25)
    engine = Engine(GAMES[0])
    assert play.intro == engine.reset()
    assert play.replies == tuple(engine.step(command) for command in play.commands)
    assert len(play.commands) == len(play.options) == 25


def test_options_are_the_admissible_commands_with_chances():
    play = random_play(GAMES[1], np.random.default_rng(0), max_steps=25)
    engine = Engine(GAMES[1])
    engine.reset()
    for command, options in zip(play.commands, play.options, strict=True):
        assert tuple(options) == engine.admissible()
        assert sum(options.values()) == pytest.approx(1)
        assert min(options.values()) > 0
        engine.step(command)


def test_refused_commands_come_as_often_as_asked():
    def refused(share):
        rng = np.random.default_rng(0)
        plays = [random_play(game, rng, invalid_share=share) for game in GAMES]
        return np.mean([not effective for play in plays for effective in play.effective])

    assert refused(0.0) == 0.0
    assert refused(0.2) == pytest.approx(0.2, abs=0.04)


@pytest.mark.parametrize("direction", [1, -1])
def test_a_tour_goes_down_or_up_the_list_of_the_intro(direction):
    calm = Habits(grabbing=1e-9, tour=direction)
    moves = []
    for seed, game in enumerate(GAMES):
        play = random_play(game, np.random.default_rng(seed), invalid_share=0.0, habits=calm)
        listed = re.findall(r"[a-z]+ \d+", play.intro.split("Your task is to")[0])
        places = [listed.index(command[6:]) for command in play.commands if command.startswith("go to ")]
        moves += [after - before for before, after in itertools.pairwise(places)]
    # Places at one location are skipped, and from the end of the list it goes anywhere.
    assert np.mean([move == direction for move in moves]) > 0.5
    assert np.mean([move == -direction for move in moves]) < 0.1


def test_grabbing_says_how_readily_things_are_taken():
    def takes(grabbing):
        habits = Habits(grabbing=grabbing)
        plays = [random_play(game, np.random.default_rng(0), invalid_share=0.0, habits=habits) for game in GAMES]
        return sum(command.startswith("take ") for play in plays for command in play.commands)

    assert takes(1e-9) == 0
    assert takes(0.1) < takes(1.0)


def test_same_seed_same_play():
    first, again = (hindsight_play(GAMES[2], np.random.default_rng(5)) for _ in range(2))
    assert first == again


def test_achievements_of_a_spelled_play():
    steps = [
        ("go to desk 1", "You arrive at desk 1. On the desk 1, you see a mug 2, a mug 1, and a desklamp 1."),
        ("take mug 2 from desk 1", "You pick up the mug 2 from the desk 1."),
        ("use desklamp 1", "You turn on the desklamp 1."),
        ("clean mug 2 with desk 1", NOTHING_HAPPENS),
        ("heat mug 2 with microwave 1", "You heat the mug 2 using the microwave 1."),
        ("move mug 2 to shelf 1", "You move the mug 2 to the shelf 1."),
        ("take mug 1 from desk 1", "You pick up the mug 1 from the desk 1."),
        ("move mug 1 to shelf 1", "You move the mug 1 to the shelf 1."),
    ]
    commands, replies = zip(*steps, strict=True)
    mug_to_shelf = {"object_type": "mug", "receptacle_type": "shelf"}
    assert list(achievements(Play("", commands, replies))) == [
        (3, Goal(task_type="look_at_obj_in_light", object_type="mug", lamp_type="desklamp")),
        (6, Goal(task_type="pick_and_place_simple", **mug_to_shelf)),
        (6, Goal(task_type="pick_heat_then_place_in_recep", **mug_to_shelf)),
        (8, Goal(task_type="pick_and_place_simple", **mug_to_shelf)),
        (8, Goal(task_type="pick_two_obj_and_place", **mug_to_shelf)),
    ]


def test_what_a_play_claims_to_have_won_the_engine_confirms():
    rng = np.random.default_rng(0)
    checked = set()
    for game in GAMES:
        play = random_play(game, rng, max_steps=40)
        for length, goal in achievements(play):
            won = won_after(game, goal, play.commands)
            assert won is not None
            assert won <= length
            checked.add(goal.task_type)
    assert len(checked) >= 4


def test_hindsight_ends_at_the_win_of_the_task_it_names():
    rng = np.random.default_rng(0)
    told = [(game, hindsight_play(game, rng)) for game in GAMES]
    won = [(game, play) for game, play in told if play is not None]
    assert len(won) > len(GAMES) * 0.7
    for game, play in won:
        before, sentence = play.intro.split("Your task is to: ")
        assert before == Engine(game).reset().split("Your task is to: ")[0]
        [goal] = [one for one in all_goals(game) if sentence in (f"{one.sentence(0)}.", f"{one.sentence(1)}.")]
        assert won_after(game, goal, play.commands) == len(play.commands)
        assert play.options == ()
