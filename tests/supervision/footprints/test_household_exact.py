"""Footprints from the engine's facts, and the promise of the causal ones checked by leaving steps out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tutelage.envs.household.engine import NOTHING_HAPPENS
from tutelage.envs.household.env import FORMAT_HELP, HouseholdEnv
from tutelage.policies.base import PartialTrajectory
from tutelage.policies.experts.household import HouseholdExpert
from tutelage.policies.scripted import RandomPolicy
from tutelage.rollout.replay import ReplayMismatch
from tutelage.supervision.dependency_graph import build_graph
from tutelage.supervision.footprints.household import household_footprints
from tutelage.supervision.footprints.household_exact import causal_household_footprints, exact_household_footprints
from tutelage.tasks.household import HouseholdTasks
from tutelage.testing import make_trajectory
from tutelage.types import Action, Effect, Footprint, Observation, ParseOutcome, Split, Task, Trajectory


def task_of(index: int) -> Task:
    return HouseholdTasks("small").load(Split.TRAIN, index, 1)[0]


def played(task: Task, *commands: str | Action) -> Trajectory:
    engine = HouseholdEnv(task).engine
    replies = [engine.reset()]
    for command in commands:
        text = command if isinstance(command, str) else command.command
        replies.append(FORMAT_HELP if text is None else engine.step(text))
    return make_trajectory("s" * len(commands), list(commands), replies, env="household", task_id=task.task_id)


def keys(footprints: tuple[Footprint, ...]) -> list[tuple[set[str], set[str], Effect]]:
    return [(set(one.reads), set(one.writes), one.effect) for one in footprints]


def pairs(footprints: tuple[Footprint, ...]) -> list[tuple[int, int]]:
    return [edge[:2] for edge in build_graph(footprints).edges]


def test_texts_and_facts_agree_where_no_spot_is_shared() -> None:
    task = task_of(0)
    trajectory = played(
        task, "go to sinkbasin 1", "inventory", "go to countertop 1", "take soapbottle 1 from countertop 1",
        "examine soapbottle 1", "go to cabinet 1", "examine cabinet 1", "open cabinet 1", "go to cabinet 1",
        "move soapbottle 1 to cabinet 1", "help", "close cabinet 1", "open cabinet 1",
        "take soapbottle 1 from cabinet 1", "examine countertop 1", "go to countertop 1", "eat soapbottle 1",
    )  # fmt: skip
    exact = exact_household_footprints(trajectory, task)
    # Examining what is elsewhere: the text takes the own place for the one that matters.
    assert keys(exact)[14] == (
        {"location:countertop 1", "visible_at:countertop 1"}, set(), Effect.NO_EFFECT,
    )  # fmt: skip
    text = household_footprints(trajectory)
    assert [one for t, one in enumerate(text) if t != 14] == [one for t, one in enumerate(exact) if t != 14]


def test_a_look_shows_no_contents() -> None:
    task = task_of(0)
    exact = exact_household_footprints(played(task, "look", "go to countertop 1", "look"), task)
    seen = {"location:countertop 1", "visible_at:countertop 1"}
    assert keys(exact) == [
        (set(), set(), Effect.READ_ONLY), (set(), seen, Effect.CHANGED), (seen, set(), Effect.READ_ONLY),
    ]  # fmt: skip


def test_a_shared_spot_is_entered_as_a_whole() -> None:
    """Drawers 1 and 2 stand at one spot."""
    task = task_of(13)
    trajectory = played(
        task, "go to drawer 1", "go to drawer 2", "open drawer 2", "go to sidetable 1", "go to drawer 2"
    )
    both = {"location:drawer 1", "location:drawer 2"}
    exact = exact_household_footprints(trajectory, task)
    assert keys(exact)[0] == (set(), {*both, "container_state:drawer 1"}, Effect.CHANGED)
    assert keys(exact)[1] == (both, set(), Effect.NO_EFFECT)
    assert keys(exact)[2][0] == {"location:drawer 2", "container_state:drawer 2"}
    assert keys(exact)[3][0] == both
    assert pairs(exact) == [(0, 1), (0, 2), (0, 3), (2, 4), (3, 4)]
    assert pairs(household_footprints(trajectory)) == [(0, 1), (0, 3), (2, 4), (3, 4)]
    causal = causal_household_footprints(trajectory, task)
    assert pairs(causal) == [(0, 2), (3, 4)]


def test_only_what_changes_is_written() -> None:
    """Game 34 has an egg in the fridge."""
    task = task_of(34)
    trajectory = played(
        task, "go to fridge 1", "open fridge 1", "take egg 1 from fridge 1", "cool egg 1 with fridge 1",
        "cool egg 1 with fridge 1", "go to microwave 1", "heat egg 1 with microwave 1",
    )  # fmt: skip
    exact = exact_household_footprints(trajectory, task)
    assert exact[3].writes == {"object_state:egg 1:cold"}
    assert (exact[4].writes, exact[4].effect) == (set(), Effect.READ_ONLY)
    assert exact[6].writes == {"object_state:egg 1:hot", "object_state:egg 1:cold"}
    assert household_footprints(trajectory)[4].writes == {"object_state:egg 1:cold"}


def test_malformed_actions_and_other_records() -> None:
    task = task_of(0)
    malformed = Action(text="hm", command=None, parse=ParseOutcome.MALFORMED)
    trajectory = played(task, malformed, "go to sinkbasin 1")
    for extract in (exact_household_footprints, causal_household_footprints):
        assert keys(extract(trajectory, task))[0] == (set(), set(), Effect.MALFORMED)
        altered = replace(trajectory, final_observation=Observation.of("You win."))
        with pytest.raises(ReplayMismatch, match=r"step 2: replay differs in observation"):
            extract(altered, task)
        assert len(extract(replace(trajectory, final_observation=None), task)) == 2


def test_causal_heating_and_the_goal() -> None:
    """Game 34: cool some egg and put it in countertop."""
    task = task_of(34)
    trajectory = played(
        task, "go to countertop 1", "go to fridge 1", "open fridge 1", "take egg 1 from fridge 1", "look",
        "cool egg 1 with fridge 1", "go to countertop 1", "examine countertop 1", "move egg 1 to countertop 1",
    )  # fmt: skip
    causal = causal_household_footprints(trajectory, task)
    assert keys(causal) == [
        (set(), {"location:countertop 1"}, Effect.CHANGED),
        (set(), {"location:countertop 1", "location:fridge 1"}, Effect.CHANGED),
        ({"location:fridge 1", "container_state:fridge 1"}, {"container_state:fridge 1"}, Effect.CHANGED),
        (
            {"location:fridge 1", "container_state:fridge 1", "placed:egg 1@fridge 1"},
            {"placed:egg 1@fridge 1", "holding:egg 1"},
            Effect.CHANGED,
        ),
        (set(), set(), Effect.READ_ONLY),
        ({"location:fridge 1", "holding:egg 1"}, {"object_state:egg 1:cold"}, Effect.CHANGED),
        # Without step 1 the agent would still be there.
        ({"location:countertop 1"}, {"location:countertop 1", "location:fridge 1"}, Effect.CHANGED),
        ({"location:countertop 1"}, set(), Effect.READ_ONLY),
        (
            {"location:countertop 1", "holding:egg 1", "object_state:egg 1:cold"},
            {"placed:egg 1@countertop 1", "holding:egg 1"},
            Effect.CHANGED,
        ),
    ]


def test_causal_hand() -> None:
    """To take the second thing the hand must be empty: putting down the first made it so."""
    task = task_of(0)
    trajectory = played(
        task, "go to countertop 1", "take soapbottle 1 from countertop 1", "move soapbottle 1 to countertop 1",
        "take soapbar 3 from countertop 1", "take soapbottle 1 from countertop 1",
    )  # fmt: skip
    causal = causal_household_footprints(trajectory, task)
    assert pairs(causal) == [(0, 1), (0, 2), (0, 3), (1, 2), (2, 3)]
    assert keys(causal)[4] == (set(), set(), Effect.NO_EFFECT)


def test_causal_light() -> None:
    """Game 1: examine the cellphone with the desklamp; both are on sidetable 1."""
    task = task_of(1)
    use, take = "use desklamp 1", "take cellphone 1 from sidetable 1"
    lamp_last = causal_household_footprints(played(task, "go to sidetable 1", take, use), task)
    assert keys(lamp_last)[2][0] == {"location:sidetable 1", "holding:cellphone 1"}
    lamp_first = causal_household_footprints(played(task, "go to sidetable 1", use, take), task)
    assert lamp_first[2].reads == {
        "location:sidetable 1", "placed:cellphone 1@sidetable 1", "object_state:desklamp 1:on",
    }  # fmt: skip


def test_causal_two_objects() -> None:
    """Game 41: find two soapbottle and put them in cabinet; both are on countertop 1."""
    task = task_of(41)
    trajectory = played(
        task, "go to countertop 1", "take soapbottle 1 from countertop 1", "go to cabinet 1", "open cabinet 1",
        "move soapbottle 1 to cabinet 1", "go to countertop 1", "take soapbottle 2 from countertop 1",
        "go to cabinet 1", "move soapbottle 2 to cabinet 1",
    )  # fmt: skip
    causal = causal_household_footprints(trajectory, task)
    assert causal[8].reads == {
        "location:cabinet 1", "container_state:cabinet 1", "holding:soapbottle 2", "placed:soapbottle 1@cabinet 1",
    }  # fmt: skip


def random_then_expert(task: Task, num_random: int) -> list[str]:
    """Commands that all have an effect: random ones, then the expert's."""
    engine = HouseholdEnv(task).engine
    random_policy = RandomPolicy(lambda _: engine.admissible(), invalid=0.0, quiet=0.1)
    so_far = PartialTrajectory(
        trajectory_id=task.task_id, task=task, steps=(), observation=Observation.of(engine.reset()), seed=0
    )
    commands: list[str] = []
    expert = HouseholdExpert()
    while len(commands) < 50 and not engine.won:
        action = (random_policy if len(commands) < num_random else expert).act(so_far)
        command = action.command or ""
        reply = engine.step(command)
        step = make_trajectory("s", [command], [so_far.observation.text]).steps[0]
        so_far = replace(so_far, steps=(*so_far.steps, step), observation=Observation.of(reply))
        if reply != NOTHING_HAPPENS:
            commands.append(command)
    return commands


@pytest.mark.parametrize("num_random", [0, 15, 30])
def test_without_a_step_its_nearest_dependent_breaks_first(num_random: int) -> None:
    """For every step: act the others again. The first that now does nothing, or no longer wins, is the nearest later
    step with a causal edge from it; and where there is no edge, nothing breaks."""
    num_steps = 0
    for task in HouseholdTasks("small").load(Split.TRAIN, 100 + num_random, 12):
        commands = random_then_expert(task, num_random)
        edges = pairs(causal_household_footprints(played(task, *commands), task))
        engine = HouseholdEnv(task).engine
        before, won = [], []
        for command in commands:
            before.append(engine.snapshot())
            engine.step(command)
            won.append(engine.won)
        for omitted, command in enumerate(commands):
            if command.startswith("use ") and command in commands[omitted + 1 :]:
                continue  # Lit again later: two steps bring it about.
            engine.restore(before[omitted])
            broken = None
            for t in range(omitted + 1, len(commands)):
                if engine.step(commands[t]) == NOTHING_HAPPENS or (won[t] and not engine.won):
                    broken = t
                    break
                assert engine.won == won[t]
            assert broken == min((j for i, j in edges if i == omitted), default=None), (task.task_id, omitted, commands)
            num_steps += 1
    assert num_steps > 100
