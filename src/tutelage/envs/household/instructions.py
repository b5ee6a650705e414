"""What a language model is told before the first observation of a household game."""

from __future__ import annotations

from typing import Final

from tutelage.types import Task

_RULES: Final = """\
You are in a house and do one task. {turn}

go to P, open P, close P, take O from P, move O to P, heat O with P, cool O with P, clean O with P, use O, look, inventory

P is a place and O an object, named as in fridge 1. Carry one object at a time. Heat with a microwave, cool with a fridge, \
clean with a sinkbasin. To look at an object under a lamp, hold it and use the lamp.

Example, task: put an apple in fridge
{example}"""

_EXAMPLE: Final = (
    "go to countertop 1",
    "take apple 1 from countertop 1",
    "go to fridge 1",
    "open fridge 1",
    "move apple 1 to fridge 1",
)

INSTRUCTIONS: Final = _RULES.format(turn="Each reply is one command, nothing else:", example="\n".join(_EXAMPLE))
"""For a model whose whole reply is the command."""


def instructions_of(task: Task, own_format: bool) -> str:
    """`own_format`: the reply is the command. False: nothing is said of how a command is written."""
    if own_format:
        return INSTRUCTIONS
    return _RULES.format(turn="In every turn you give one command:", example=", then ".join(_EXAMPLE))
