"""Assistant messages of a server as actions."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutelage.envs.action_formats import FunctionFormat, JsonFormat, TagFormat, ThinkActionFormat, executed
from tutelage.errors import ConfigError
from tutelage.policies.chat_view import episode_messages, flat_text, parse_chat_reply
from tutelage.types import Actor, Observation, ParsedCall, ParseOutcome, Step

TOOLS = {"bash": ("command",), "edit": ("path", "new_str"), "submit": ()}
XML = FunctionFormat(tools=TOOLS, help="help")
JSON = JsonFormat(tools=TOOLS, help="help")
SEARCH = TagFormat(tags={"search": "query", "answer": "text"}, help="help")
THINK = ThinkActionFormat()


def native(name: str, arguments: Any, content: Any = None, call_id: str = "x") -> dict[str, Any]:
    """An assistant message with one call, as a server sends it."""
    call = {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
    return {"role": "assistant", "content": content, "tool_calls": [call]}


def test_contents_in_parts():
    parts = [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "x"}}, "b", None]
    assert flat_text(parts) == "ab"
    assert flat_text(None) == flat_text(3) == ""


@pytest.mark.parametrize(
    "arguments",
    ['{"command": "ls"}', {"command": "ls"}, '"{\\"command\\": \\"ls\\"}"'],
    ids=["string", "object", "twice"],
)
def test_arguments_of_each_kind(arguments: Any):
    message = native("bash", arguments, "I look.")
    action = parse_chat_reply(message, style="native", action_format=None, env_format=XML)
    assert action.call == ParsedCall(name="bash", arguments={"command": "ls"})
    assert (action.text, action.command) == ("I look.", 'bash {"command": "ls"}')
    assert action.raw == message


@pytest.mark.parametrize("arguments", ["", None, "{}", {}], ids=["empty", "null", "braces", "object"])
def test_a_tool_without_arguments(arguments: Any):
    action = parse_chat_reply(native("submit", arguments), style="native", action_format=None, env_format=XML)
    assert action.call == ParsedCall(name="submit")


@pytest.mark.parametrize(
    "message",
    [
        {"content": "Hm."},
        {"content": "Hm.", "tool_calls": None},
        {"content": "Hm.", "tool_calls": []},
        {"content": "Hm.", "tool_calls": ["bash"]},
        {"content": "Hm.", "tool_calls": [{}]},
        {"content": "Hm.", "tool_calls": [{"function": {"arguments": "{}"}}]},
        {"content": "Hm.", "tool_calls": [{"function": {"name": "bash"}}]},
        native("rm", "{}", "Hm."),
        native("bash", '{"command": "ls"', "Hm."),
        native("bash", '["ls"]', "Hm."),
        native("bash", '{"cmd": "ls"}', "Hm."),
        native("bash", '{"command": ["ls"]}', "Hm."),
        native("bash", "", "Hm."),
        native("bash", "[" * 100_000, "Hm."),
    ],
)
def test_a_reply_without_a_call_that_can_be_made_is_malformed(message: dict[str, Any]):
    action = parse_chat_reply(message, style="native", action_format=None, env_format=XML)
    assert (action.text, action.command, action.call) == ("Hm.", None, None)
    assert action.parse is ParseOutcome.MALFORMED
    assert action.raw == message


def test_of_several_calls_the_first_is_made():
    message = native("bash", '{"command": "ls"}')
    message["tool_calls"].append({"id": "y", "function": {"name": "submit", "arguments": "{}"}})
    action = parse_chat_reply(message, style="native", action_format=None, env_format=XML)
    assert action.call == ParsedCall(name="bash", arguments={"command": "ls"})
    assert action.raw is not None
    assert [call["id"] for call in action.raw["tool_calls"]] == ["x", "y"]


def test_replies_in_text():
    read = parse_chat_reply(
        {"content": "So <search>Emma</search>"}, style="text", action_format=None, env_format=SEARCH
    )
    assert (read.command, read.text) == ("<search>Emma</search>", "So <search>Emma</search>")
    read = parse_chat_reply({"content": " look \n"}, style="text", action_format=None, env_format=None)
    assert (read.command, read.text, read.call) == ("look", " look \n", None)
    said = "<think>So.</think><action>look</action>"
    read = parse_chat_reply({"content": said}, style="text", action_format=THINK, env_format=None)
    assert (read.command, read.text, read.call) == ("look", said, None)
    assert THINK.apply(read) == read
    # A thinking student whose commands are calls of the environment.
    said = "<think>So.</think><action><answer>Emma</answer></action>"
    read = parse_chat_reply({"content": said}, style="text", action_format=THINK, env_format=SEARCH)
    assert read.call == ParsedCall(name="answer", arguments={"text": "Emma"})
    as_json = JsonFormat(tools=SEARCH.calls, help="help")
    said = '{"name": "search", "arguments": {"query": " Emma "}}'
    read = parse_chat_reply({"content": said}, style="text", action_format=as_json, env_format=SEARCH)
    assert (read.command, read.call) == (
        "<search>Emma</search>",
        ParsedCall(name="search", arguments={"query": "Emma"}),
    )
    for empty in ({"content": None}, {"content": " \n"}, {}):
        assert parse_chat_reply(empty, style="text", action_format=None, env_format=None).command is None


def test_plain_commands_by_the_tool_act():
    read = parse_chat_reply(native("act", '{"command": " look "}'), style="native", action_format=None, env_format=None)
    assert (read.command, read.call, read.text) == ("look", None, "")
    for message in (native("act", '{"command": " "}'), native("act", '{"command": 3}'), native("look", "{}")):
        assert parse_chat_reply(message, style="native", action_format=None, env_format=None).command is None


ANY_JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.just('{"command": "x"}')),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)),
    max_leaves=6,
)
FUNCTIONS = st.fixed_dictionaries(
    {},
    optional={"name": st.one_of(st.sampled_from(["bash", "submit", "act", "search"]), ANY_JSON), "arguments": ANY_JSON},
)
CALLS = st.lists(st.one_of(ANY_JSON, st.fixed_dictionaries({}, optional={"id": ANY_JSON, "function": FUNCTIONS})))


@given(st.one_of(st.text(max_size=20), ANY_JSON), st.one_of(ANY_JSON, CALLS))
def test_no_message_of_a_server_raises_and_all_can_be_shown_again(content: Any, tool_calls: Any):
    message = {"role": "assistant", "content": content, "tool_calls": tool_calls}
    for env_format in (None, XML, SEARCH, JSON, THINK):
        for style in ("native", "text"):
            action = parse_chat_reply(message, style=style, action_format=None, env_format=env_format)
            assert (action.command is None) == (action.parse is ParseOutcome.MALFORMED)
            assert action.raw == message
            assert executed(action, env_format) == action
            for shown_as in ("native", "text"):
                step = Step(observation=Observation.of("o"), action=action, actor=Actor.STUDENT)
                shown = episode_messages([step], Observation.of("o"), style=shown_as, env_format=env_format)
                json.dumps(shown)
                assert [one["role"] for one in shown[:2]] == ["user", "assistant"]


def test_an_unknown_style_is_refused():
    with pytest.raises(ConfigError, match=r"unknown 'natve'\. Did you mean 'native'"):
        parse_chat_reply({}, style="natve", action_format=None, env_format=None)  # type: ignore[arg-type]
