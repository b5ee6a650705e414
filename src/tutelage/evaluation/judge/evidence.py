"""What rules look at: a trajectory's steps with their answers, which of them repeat, only read, fail or change something."""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from tutelage.envs.repo.editor import ERROR
from tutelage.envs.repo.shell import read_ending
from tutelage.evaluation.judge.prompt import replies_of
from tutelage.rollout.triggers import action_key
from tutelage.selection.reads import is_read
from tutelage.supervision.effects import ineffective_steps
from tutelage.supervision.footprints.python import is_failure
from tutelage.types import ParsedCall, ParseOutcome, StopReason, Trajectory

Span = tuple[int, int]
"""First and last step index, both included."""

_LISTING: Final = re.compile(
    r"(?:^|[;&|(]\s*)(?:ls|find|tree|dir|du)\b|(?:^|[;&|(]\s*)(?:git ls-files|rg --files)|\bgrep -[a-zA-Z]*[rR]"
)
_MISUSED: Final = re.compile(
    r"command not found|[Nn]o such file or directory|[Ii]s a directory\b|Permission denied|unrecognized (?:option|arguments)"
    r"|[Ii]nvalid option|illegal option|missing operand|^usage: ",
    re.MULTILINE,
)


@dataclass(frozen=True, eq=False)
class Evidence:
    """The facts of one trajectory, computed when a rule asks for them. Lists have one entry per step."""

    trajectory: Trajectory

    @property
    def num_steps(self) -> int:
        return len(self.trajectory.steps)

    @cached_property
    def replies(self) -> list[str]:
        """[N] what each step brought."""
        return replies_of(self.trajectory)

    @cached_property
    def keys(self) -> list[Hashable]:
        """[N] equal for equal actions."""
        return [action_key(step.action) for step in self.trajectory.steps]

    @cached_property
    def reads(self) -> list[bool]:
        """[N] whether the action only reads, by the environment's own rule."""
        return [is_read(self.trajectory.env, step.action) for step in self.trajectory.steps]

    @cached_property
    def malformed(self) -> list[bool]:
        return [step.action.parse is ParseOutcome.MALFORMED for step in self.trajectory.steps]

    @cached_property
    def failed(self) -> list[bool]:
        """[N] malformed, without effect, or refused: the call was not one that this tool takes here.

        Of software tools only what they say themselves counts: their footprints read the last line of our own shell, which
        imported episodes do not have.
        """
        effects = self.malformed if self.is_software else ineffective_steps(self.trajectory)
        return [
            without_effect or is_misuse(call, reply)
            for without_effect, call, reply in zip(effects, self.calls, self.replies, strict=True)
        ]

    @property
    def is_software(self) -> bool:
        return self.trajectory.env == "repo"

    @cached_property
    def calls(self) -> list[ParsedCall | None]:
        return [step.action.call for step in self.trajectory.steps]

    @cached_property
    def commands(self) -> list[str]:
        """[N] what a shell or a game was told; empty where nothing was."""
        return [_command(step.action.call, step.action.command) for step in self.trajectory.steps]

    @cached_property
    def listings(self) -> list[bool]:
        """[N] whether the action lists files or what takes their place (the shop's results pages)."""
        env = self.trajectory.env
        if env == "shop":
            return ["Total results:" in reply for reply in self.replies]
        return [
            _LISTING.search(command) is not None or _views_folder(call, reply)
            for command, call, reply in zip(self.commands, self.calls, self.replies, strict=True)
        ]

    @property
    def was_cut(self) -> bool:
        """A limit ended it, not the agent."""
        return self.trajectory.stop_reason is not StopReason.COMPLETED

    @property
    def last(self) -> int:
        """Index of the last step."""
        return self.num_steps - 1

    @property
    def final_reply(self) -> str:
        return self.replies[-1] if self.replies else ""


def longest_loop(keys: Sequence[Hashable], max_period: int, rounds: int) -> tuple[Span, int] | None:
    """The longest stretch that goes through one pattern at least `rounds` times, and the pattern's length.

    Of equally long ones the shortest pattern counts. Example, rounds 3: ``x A B A B A B A`` -> (1, 7), 2
    """
    best: tuple[Span, int] | None = None
    for period in range(1, max_period + 1):
        start: int | None = None
        for index in range(period, len(keys) + 1):
            same = index < len(keys) and keys[index] == keys[index - period]
            if same and start is None:
                start = index - period
            elif not same and start is not None:
                length = index - start
                if length >= rounds * period and (best is None or length > best[0][1] - best[0][0] + 1):
                    best = ((start, index - 1), period)
                start = None
    return best


def longest_run(flags: Sequence[bool]) -> Span | None:
    """The longest run of True; of equally long ones the last. Example: ``1 0 1 1`` -> (2, 3)"""
    best: Span | None = None
    start: int | None = None
    for index, flag in enumerate([*flags, False]):
        if flag and start is None:
            start = index
        elif not flag and start is not None:
            if best is None or index - start >= best[1] - best[0] + 1:
                best = (start, index - 1)
            start = None
    return best


def num_steps_of(span: Span) -> int:
    return span[1] - span[0] + 1


def _command(call: ParsedCall | None, command: str | None) -> str:
    if call is None:
        return command or ""
    said = call.arguments.get("command")
    return said if isinstance(said, str) and "edit" not in call.name.lower() else ""


def _views_folder(call: ParsedCall | None, reply: str) -> bool:
    if call is None or "edit" not in call.name.lower() or call.arguments.get("command") != "view":
        return False
    return bool(reply) and not reply.startswith(ERROR) and re.match(r" *\d+\t", reply) is None


def is_misuse(call: ParsedCall | None, reply: str) -> bool:
    """The answer of a tool that could not do what it was told; a test that fails is none."""
    if call is None:
        return False
    if "edit" in call.name.lower():
        # The first is our editor's, the others are those of the usual one.
        return reply.startswith((ERROR, "No replacement was performed", "The path ", "Invalid `"))
    if call.name == "python":
        return is_failure(reply)
    end = read_ending(reply)
    if end is not None and end.status == 0:
        return False
    if end is not None and end.status in (126, 127):
        return True
    return _MISUSED.search(reply) is not None
