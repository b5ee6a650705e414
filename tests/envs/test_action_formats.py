"""Reading actions out of replies."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutelage.envs.action_formats import (
    FunctionFormat,
    TagFormat,
    ToolCallFormat,
    action_of,
    command_of,
    last_boxed,
)
from tutelage.errors import ConfigError
from tutelage.types import Action, ParsedCall, ParseOutcome

SEARCH = TagFormat(tags={"search": "query", "answer": "text"}, help="Say <search>...</search> or <answer>...</answer>.")
PYTHON = TagFormat(tags={"python": "code", "answer": "text"}, help="help", boxed_as="answer")
TOOLS = {"bash": ("command",), "edit": ("command", "path", "old_str", "new_str"), "submit": ()}
FUNCTIONS = FunctionFormat(tools=TOOLS, help="help")
TOOL_CALLS = ToolCallFormat(tools=TOOLS, help="help")


def read(action_format: TagFormat | FunctionFormat | ToolCallFormat, text: str) -> ParsedCall | None:
    return action_format.apply(Action.of(text)).call


def test_tag_is_read_and_the_text_is_kept():
    action = SEARCH.apply(Action.of("I must look. <search> who wrote Emma </search> and then"))
    assert action.text == "I must look. <search> who wrote Emma </search> and then"
    assert action.command == "<search>who wrote Emma</search>"
    assert action.call == ParsedCall(name="search", arguments={"query": "who wrote Emma"})
    assert action.parse is ParseOutcome.CLEAN
    assert SEARCH.apply(action) == action


def test_text_after_the_first_closing_tag_is_ignored():
    assert read(SEARCH, "<answer>Paris</answer> <search>x</search>") == ParsedCall(
        name="answer", arguments={"text": "Paris"}
    )


@pytest.mark.parametrize(
    "text",
    [
        "Paris",
        "<search>Paris",
        "Paris</search>",
        "<search> </search>",
        "<search>a<search>b</search>",
        "<search>a<answer>b</answer>",
        "<search>a</answer>",
        "<Search>a</Search>",
    ],
)
def test_replies_without_exactly_one_tag_are_malformed(text: str):
    action = SEARCH.apply(Action.of(text))
    assert (action.command, action.call, action.parse) == (None, None, ParseOutcome.MALFORMED)
    assert action.text == text


def test_a_reply_that_was_cut_off_keeps_its_outcome():
    cut = Action(text="<search>a</search> so", command="x", parse=ParseOutcome.ENDED_WITHOUT_STOP)
    assert SEARCH.apply(cut).parse is ParseOutcome.ENDED_WITHOUT_STOP


def test_last_box_answers_only_where_the_format_says_so_and_no_tag_is_there():
    text = "so \\boxed{3}, no: \\boxed{\\frac{1}{2}}"
    assert last_boxed(text) == "\\frac{1}{2}"
    assert read(PYTHON, text) == ParsedCall(name="answer", arguments={"text": "\\frac{1}{2}"})
    assert read(SEARCH, text) is None
    assert read(PYTHON, "<python>print(1)</python> \\boxed{2}") == ParsedCall(
        name="python", arguments={"code": "print(1)"}
    )
    assert read(PYTHON, "<python>print(1) \\boxed{2}") is None
    assert last_boxed("\\boxed{1") is None
    assert last_boxed("none") is None


def test_functions():
    text = "First look.\n<function=bash>\n<parameter=command>\nls -l\n</parameter>\n</function> done"
    action = FUNCTIONS.apply(Action.of(text))
    assert action.call == ParsedCall(name="bash", arguments={"command": "ls -l"})
    assert action.command == 'bash {"command": "ls -l"}'
    assert read(FUNCTIONS, "<function=submit></function>") == ParsedCall(name="submit")
    # White space of the value stays; only the newline of the layout goes.
    inner = "<function=edit><parameter=old_str>\n    x\n\n</parameter><parameter=new_str>y</parameter></function>"
    assert read(FUNCTIONS, inner) == ParsedCall(name="edit", arguments={"old_str": "    x\n", "new_str": "y"})


@pytest.mark.parametrize(
    "text",
    [
        "ls",
        "<function=bash>",
        "<function=rm></function>",
        "<function=bash><parameter=cmd>ls</parameter></function>",
        "<function=bash><parameter=command>ls</function>",
        "<function=bash><parameter=command>a</parameter><parameter=command>b</parameter></function>",
        "<function=bash>ls</function>",
        "<function=bash><parameter=command>ls</parameter>",
    ],
)
def test_functions_that_cannot_be_read_are_malformed(text: str):
    assert FUNCTIONS.apply(Action.of(text)).parse is ParseOutcome.MALFORMED


def test_tool_calls():
    text = 'Look.\n<tool_call>\n{"name": "bash", "arguments": {"command": "ls"}}\n</tool_call>'
    assert read(TOOL_CALLS, text) == ParsedCall(name="bash", arguments={"command": "ls"})
    twice = '<tool_call>{"name": "bash", "arguments": "{\\"command\\": \\"ls\\"}"}</tool_call>'
    assert read(TOOL_CALLS, twice) == ParsedCall(name="bash", arguments={"command": "ls"})


@pytest.mark.parametrize(
    "text",
    [
        "ls",
        "<tool_call>{}</tool_call>",
        "<tool_call>[]</tool_call>",
        "<tool_call>{'name': 'bash'}</tool_call>",
        '<tool_call>{"name": "bash"}</tool_call>',
        '<tool_call>{"name": "rm", "arguments": {}}</tool_call>',
        '<tool_call>{"name": "bash", "arguments": {"cmd": "ls"}}</tool_call>',
        '<tool_call>{"name": "bash", "arguments": {"command": ["ls"]}}</tool_call>',
        '<tool_call>{"name": "bash", "arguments": "ls"}</tool_call>',
        '<tool_call>{"name": ["bash"], "arguments": {}}</tool_call>',
        '<tool_call>{"name": "bash", "arguments": {"command": "ls"}}',
        "<tool_call>" + "[" * 100_000 + "</tool_call>",
    ],
    ids=lambda text: text[:40],
)
def test_tool_calls_that_cannot_be_read_are_malformed(text: str):
    assert TOOL_CALLS.apply(Action.of(text)).parse is ParseOutcome.MALFORMED


ANY_TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=60)


@given(ANY_TEXT, ANY_TEXT)
def test_tool_calls_carry_any_text(old: str, new: str):
    call = ParsedCall(name="edit", arguments={"command": "str_replace", "old_str": old, "new_str": new})
    assert action_of(TOOL_CALLS, call, thought="why").call == call


@given(ANY_TEXT.filter(lambda text: "</parameter>" not in text))
def test_functions_carry_any_text_without_their_own_closing_tag(value: str):
    call = ParsedCall(name="bash", arguments={"command": value})
    assert action_of(FUNCTIONS, call).call == call


@given(ANY_TEXT)
def test_nothing_raises(text: str):
    for action_format in (SEARCH, PYTHON, FUNCTIONS, TOOL_CALLS):
        for spelled in (
            text,
            f"<search>{text}</search>",
            f"<function=bash>{text}</function>",
            f"<tool_call>{text}</tool_call>",
        ):
            action = action_format.apply(Action.of(spelled))
            assert (action.command is None) == (action.parse is ParseOutcome.MALFORMED)


def test_what_a_format_cannot_say_is_refused():
    with pytest.raises(ConfigError, match="cannot write"):
        action_of(SEARCH, ParsedCall(name="search", arguments={"query": " a"}))
    with pytest.raises(ConfigError, match="no call"):
        SEARCH.write(ParsedCall(name="look"))


def test_commands_of_equal_calls_are_equal():
    first = ParsedCall(name="edit", arguments={"path": "a", "command": "view"})
    second = ParsedCall(name="edit", arguments={"command": "view", "path": "a"})
    assert command_of(first) == command_of(second) == 'edit {"command": "view", "path": "a"}'
