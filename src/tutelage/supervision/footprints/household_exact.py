"""Footprints of household episodes from the engine's own facts: a replay knows what the texts do not say.

In: a trajectory and its task. Out: footprints with the keys of `household`, in two senses.

`exact_household_footprints` fills the same table from facts instead of texts. What differs:
  - the agent enters every receptacle of a spot, not only the one that it names
  - a step writes only what changed or was shown: heating again, or `look`, writes nothing; heating a cold thing also
    writes that it is no longer cold

`causal_household_footprints` leaves the table. Keys are facts that are true or false:
  - a step writes exactly the facts that it turned
  - it reads the facts that it needs: had one been otherwise, the command would have done nothing
  - the step that wins reads, besides, the facts that make the goal hold
  - seeing is no fact (no `visible_at`), looks read what they need to be answered, and commands that do nothing read nothing
So an edge i -> j says: i was the last to bring about something that j needs, and without i alone j does nothing (unless
something between them comes out differently first).

Example, `go to A`, `go to B`, `take X from B`, `go to A`:
  exact    1 reads location:A     2 reads location:B visible_at:B            3 reads location:B, visible_at:A
  causal   1 reads nothing        2 reads location:B placed:X@B              3 reads location:A, which 1 made untrue
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from tutelage.envs.household.engine import NOTHING_HAPPENS, Engine
from tutelage.envs.household.env import FORMAT_HELP, HouseholdEnv
from tutelage.envs.household.game import LIGHT_TASK
from tutelage.rollout.replay import ReplayMismatch
from tutelage.supervision.footprints.household import Command, parse_command
from tutelage.types import Effect, Footprint, Task, Trajectory

STATE_WORDS: Final = {"clean": "clean", "hot": "hot", "cool": "cold", "sliced": "sliced", "toggled": "on"}
"""Fact of the engine -> how the keys call it."""

GOAL_STATES: Final = {
    "pick_clean_then_place_in_recep": "clean",
    "pick_heat_then_place_in_recep": "hot",
    "pick_cool_then_place_in_recep": "cool",
}
"""Task type -> the state that a placed object must have."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Act:
    """One command with the facts about it, as they were before it unless said otherwise."""

    command: Command
    effective: bool
    """It was admissible."""
    here: tuple[str, ...]
    """Receptacles at the agent's spot."""
    here_after: tuple[str, ...]
    held: str | None
    is_receptacle: bool
    """The command names a receptacle."""
    has_door: bool
    """Of the named receptacle."""
    shown: bool
    """After it, the contents of the named receptacle can be seen."""
    holders: tuple[str, ...]
    """Receptacles here that the named object is in."""
    changed: frozenset[str]
    """Facts that the command turned."""
    goal: frozenset[str]
    """If it won: the facts that make the goal hold. Else empty."""

    @property
    def receptacle(self) -> str:
        """The second name of the command, or its only one: a receptacle, except where an object is used or examined."""
        return self.command.second or self.command.first


def exact_household_footprints(trajectory: Trajectory, task: Task) -> tuple[Footprint, ...]:
    """One footprint per step: the table of `household`, from the engine's facts.

    Raises ReplayMismatch where the engine answers something else than the record says.
    """
    known: set[str] = set()
    footprints = []
    for index, act in enumerate(_acts(trajectory, task)):
        reads: list[str] = []
        writes: set[str] = set()
        if act is not None:
            reads = _exact_reads(act, known)
            writes = _exact_writes(act) if act.effective else set()
        known |= writes
        footprints.append(_footprint(trajectory, index, act, reads, writes))
    return tuple(footprints)


def causal_household_footprints(trajectory: Trajectory, task: Task) -> tuple[Footprint, ...]:
    """One footprint per step: the facts that it needed and the facts that it turned.

    Raises ReplayMismatch where the engine answers something else than the record says.
    """
    released: str | None = None
    left: tuple[str, ...] = ()
    footprints = []
    for index, act in enumerate(_acts(trajectory, task)):
        reads: list[str] = []
        writes: set[str] = set()
        if act is not None and act.effective:
            reads, writes = [*_needs(act), *act.goal - act.changed], set(act.changed)
            verb, name = act.command[:2]
            if verb == "take" and released is not None:
                # The hand is empty because this thing was the last to leave it.
                reads.append(f"holding:{released}")
            if verb == "move":
                released = name
            if verb == "go":
                # Going to where one stands does nothing. Without the last way, the agent would stand where that began.
                reads += [f"location:{name}"] if name in left else []
                left = act.here
        footprints.append(_footprint(trajectory, index, act, reads, writes))
    return tuple(footprints)


def _footprint(trajectory: Trajectory, index: int, act: Act | None, reads: list[str], writes: set[str]) -> Footprint:
    if act is None:
        effect = Effect.MALFORMED
    elif not act.effective:
        effect = Effect.NO_EFFECT
    else:
        effect = Effect.CHANGED if writes else Effect.READ_ONLY
    return Footprint(
        trajectory_id=trajectory.trajectory_id,
        step_index=index,
        reads=frozenset(reads),
        writes=frozenset(writes),
        effect=effect,
    )


# The table, from facts


def _exact_reads(act: Act, known: set[str]) -> list[str]:
    verb, thing, name = act.command[0], act.command.first, act.receptacle
    at, visible, door = f"location:{name}", f"visible_at:{name}", f"container_state:{name}"
    here = [key for key in map("location:{}".format, act.here) if key in known]
    hand = [] if act.held is None else [f"holding:{act.held}"]
    states = [key for key in known if key.startswith(f"object_state:{thing}:")]
    reads, if_known = {
        "go": (here, [visible, door]),
        "look": (here, [f"visible_at:{receptacle}" for receptacle in act.here]),
        "open": ([at, door], [visible]),
        "close": ([at, door], [visible]),
        "take": ([at, visible, door] if act.has_door else [at, visible], []),
        "move": ([f"holding:{thing}", at, *states], [door]),
        "heat": ([f"holding:{thing}", at], [door]),
        "cool": ([f"holding:{thing}", at], [door]),
        "clean": ([f"holding:{thing}", at], [door]),
        "use": ([*_where(act), *hand], []),
        "slice": ([f"holding:{name}", *_where(act)], [f"visible_at:{holder}" for holder in act.holders]),
        "examine": ([at], [visible]) if act.is_receptacle else ([*hand, *states], []),
        "inventory": (hand, []),
    }.get(verb, ([], []))
    return [*reads, *(key for key in if_known if key in known)]


def _exact_writes(act: Act) -> set[str]:
    verb, thing, name = act.command[0], act.command.first, act.receptacle
    writes = {key for key in act.changed if key.startswith(("container_state:", "holding:", "object_state:"))}
    if verb == "go":
        writes |= {f"location:{receptacle}" for receptacle in act.here_after}
        if act.has_door:
            writes.add(f"container_state:{name}")
    if verb == "move":
        writes.add(f"placed:{thing}@{name}")
    if verb in ("take", "move") or (act.shown and verb in ("go", "open", "examine")):
        writes.add(f"visible_at:{name}")
    return writes


def _where(act: Act) -> list[str]:
    """Where the agent must stand to reach the named object."""
    return [f"location:{receptacle}" for receptacle in act.holders or act.here]


# What a command needs


def _needs(act: Act) -> list[str]:
    """The facts without which an admissible command would have done nothing."""
    verb, thing, name = act.command[0], act.command.first, act.receptacle
    at = f"location:{name}"
    reach = [at, f"container_state:{name}"] if act.has_door else [at]
    inside = [f"placed:{thing}@{holder}" for holder in act.holders]
    return {
        "open": reach,
        "close": reach,
        "take": [*reach, f"placed:{thing}@{name}"],
        "move": [*reach, f"holding:{thing}"],
        "heat": [at, f"holding:{thing}"],
        "cool": [at, f"holding:{thing}"],
        "clean": [at, f"holding:{thing}"],
        "use": _where(act),
        "slice": [f"holding:{name}", *_where(act), *inside],
        "examine": [at] if act.is_receptacle else [f"holding:{thing}"],
    }.get(verb, [])


# Facts


def _acts(trajectory: Trajectory, task: Task) -> Iterator[Act | None]:
    """Each step acted again. None: it had no command."""
    engine = HouseholdEnv(task).engine
    doors = {
        name: receptacle.openable
        for name, receptacle in zip(engine.receptacle_names, engine.game.receptacles, strict=True)
    }
    objects = frozenset(engine.object_names)
    steps, final = trajectory.steps, trajectory.final_observation
    expected = [step.observation.text for step in steps] + ([final.text] if final else [])
    _same(task, 0, expected, engine.reset())
    for index, step in enumerate(steps):
        if step.action.command is None:
            _same(task, index + 1, expected, FORMAT_HELP)
            yield None
            continue
        command = parse_command(step.action.command)
        name = command.second if command.second in doors else command.first
        thing = command.first if command.first in objects else None
        before, here, held, won = _facts(engine, name, thing, doors), engine.here, engine.held, engine.won
        holders = [] if thing is None else [one for one in engine.containers(thing) if one in here]
        reply = engine.step(step.action.command)
        _same(task, index + 1, expected, reply)
        has_door = doors.get(name, False)
        yield Act(
            command=command,
            effective=reply != NOTHING_HAPPENS,
            here=here,
            here_after=engine.here,
            held=held,
            is_receptacle=name in doors,
            has_door=has_door,
            shown=name in doors and (not has_door or engine.is_open(name)),
            holders=tuple(holders),
            changed=before ^ _facts(engine, name, thing, doors),
            goal=frozenset(_goal_facts(engine)) if engine.won and not won else frozenset(),
        )


def _same(task: Task, index: int, expected: list[str], got: str) -> None:
    if index < len(expected) and expected[index] != got:
        raise ReplayMismatch(task_id=task.task_id, step=index, what="observation", expected=expected[index], got=got)


def _facts(engine: Engine, receptacle: str, thing: str | None, doors: Mapping[str, bool]) -> frozenset[str]:
    """The facts that a command with these names can turn, as far as they hold."""
    facts = [f"location:{name}" for name in engine.here]
    if doors.get(receptacle) and engine.is_open(receptacle):
        facts.append(f"container_state:{receptacle}")
    if engine.held is not None:
        facts.append(f"holding:{engine.held}")
    if thing is not None:
        facts += [f"placed:{thing}@{name}" for name in engine.containers(thing)]
        facts += [f"object_state:{thing}:{STATE_WORDS[state]}" for state in engine.states(thing)]
    return frozenset(facts)


def _goal_facts(engine: Engine) -> Iterator[str]:
    """The facts that make the goal hold, in a state where it does."""
    goal = engine.game.goal
    if goal.task_type == LIGHT_TASK:
        yield f"holding:{engine.held}"
        for receptacle in engine.here:
            for lamp in _of_type(engine.contents(receptacle), goal.lamp_type):
                if "toggled" in engine.states(lamp):
                    yield f"location:{receptacle}"
                    yield f"object_state:{lamp}:on"
        return
    state = GOAL_STATES.get(goal.task_type)
    wanted = 2 if goal.task_type == "pick_two_obj_and_place" else 1
    for receptacle in _of_type(engine.receptacle_names, goal.receptacle_type):
        things = _of_type(engine.contents(receptacle), goal.object_type)
        placed = [thing for thing in things if state is None or state in engine.states(thing)]
        if len(placed) >= wanted:
            for thing in placed:
                yield f"placed:{thing}@{receptacle}"
                if state is not None:
                    yield f"object_state:{thing}:{STATE_WORDS[state]}"


def _of_type(names: Iterable[str], kind: str | None) -> list[str]:
    """Names are types with a number."""
    return [name for name in names if name.rpartition(" ")[0] == kind]
