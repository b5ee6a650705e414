"""The public fakes keep the contracts that the real things keep."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutelage.envs.base import Env
from tutelage.errors import EnvError
from tutelage.policies.base import Policy
from tutelage.rendering.base import Renderer
from tutelage.testing import ByteRenderer, CountingEnv, CountingWorld, ScriptedPolicy, counting_task, make_trajectory
from tutelage.types import Action, Actor, Observation, ParseOutcome, StopReason, SwitchEvent

ADD, LOOK = Action.of("add"), Action.of("look")


def test_they_fit_the_ports() -> None:
    assert isinstance(CountingEnv(counting_task()), Env)
    assert isinstance(ScriptedPolicy(["add"]), Policy)
    assert isinstance(ByteRenderer(), Renderer)


def test_counting() -> None:
    env = CountingEnv(counting_task(target=2))
    assert env.reset(0).text == "Count to 2. The counter shows 0."
    results = [env.step(action) for action in (LOOK, ADD, Action.of("fly"), ADD)]
    assert [result.observation.text for result in results] == [
        "The counter shows 0.",
        "The counter shows 1.",
        "Nothing happens.",
        "The counter shows 2.",
    ]
    assert [result.terminated for result in results] == [False, False, False, True]
    assert (env.reward(), env.state_hash(), env.admissible()) == (1.0, "count=2", ("add", "look"))


def test_faults_on_order() -> None:
    malformed = CountingEnv(counting_task())
    malformed.reset(0)
    result = malformed.step(Action(text="hm", parse=ParseOutcome.MALFORMED))
    assert (result.observation.text, malformed.num_steps, malformed.count) == ("Nothing happens.", 1, 0)

    short = CountingEnv(counting_task(target=9, max_steps=1, reward_none=True))
    short.reset(0)
    assert (short.step(ADD).truncated, short.reward()) == (True, None)

    dying = CountingEnv(counting_task(die_at=0))
    dying.reset(0)
    with pytest.raises(EnvError, match="task count-1, step 0: the counter's process died"):
        dying.step(ADD)

    hanging = CountingEnv(counting_task(hang_at=0))
    hanging.reset(0)
    hanging.close()
    with pytest.raises(EnvError, match="closed while it was waiting"):
        hanging.step(ADD)

    ticking = CountingEnv(counting_task(hidden_clock=True))
    assert ticking.reset(0) != ticking.reset(0)


def test_a_world_counts_what_it_made() -> None:
    world = CountingWorld()
    first, second = world.make(counting_task()), world.make(counting_task())
    first.close()
    first.close()
    assert (world.num_made, world.num_closed, first.num_closed, second.num_closed) == (2, 2, 2, 0)


def test_trajectories_in_letters() -> None:
    trajectory = make_trajectory("sse", ["look", "look", "go"], labels=["a", None, "b"])
    assert [step.actor for step in trajectory.steps] == [Actor.STUDENT, Actor.STUDENT, Actor.EXPERT]
    assert [step.action.command for step in trajectory.steps] == ["look", "look", "go"]
    assert [step.observation.text for step in trajectory.steps] == ["see 0", "see 1", "see 2"]
    assert trajectory.final_observation == Observation.of("see 3")
    assert [step.expert_action for step in trajectory.steps] == [Action.of("a"), None, Action.of("b")]
    assert trajectory.switch_events == (SwitchEvent(step_index=2, actor=Actor.EXPERT, reason="test"),)
    crashed = make_trajectory("s", stop_reason=StopReason.ENV_ERROR, attempt=2, env="repo")
    assert (crashed.reward, crashed.attempt, crashed.env) == (None, 2, "repo")


def test_bytes_as_tokens() -> None:
    renderer = ByteRenderer()
    assert renderer.observation_ids(Observation.of("hi"), after=None) == [256, 257, 104, 105, 258]
    assert renderer.observation_ids(Observation.of("ok"), after=Action.of("go")) == [257, 111, 107, 258]
    assert renderer.action_ids(Action.of("go")) == [103, 111, 259]
    assert renderer.action_ids(Action(text="go", command="go", token_ids=(1, 2))) == [1, 2]
    assert renderer.decode([256, 257, 104, 105, 258, 103, 111, 259]) == "<bos><obs>hi<act>go<stop>"


def test_bytes_as_replies() -> None:
    renderer = ByteRenderer()
    clean = renderer.parse([103, 111, 259], stopped=True)
    assert clean == Action(text="go", command="go", token_ids=(103, 111, 259))
    cut = renderer.parse([103, 111], stopped=False)
    assert (cut.command, cut.parse) == ("go", ParseOutcome.ENDED_WITHOUT_STOP)
    empty = renderer.parse([32, 259], stopped=True)
    assert (empty.command, empty.parse, empty.token_ids) == (None, ParseOutcome.MALFORMED, (32, 259))


@given(text=st.text(alphabet=st.characters(exclude_categories=())))
def test_any_text_comes_back_from_its_bytes(text: str) -> None:
    renderer = ByteRenderer()
    ids = renderer.action_ids(Action.of(text))
    assert renderer.parse(ids, stopped=True).text == text


@given(ids=st.lists(st.integers(0, 255)))
def test_any_bytes_can_be_a_reply(ids: list[int]) -> None:
    assert renderer_text(ids).encode("utf-8", "surrogatepass" if is_text(ids) else "surrogateescape") == bytes(ids)


def renderer_text(ids: list[int]) -> str:
    return ByteRenderer().parse(ids, stopped=False).text


def is_text(ids: list[int]) -> bool:
    try:
        bytes(ids).decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return False
    return True
