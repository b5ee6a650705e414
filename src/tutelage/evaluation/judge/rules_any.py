"""Rules that hold in every environment: loops, readings, listings, unreadable and failing calls.

The order matters: what ended the episode comes before what was also there.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import Final

from tutelage.envs.shop.pages import BUY, parse_command
from tutelage.evaluation.judge.evidence import Evidence, longest_loop, longest_run, num_steps_of
from tutelage.evaluation.judge.findings import Finding, Rule
from tutelage.supervision.footprints import footprints_of, has_footprints
from tutelage.types import Effect, FailureCategory, StopReason

ROUNDS: Final = 3
"""Identical actions in a row that count as a loop, and rounds of a longer pattern (the repetition filter's numbers)."""
MAX_PERIOD: Final = 4
SAME_PAIRS: Final = 4
"""Times that one action brought one answer before that counts as going round in circles."""
READS: Final = 20
"""Reads in a row (the repetition filter's number)."""
FEW_READS: Final = 5
"""Reads of an episode that a limit cut off and that did nothing else."""
READ_SHARE: Final = 0.8
FAILURES: Final = 3

_NUMBER: Final = re.compile(r"\d+")


def unreadable_replies(evidence: Evidence) -> Finding | None:
    """Replies without a readable action ended the episode, or were at least half of it, or its last three (the last
    quarter of a short one)."""
    flags = evidence.malformed
    run = longest_run(flags)
    if run is None:
        return None
    ended = evidence.trajectory.stop_reason is StopReason.PARSE_ERROR
    enough = min(FAILURES, math.ceil(evidence.num_steps / 4))
    at_end = evidence.was_cut and run[1] == evidence.last and num_steps_of(run) >= enough
    if not (ended or at_end or (sum(flags) >= 2 and 2 * sum(flags) >= len(flags))):
        return None
    return Finding(FailureCategory.TOOL_ERROR, f"no action could be read in {sum(flags)} of {len(flags)} replies", run)


def listing_filled_window(evidence: Evidence) -> Finding | None:
    """The window was full, and listings are at least half of all that was seen."""
    if evidence.trajectory.stop_reason is not StopReason.CONTEXT_OVERFLOW:
        return None
    sizes = [len(reply) for reply in evidence.replies]
    listed = [size if flag else 0 for size, flag in zip(sizes, evidence.listings, strict=True)]
    if not sum(listed) or 2 * sum(listed) < sum(sizes):
        return None
    largest = listed.index(max(listed))
    return Finding(
        FailureCategory.CONTEXT_OVERFLOW_FROM_LISTING,
        f"listings are {sum(listed):,} of {sum(sizes):,} characters that were seen; the largest came at step {largest}",
        (largest, largest),
    )


def repeated_actions(evidence: Evidence) -> Finding | None:
    """A pattern of one to four actions, three rounds or more, that fills half of the episode or runs into its limit.

    Answers must repeat as well, numbers apart: who turns page after page does one thing, and is in no loop.
    """
    found = longest_loop(evidence.keys, MAX_PERIOD, ROUNDS)
    if found is None:
        return None
    span, period = found
    seen = {_NUMBER.sub("0", reply) for reply in evidence.replies[span[0] : span[1] + 1]}
    if 2 * len(seen) > num_steps_of(span):
        return None
    runs_into_limit = evidence.was_cut and span[1] >= evidence.last - 1
    if not runs_into_limit and 2 * num_steps_of(span) < evidence.num_steps:
        return None
    what = "the same action" if period == 1 else f"the same {period} actions"
    return Finding(FailureCategory.INFINITE_LOOP, f"{what} over and over, {num_steps_of(span)} steps long", span)


def circles(evidence: Evidence) -> Finding | None:
    """A limit ended it, and at least half of its steps did what had been done before and saw what had been seen."""
    if not evidence.was_cut:
        return None
    pairs = list(zip(evidence.keys, evidence.replies, strict=True))
    counts = Counter(pairs)
    repeated = sum(counts[pair] - 1 for pair in counts)
    if max(counts.values(), default=0) < SAME_PAIRS or 2 * repeated < evidence.num_steps:
        return None
    most = counts.most_common(1)[0][0]
    first, last = pairs.index(most), evidence.last - pairs[::-1].index(most)
    return Finding(
        FailureCategory.INFINITE_LOOP,
        f"{repeated} of {evidence.num_steps} steps repeat an earlier one with the same answer",
        (first, last),
    )


def reading_run(evidence: Evidence) -> Finding | None:
    """Twenty reads in a row."""
    run = longest_run(evidence.reads)
    if run is None or num_steps_of(run) < READS:
        return None
    return Finding(FailureCategory.ENDLESS_FILE_READING, f"{num_steps_of(run)} reads in a row", run)


def only_reading(evidence: Evidence) -> Finding | None:
    """A limit ended it before anything was done, and at least four in five of its steps looked at something."""
    if not evidence.was_cut or _acted(evidence):
        return None
    looks = _looks(evidence)
    run = longest_run(looks)
    if run is None or sum(looks) < max(FEW_READS - 2, READ_SHARE * evidence.num_steps) or evidence.num_steps < 3:
        return None
    return Finding(
        FailureCategory.ENDLESS_FILE_READING,
        f"{sum(looks)} of {evidence.num_steps} steps only looked, and nothing was done before the limit",
        run,
    )


def failing_calls(evidence: Evidence) -> Finding | None:
    """At least half of the calls were refused or did nothing, or the last three before a limit."""
    flags = evidence.failed
    run = longest_run(flags)
    if run is None or sum(flags) < FAILURES:
        return None
    at_end = evidence.was_cut and run[1] == evidence.last and num_steps_of(run) >= FAILURES
    if not at_end and 2 * sum(flags) < len(flags):
        return None
    return Finding(FailureCategory.TOOL_ERROR, f"{sum(flags)} of {len(flags)} calls were refused or did nothing", run)


def _looks(evidence: Evidence) -> list[bool]:
    """[N] steps that look: reads; in search the searches; in the shop all but choosing and buying."""
    env = evidence.trajectory.env
    looks = evidence.reads
    if env == "search":
        looks = [call is not None and call.name == "search" for call in evidence.calls]
    elif env == "shop":
        looks = [bool(parse_command(command)[0]) for command in evidence.commands]
    return [look and not failed for look, failed in zip(looks, evidence.failed, strict=True)]


def _acted(evidence: Evidence) -> bool:
    """Whether something was changed, chosen or answered."""
    trajectory = evidence.trajectory
    if trajectory.env == "shop":
        bought = any(parse_command(command) == ("click", BUY.lower()) for command in evidence.commands)
        return bought or any(
            key.startswith("selected_attr:") for one in footprints_of(trajectory) for key in one.writes
        )
    if trajectory.env == "search":
        return any(call is not None and call.name == "answer" for call in evidence.calls)
    if not has_footprints(trajectory.env):
        return False
    return any(
        one.effect is Effect.CHANGED and any(key.startswith(("file:", "holding")) for key in one.writes)
        for one in footprints_of(trajectory)
    )


BEFORE: Final[tuple[Rule, ...]] = (
    unreadable_replies,
    listing_filled_window,
    repeated_actions,
    reading_run,
    only_reading,
)
"""Asked before the rules of the environment."""

AFTER: Final[tuple[Rule, ...]] = (failing_calls, circles)
"""Asked after them: less telling than what was moved, bought or changed."""
