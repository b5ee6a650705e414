from __future__ import annotations

import random
from dataclasses import replace

import pytest

from tutelage.envs.household.engine import NOTHING_HAPPENS, Engine
from tutelage.envs.household.game import TASK_TYPES, Game, Goal, HouseholdObject, Receptacle
from tutelage.envs.household.generator import generate_game
from tutelage.envs.registry import make_env
from tutelage.errors import PolicyError
from tutelage.policies.experts.household_planner import PlannerPolicy, shortest_plan
from tutelage.policies.registry import make_expert
from tutelage.policies.scripted import ScriptedPolicy
from tutelage.rollout.episode import run_episode
from tutelage.rollout.switch import AtStep
from tutelage.tasks.registry import load_tasks
from tutelage.types import Actor

USEFUL = ("go", "open", "take", "move", "clean", "heat", "cool", "use")
"""Verbs of a shortest plan; the others change nothing, or nothing that a goal asks for."""

APPLIANCE = {
    "pick_clean_then_place_in_recep": "sinkbasin",
    "pick_heat_then_place_in_recep": "microwave",
    "pick_cool_then_place_in_recep": "fridge",
}
SHUT = ("cabinet", "drawer", "fridge", "microwave")


def tiny_game(seed):
    """Three or four receptacles, two or three locations, few objects, some of them in two receptacles at once."""
    rng = random.Random(seed)
    task_type = rng.choice(TASK_TYPES)
    light = task_type == "look_at_obj_in_light"
    kinds = rng.sample(["cabinet", "countertop", "fridge", "microwave", "sinkbasin", "drawer", "shelf"], 3)
    kinds[0] = APPLIANCE.get(task_type, kinds[0])
    kinds.append(rng.choice(kinds))
    ids = [f"{kind}_bar_{index}" if kind != "sinkbasin" else f"sink_bar_{index}_bar_sinkbasin"
           for index, kind in enumerate(kinds)]  # fmt: skip
    receptacles = [
        Receptacle(id=name, type=kind, location=f"loc_{rng.randrange(3)}", openable=kind in SHUT)
        for name, kind in zip(ids, kinds, strict=True)
    ]
    sought = rng.choice(["apple", "mug"])
    names = [f"{sought}_bar_{index}" for index in range(2 + (task_type == "pick_two_obj_and_place"))]
    places = {name: sorted(rng.sample(ids, 2 if rng.random() < 0.3 else 1)) for name in names}
    places |= {"cd_bar_0": [rng.choice(ids)], "desklamp_bar_0": [rng.choice(ids)]}
    target = "desklamp" if light else rng.choice(kinds)
    goal = Goal(
        task_type=task_type,
        object_type=sought,
        receptacle_type=None if light else target,
        lamp_type=target if light else None,
    )
    return Game(
        game_id=f"tiny-{seed}",
        task=goal.sentence(),
        goal=goal,
        start_location="loc_start",
        receptacles=tuple(sorted(receptacles, key=lambda receptacle: receptacle.id)),
        objects=tuple(
            HouseholdObject(
                id=name,
                type=name.split("_")[0],
                pickupable="lamp" not in name,
                toggleable="lamp" in name,
                cleanable=name in names,
                heatable=name in names,
                coolable=name in names,
            )
            for name in sorted(places)
        ),
        in_receptacle=tuple(sorted((name, place) for name in places for place in places[name])),
        object_locations=(),
        initial_states=(("cool", names[0]),) if rng.random() < 0.2 else (),
        can_contain=frozenset((kind, thing) for kind in kinds for thing in (sought, "cd") if rng.random() < 0.8),
    )


def breadth_first(engine, most_states=20_000):
    """Length of a shortest win by plain search over all states; None: there is none; -1: too many states."""
    start = engine.snapshot()
    seen, front, depth = {engine.state_hash()}, [start], 0
    if engine.won:
        return 0
    try:
        while front:
            depth, later = depth + 1, []
            for snapshot in front:
                engine.restore(snapshot)
                for command in [c for c in engine.admissible() if c.split()[0] in USEFUL]:
                    engine.restore(snapshot)
                    engine.step(command)
                    if engine.won:
                        return depth
                    digest = engine.state_hash()
                    if digest not in seen:
                        seen.add(digest)
                        later.append(engine.snapshot())
            if len(seen) > most_states:
                return -1
            front = later
        return None
    finally:
        engine.restore(start)


def test_plans_are_as_short_as_plain_search_finds_them():
    compared = dict.fromkeys(TASK_TYPES, 0)
    for seed in range(70):
        engine = Engine(tiny_game(seed))
        rng = random.Random(seed)
        for _ in range(rng.randrange(12)):
            engine.step(rng.choice(engine.admissible()))
        expected = breadth_first(engine)
        if expected == -1:
            continue
        plan = shortest_plan(engine)
        assert (None if plan is None else len(plan)) == expected, (seed, plan)
        compared[engine.game.goal.task_type] += 1
    assert min(compared.values()) >= 5, compared


@pytest.mark.parametrize("size", ["small", "real"])
def test_plans_win_and_hold_no_idle_command(size):
    for seed in range(100):
        engine = Engine(generate_game(seed, size=size))
        before = engine.state_hash()
        plan = shortest_plan(engine)
        assert engine.state_hash() == before
        for command in plan:
            assert not engine.won
            assert engine.step(command) != NOTHING_HAPPENS
        assert engine.won
        assert shortest_plan(engine) == []


def test_there_is_no_plan_once_the_hand_holds_what_fits_nowhere():
    game = next(game for game in map(tiny_game, range(100)) if game.goal.task_type == "pick_and_place_simple")
    kinds = {receptacle.type for receptacle in game.receptacles}
    fits = frozenset((kind, game.goal.object_type) for kind in kinds)
    engine = Engine(replace(game, can_contain=fits))
    assert shortest_plan(engine) is not None
    place = engine.containers("cd 1")[0]
    for command in (f"go to {place}", f"open {place}", f"take cd 1 from {place}"):
        engine.step(command)
    assert engine.held == "cd 1"
    assert shortest_plan(engine) is None


def test_planning_again_at_every_step_gives_a_plan_of_the_same_length(play):
    for seed in range(20):
        game = play(generate_game(seed))
        length = len(shortest_plan(game.engine))
        assert game.run(PlannerPolicy(lambda _, game=game: game.engine), 50) == length
        assert game.engine.won


def test_the_planner_says_when_there_is_nothing_to_plan(play):
    game = play(generate_game(0))
    policy = PlannerPolicy(lambda _: game.engine)
    game.run(policy, 50)
    with pytest.raises(PolicyError, match="the goal holds already"):
        policy.act(game.so_far)


def test_the_planner_acts_an_episode_again_to_know_its_state():
    """Registered as an expert it takes over from where anybody stands, and wins in as many steps as are needed."""
    for task in load_tasks("household", "train", 0, 12, size="small", max_steps=30):
        policies = {
            Actor.STUDENT: ScriptedPolicy(["look", "open cabinet 1", "go to cabinet 1"]),
            Actor.EXPERT: make_expert("household_planner"),
        }
        trajectory = run_episode(task, make_env(task), policies, AtStep(3), seed=0)
        assert trajectory.reward == 1.0
        env = make_env(task)
        env.reset(0)
        for step in trajectory.steps[:3]:
            env.step(step.action)
        assert trajectory.num_expert_steps == len(shortest_plan(env.engine))
