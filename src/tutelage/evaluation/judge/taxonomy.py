"""The ten ways to fail, what each means in each environment, and which trajectories are asked about."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from tutelage.types import FailureCategory, StopReason, Trajectory

MEANINGS: Final[Mapping[FailureCategory, str]] = MappingProxyType(
    {
        FailureCategory.IDENTIFIED_INCORRECT_FILE: "changed or chose the wrong {place}",
        FailureCategory.MISSED_EDGE_CASE: "right approach, but one case or condition of the task was not met",
        FailureCategory.MISUNDERSTOOD_PROBLEM_STATEMENT: "worked on something other than what was asked",
        FailureCategory.WRONG_SOLUTION: "right {place} and right question, but the result is wrong",
        FailureCategory.TOOL_ERROR: "misused a tool: calls that are malformed, refused or impossible",
        FailureCategory.INFINITE_LOOP: "repeated the same steps",
        FailureCategory.ENDLESS_FILE_READING: "read {place} after {place} and never acted",
        FailureCategory.CONTEXT_OVERFLOW_FROM_LISTING: "a listing of many {place}s (as of ls or find) filled the window",
        FailureCategory.SYNTAX_ERROR: "left code that does not parse",
        FailureCategory.OTHER: "none of these",
    }
)
"""Category -> what it means; ``{place}`` stands for a file, or for what the environment has in its place."""

PLACES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "household": "object or place",
        "alfworld": "object or place",
        "shop": "product or page",
        "search": "passage",
        "python": "calculation",
    }
)

STOP_MEANINGS: Final[Mapping[StopReason, str]] = MappingProxyType(
    {
        StopReason.COMPLETED: "the episode ended by itself: the agent finished, and its result was checked",
        StopReason.MAX_STEPS: "the limit of steps ended it",
        StopReason.MAX_TOKENS: "a reply was cut off at the limit of tokens",
        StopReason.CONTEXT_OVERFLOW: "the history no longer fitted the model's window",
        StopReason.PARSE_ERROR: "replies in which no action could be read ended it",
        StopReason.TIMEOUT: "the limit of time ended it",
        StopReason.ENV_ERROR: "the environment failed",
        StopReason.POLICY_ERROR: "the policy could not answer",
        StopReason.INTERRUPTED: "somebody stopped the run",
    }
)


def place_word(env: str) -> str:
    """What stands in the place of a file in an environment."""
    return PLACES.get(env, "file")


def meaning(category: FailureCategory, env: str) -> str:
    """Example: ``meaning(FailureCategory.ENDLESS_FILE_READING, "repo")`` is ``read file after file and never acted``"""
    return MEANINGS[category].format(place=place_word(env))


@dataclass(frozen=True, kw_only=True, slots=True)
class Population:
    """What a file holds: the failures that are judged, and how many trajectories are not."""

    unresolved: tuple[Trajectory, ...]
    num_resolved: int
    num_not_scored: int
    """Reward None or no number: spoilt by the machinery or never checked, so no failure of the agent."""
    num_superseded: int
    """Attempts that were played again."""

    def __str__(self) -> str:
        parts = [f"{len(self.unresolved)} failed", f"{self.num_resolved} succeeded"]
        parts += [f"{self.num_not_scored} not scored"] if self.num_not_scored else []
        parts += [f"{self.num_superseded} played again"] if self.num_superseded else []
        return ", ".join(parts)


def population(trajectories: Iterable[Trajectory], min_reward: float = 1.0) -> Population:
    """The failures among trajectories. A success that a limit cut off is none: its result passed the check.

    Example: rewards 1.0, 0.0, None -> 1 failed, 1 succeeded, 1 not scored
    """
    everything = list(trajectories)
    latest: dict[tuple[object, ...], int] = {}
    for one in everything:
        latest[_episode(one)] = max(one.attempt, latest.get(_episode(one), 0))
    # Equal attempts all stay: they are episodes of several players that somebody put into one file.
    current = [one for one in everything if one.attempt == latest[_episode(one)]]
    scored = [one for one in current if one.reward is not None and math.isfinite(one.reward)]
    failed = [one for one in scored if one.reward is not None and one.reward < min_reward]
    return Population(
        unresolved=tuple(failed),
        num_resolved=len(scored) - len(failed),
        num_not_scored=len(current) - len(scored),
        num_superseded=len(everything) - len(current),
    )


def _episode(one: Trajectory) -> tuple[object, ...]:
    """Equal for attempts at one episode."""
    return (one.task_id, one.switch_rule, one.seed, one.sample_index, one.parent_id, one.fork_index)
