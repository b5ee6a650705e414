"""What a trigger looks for in a trajectory so far: errors and loops. And when two actions are the same."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping

from tutelage.policies.base import PartialTrajectory
from tutelage.types import Action, Observation, ParseOutcome

_ERROR = re.compile(
    r"^\s*(?:Nothing happens\."
    r"|Invalid action"
    r"|Traceback \(most recent call last\)"
    r"|.*\bexit(?:ed with)? (?:code|status)\W{0,3}(?!0\b)-?\d)",
    re.MULTILINE | re.IGNORECASE,
)


def has_error(action: Action, observation: Observation) -> bool:
    """The reply gave no command, or the answer to it reports an error: nothing happened, a non-zero exit, a traceback."""
    return action.parse is ParseOutcome.MALFORMED or _ERROR.search(observation.text) is not None


def repeats_itself(so_far: PartialTrajectory, patience: int) -> bool:
    """The last `patience` actions are identical, or the last action and its answer occurred `patience` times in all."""
    keys = [action_key(step.action) for step in so_far.steps]
    if len(keys) < patience:
        return False
    if len(set(keys[-patience:])) == 1:
        return True
    answers = [*(step.observation.text for step in so_far.steps[1:]), so_far.observation.text]
    pairs = list(zip(keys, answers, strict=True))
    return pairs.count(pairs[-1]) >= patience


def action_key(action: Action) -> Hashable:
    """Equal for two actions that are the same: by parsed call, else by command, else by reply, outer white space apart.

    Example: the commands ``"ls"``, ``"ls "`` and ``" ls"`` have one key.
    """
    if action.call is not None:
        return ("call", action.call.name, _frozen(action.call.arguments))
    if action.command is not None:
        return ("command", action.command.strip())
    return ("reply", action.text.strip())


def _frozen(value: object) -> Hashable:
    """A JSON value as something to compare: white space around text stripped; 1, 1.0 and True stay apart."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, Mapping):
        return ("object", frozenset((key, _frozen(item)) for key, item in value.items()))
    if isinstance(value, list | tuple):
        return ("list", tuple(_frozen(item) for item in value))
    return (type(value).__name__, repr(value))
