"""On the treasure game of tests/fixtures/adapters, played through Gymnasium."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tutelage.envs.action_formats import TagFormat
from tutelage.envs.registry import make_env
from tutelage.errors import SupervisionError
from tutelage.rollout.episode import run_episode
from tutelage.rollout.replay import ReplayMismatch
from tutelage.rollout.switch import make_rule
from tutelage.supervision.dependency_graph import build_graph
from tutelage.supervision.footprints import footprints_of, has_footprints
from tutelage.testing import ScriptedPolicy
from tutelage.types import Actor, Effect, Footprint, Observation, Task, Trajectory

pytest.importorskip("gymnasium", reason="the extra 'gymnasium' is not installed")

FORMAT = TagFormat(tags={"do": "what"}, help="Do something.")
COMMANDS = ("go garden", "dance", "take key", "go hall", "open chest")


def by_commands(trajectory: Trajectory) -> tuple[Footprint, ...]:
    """A user's function: every command writes itself and reads the one before."""
    commands = [f"did:{step.action.command}" for step in trajectory.steps]
    return tuple(
        Footprint(
            trajectory_id=trajectory.trajectory_id,
            step_index=index,
            reads=frozenset(commands[index - 1 : index]),
            writes=frozenset({command}),
            effect=Effect.CHANGED,
        )
        for index, command in enumerate(commands)
    )


def too_few(trajectory: Trajectory) -> tuple[Footprint, ...]:
    return by_commands(trajectory)[:-1]


def inside(command: str) -> str:
    return command.removeprefix("<do>").removesuffix("</do>")


def silent() -> Any:
    """The game, without a word about what was read and written."""
    import treasure_gym

    class Silent(treasure_gym.TextEnv):
        def step(self, action: str) -> Any:
            return (*super().step(action)[:4], {})

    return Silent()


def wrong() -> Any:
    import treasure_gym

    class Wrong(treasure_gym.TextEnv):
        def step(self, action: str) -> Any:
            return (*super().step(action)[:4], {"footprint": {"reads": "location:me"}})

    return Wrong()


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parent)
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "fixtures" / "adapters")


def played(commands: tuple[str, ...] = COMMANDS, **settings: Any) -> tuple[Trajectory, Task]:
    named = {} if "make" in settings else {"id": "treasure_gym:Treasure-v0"}
    task = Task(
        task_id="g-1", env="gymnasium", goal="", seed=1, settings={**named, "max_steps": len(commands), **settings}
    )
    policies = {Actor.EXPERT: ScriptedPolicy(commands)}
    return run_episode(task, make_env(task), policies, make_rule("expert_only"), seed=0), task


def test_what_the_environment_reports_is_read_by_acting_again() -> None:
    trajectory, task = played()
    found = footprints_of(trajectory, "exact", task)
    assert [(sorted(one.reads), sorted(one.writes), one.effect) for one in found] == [
        (["location:me"], ["location:me"], Effect.CHANGED),
        ([], [], Effect.READ_ONLY),
        (["location:me"], ["holding:key"], Effect.CHANGED),
        (["location:me"], ["location:me"], Effect.CHANGED),
        (["holding:key", "location:me"], ["open:chest"], Effect.CHANGED),
    ]
    # The key of step 2 and the way back of step 3 are what the last step used; the dance is used by nobody.
    assert build_graph(found).edges == ((0, 2, 1), (0, 3, 1), (2, 4, 1), (3, 4, 1))


def test_an_action_that_did_not_reach_the_environment_did_nothing() -> None:
    trajectory, task = played(("GO!", "go garden"))
    assert [(one.reads, one.effect) for one in footprints_of(trajectory, "exact", task)] == [
        (frozenset(), Effect.NO_EFFECT),
        (frozenset({"location:me"}), Effect.CHANGED),
    ]


def test_a_reply_without_a_command_is_malformed() -> None:
    read = {"action_format": "test_adapter_footprints:FORMAT", "act": "test_adapter_footprints:inside"}
    trajectory, task = played(("I go. <do>go garden</do>", "go hall", "<do>go hall</do>"), **read)
    assert [one.effect for one in footprints_of(trajectory, "exact", task)] == [Effect.CHANGED, Effect.MALFORMED]


def test_the_users_function_comes_first() -> None:
    trajectory, task = played(make="test_adapter_footprints:silent", footprints="test_adapter_footprints:by_commands")
    found = footprints_of(trajectory, "exact", task)
    assert build_graph(found).edges == tuple((index, index + 1, 1) for index in range(4))


def test_without_a_source_graph_methods_refuse_with_the_reason() -> None:
    trajectory, task = played(make="test_adapter_footprints:silent")
    with pytest.raises(SupervisionError, match=r"(?s)step 0: no footprint\. .*'footprints'.*without a graph"):
        footprints_of(trajectory, "exact", task)
    assert not has_footprints("gymnasium")
    with pytest.raises(SupervisionError, match="environment 'gymnasium' has no footprints"):
        footprints_of(trajectory)


def test_a_record_that_the_environment_does_not_repeat_is_refused() -> None:
    trajectory, task = played()
    steps = list(trajectory.steps)
    steps[2] = replace(steps[2], observation=Observation.of("You are on the moon."))
    with pytest.raises(ReplayMismatch, match="step 2: replay differs in observation"):
        footprints_of(replace(trajectory, steps=tuple(steps)), "exact", task)


def test_too_few_footprints_are_refused() -> None:
    trajectory, task = played(footprints="test_adapter_footprints:too_few")
    with pytest.raises(SupervisionError, match=r"gave footprints of steps \[0, 1, 2, 3\], expected one for each of 5"):
        footprints_of(trajectory, "exact", task)


def test_keys_that_are_no_list_are_refused() -> None:
    trajectory, task = played(make="test_adapter_footprints:wrong")
    with pytest.raises(SupervisionError, match="reported reads 'location:me', expected a list"):
        footprints_of(trajectory, "exact", task)
