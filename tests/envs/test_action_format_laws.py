"""What all action formats promise: the same call comes back, and no text makes them fail."""

from __future__ import annotations

import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutelage.envs.action_formats import (
    ActionFormat,
    FunctionFormat,
    JsonFormat,
    TagFormat,
    ThinkActionFormat,
    ToolCallFormat,
    action_of,
    call_of,
)
from tutelage.envs.action_formats.base import Escape, unwrapped
from tutelage.errors import ConfigError
from tutelage.types import Action, ParsedCall, ParseOutcome

TOOLS = {"bash": ("command",), "edit": ("path", "old_str", "new_str", "insert_line", "all"), "submit": ()}
TAGS = TagFormat(tags={"search": "query", "answer": "text"}, help="help")
BOXED = TagFormat(tags={"python": "code", "answer": "text"}, help="help", boxed_as="answer")
THINK_ACTION = ThinkActionFormat()
FUNCTIONS = FunctionFormat(tools=TOOLS, help="help")
TOOL_CALLS = ToolCallFormat(tools=TOOLS, help="help")
JSON = JsonFormat(tools=TOOLS, help="help")
FORMATS: list[ActionFormat] = [TAGS, BOXED, THINK_ACTION, FUNCTIONS, TOOL_CALLS, JSON]
NAMES = ["tags", "boxed", "think_action", "functions", "tool_calls", "json"]

MARKS = [
    *("<search>", "</search>", "<\\/search>", "<\\\\search>", "<answer>", "</answer>", "<python>", "</python>"),
    *("<think>", "</think>", "<action>", "</action>", "<\\/action>", "\\boxed{", "}", "{", '{"name": "bash"'),
    *("<function=bash>", "</function>", "<parameter=command>", "</parameter>", "<\\/parameter>", "<function=", "<\\"),
    *(
        "<tool_call>",
        "</tool_call>",
        "```json\n",
        "\n```",
        "'\"'\"'",
        '"',
        "\\",
        "\n",
        "\r\n",
        "\t",
        " ",
        "\x00",
        "\x1b",
    ),
    *("Käse", "日本", "\u2028", "\ud800", "😀", "&lt;", "</", "<"),
]
PIECES = st.one_of(st.sampled_from(MARKS), st.text(st.characters(), max_size=8))
TEXTS = st.lists(PIECES, max_size=8).map("".join)
SCALARS = st.one_of(TEXTS, st.integers(), st.booleans(), st.floats(), st.none())


def same(left: ParsedCall | None, right: ParsedCall) -> bool:
    """Equal, types of the values included."""
    return left == right and repr(dict(left.arguments)) == repr(dict(right.arguments))


@pytest.mark.parametrize("action_format", FORMATS, ids=NAMES)
@given(data=st.data(), thought=TEXTS)
def test_a_written_call_is_read_again_or_refused(action_format: ActionFormat, data: st.DataObject, thought: str):
    name = data.draw(st.sampled_from(sorted(action_format.calls)))
    arguments = data.draw(st.fixed_dictionaries({}, optional=dict.fromkeys(action_format.calls[name], SCALARS)))
    call = ParsedCall(name=name, arguments=arguments)
    fitting = action_format.fit(call)
    if fitting is None or not same(fitting, call):
        with pytest.raises(ConfigError):
            action_format.write(call, thought)
        if fitting is None:
            return
    assert action_format.fit(fitting) == fitting
    text = action_format.write(fitting, thought)
    action = action_format.apply(Action.of(text))
    assert same(call_of(action), fitting)
    assert action.text == text
    assert action_format.apply(action) == action
    expected = thought.strip() if action_format is JSON else unwrapped(thought)
    assert action_format.thought(text) == expected


@pytest.mark.parametrize("action_format", FORMATS, ids=NAMES)
@given(value=TEXTS)
def test_any_text_is_said_exactly_but_for_white_space_around_the_content_of_a_tag(
    action_format: ActionFormat, value: str
):
    name, arguments = next(iter(action_format.calls.items()))
    call = ParsedCall(name=name, arguments={arguments[0]: value})
    tagged = action_format in (TAGS, BOXED, THINK_ACTION)
    if tagged and (value != value.strip() or not value):
        with pytest.raises(ConfigError, match=r"cannot write|no call"):
            action_format.write(call)
    else:
        assert call_of(action_of(action_format, call)) == call


@pytest.mark.parametrize("action_format", [TOOL_CALLS, JSON], ids=["tool_calls", "json"])
def test_numbers_and_truth_values_keep_their_type(action_format: ActionFormat):
    call = ParsedCall(
        name="edit", arguments={"insert_line": 3, "all": True, "path": "1", "old_str": None, "new_str": 0.5}
    )
    read = action_of(action_format, call).call
    assert read is not None
    assert repr(dict(read.arguments)) == repr(dict(call.arguments))


def test_functions_say_numbers_as_text_only_if_asked():
    call = ParsedCall(name="edit", arguments={"insert_line": 3, "all": True, "old_str": None})
    with pytest.raises(ConfigError, match=r"cannot write .* Write what `fit` gives"):
        FUNCTIONS.write(call)
    assert FUNCTIONS.fit(call) == ParsedCall(name="edit", arguments={"insert_line": "3", "all": "true"})
    assert FUNCTIONS.fit(ParsedCall(name="edit", arguments={"path": ["a"]})) is None


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), ["a"], {"a": 1}, 10**5000], ids=["nan", "inf", "list", "map", "long"]
)
@pytest.mark.parametrize("action_format", FORMATS, ids=NAMES)
def test_values_that_are_no_scalars_are_refused(action_format: ActionFormat, value: object):
    name, arguments = next(iter(action_format.calls.items()))
    with pytest.raises(ConfigError):
        action_format.write(ParsedCall(name=name, arguments={arguments[0]: value}))


@given(TEXTS)
def test_an_escape_takes_nothing_away(text: str):
    escape = Escape("/parameter>")
    hidden = escape.hide(text)
    assert "</parameter>" not in hidden
    assert escape.show(hidden) == text


def test_escapes_are_one_backslash():
    call = ParsedCall(name="bash", arguments={"command": "echo '</parameter>' '<\\/parameter>'"})
    assert FUNCTIONS.write(call, "I try <function=x>.") == (
        "I try <\\function=x>.\n<function=bash>\n<parameter=command>\n"
        "echo '<\\/parameter>' '<\\\\/parameter>'\n</parameter>\n</function>"
    )
    assert TAGS.write(ParsedCall(name="search", arguments={"query": "a</search>b"})) == "<search>a<\\/search>b</search>"


# Replies of any kind

JSON_VALUES = st.recursive(
    st.one_of(SCALARS, st.sampled_from(["bash", "act"])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["name", "arguments", "command", "thought", "x"]), inner, max_size=4),
    ),
    max_leaves=8,
)
REPLIES = st.one_of(
    TEXTS,
    st.lists(st.one_of(PIECES, JSON_VALUES.map(json.dumps)), max_size=6).map("".join),
    JSON_VALUES.map(lambda value: f"<tool_call>{json.dumps(value)}</tool_call>"),
)


@given(REPLIES)
def test_every_reply_has_an_outcome(text: str):
    for action_format in FORMATS:
        action = action_format.apply(Action.of(text))
        assert (action.command is None) == (action.parse is ParseOutcome.MALFORMED)
        assert action.text == text
        assert isinstance(action_format.thought(text), str)
        call = call_of(action)
        if call is not None:
            assert same(action_format.fit(call), call)
            assert same(call_of(action_of(action_format, call)), call)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"a":' * 100_000,
        '{"a": "' * 100_000,
        "{" * 100_000 + "}" * 100_000,
        "<" * 100_000,
        "```" + " " * 100_000,
    ],
)
def test_deep_nesting_is_malformed_and_soon_over(text: str):
    for action_format in FORMATS:
        for spelled in (text, f"<tool_call>{text}</tool_call>", f'{{"name": "bash", "arguments": "{text}"}}'):
            assert action_format.apply(Action.of(spelled)).parse is ParseOutcome.MALFORMED


def test_a_number_that_python_will_not_read_is_malformed():
    digits = "1" * (sys.get_int_max_str_digits() + 1)
    text = f'{{"name": "bash", "arguments": {{"command": {digits}}}}}'
    assert JSON.apply(Action.of(text)).parse is ParseOutcome.MALFORMED
    assert TOOL_CALLS.apply(Action.of(f"<tool_call>{text}</tool_call>")).parse is ParseOutcome.MALFORMED


def test_a_thought_has_no_tags_around_it():
    assert unwrapped(" <think> So.\n</think>\n") == "So."
    assert unwrapped("So.</think>") == "So."
    assert unwrapped("<think>So.</think> or <think>not</think>") == "<think>So.</think> or <think>not</think>"
    assert unwrapped("<think>So.") == "<think>So."


def test_an_action_within_a_thought_is_only_thought_of():
    text = "<think>I could <action>look</action>.</think>\n<action>go to fridge 1</action> <action>x</action>"
    action = THINK_ACTION.apply(Action.of(text))
    assert (action.command, action.call, action.text) == ("go to fridge 1", None, text)
    assert THINK_ACTION.thought(text) == "I could <action>look</action>."
    assert THINK_ACTION.apply(Action.of("I go. <action>look</action>")).command == "look"
    for broken in (
        "look",
        "<action>look",
        "look</action>",
        "<action> </action>",
        "<action>a<action>b</action>",
        "<think>a",
    ):
        assert THINK_ACTION.apply(Action.of(broken)).parse is ParseOutcome.MALFORMED


@pytest.mark.parametrize(
    ("text", "thought"),
    [
        ('{"thought": " Look. ", "name": "bash", "arguments": {"command": "ls"}}', "Look."),
        ('I look.\n```json\n{"name": "bash", "arguments": {"command": "ls"}}\n```\nDone {}', "I look."),
        ('First {x}, then {"name": "bash", "arguments": "{\\"command\\": \\"ls\\"}"} or so', "First {x}, then"),
        ('```\n{"a": 1}\n```\n```\n{"b": 1}\n```\n{"name": "bash", "arguments": {"command": "ls"}}', None),
        ('```python\nprint("{")\n```\n{"name": "bash", "arguments": {"command": "ls"}}', None),
        ('{ not closed {"name": "bash", "arguments": {"command": "ls"}}', "{ not closed"),
    ],
)
def test_where_a_json_object_is_looked_for(text: str, thought: str | None):
    assert JSON.apply(Action.of(text)).call == ParsedCall(name="bash", arguments={"command": "ls"})
    if thought is not None:
        assert JSON.thought(text) == thought


@pytest.mark.parametrize(
    "text",
    [
        "ls",
        "{}",
        "[]",
        '{"name": "bash"}',
        '{"name": "rm", "arguments": {}}',
        '{"name": "bash", "arguments": {"cmd": "ls"}}',
        '{"name": "bash", "arguments": {"command": ["ls"]}}',
        '{"name": "bash", "arguments": {"command": "ls"}',
        '{"name": "bash", "arguments": {"command": "ls"}} {}',
    ],
)
def test_json_that_makes_no_call_is_malformed(text: str):
    assert JSON.apply(Action.of(text)).parse is ParseOutcome.MALFORMED


# Calls that another author made


@pytest.mark.parametrize(
    ("action_format", "call", "command"),
    [
        (TAGS, ParsedCall(name="search", arguments={"query": " Emma\n"}), "<search>Emma</search>"),
        (FUNCTIONS, ParsedCall(name="edit", arguments={"insert_line": 3}), 'edit {"insert_line": "3"}'),
        (TOOL_CALLS, ParsedCall(name="edit", arguments={"insert_line": 3}), 'edit {"insert_line": 3}'),
        (THINK_ACTION, ParsedCall(name="act", arguments={"command": " look "}), "look"),
    ],
    ids=["tags", "functions", "tool_calls", "think_action"],
)
def test_a_call_of_another_author_gets_the_command_of_the_format(
    action_format: ActionFormat, call: ParsedCall, command: str
):
    action = action_format.apply(Action(text="I go on.", command="?", call=call))
    assert (action.text, action.command, action.parse) == ("I go on.", command, ParseOutcome.CLEAN)
    assert call_of(action) == action_format.fit(call)
    assert action_format.apply(action) == action


@pytest.mark.parametrize("action_format", FORMATS, ids=NAMES)
def test_a_call_that_a_format_does_not_have_is_malformed(action_format: ActionFormat):
    action = action_format.apply(Action(text="x", command="?", call=ParsedCall(name="fly", arguments={"to": "Rome"})))
    assert (action.command, action.call, action.parse) == (None, None, ParseOutcome.MALFORMED)
