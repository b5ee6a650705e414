"""Messages as a chat template accepts them: what a template refuses is told to it in the nearest form that it takes.

In: the messages of an observation. Out: messages of the roles, and in the order, that the template writes in full.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from tutelage.errors import RenderError
from tutelage.rendering.chat_template import ChatTemplate
from tutelage.types import Message

_BETWEEN: Final = "\n\n"
"""Between the texts of two messages that become one."""

_KNOWN: Final = ("system", "user", "tool", "assistant")
_SYSTEM_LATER: Final = (("user", "system"), ("system", "user"))


@dataclass(frozen=True, slots=True)
class Accepted:
    """What a template takes, found by trying."""

    tool: bool
    """Messages of the role ``tool``; else they become the user's."""
    system: bool
    """A system message at the start; else its text opens the user message after it."""
    later_system: bool
    """System messages further on; else they become the user's."""
    repeats: frozenset[str]
    """Roles of which two messages may follow one another; the texts of others are joined."""

    def fit(self, messages: Sequence[Message], *, opening: bool) -> list[Message]:
        """The messages in a form that the template takes. `opening`: they begin the conversation.

        Example, a template without system messages: system "Be brief." and user "Hi" become user "Be brief.\\n\\nHi".
        """
        fitted: list[Message] = []
        for index, message in enumerate(messages):
            # Of a role that no template knows, the text would be left out.
            role = message.role if message.role in _KNOWN else "user"
            takes_system = self.system if opening and index == 0 else self.later_system
            if (role == "tool" and not self.tool) or (role == "system" and not takes_system):
                role = "user"
            folded = bool(fitted) and index == 1 and messages[0].role == "system" and not self.system and opening
            last = fitted[-1] if fitted else None
            if last is not None and last.role == role and (folded or role not in self.repeats):
                fitted[-1] = replace(last, content=last.content + _BETWEEN + message.content)
            else:
                fitted.append(replace(message, role=role))
        return fitted


def what_is_accepted(template: ChatTemplate) -> Accepted:
    """Try the template. A message counts as accepted if its text is in what the template writes, once and in order."""
    tool = _takes(template, "user", "assistant", "tool")
    repeats = {
        role for role in ("user", *(["tool"] if tool else [])) if _takes(template, "user", "assistant", role, role)
    }
    system = _takes(template, "system", "user")
    later_system = system and all(_takes(template, "user", "assistant", *two) for two in _SYSTEM_LATER)
    if later_system and _takes(template, "user", "assistant", "system", "system"):
        repeats.add("system")
    if not _takes(template, "user", "assistant", "user"):
        raise RenderError(f"{template.where}: the chat template does not write a conversation of user and assistant.")
    return Accepted(tool, system, later_system, frozenset(repeats))


def _takes(template: ChatTemplate, *roles: str) -> bool:
    texts = [f"probe{index}text" for index in range(len(roles))]
    messages: list[Mapping[str, Any]] = [
        {"role": role, "content": text} for role, text in zip(roles, texts, strict=True)
    ]
    try:
        written = template.render(messages)
    except RenderError:
        return False
    places = [written.find(text) for text in texts]
    return -1 not in places and places == sorted(places) and all(written.count(text) == 1 for text in texts)
