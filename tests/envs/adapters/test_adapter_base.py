from __future__ import annotations

import numpy as np
import pytest

from tutelage.envs.action_formats import TagFormat
from tutelage.envs.adapters.base import HELP, AdapterEnv, Answer
from tutelage.errors import ConfigError, EnvError
from tutelage.types import Action, Message, Observation, ParsedCall, ParseOutcome, Task

FORMAT = TagFormat(tags={"say": "text"}, help="Say something.")
NUMBER = 3


class Parrot(AdapterEnv):
    """Answers with the command, or with what it was told to."""

    answers: dict[str, Answer] = {}
    closed = 0

    def _reset(self, seed: int) -> Answer:
        return self.answers.get("reset", _answer(f"seed {seed}"))

    def _step(self, action: Action) -> Answer | None:
        if action.command == "nothing":
            return None
        if action.command == "fail":
            raise RuntimeError("broken")
        return self.answers.get(str(action.command), _answer(str(action.command)))

    def _close(self) -> None:
        self.closed += 1


def _answer(text: str = "", reward: float | None = None, terminated: bool = False, truncated: bool = False) -> Answer:
    return Answer(observation=Observation.of(text), reward=reward, terminated=terminated, truncated=truncated)


def parrot(**settings: object) -> Parrot:
    env = Parrot(Task(task_id="t-1", env="parrot", goal="", settings=settings))
    env.answers = {
        "both": _answer("both", terminated=True, truncated=True),
        "limit": _answer("limit", truncated=True),
        "half": _answer("half", reward=0.5),
        "one": _answer("one", reward=1.0, terminated=True),
    }
    return env


def test_terminated_and_truncated_at_once_is_terminated() -> None:
    env = parrot()
    env.reset(0)
    result = env.step(Action.of("both"))
    assert (result.terminated, result.truncated) == (True, False)


def test_an_end_by_a_limit_is_kept_apart() -> None:
    env = parrot()
    env.reset(0)
    result = env.step(Action.of("limit"))
    assert (result.terminated, result.truncated) == (False, True)
    with pytest.raises(EnvError, match="task t-1, step 1: step before reset, after the end of the episode"):
        env.step(Action.of("x"))


def test_the_step_limit_truncates_unless_the_task_ends() -> None:
    env = parrot(max_steps=2)
    env.reset(0)
    assert not env.step(Action.of("x")).truncated
    assert env.step(Action.of("x")).truncated
    won = parrot(max_steps=1)
    won.reset(0)
    result = won.step(Action.of("one"))
    assert (result.terminated, result.truncated) == (True, False)


@pytest.mark.parametrize(("score", "reward"), [("sum", 1.5), ("last", 1.0)])
def test_the_reward_is_the_sum_or_the_last(score: str, reward: float) -> None:
    env = parrot(score=score)
    env.reset(0)
    assert env.reward() is None
    for command in ("half", "x", "one"):
        env.step(Action.of(command))
    assert env.reward() == reward


def test_a_malformed_action_and_one_that_is_none_cost_a_step_and_are_answered_with_the_help() -> None:
    env = parrot(max_steps=2)
    env.reset(0)
    result = env.step(Action(text="hm", parse=ParseOutcome.MALFORMED))
    assert (result.observation.text, result.reward, result.truncated) == (HELP, None, False)
    result = env.step(Action.of("nothing"))
    assert (result.observation.text, result.truncated) == (HELP, True)
    told = parrot(help="Say go.")
    told.reset(0)
    assert told.step(Action.of("nothing")).observation.text == "Say go."


def test_replies_are_read_by_the_action_format_that_the_settings_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(__file__.rpartition("/")[0])
    env = parrot(action_format="test_adapter_base:FORMAT")
    env.reset(0)
    assert env.step(Action.of("I think <say>hello</say>")).observation.text == "<say>hello</say>"
    assert env.step(Action.of("hello")).observation.text == "Say something."


def test_a_failed_step_ends_the_episode() -> None:
    env = parrot()
    env.reset(0)
    with pytest.raises(RuntimeError, match="broken"):
        env.step(Action.of("fail"))
    with pytest.raises(EnvError, match="after a failure"):
        env.step(Action.of("x"))


def test_it_is_used_once_and_closed_once() -> None:
    env = parrot()
    env.reset(0)
    with pytest.raises(EnvError, match="reset a second time"):
        env.reset(0)
    env.close()
    env.close()
    assert env.closed == 1
    with pytest.raises(EnvError, match="after close"):
        env.step(Action.of("x"))


def test_an_episode_that_is_over_at_its_start_is_an_error() -> None:
    env = parrot()
    env.answers["reset"] = _answer("x", terminated=True)
    with pytest.raises(EnvError, match="over before the first action"):
        env.reset(0)


def test_observations_are_text_or_messages() -> None:
    env = parrot()
    messages = [{"role": "system", "content": "Rules."}, {"role": "user", "content": "Go."}]
    assert env.observed("Go.") == Observation.of("Go.")
    assert env.observed(messages).messages == (
        Message(role="system", content="Rules."),
        Message(role="user", content="Go."),
    )
    assert env.observed(Observation.of("as it is")).text == "as it is"
    for wrong in (3, {"text": "x"}, [{"role": "god", "content": "x"}], [{"role": "user"}], ["x"]):
        with pytest.raises(EnvError, match="task t-1, step 0: "):
            env.observed(wrong)


@pytest.mark.parametrize("value", [1, 1.0, True, np.float32(1), np.int64(1)])
def test_rewards_are_finite_numbers(value: object) -> None:
    assert parrot().rewarded(value) == 1.0


@pytest.mark.parametrize("value", ["1", float("nan"), float("inf"), [1], {}])
def test_other_rewards_are_errors(value: object) -> None:
    with pytest.raises(EnvError, match="the reward is a "):
        parrot().rewarded(value)


def test_no_reward_is_none_and_not_zero() -> None:
    assert parrot().rewarded(None) is None


@pytest.mark.parametrize("value", [True, np.bool_(True)])
def test_flags_are_truth_values(value: object) -> None:
    assert parrot().flag("terminated", value) is True


@pytest.mark.parametrize("value", [1, "true", None, "timeout"])
def test_an_end_of_an_unknown_kind_raises(value: object) -> None:
    with pytest.raises(EnvError, match=r"'terminated' is .* another kind cannot be recorded"):
        parrot().flag("terminated", value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"score": "mean"}, "task t-1: score: unknown 'mean'"),
        ({"action_format": "no_such_module:X"}, "no module no_such_module"),
    ],
)
def test_settings_that_do_not_hold_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parrot(**settings)


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("json", "task t-1: observe: 'json' is no place"),
        ("json:no_such", "task t-1: observe: json:no_such: module json has no 'no_such'"),
        ("string:digits", "task t-1: observe: string:digits is a str: '0123456789', expected a function"),
        (7, "task t-1: observe: 7 is no place"),
    ],
)
def test_a_place_must_hold_a_function(place: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parrot(observe=place).place("observe")


def test_an_environment_that_reads_replies_is_told_what_it_can_read() -> None:
    env = parrot(action_format=f"{__name__}:FORMAT")
    own = FORMAT.apply(Action.of("I greet. <say>hello</say> and"))
    assert env.said(own) == "I greet. <say>hello</say> and"
    native = FORMAT.apply(
        Action(text="I greet.", command="?", call=ParsedCall(name="say", arguments={"text": "hello"}))
    )
    assert env.said(native) == "I greet.\n<say>hello</say>"
    plain = parrot()
    assert plain.said(Action.of("hello")) == "hello"
    assert plain.said(Action(text=" hello\n", command="hello")) == " hello\n"
    assert plain.said(Action(text="<action>hello</action>", command="hello")) == "hello"
    assert plain.said(Action(text="hm", parse=ParseOutcome.MALFORMED)) == "hm"
