"""The household expert: a scripted policy that wins from any state another policy left behind.

In: the texts of the trajectory so far. Out: one command. It never sees the engine. The decision depends only on the
belief (`household_belief`), in this order: put down a wrong thing, give the thing in the hand its state, place it,
fetch one whose place is known, search. Because nothing else is remembered, it does not matter who acted before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from tutelage.envs.household.game import LIGHT_TASK
from tutelage.errors import ConfigError
from tutelage.policies.base import PartialTrajectory, SingleActPolicy
from tutelage.policies.experts.household_belief import TREATMENTS, Belief, Beliefs, Treatment, type_of
from tutelage.policies.experts.household_sense import (
    fits,
    fitting_first,
    has_door,
    likely_order,
    list_order_is_short,
    random_order,
)
from tutelage.types import Action

SEARCH_ORDERS: Final = ("auto", "list", "likely", "random")

AT_A_LOSS: Final = "look"
"""Said in games that cannot be won: the thing is nowhere, or the hand holds what fits nowhere."""


class HouseholdExpert(SingleActPolicy):
    """Plays the household game from its texts, from any state.

    search: the order in which receptacles are looked into.
      ``list``    as the intro lists them, whatever is sought: regular, so a small student can learn it
      ``likely``  likely places of the thing first, then cheap ones
      ``auto``    ``list`` where the whole room can be searched within 50 steps, else ``likely``
      ``random``  an order drawn from the seed of the trajectory
    skip: leave out, until nothing else is left, the receptacles that cannot hold the thing.

    Same texts (and seed, for ``random``), same command; what is kept between calls only saves time.
    """

    def __init__(self, search: str = "auto", skip: bool = False) -> None:
        if search not in SEARCH_ORDERS:
            raise ConfigError.unknown("household expert, search", search, SEARCH_ORDERS)
        self.name = "household_expert"
        self.version = f"household_expert-1/{search}{'/skip' if skip else ''}"
        self.search = search
        self.skip = skip
        self._beliefs = Beliefs()

    def act(self, so_far: PartialTrajectory) -> Action:
        belief = self._beliefs.of(so_far)
        return Action.of(_Decision(belief, partial(self.order, tuple(belief.receptacles), seed=so_far.seed)).command())

    def release(self, trajectory_id: str) -> None:
        self._beliefs.forget(trajectory_id)

    def order(self, receptacles: tuple[str, ...], wanted: str, seed: int) -> tuple[str, ...]:
        """The receptacles in the order in which they are searched for a thing of type `wanted`."""
        search = self.search
        if search == "auto":
            search = "list" if list_order_is_short(receptacles) else "likely"
        if search == "likely":
            receptacles = likely_order(receptacles, wanted)
        elif search == "random":
            receptacles = random_order(receptacles, seed)
        return fitting_first(receptacles, wanted) if self.skip else receptacles


class _Decision:
    """One decision on one belief. Reads, never changes it."""

    def __init__(self, belief: Belief, order: Callable[[str], tuple[str, ...]]) -> None:
        self.belief = belief
        self.goal = belief.goal
        self.order = order
        """Wanted type -> all receptacles in the order of search."""

    def command(self) -> str:
        belief, goal = self.belief, self.goal
        held = belief.held
        if held is None:
            return self._fetch()
        if type_of(held) != goal.object_type:
            return self._put_down(held)
        if goal.task_type == LIGHT_TASK:
            return self._light(goal.lamp_type or "")
        treatment = TREATMENTS.get(goal.task_type)
        if treatment and treatment.state not in belief.states.get(held, ()):
            return self._treat(treatment, held)
        return self._place(held)

    # The five things to do

    def _put_down(self, held: str) -> str:
        """Get rid of a wrong thing: within reach if it fits there, else at the next place of the search."""
        belief = self.belief
        left = [name for name in self.order(self.goal.object_type) if f"move {held} to {name}" not in belief.refused]
        # Of some things common sense does not know where they belong; then any place may do.
        fitting = [name for name in left if fits(type_of(held), name)] or left
        here = sorted(filter(belief.is_here, fitting), key=lambda name: not belief.is_accessible(name))
        elsewhere = sorted(fitting, key=lambda name: name in belief.seen)
        ranked = here + elsewhere
        return self._into(ranked[0], f"move {held} to {ranked[0]}") if ranked else AT_A_LOSS

    def _treat(self, treatment: Treatment, held: str) -> str:
        ranked = self._nearest(self._of_type(treatment.appliance))
        return self._at(ranked[0], f"{treatment.verb} {held} with {ranked[0]}") if ranked else AT_A_LOSS

    def _place(self, held: str) -> str:
        belief = self.belief
        targets = [name for name in self._targets() if f"move {held} to {name}" not in belief.refused]
        # Pick-two needs both in one place, so the receptacle that has most of the others comes first.
        ranked = sorted(self._nearest(targets), key=lambda name: -self._count(name, without=held))
        return self._into(ranked[0], f"move {held} to {ranked[0]}") if ranked else self._put_down(held)

    def _fetch(self) -> str:
        """Take a thing of the goal's type whose place is known, else search for one."""
        belief, goal = self.belief, self.goal
        done = set()
        if goal.task_type == "pick_two_obj_and_place":
            # Where two places hold one each, the one out of reach is to be completed: the object here is taken there.
            # With the reverse the choice would flip at every arrival, and the agent would walk to and fro.
            best = max(self._targets(), key=lambda name: (self._count(name), not belief.is_here(name)), default=None)
            done = {name for name in belief.contents.get(best or "", ()) if type_of(name) == goal.object_type}
        treatment = TREATMENTS.get(goal.task_type)
        choices = [
            (
                treatment is not None and treatment.state not in belief.states.get(name, ()),
                not belief.is_here(receptacle),
                index,
                name,
                receptacle,
            )
            for index, receptacle in enumerate(belief.receptacles)
            for name in belief.contents.get(receptacle, ())
            if type_of(name) == goal.object_type
            and name not in done
            and f"take {name} from {receptacle}" not in belief.refused
        ]
        if not choices:
            return self._search(goal.object_type)
        # One that already has the state, then one within reach, then the first of the intro's order.
        *_, name, receptacle = min(choices, key=lambda choice: choice[:3])
        return self._into(receptacle, f"take {name} from {receptacle}")

    def _light(self, lamp_type: str) -> str:
        belief = self.belief
        lamps = [
            (not belief.is_here(receptacle), name not in belief.lit, index, name, receptacle)
            for index, receptacle in enumerate(belief.receptacles)
            for name in belief.contents.get(receptacle, ())
            if type_of(name) == lamp_type
        ]
        if not lamps:
            return self._search(lamp_type)
        *_, name, receptacle = min(lamps)
        return self._at(receptacle, f"use {name}")

    def _search(self, wanted: str) -> str:
        """Look into the next receptacle that was never looked into."""
        belief = self.belief
        unseen = self._nearest([name for name in self.order(wanted) if name not in belief.seen])
        if not unseen:
            return AT_A_LOSS
        return self._look_into(unseen[0]) if belief.is_here(unseen[0]) else f"go to {unseen[0]}"

    # Getting there

    def _at(self, receptacle: str, command: str) -> str:
        """The command, or first the way to the receptacle."""
        return command if self.belief.is_here(receptacle) else f"go to {receptacle}"

    def _into(self, receptacle: str, command: str) -> str:
        """The command, or first the way to the receptacle and through its door."""
        if not self.belief.is_here(receptacle):
            return f"go to {receptacle}"
        return command if self.belief.is_accessible(receptacle) else self._look_into(receptacle)

    def _look_into(self, receptacle: str) -> str:
        """For a receptacle within reach whose contents cannot be seen."""
        belief = self.belief
        shut = belief.door.get(receptacle) is False
        # A neighbour of the place where one stands is not described on arrival: its door is known by type only.
        if shut or (has_door(receptacle) and f"open {receptacle}" not in belief.refused):
            return f"open {receptacle}"
        return f"examine {receptacle}"

    def _nearest(self, receptacles: Iterable[str]) -> list[str]:
        """Those within reach first, else in the given order."""
        return sorted(receptacles, key=lambda name: not self.belief.is_here(name))

    # What the goal wants

    def _targets(self) -> list[str]:
        return self._of_type(self.goal.receptacle_type)

    def _of_type(self, kind: str | None) -> list[str]:
        return [name for name in self.belief.receptacles if type_of(name) == kind]

    def _count(self, receptacle: str, without: str | None = None) -> int:
        inside = self.belief.contents.get(receptacle, ())
        return sum(type_of(name) == self.goal.object_type and name != without for name in inside)
