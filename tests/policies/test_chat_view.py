"""Histories as chat messages in the author's own style, and assistant messages as actions."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tutelage.envs.action_formats import (
    FunctionFormat,
    JsonFormat,
    TagFormat,
    ThinkActionFormat,
    ToolCallFormat,
    action_of,
    executed,
    reasoning_of,
)
from tutelage.envs.registry import action_format_for, make_env
from tutelage.errors import ConfigError
from tutelage.policies.base import PartialTrajectory
from tutelage.policies.chat_view import (
    ChatView,
    chat_messages,
    episode_messages,
    parse_chat_reply,
    text_in,
    tool_schemas,
)
from tutelage.rendering.context import LastObservations, LastSteps
from tutelage.tasks.registry import load_tasks
from tutelage.types import Action, Actor, Message, Observation, ParsedCall, ParseOutcome, Split, Step, Task

TOOLS = {
    "bash": ("command",),
    "str_replace_editor": ("command", "path", "insert_line", "old_str", "new_str"),
    "submit": (),
}
XML = FunctionFormat(tools=TOOLS, help="help")
TOOL_CALLS = ToolCallFormat(tools=TOOLS, help="help")
JSON = JsonFormat(tools=TOOLS, help="help")
SEARCH = TagFormat(tags={"search": "query", "answer": "text"}, help="help")
THINK = ThinkActionFormat()


def episode(*actions: Action, actor: Actor = Actor.STUDENT, seen: str = "see {}") -> PartialTrajectory:
    """An episode in which each action was answered by ``see 1``, ``see 2``, ..."""
    steps = [
        Step(observation=Observation.of(seen.format(index)), action=action, actor=actor)
        for index, action in enumerate(actions)
    ]
    return PartialTrajectory(
        trajectory_id="t",
        task=Task(task_id="task-1", env="repo", goal="go"),
        steps=tuple(steps),
        observation=Observation.of(seen.format(len(actions))),
        seed=0,
    )


def native(name: str, arguments: Any, content: Any = None, call_id: str = "x") -> dict[str, Any]:
    """An assistant message with one call, as a server sends it."""
    call = {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
    return {"role": "assistant", "content": content, "tool_calls": [call]}


# From text to native


def test_t06_an_xml_insert_has_all_its_arguments_natively():
    text = "x = 'it''s'\n"
    call = ParsedCall(
        name="str_replace_editor",
        arguments={"command": "insert", "path": "/a.py", "insert_line": "3", "new_str": text},
    )
    action = action_of(XML, call, "I add a line.")
    messages = chat_messages(episode(action), style="native", env_format=XML)
    arguments = '{"command": "insert", "path": "/a.py", "insert_line": "3", "new_str": "x = \'it\'\'s\'\\n"}'
    function = {"name": "str_replace_editor", "arguments": arguments}
    assert messages == [
        {"role": "user", "content": "see 0"},
        {
            "role": "assistant",
            "content": "I add a line.",
            "tool_calls": [{"id": "call_0", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "call_0", "content": "see 1"},
    ]
    assert json.loads(arguments)["new_str"] == text


def test_t07_an_argument_that_is_absent_stays_absent():
    call = ParsedCall(
        name="str_replace_editor", arguments={"command": "str_replace", "path": "/a.py", "old_str": "  gone\n"}
    )
    (_, assistant, _) = chat_messages(episode(action_of(XML, call)), style="native", env_format=XML)
    arguments = json.loads(assistant["tool_calls"][0]["function"]["arguments"])
    assert arguments == {"command": "str_replace", "path": "/a.py", "old_str": "  gone\n"}
    assert assistant["content"] is None


def test_t08_what_follows_a_reply_without_a_call_is_the_users():
    reply = XML.apply(Action.of("I do not know."))
    call = action_of(XML, ParsedCall(name="submit"))
    messages = chat_messages(episode(reply, call), style="native", env_format=XML)
    submit = {"id": "call_1", "type": "function", "function": {"name": "submit", "arguments": "{}"}}
    assert messages == [
        {"role": "user", "content": "see 0"},
        {"role": "assistant", "content": "I do not know."},
        {"role": "user", "content": "see 1"},
        {"role": "assistant", "content": None, "tool_calls": [submit]},
        {"role": "tool", "tool_call_id": "call_1", "content": "see 2"},
    ]


@pytest.mark.parametrize("other", [TOOL_CALLS, JSON], ids=["tool_calls", "json"])
def test_t09_quotes_within_quotes_are_the_same_before_and_after(other: ToolCallFormat | JsonFormat):
    command = "grep -n '\"'\"'it'\"'\"' a.py \\\n  | awk '{print \"</parameter>\", $1}'"
    action = action_of(XML, ParsedCall(name="bash", arguments={"command": command}))
    (_, assistant, _) = chat_messages(episode(action), style="native", env_format=XML)
    assert json.loads(assistant["tool_calls"][0]["function"]["arguments"]) == {"command": command}
    assert other.apply(Action.of(text_in(other, action))).call == action.call
    back = parse_chat_reply(assistant, style="native", action_format=None, env_format=XML)
    assert text_in(XML, back) == action.text


# From native to text, and from text to text


def test_native_calls_are_written_in_the_students_xml():
    reply = native("bash", '{"command": "ls\\n"}', "I look.")
    action = parse_chat_reply(reply, style="native", action_format=None, env_format=XML)
    messages = chat_messages(episode(action, actor=Actor.EXPERT), style="text", env_format=XML)
    assert messages == [
        {"role": "user", "content": "see 0"},
        {
            "role": "assistant",
            "content": "I look.\n<function=bash>\n<parameter=command>\nls\n\n</parameter>\n</function>",
        },
        {"role": "user", "content": "see 1"},
    ]


@pytest.mark.parametrize(
    ("action_format", "text"),
    [
        (SEARCH, "<think>Who wrote it?</think> <search>Emma</search> and so on"),
        (TOOL_CALLS, 'Who wrote it?\n<tool_call>\n{"name": "search", "arguments": {"query": "Emma"}}\n</tool_call>'),
        (JSON, '{"thought": "Who wrote it?", "name": "search", "arguments": {"query": "Emma"}}'),
        (XML, "Who wrote it?\n<function=search>\n<parameter=query>\nEmma\n</parameter>\n</function>"),
    ],
    ids=["tags", "tool_calls", "json", "functions"],
)
def test_tags_in_another_family(action_format: Any, text: str):
    said = "<think>Who wrote it?</think> <search>Emma</search> and so on"
    action = SEARCH.apply(Action.of(said))
    tools = {"search": ("query",), "answer": ("text",)}
    chosen = action_format if action_format is SEARCH else type(action_format)(tools=tools, help="help")
    assert text_in(chosen, action) == text
    assert chosen.apply(Action.of(text)).call == action.call


def test_a_malformed_reply_stays_text_in_every_style():
    reply = SEARCH.apply(Action.of("<search>Emma"))
    for style in ("native", "text"):
        messages = chat_messages(episode(reply), style=style, env_format=SEARCH, action_format=SEARCH)
        assert [message["role"] for message in messages] == ["user", "assistant", "user"]
        assert messages[1] == {"role": "assistant", "content": "<search>Emma"}


def test_a_malformed_native_reply_shows_what_was_tried():
    reply = parse_chat_reply(native("bash", '{"command": '), style="native", action_format=None, env_format=XML)
    assert (reply.text, reply.parse) == ("", ParseOutcome.MALFORMED)
    (_, assistant, after) = chat_messages(episode(reply), style="native", env_format=XML)
    assert assistant == {"role": "assistant", "content": 'bash({"command": )'}
    assert after == {"role": "user", "content": "see 1"}


def test_plain_commands_in_each_style():
    student, expert = Action.of("open fridge 1"), Action(text="I take it.", command="take apple 1 from fridge 1")
    act = {"name": "act", "arguments": '{"command": "take apple 1 from fridge 1"}'}
    messages = chat_messages(episode(student, expert), style="native")
    assert messages[3] == {
        "role": "assistant",
        "content": "I take it.",
        "tool_calls": [{"id": "call_1", "type": "function", "function": act}],
    }
    contents = [message["content"] for message in chat_messages(episode(student, expert), style="text")]
    assert contents == ["see 0", "open fridge 1", "see 1", "take apple 1 from fridge 1", "see 2"]
    contents = [one["content"] for one in chat_messages(episode(student, expert), style="text", action_format=THINK)]
    assert contents[1] == "<action>open fridge 1</action>"
    assert contents[3] == "<think>I take it.</think>\n<action>take apple 1 from fridge 1</action>"
    as_json = JsonFormat(tools={"act": ("command",)}, help="help")
    assert text_in(as_json, student) == '{"name": "act", "arguments": {"command": "open fridge 1"}}'
    assert executed(as_json.apply(Action.of(text_in(as_json, student))), None).command == "open fridge 1"


def test_a_format_without_the_call_refuses():
    action = action_of(XML, ParsedCall(name="bash", arguments={"command": "ls"}))
    with pytest.raises(ConfigError, match="has no call for"):
        text_in(SEARCH, action)


def test_reasoning_is_what_stands_before_the_call_in_any_format():
    call = ParsedCall(name="search", arguments={"query": "Emma"})
    for text in ("Hm.\n<search>Emma</search>", "Hm. <tool_call>..", "<think>Hm.</think><action>x</action>", "Hm."):
        assert reasoning_of(Action(text=text, command="c", call=call)) == "Hm."
    said = '{"thought": "Hm.", "name": "search", "arguments": {"query": "Emma"}}'
    assert reasoning_of(Action(text=said, command="c", call=call)) == "Hm."
    assert text_in(SEARCH, Action(text=said, command="c", call=call)) == "Hm.\n<search>Emma</search>"
    assert reasoning_of(Action.of("look")) == ""
    assert reasoning_of(Action(text="Hm.\nlook", command="look")) == "Hm."


def test_the_example_of_the_page():
    page = (Path(__file__).parents[2] / "docs" / "action_formats.md").read_text(encoding="utf-8")
    before, after = (
        [json.loads(line) for line in block.split("\n")]
        for block in re.findall(r"```json\n(.*?)\n```", page, re.DOTALL)
    )
    (trained,) = re.findall(r"```text\n(.*?)\n```", page, re.DOTALL)
    replies = [SEARCH.apply(Action.of(one["content"])) for one in before if one["role"] == "assistant"]
    seen = [Observation.of(one["content"]) for one in before if one["role"] == "user"]
    steps = [
        Step(observation=one, action=reply, actor=Actor.STUDENT) for one, reply in zip(seen, replies, strict=False)
    ]
    assert episode_messages(steps, seen[2], style="text", env_format=SEARCH) == before
    assert episode_messages(steps, seen[2], style="native", env_format=SEARCH) == after
    reply = native("search", '{"query": "Jane Roe spouse"}', "She wrote it.")
    assert text_in(SEARCH, parse_chat_reply(reply, style="native", action_format=None, env_format=SEARCH)) == trained


# What belongs to whom


def test_instructions_are_the_only_system_message():
    so_far = episode(action_of(SEARCH, ParsedCall(name="search", arguments={"query": "Emma"})))
    told = Observation(
        messages=(Message(role="system", content="You are the student."), Message(role="user", content="Q"))
    )
    steps = (Step(observation=told, action=so_far.steps[0].action, actor=Actor.STUDENT),)
    messages = episode_messages(steps, None, style="native", env_format=SEARCH, instructions="You are the expert.")
    assert messages[:2] == [{"role": "system", "content": "You are the expert."}, {"role": "user", "content": "Q"}]
    messages = episode_messages(steps, None, style="text", env_format=SEARCH)
    assert messages[0] == {"role": "system", "content": "You are the student."}


def test_the_announcement_ends_the_task_once_a_student_has_acted():
    action = action_of(SEARCH, ParsedCall(name="search", arguments={"query": "Emma"}))
    said = "A student began."
    messages = chat_messages(episode(action), style="native", env_format=SEARCH, announce=said)
    assert messages[0] == {"role": "user", "content": "see 0\n\nA student began."}
    assert messages[2]["content"] == "see 1"
    messages = chat_messages(episode(action, actor=Actor.EXPERT), style="native", env_format=SEARCH, announce=said)
    assert messages[0] == {"role": "user", "content": "see 0"}
    assert chat_messages(episode(), style="native", env_format=SEARCH, announce=said)[0]["content"] == "see 0"


def test_the_context_rule_shortens_what_is_sent_and_ids_still_match():
    actions = [action_of(SEARCH, ParsedCall(name="search", arguments={"query": f"q{index}"})) for index in range(4)]
    messages = chat_messages(episode(*actions), style="native", env_format=SEARCH, context_rule=LastObservations(n=2))
    assert [message["content"] for message in messages if message["role"] == "tool"] == [
        "[observation elided: 1 lines]",
        "[observation elided: 1 lines]",
        "see 3",
        "see 4",
    ]
    messages = chat_messages(episode(*actions), style="native", env_format=SEARCH, context_rule=LastSteps(n=1))
    ids = [[call["id"] for call in one.get("tool_calls", [])] or one.get("tool_call_id") for one in messages]
    assert ids == [None, ["call_0"], "call_0", ["call_3"], "call_3"]


# Foreign messages


def test_several_calls_are_shown_as_far_as_they_are_answered():
    raw = native("bash", {"command": "ls"}, [{"type": "text", "text": "Both."}], "a")
    raw["tool_calls"].append({"id": "b", "function": {"name": "bash", "arguments": '"{\\"command\\": \\"pwd\\"}"'}})
    action = parse_chat_reply(raw, style="native", action_format=None, env_format=XML)
    answers = (
        Message(role="tool", content="/work", extra={"tool_call_id": "b", "name": "bash"}),
        Message(role="tool", content="a.py", extra={"tool_call_id": "a"}),
        Message(role="user", content="Go on."),
    )
    steps = (Step(observation=Observation.of("task"), action=action, actor=Actor.EXPERT),)
    messages = episode_messages(steps, Observation(messages=answers), style="native", env_format=XML)
    calls = [
        {"id": "call_0", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}},
        {"id": "call_0_1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "pwd"}'}},
    ]
    assert messages[1:] == [
        {"role": "assistant", "content": "Both.", "tool_calls": calls},
        {"role": "tool", "tool_call_id": "call_0", "content": "a.py"},
        {"role": "tool", "tool_call_id": "call_0_1", "content": "/work"},
        {"role": "user", "content": "Go on."},
    ]
    one_answer = episode_messages(steps, Observation(messages=answers[1:]), style="native", env_format=XML)
    assert one_answer[1]["tool_calls"] == calls[:1]
    as_text = episode_messages(steps, Observation(messages=answers), style="text", env_format=XML)
    assert as_text[2:] == [{"role": "user", "content": "/work\na.py\nGo on."}]


# Tools and instructions of the environments


def test_tool_lists():
    assert tool_schemas(SEARCH) == [
        {
            "type": "function",
            "function": {
                "name": name,
                "parameters": {
                    "type": "object",
                    "properties": {argument: {"type": "string"}},
                    "required": [argument],
                    "additionalProperties": False,
                },
            },
        }
        for name, argument in (("search", "query"), ("answer", "text"))
    ]
    (act,) = tool_schemas(None)
    assert act["function"]["description"] == "Give one command to the environment."
    assert act["function"]["parameters"]["required"] == ["command"]


ENVIRONMENTS = ("household", "shop", "search", "python", "repo")


@pytest.mark.parametrize("env_name", ENVIRONMENTS)
def test_the_view_of_each_environment(env_name: str):
    (task,) = load_tasks(env_name, Split.TRAIN, start=0, count=1)
    env = make_env(task)
    env_format = getattr(env, "action_format", None)
    env.close()
    assert action_format_for(task) == env_format
    so_far = PartialTrajectory(trajectory_id="t", task=task, steps=(), observation=Observation.of("the task"), seed=0)
    own = ChatView().messages(so_far)
    other = ChatView(style="native").messages(so_far)
    assert [message["role"] for message in own] == [message["role"] for message in other] == ["system", "user"]
    assert own[0] != other[0]
    # Who calls tools natively is not shown how others write calls as text.
    for mark in ("<search>", "<python>", "<function=", "<tool_call>", "Each reply is one command"):
        assert mark not in other[0]["content"]
    tools = ChatView(style="native").tools(task)
    assert tools is not None
    names = [tool["function"]["name"] for tool in tools]
    assert names == (["act"] if env_format is None else list(env_format.calls))
    assert all(tool["function"]["description"] for tool in tools)
    assert ChatView().tools(task) is None


def test_a_format_of_ones_own_is_explained():
    (task,) = load_tasks("household", Split.TRAIN, start=0, count=1)
    so_far = PartialTrajectory(trajectory_id="t", task=task, steps=(), observation=Observation.of("task"), seed=0)
    system = ChatView(action_format=THINK).messages(so_far)[0]["content"]
    assert system.endswith("<think>what you think</think>\n<action>the command</action>")
    (task,) = load_tasks("search", Split.TRAIN, start=0, count=1)
    as_json = JsonFormat(tools=SEARCH.calls, help="help")
    so_far = PartialTrajectory(trajectory_id="t", task=task, steps=(), observation=Observation.of("task"), seed=0)
    system = ChatView(action_format=as_json).messages(so_far)[0]["content"]
    assert "<search>" not in system
    assert system.endswith(
        '{"thought": "what you think", "name": "search", "arguments": {"query": "the query"}}\n\n'
        "The actions and their arguments:\nsearch(query)\nanswer(text)"
    )
    assert ChatView(instructions="Play.").messages(so_far)[0] == {"role": "system", "content": "Play."}
