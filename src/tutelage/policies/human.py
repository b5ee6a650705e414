"""A person at a terminal as a policy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tutelage.errors import PolicyError
from tutelage.policies.base import PartialTrajectory, SingleActPolicy
from tutelage.types import Action

QUIT_WORDS: Final = ("quit", "exit")
"""Answers that end the play. No environment has them as commands."""


class HumanPolicy(SingleActPolicy):
    """Shows each observation and reads one line. Leaving (`quit`, `exit`, end of input) raises `PolicyError`.

    read: asks for a line with a prompt, like `input`. show: prints a text, like `print`.
    """

    def __init__(self, read: Callable[[str], str] = input, show: Callable[[str], None] = print) -> None:
        self.name = "human"
        self.version = "human"
        self._read = read
        self._show = show

    def act(self, so_far: PartialTrajectory) -> Action:
        self._show(so_far.observation.text)
        step = len(so_far.steps)
        try:
            line = self._read("> ")
        except EOFError:
            raise PolicyError(
                f"trajectory {so_far.trajectory_id}, step {step}: the input ended", role=self.name
            ) from None
        if line.strip() in QUIT_WORDS:
            raise PolicyError(f"trajectory {so_far.trajectory_id}, step {step}: the player left", role=self.name)
        return Action.of(line.strip())
