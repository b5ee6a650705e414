"""Conversations on which a chat template is tried when its folder is loaded.

In: what the template accepts. Out: conversations of every turn that it can be asked for. No action begins with white
space: what is sampled after a prompt is never read as one with it.
"""

from __future__ import annotations

from tutelage.rendering.chat_messages import Accepted
from tutelage.types import Action, Message, Observation

_TEXTS = (
    "Where is it?",
    "  two spaces, a\nline\n\nand one more \n",
    "",
    "na\u00efve \U0001f642 e\u0301 \u05e9\u05dc",
    "1234",
)


def probes(accepted: Accepted, source: str) -> list[tuple[list[tuple[Observation, Action]], Observation]]:
    """Turns and the newest observation of each conversation. `source` is the template, which may know of reasoning."""
    actions = ["go to drawer 1", "look ", "open drawer 1\n\nand see", ""]
    if "</think>" in source:
        actions += ["<think>\nwhy not\n</think>\n\ntake it", "<think>\nwhy\n</think>\n\nleave it"]
    users = [Observation.of(text) for text in _TEXTS]
    conversations: list[tuple[list[tuple[Observation, Action]], Observation]] = []
    followers = [users]
    if accepted.tool:
        tools = [Observation.of(text, role="tool") for text in _TEXTS if text]
        followers += [tools, [*tools[:2], users[0], *tools[2:]]]
        if "tool" in accepted.repeats:
            followers.append([Observation(messages=one.messages * 2) for one in tools])
    system = Message(role="system", content="Be brief.")
    for opening in (users[0], Observation(messages=(system, *users[1].messages))):
        for answers in followers:
            for shift in range(len(actions)):
                seen = [opening, *answers[: 1 + shift]]
                turns = [(one, _action(actions[(shift + at) % len(actions)])) for at, one in enumerate(seen[:-1])]
                conversations.append((turns, seen[-1]))
    return conversations


def _action(text: str) -> Action:
    return Action(text=text, command=text)
