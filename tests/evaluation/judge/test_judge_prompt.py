"""What a judge is shown: the order of the fields, what is cut and said to be cut, and the true outcome."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any, cast

import pytest

from tutelage.evaluation.judge.prompt import (
    SCHEMA,
    cut,
    flat_text,
    make_messages,
    response_format,
    show_trajectory,
    statement,
    summary,
    tools_text,
)
from tutelage.testing import make_trajectory
from tutelage.types import (
    Action,
    FailedAttempt,
    FailureCategory,
    Message,
    Observation,
    ParsedCall,
    ParseOutcome,
    Step,
    StopReason,
)


def fields(text: str) -> dict[str, str]:
    parts = re.split(r"(?m)^## (.+)\n", text)
    return {name: content.strip() for name, content in zip(parts[1::2], parts[2::2], strict=True)}


def test_the_fields_in_their_order() -> None:
    one = make_trajectory("sse", ["look", "go", "buy"], reward=0.0, env="shop", goal="buy a red mug")
    text = make_messages(one)[1]["content"]
    assert list(fields(text)) == [
        "Task",
        "How it ended",
        "Tools of the agent",
        "Problem statement",
        "Its last 3 actions",
        "What it saw after each of them",
        "Summary",
        "Hint",
        "Your answer",
    ]
    found = fields(text)
    assert found["Task"] == "task-1"
    assert found["How it ended"].startswith("completed: the episode ended by itself")
    assert found["Tools of the agent"].startswith("You are shopping in a web shop.")
    assert found["Problem statement"] == "buy a red mug"
    assert found["Its last 3 actions"] == "[0] student: look\n[1] student: go\n[2] expert: buy"
    # What step t saw is what came after it.
    assert found["What it saw after each of them"] == "[0] see 1\n[1] see 2\n[2] see 3"
    assert "wrong product or page" in found["Hint"]
    assert all(category.value in found["Your answer"] for category in FailureCategory)


def test_the_last_twenty_steps_are_shown_and_the_others_named() -> None:
    one = make_trajectory("s" * 23, reward=0.0)
    found = fields(show_trajectory(one).text)
    actions = found["Its last 20 actions (steps 0 to 2 are left out)"].splitlines()
    assert (actions[0], actions[-1], len(actions)) == ("[3] student: act 3", "[22] student: act 22", 20)
    seen = found["What it saw after each of them (steps 0 to 2 are left out)"].splitlines()
    assert (seen[0], seen[-1], len(seen)) == ("[3] see 4", "[22] see 23", 20)


def test_failed_queries_are_no_steps() -> None:
    action = Action(text="go", command="go", attempts=(FailedAttempt(text="uh"), FailedAttempt(text="er")))
    found = fields(show_trajectory(make_trajectory("s" * 20, [action] * 20, reward=0.0)).text)
    assert len(found["Its last 20 actions"].splitlines()) == 20
    assert "uh" not in found["Its last 20 actions"]


def test_long_texts_are_cut_and_say_so_while_actions_stay_whole() -> None:
    one = make_trajectory("s", ["write " + "x" * 5000], observations=["start", "o" * 1234], reward=0.0, goal="g" * 1001)
    found = fields(show_trajectory(one).text)
    assert found["Problem statement"] == "g" * 1000 + "... (1 characters cut)"
    assert found["Its last 1 actions"] == "[0] student: write " + "x" * 5000
    assert found["What it saw after each of them"] == "[0] " + "o" * 200 + "... (1,034 characters cut)"
    assert cut("abc", 3) == "abc"


def test_a_record_that_is_too_long_loses_whole_steps() -> None:
    one = make_trajectory("sss", ["a" * 400, "b" * 400, "c" * 400], reward=0.0)
    whole = show_trajectory(one)
    assert whole.first_step == 0
    shorter = show_trajectory(one, max_chars=len(whole.text) - 1)
    assert shorter.first_step == 1
    assert "aaaa" not in shorter.text
    assert "b" * 400 in shorter.text
    assert "(steps 0 to 0 are left out)" in shorter.text
    # The last step is never cut: without it there is nothing to judge.
    assert "c" * 400 in show_trajectory(one, max_chars=10).text


def test_content_given_as_a_list_of_parts_is_read() -> None:
    parts: Any = [{"type": "text", "text": "Repair the parser."}, {"type": "image_url", "image_url": {}}, "And test."]
    assert flat_text(parts) == "Repair the parser.\n[image_url]\nAnd test."
    assert flat_text(None) == ""
    seen = Observation(messages=(Message(role="system", content="rules"), Message(role="user", content=parts)))
    step = Step(observation=seen, action=Action.of("go"), actor=make_trajectory("s").steps[0].actor)
    one = make_trajectory("s", reward=0.0, goal="")
    listed = type(one)(
        **{name: getattr(one, name) for name in one.__slots__} | {"steps": (step,), "final_observation": seen}
    )
    assert statement(listed) == "Repair the parser.\n[image_url]\nAnd test."
    assert "[0] rules\nRepair the parser." in show_trajectory(listed).text


@pytest.mark.parametrize(
    ("trajectory", "sentence"),
    [
        (
            make_trajectory("ss", reward=0.0),
            "After 2 steps, the agent finished by itself; the episode got reward 0 where 1 is success.",
        ),
        (
            make_trajectory("se", reward=0.5, stop_reason=StopReason.MAX_STEPS),
            "After 2 steps (1 by the student, 1 by the expert), the agent was stopped by the limit of steps; the episode "
            "got reward 0.5 where 1 is success.",
        ),
        (
            make_trajectory("s", reward=0.0, info={"submission": "diff --git"}),
            "After 1 steps, the agent finished by itself and handed in a patch of 10 characters; the episode got reward 0 "
            "where 1 is success.",
        ),
        (
            make_trajectory("s", reward=0.0, info={"submission": " "}),
            "After 1 steps, the agent finished by itself with an empty patch; the episode got reward 0 where 1 is success.",
        ),
        (
            make_trajectory(
                "s",
                observations=["a", "[exit status 0]\n[no steps are left; submitted as it is]"],
                reward=0.0,
                stop_reason=StopReason.MAX_STEPS,
            ),
            "After 1 steps, the agent was stopped by the limit of steps, and its work was submitted as it was; the episode "
            "got reward 0 where 1 is success.",
        ),
    ],
)
def test_the_summary_states_the_true_outcome(trajectory: Any, sentence: str) -> None:
    assert summary(trajectory) == sentence


def test_calls_malformed_replies_and_foreign_tools() -> None:
    call = Action(text="..", command="bash {}", call=ParsedCall(name="bash", arguments={"command": "ls 'ä'"}))
    broken = Action(text="I wonder", parse=ParseOutcome.MALFORMED)
    one = make_trajectory(
        "ss",
        [call, broken],
        reward=0.0,
        info={"tools": [{"function": {"name": "bash", "description": "a shell"}}, "submit"]},
    )
    found = fields(show_trajectory(one).text)
    assert found["Its last 2 actions"] == (
        '[0] student: bash {"command": "ls \'ä\'"}\n[1] student: (no action could be read in) I wonder'
    )
    assert tools_text(one) == "bash: a shell\nsubmit"
    assert tools_text(make_trajectory("s")) == "(not recorded)"


def test_an_imported_episode_had_tools_of_its_own() -> None:
    """Not those of the environment that it is counted to."""
    told = make_trajectory("s", reward=0.0, env="repo", info={"exit_status": "submitted"})
    assert tools_text(told) == "(not recorded)"
    system = Observation(
        messages=(Message(role="system", content="You have a shell."), Message(role="user", content="go"))
    )
    raw = dataclasses.replace(Action.of("ls"), raw={"role": "assistant", "content": "ls"})
    step = Step(observation=system, action=raw, actor=told.steps[0].actor)
    assert tools_text(dataclasses.replace(told, steps=(step,), info={})) == "You have a shell."
    assert tools_text(make_trajectory("s", env="repo")).startswith("You repair a Python repository")


def test_the_form_of_the_answer() -> None:
    one = make_trajectory("s", reward=0.0)
    assert "one JSON object and nothing else" in make_messages(one, form="json")[1]["content"]
    line = make_messages(one, form="line")[1]["content"]
    assert "<description>" in line
    assert "alone on the last line, in lower case" in line
    sent = cast(dict[str, Any], json.loads(json.dumps(response_format())))
    assert sent["type"] == "json_schema"
    assert sent["json_schema"]["schema"] == json.loads(json.dumps(dict(SCHEMA)))
    assert sent["json_schema"]["schema"]["properties"]["category"]["enum"] == [one.value for one in FailureCategory]


def test_an_episode_without_steps_can_be_shown() -> None:
    one = make_trajectory("", observations=["Begin."], reward=0.0, stop_reason=StopReason.CONTEXT_OVERFLOW, goal="")
    found = fields(show_trajectory(one).text)
    assert found["Its last 0 actions"] == "(none)"
    assert found["Problem statement"] == "Begin."
