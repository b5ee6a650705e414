"""Two accounts of one episode, put side by side: each turn of one finds its entry in the other, in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

SLACK: Final = 8
"""How many turns may be missing on both sides before it is a different episode."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A reply that stayed in the history, and what was answered to it."""

    content: str
    action: str
    thought: str
    answer: str


@dataclass(frozen=True, slots=True)
class Entry:
    """A reply as it was logged; also one that was asked for again."""

    response: str
    action: str
    thought: str
    observation: str


def align(turns: Sequence[Turn], entries: Sequence[Entry]) -> list[int | None]:
    """For each turn the index of its entry, growing; None: there is none. Entries left over stayed out of the history.

    The best total likeness wins, and of equal ones the latest entries: an attempt that failed stands before the reply that
    took its place.

    Example: turns A B C, entries A X B C -> 0, 2, 3
    """
    rows, columns = len(turns), len(entries)
    if rows == columns and all(one.content == other.response for one, other in zip(turns, entries, strict=True)):
        return list(range(rows))
    # What is left out on either side bounds how far the two can drift apart.
    low, high = min(0, columns - rows) - SLACK, max(0, columns - rows) + SLACK
    likeness = {
        (row, column): _likeness(turns[row], entries[column])
        for row in range(rows)
        for column in range(max(0, row + low), min(columns, row + high + 1))
    }
    best = [[0.0] * (columns + 1) for _ in range(rows + 1)]
    for row in range(1, rows + 1):
        for column in range(1, columns + 1):
            paired = best[row - 1][column - 1] + likeness.get((row - 1, column - 1), -1.0)
            best[row][column] = max(paired, best[row - 1][column], best[row][column - 1])
    found: list[int | None] = [None] * rows
    row, column = rows, columns
    while row and column:
        paired = best[row - 1][column - 1] + likeness.get((row - 1, column - 1), -1.0)
        if best[row][column] == paired:
            found[row - 1] = column - 1
            row, column = row - 1, column - 1
        elif best[row][column] == best[row][column - 1]:
            column -= 1
        else:
            row -= 1
    return found


def _likeness(turn: Turn, entry: Entry) -> float:
    """Above 0 for any pair, so that as many turns as can be have an entry. Powers of two: sums are exact."""
    likeness = 0.0625
    if turn.content.strip() == entry.response.strip() and turn.content.strip():
        likeness += 4.0
    if turn.action.strip() == entry.action.strip():
        likeness += 2.0 if turn.action.strip() else 0.25
    if turn.thought.strip() == entry.thought.strip() and turn.thought.strip():
        likeness += 1.0
    if entry.observation.strip():
        likeness += 2.0 if entry.observation.strip() in turn.answer else 0.0
    return likeness
