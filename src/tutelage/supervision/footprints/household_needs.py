"""Footprints of household episodes by what each command needs, from the texts alone.

In: a stored trajectory. Out: the footprints of `household` with fewer reads, so that an edge i -> j says: without step i,
command j would have been refused, or not have reached the goal.

  refused commands   need nothing, since nothing came of them
  go, look, inventory, help   need nothing: they work from everywhere
  take O from R      location:R; container_state:R if R has a door; placed:O@R if the agent put it there; `hand`, which
                     the last command that filled or emptied the hand wrote
  heat, cool, clean  holding:O, location:R; the door does not matter
  the others         as in `household`, but for what was seen: `visible_at` is nobody's need

Example, `go to A`, `go to B`, `take X from B`, `move X to B`:
  table   1 reads location:A    2 reads location:B visible_at:B    3 reads holding:X location:B
  needs   1 reads nothing       2 reads location:B                 3 reads holding:X location:B
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from tutelage.supervision.footprints.household import household_footprints, parse_command
from tutelage.types import Effect, Footprint, Trajectory

HAND: Final = "hand"
"""The key that taking and putting down write: whether the hand is free."""
SEEN: Final = "visible_at:"
DOOR: Final = "container_state:"

ALWAYS_POSSIBLE: Final = frozenset({"go", "look", "inventory", "help"})
DOOR_IS_NO_MATTER: Final = frozenset({"heat", "cool", "clean"})


def needed_household_footprints(trajectory: Trajectory) -> tuple[Footprint, ...]:
    """One footprint per step of a household or ALFWorld trajectory. No text makes it raise."""
    return tuple(_needed(trajectory, household_footprints(trajectory)))


def _needed(trajectory: Trajectory, footprints: tuple[Footprint, ...]) -> Iterator[Footprint]:
    written: set[str] = set()
    for step, footprint in zip(trajectory.steps, footprints, strict=True):
        verb, thing, place = parse_command(step.action.command or "")
        reads = {key for key in footprint.reads if not key.startswith(SEEN)}
        writes = {key for key in footprint.writes if not key.startswith(SEEN)}
        if footprint.effect in (Effect.NO_EFFECT, Effect.MALFORMED) or verb in ALWAYS_POSSIBLE:
            reads = set()
        elif verb == "take":
            reads |= {HAND, f"placed:{thing}@{place}"} & written
        elif verb in DOOR_IS_NO_MATTER:
            reads = {key for key in reads if not key.startswith(DOOR)}
        if writes and verb in ("take", "move"):
            writes.add(HAND)
        written |= writes
        effect = footprint.effect
        if effect is Effect.CHANGED and not writes:
            effect = Effect.READ_ONLY
        yield replace(footprint, reads=frozenset(reads), writes=frozenset(writes), effect=effect)
