"""The privileged bound of the household game: a shortest list of commands to the goal, from the full state.

In: an `Engine` in any state. Out: commands, or None where the goal is out of reach. A plan is a list of deeds, each
at a receptacle (take the egg from the fridge, heat it with the microwave, place it on the table); the ways and the
doors between them follow. All lists of deeds that the goal allows are tried, so the shortest one is exact; there are
at most a few thousand, since only the receptacle of a deed matters, not how one gets there.

The text-only expert is measured against this bound. A student that sees only texts should not imitate it: it knows what
nobody saw. One that is told the plan beforehand may.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from tutelage.envs.household.engine import Engine
from tutelage.envs.household.env import HouseholdEnv
from tutelage.envs.household.game import LIGHT_TASK
from tutelage.errors import PolicyError
from tutelage.policies.base import PartialTrajectory, SingleActPolicy
from tutelage.policies.experts.household_belief import TREATMENTS
from tutelage.types import Action, Task


@dataclass(frozen=True, slots=True)
class Deed:
    """Something done at one receptacle."""

    receptacle: str
    command: str
    """Empty: to be there is enough."""
    reaches_inside: bool = False
    """True: a closed door must be opened first."""


Deeds = tuple[Deed, ...]


def shortest_plan(engine: Engine) -> list[str] | None:
    """A shortest list of commands that wins from the present state; the engine is left as it is.

    Empty: already won. None: the goal cannot be reached, e.g. the hand holds something that fits nowhere.
    Of several shortest plans the alphabetically first one is given.
    """
    if engine.won:
        return []
    world = _World(engine)
    best: tuple[int, list[str]] | None = None
    for deeds in world.ways():
        length = world.length(deeds)
        if best is None or length <= best[0]:
            plan = world.commands(deeds)
            best = min(best or (length, plan), (length, plan))
    return best[1] if best else None


class _World:
    """The facts of one state that planning needs, read once from the engine."""

    def __init__(self, engine: Engine) -> None:
        game = engine.game
        self.goal = game.goal
        self.held = engine.held
        self.location = engine.location
        self.receptacles = dict(zip(engine.receptacle_names, game.receptacles, strict=True))
        self.objects = dict(zip(engine.object_names, game.objects, strict=True))
        self.can_contain = game.can_contain
        self.at = {name: receptacle.location for name, receptacle in self.receptacles.items()}
        self.shut = {name for name, r in self.receptacles.items() if r.openable and not engine.is_open(name)}
        self.contents = {name: engine.contents(name) for name in self.receptacles}
        self.treatment = TREATMENTS.get(self.goal.task_type)
        ability = self.treatment.ability if self.treatment else "pickupable"
        self.sought = {
            name for name, o in self.objects.items()
            if o.type == self.goal.object_type and getattr(o, ability)
        }  # fmt: skip
        self.lamps = {name for name, o in self.objects.items() if o.type == self.goal.lamp_type and o.toggleable}
        self.states = {name: engine.states(name) for name in self.sought | self.lamps}

    def ways(self) -> Iterator[Deeds]:
        """All lists of deeds worth comparing."""
        if self.goal.task_type == LIGHT_TASK:
            return self._carrying(self._to_the_lamp)
        if self.goal.task_type == "pick_two_obj_and_place":
            return self._two()
        return self._carrying(self._treat_and_place)

    # Costs

    def length(self, deeds: Deeds) -> int:
        """Number of commands: the deeds, the ways between them, and the doors."""
        count, location, shut = 0, self.location, self.shut
        opened: set[str] = set()
        for deed in deeds:
            name = deed.receptacle
            if self.at[name] != location:
                location = self.at[name]
                count += 1
            if deed.reaches_inside and name in shut and name not in opened:
                opened.add(name)
                count += 1
            if deed.command:
                count += 1
        return count

    def commands(self, deeds: Deeds) -> list[str]:
        """The deeds with the ways between them and the doors."""
        commands: list[str] = []
        location, shut = self.location, set(self.shut)
        for deed in deeds:
            name = deed.receptacle
            if self.at[name] != location:
                location = self.at[name]
                commands.append(f"go to {name}")
            if deed.reaches_inside and name in shut:
                shut.discard(name)
                commands.append(f"open {name}")
            if deed.command:
                commands.append(deed.command)
        return commands

    # Parts of plans

    def _carrying(self, then: Callable[[str, str], Iterator[Deeds]]) -> Iterator[Deeds]:
        """Come to hold one sought object, then go on with it."""
        held = self.held
        if held is not None and held in self.sought:
            yield from then(held, "")
        for name, source in self._sources():
            take = Deed(source, f"take {name} from {source}", reaches_inside=True)
            for rest in then(name, source):
                for drop in self._drops(source, rest):
                    yield (*drop, take, *rest)

    def _treat_and_place(self, name: str, source: str) -> Iterator[Deeds]:
        treat: list[Deeds] = [()]
        todo = self.treatment
        if todo and todo.state not in self.states[name]:
            appliances = self._of_type(todo.appliance)
            treat = [(Deed(appliance, f"{todo.verb} {name} with {appliance}"),) for appliance in appliances]
        # What is in two receptacles is still in the other one after it was taken from this one.
        fits = partial(self._fits, name)
        placed = any(target != source and name in self.contents[target] for target in self._targets())
        for deeds in treat:
            if placed:
                yield deeds
            else:
                for target in filter(fits, self._targets()):
                    yield (*deeds, Deed(target, f"move {name} to {target}", reaches_inside=True))

    def _to_the_lamp(self, _name: str, _source: str) -> Iterator[Deeds]:
        for receptacle, inside in self.contents.items():
            for lamp in inside:
                if lamp in self.lamps:
                    yield (Deed(receptacle, "" if "toggled" in self.states[lamp] else f"use {lamp}"),)

    def _two(self) -> Iterator[Deeds]:
        """Bring what is missing to one target: one object where another lies already, else two."""
        held = self.held
        sources = list(self._sources())
        for target in self._targets():
            there = self.sought.intersection(self.contents[target])
            missing = [(o, source) for o, source in sources if o not in there and self._fits(o, target)]
            if held is not None and held in self.sought and held not in there and self._fits(held, target):
                place = Deed(target, f"move {held} to {target}", reaches_inside=True)
                rests = [()] if there else [self._bring(name, source, target) for name, source in missing]
                yield from ((place, *rest) for rest in rests)
            for first, source in missing:
                rests = [()] if there else [self._bring(o, other, target) for o, other in missing if o != first]
                for rest in rests:
                    deeds = (*self._bring(first, source, target), *rest)
                    yield from ((*drop, *deeds) for drop in self._drops(source, deeds))

    def _bring(self, name: str, source: str, target: str) -> Deeds:
        return (
            Deed(source, f"take {name} from {source}", reaches_inside=True),
            Deed(target, f"move {name} to {target}", reaches_inside=True),
        )

    def _drops(self, source: str, rest: Deeds) -> list[Deeds]:
        """Ways to empty the hand before something is taken from `source`; one empty way if it is empty.

        Of equally good places one is enough: one open and one closed each at the present location, at that of the
        source, and elsewhere; and those that the rest of the plan opens anyway.
        """
        held = self.held
        if held is None:
            return [()]
        kinds: dict[object, str] = {}
        later = {source, *(deed.receptacle for deed in rest)}
        for name in self._fitting(held):
            if name in later:
                kinds[name] = name
            else:
                location = self.at[name]
                where = location if location in (self.location, self.at[source]) else "elsewhere"
                kinds.setdefault((where, name in self.shut), name)
        return [(Deed(name, f"move {held} to {name}", reaches_inside=True),) for name in kinds.values()]

    # Facts

    def _sources(self) -> Iterator[tuple[str, str]]:
        """Sought objects that can be taken, each with a receptacle that it is in."""
        for receptacle, inside in self.contents.items():
            for name in inside:
                if name in self.sought and self.objects[name].pickupable:
                    yield name, receptacle

    def _targets(self) -> list[str]:
        return self._of_type(self.goal.receptacle_type)

    def _of_type(self, kind: str | None) -> list[str]:
        return [name for name, receptacle in self.receptacles.items() if receptacle.type == kind]

    def _fitting(self, name: str) -> list[str]:
        return [receptacle for receptacle in self.receptacles if self._fits(name, receptacle)]

    def _fits(self, name: str, receptacle: str) -> bool:
        return (self.receptacles[receptacle].type, self.objects[name].type) in self.can_contain


class PlannerPolicy(SingleActPolicy):
    """Plays shortest plans, made anew at each step. `engine_of` gives the live engine of a trajectory.

    Without it each state is made by acting the episode again, which takes microseconds a step.
    """

    def __init__(self, engine_of: Callable[[PartialTrajectory], Engine] | None = None) -> None:
        self.name = "household_planner"
        self.version = "household_planner-1"
        self._engine_of = engine_of or replayed_engine

    def act(self, so_far: PartialTrajectory) -> Action:
        plan = shortest_plan(self._engine_of(so_far))
        if not plan:
            state = "the goal holds already" if plan is not None else "the goal cannot be reached any more"
            raise PolicyError(
                f"household planner, trajectory {so_far.trajectory_id}, step {len(so_far.steps)}: {state}"
            )
        return Action.of(plan[0])


def plan_of_task(task: Task) -> list[str] | None:
    """A shortest list of commands that wins a task from its start. None: it cannot be won."""
    env = HouseholdEnv(task)
    env.reset(task.seed)
    return shortest_plan(env.engine)


def replayed_engine(so_far: PartialTrajectory) -> Engine:
    """The state of an episode, by acting it again in a new engine."""
    env = HouseholdEnv(so_far.task)
    env.reset(so_far.task.seed)
    for step in so_far.steps:
        env.step(step.action)
    return env.engine
