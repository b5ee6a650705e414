"""Messages that a template refuses, and control strings that are hidden from it."""

from __future__ import annotations

import pytest

from tutelage.errors import RenderError
from tutelage.rendering.chat_messages import Accepted, what_is_accepted
from tutelage.rendering.chat_template import ChatTemplate
from tutelage.rendering.chat_tokens import Hiding, any_of
from tutelage.types import Message


def messages(*pairs: tuple[str, str]) -> list[Message]:
    return [Message(role=role, content=text) for role, text in pairs]


def template(condition: str) -> ChatTemplate:
    """Writes every message that meets the condition."""
    loop = "{% for m in messages %}{% if " + condition + " %}<{{ m.role }}>{{ m.content }}{% endif %}{% endfor %}"
    return ChatTemplate(loop, {}, where="here")


def test_what_a_template_accepts_is_found_by_trying() -> None:
    everything = what_is_accepted(template("true"))
    assert everything == Accepted(True, True, True, frozenset({"user", "tool", "system"}))
    assert what_is_accepted(template("m.role in ('user', 'assistant')")) == Accepted(
        False, False, False, frozenset({"user"})
    )
    at_start = what_is_accepted(template("m.role != 'system' or loop.first"))
    assert at_start == Accepted(True, True, False, frozenset({"user", "tool"}))
    with pytest.raises(
        RenderError, match="here: the chat template does not write a conversation of user and assistant"
    ):
        what_is_accepted(template("m.role == 'user'"))


def test_messages_are_brought_into_a_form_that_is_accepted() -> None:
    told = messages(("system", "s"), ("user", "u"), ("tool", "t"), ("tool", "v"), ("system", "w"))
    assert Accepted(True, True, True, frozenset({"tool"})).fit(told, opening=True) == told
    assert Accepted(True, False, False, frozenset({"user"})).fit(told, opening=True) == messages(
        ("user", "s\n\nu"), ("tool", "t\n\nv"), ("user", "w")
    )
    assert Accepted(False, False, False, frozenset()).fit(told, opening=True) == messages(
        ("user", "s\n\nu\n\nt\n\nv\n\nw")
    )
    assert Accepted(True, True, True, frozenset()).fit(messages(("exit", "e")), opening=False) == messages(
        ("user", "e")
    )
    assert Accepted(True, True, False, frozenset({"tool", "user"})).fit(told[:2], opening=False) == messages(
        ("user", "s"), ("user", "u")
    )


def test_hidden_strings_come_back() -> None:
    pattern = any_of(["ab", "ba", "<s>"])
    hiding = Hiding("<ab", 0x100000)
    hidden = hiding.hide("aba <s> <s", pattern)
    assert pattern.search(hidden) is None
    assert hidden == "\U00100001\U00100002a \U00100000s> <s"
    assert hiding.show(hidden) == "aba <s> <s"
    assert len({hiding.marker(number) for number in range(40)}) == 40
    assert any_of([]).search("anything") is None


def test_a_template_is_told_the_same_day_always() -> None:
    assert ChatTemplate("{{ strftime_now('%d %b %Y') }}", {}, where="here").render([]) == "26 Jul 2024"


def test_a_template_runs_in_a_sandbox_and_its_refusals_are_told() -> None:
    asked = [{"role": "user", "content": "x"}]
    with pytest.raises(RenderError, match=r"here: the chat template refuses messages of user: not today"):
        ChatTemplate("{{ raise_exception('not today') }}", {}, where="here").render(asked)
    with pytest.raises(RenderError, match="access to attribute '__class__' of 'str' object is unsafe"):
        ChatTemplate("{{ messages[0].content.__class__.__mro__ }}", {}, where="here").render(asked)


def test_templates_may_use_what_transformers_gives_them() -> None:
    source = (
        "{% for m in messages %}{% if loop.index0 == 1 %}{% break %}{% endif %}"
        "{% generation %}{{ m | tojson }}{% endgeneration %}{% endfor %}"
    )
    asked = [{"role": "user", "content": "é<"}, {"role": "user", "content": "never"}]
    assert ChatTemplate(source, {}, where="here").render(asked) == '{"role": "user", "content": "é<"}'
