"""Success tables: Wilson's interval against SciPy, rows against hand counts."""

import math

import pytest
from scipy.stats import binomtest

from tutelage.evaluation.metrics import count_no_effect_commands, has_loop, is_solved, success_table, wilson
from tutelage.types import Action, Actor, Observation, Step, StopReason, Trajectory


def played(commands, replies, *, kind="pick", stop=StopReason.COMPLETED, reward=1.0, actors=None):
    observations = ["start", *replies]
    actors = actors or [Actor.STUDENT] * len(commands)
    steps = tuple(
        Step(observation=Observation.of(seen), action=Action.of(command), actor=actor)
        for seen, command, actor in zip(observations, commands, actors, strict=False)
    )
    return Trajectory(
        trajectory_id=f"{kind}-{len(commands)}-{reward}",
        task_id=f"{kind}-{len(commands)}-{reward}",
        env="counting",
        task_kind=kind,
        steps=steps,
        final_observation=Observation.of(observations[len(commands)]),
        stop_reason=stop,
        reward=reward,
        seed=0,
    )


@pytest.mark.parametrize(("successes", "total"), [(0, 7), (7, 7), (8, 10), (1, 3), (137, 204)])
def test_wilson_equals_scipy(successes, total):
    expected = binomtest(successes, total).proportion_ci(confidence_level=0.95, method="wilson")
    got = wilson(successes, total)
    assert got.estimate == successes / total
    assert got.low == pytest.approx(expected.low, abs=1e-12)
    assert got.high == pytest.approx(expected.high, abs=1e-12)


def test_wilson_of_nothing_knows_nothing():
    got = wilson(0, 0)
    assert math.isnan(got.estimate)
    assert (got.low, got.high) == (0.0, 1.0)


def test_wilson_refuses_more_successes_than_tasks():
    with pytest.raises(ValueError, match="5 successes of 4"):
        wilson(5, 4)


def test_a_truncated_episode_is_never_solved():
    assert is_solved(played(["a"], ["ok"]))
    assert not is_solved(played(["a"], ["ok"], stop=StopReason.MAX_STEPS, reward=1.0))
    assert not is_solved(played(["a"], ["ok"], reward=0.5))


def test_no_effect_commands_are_read_from_the_reply_that_follows():
    one = played(
        ["a", "b", "c"],
        ["Nothing happens.", "You arrive.", "Nothing happens."],
        actors=[Actor.STUDENT, Actor.STUDENT, Actor.EXPERT],
    )
    assert count_no_effect_commands(one) == 2
    assert count_no_effect_commands(one, Actor.STUDENT) == 1
    assert count_no_effect_commands(one, Actor.EXPERT) == 1


def test_loop_needs_three_equal_commands_in_a_row():
    assert not has_loop(played(["a", "a", "b", "a"], ["x"] * 4))
    assert has_loop(played(["b", "a", "a", "a"], ["x"] * 4))


def test_unscored_trajectories_are_in_no_rate():
    rows = success_table(
        [
            played(["a", "b"], ["x", "x"], kind="look"),
            played(
                ["a", "a", "a", "b"],
                ["x", "Nothing happens.", "x", "x"],
                kind="pick",
                stop=StopReason.MAX_STEPS,
                reward=0.0,
            ),
            played(["a"], ["x"], kind="pick", stop=StopReason.ENV_ERROR, reward=None),
        ]
    )
    assert [row.kind for row in rows] == ["look", "pick", "all"]
    look, pick, total = rows
    assert (look.num_solved, look.num_tasks, look.num_unscored) == (1, 1, 0)
    assert (pick.num_solved, pick.num_tasks, pick.num_unscored) == (0, 1, 1)
    assert (total.num_solved, total.num_tasks, total.num_unscored) == (1, 2, 1)
    assert total.success.estimate == 0.5
    assert total.mean_steps == 3.0
    assert total.mean_steps_solved == 2.0
    assert total.no_effect_share == pytest.approx(1 / 6)
    assert total.loop_share == 0.5
