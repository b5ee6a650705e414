"""What the texts of a household episode have told so far: the only thing the household expert knows.

In: the intro, then pairs of a command and its reply. Out: a `Belief` with the goal, the receptacles in the order of
the intro, what was seen in them, which doors are open, what is in the hand, and what stands beside what. A belief is
read almost only from replies, so it does not matter how a command was written, or by whom. It follows the game
exactly where the game has spoken, and is silent about the rest.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from tutelage.envs.household.game import LIGHT_TASK, TASK_SENTENCES, Goal
from tutelage.errors import PolicyError
from tutelage.policies.base import PartialTrajectory
from tutelage.types import Observation, Step

NOTHING_HAPPENS: Final = "Nothing happens."


@dataclass(frozen=True, slots=True)
class Treatment:
    """What a task may ask to be done to the object before it is placed."""

    verb: str
    state: str
    """What the verb makes of the object."""
    ability: str
    """Property of the objects that it can be done to."""
    appliance: str
    """Type of the receptacle that does it."""


TREATMENTS: Final = {
    "pick_clean_then_place_in_recep": Treatment("clean", "clean", "cleanable", "sinkbasin"),
    "pick_heat_then_place_in_recep": Treatment("heat", "hot", "heatable", "microwave"),
    "pick_cool_then_place_in_recep": Treatment("cool", "cool", "coolable", "fridge"),
}
"""Task type -> its treatment. The other types have none."""

STATES: Final = {treatment.verb: treatment.state for treatment in TREATMENTS.values()}

_ROOM = re.compile(r"Looking quickly around you, you see (.*)\.")
_TASK = re.compile(r"Your task is to: (.*)\.")
_LISTED = re.compile(r"\ba ([^\s,]+ \d+)")
_FACED = re.compile(r"([^\s,]+ \d+)")
_NAME = r"([^\s,]+ \d+)"

_ARRIVE = re.compile(rf"You arrive at {_NAME}\. (.*)", re.DOTALL)
_OPEN = re.compile(rf"You open the {_NAME}\. (.*)", re.DOTALL)
_CLOSE = re.compile(rf"You close the {_NAME}\.")
_TAKE = re.compile(rf"You pick up the {_NAME} from the {_NAME}\.")
_MOVE = re.compile(rf"You move the {_NAME} to the {_NAME}\.")
_TREAT = re.compile(rf"You (clean|heat|cool) the {_NAME} using the {_NAME}\.")
_USE = re.compile(rf"You turn on the {_NAME}\.")
_CARRY = re.compile(rf"You are carrying: a {_NAME}\.")
_FACING = re.compile(r"You are facing the (.*)\. Next to it, you see ")
_ON = re.compile(rf"On the {_NAME}, you see (.*)\.")
_OPENED = re.compile(rf"The {_NAME} is open\. In it, you see (.*)\.")
_CLOSED = re.compile(rf"The {_NAME} is closed\.")
_CONDITION = re.compile(rf"This is a ((?:hot|cold|cool|clean|sliced|and| )+) {_NAME}\.")


MAX_KEPT: Final = 4096
"""Beliefs kept for speed. Beyond that all are dropped, and made again from the texts when needed."""


def type_of(name: str) -> str:
    """The type in a name. Example: ``type_of("drawer 12") == "drawer"``."""
    return name.rpartition(" ")[0]


@lru_cache(maxsize=1)
def _sentences() -> tuple[tuple[str, re.Pattern[str]], ...]:
    word = "([a-z0-9]+)"
    forms = []
    for task_type, sentences in TASK_SENTENCES.items():
        for sentence in sentences:
            pattern = re.escape(sentence).replace(r"\{o\}", word).replace(r"\{r\}", word).replace(r"\{t\}", word)
            forms.append((task_type, re.compile(pattern)))
    return tuple(forms)


def parse_task(sentence: str) -> Goal | None:
    """The goal of a task sentence without its full stop, or None for a sentence of another make.

    Example: ``parse_task("put a hot egg in garbagecan")`` has object_type ``egg``, receptacle_type ``garbagecan``.
    """
    for task_type, pattern in _sentences():
        if match := pattern.fullmatch(sentence):
            first, second = match.groups()
            if task_type == LIGHT_TASK:
                return Goal(task_type=task_type, object_type=first, lamp_type=second)
            return Goal(task_type=task_type, object_type=first, receptacle_type=second)
    return None


class Belief:
    """Made from the intro; `observe` takes in one command with its reply."""

    def __init__(self, intro: str) -> None:
        task = _TASK.search(intro)
        goal = parse_task(task.group(1)) if task else None
        if goal is None:
            said = f"the task is {task.group(1)!r}" if task else "there is no 'Your task is to:'"
            raise PolicyError(
                f"household expert: {said} in the first observation; expected one of the twelve sentences of the game, "
                "e.g. 'Your task is to: put a hot egg in garbagecan.'"
            )
        self.goal = goal
        room = _ROOM.search(intro)
        facing = _FACING.search(intro)
        self.receptacles: list[str] = (_LISTED.findall(room.group(1)) if room else []) + (
            _FACED.findall(facing.group(1)) if facing else []
        )
        """Names in the order in which the texts gave them."""
        self.contents: dict[str, list[str]] = {}
        """Receptacle -> what is known to be in it; the whole of it if the receptacle is in `seen`."""
        self.seen: set[str] = set()
        """Receptacles that were looked into."""
        self.door: dict[str, bool] = {}
        """Receptacle with a door -> whether it is open. Only those whose door was seen have an entry."""
        self.held: str | None = None
        self.states: dict[str, set[str]] = {}
        """Object -> which of clean, hot, cool it is known to be."""
        self.lit: set[str] = set()
        """Lamps that were turned on."""
        self.refused: set[str] = set()
        """Commands that did nothing though all that they need was there: the thing does not fit, or is fixed."""
        self._spot: dict[str, int] = {}
        """Receptacle -> number of the spot where it stands. Without an entry its spot is not known."""
        self._at = 0
        """Number of the spot where the agent stands. 0 is the middle of the room."""
        self._spots = 1
        for name in self.receptacles if not room else ():
            self._spot[name] = self._at

    def is_here(self, receptacle: str) -> bool:
        """Whether the receptacle is known to be within reach."""
        return self._spot.get(receptacle) == self._at

    @property
    def here(self) -> list[str]:
        """The receptacles known to be within reach, in the order of the intro."""
        return [name for name in self.receptacles if self._spot.get(name) == self._at]

    def is_accessible(self, receptacle: str) -> bool:
        """Whether one standing there can reach into it: something in it was seen or put there, and no door is shut."""
        return receptacle in self.contents and self.door.get(receptacle, True)

    def commands(self) -> tuple[str, ...]:
        """Sorted commands that look possible from the texts: a guess at the admissible ones, for random play."""
        commands = {"look", "inventory"} | {f"go to {name}" for name in self.receptacles if not self.is_here(name)}
        for receptacle in self.here:
            commands.add(f"examine {receptacle}")
            if receptacle in self.door:
                commands.add(f"close {receptacle}" if self.door[receptacle] else f"open {receptacle}")
            inside = self.contents.get(receptacle, ())
            commands |= {f"use {name}" for name in inside if name.partition(" ")[0].endswith("lamp")}
            if self.held is None:
                if self.is_accessible(receptacle):
                    commands |= {f"take {name} from {receptacle}" for name in inside}
                continue
            if self.is_accessible(receptacle):
                commands.add(f"move {self.held} to {receptacle}")
            for treatment in TREATMENTS.values():
                if type_of(receptacle) == treatment.appliance:
                    commands.add(f"{treatment.verb} {self.held} with {receptacle}")
        return tuple(sorted(commands))

    # Taking in a reply

    def observe(self, command: str | None, reply: str) -> None:
        """Take in the reply to one command. None: the action held no command. Unknown replies tell nothing."""
        if reply == NOTHING_HAPPENS:
            self._learn_from_refusal((command or "").strip())
        elif match := _ARRIVE.fullmatch(reply):
            self._arrive(match.group(1))
            self._see(match.group(2))
        elif match := _OPEN.fullmatch(reply):
            self._see(match.group(2))
        elif match := _TAKE.fullmatch(reply):
            self.held, receptacle = match.groups()
            self._stands_here(receptacle)
            inside = self.contents.setdefault(receptacle, [])
            if self.held in inside:
                inside.remove(self.held)
        elif match := _MOVE.fullmatch(reply):
            name, receptacle = match.groups()
            self.held = None
            self._stands_here(receptacle)
            inside = self.contents.setdefault(receptacle, [])
            if name not in inside:
                inside.append(name)
        elif match := _CLOSE.fullmatch(reply):
            self._stands_here(match.group(1))
            self.door[match.group(1)] = False
        elif match := _TREAT.fullmatch(reply):
            verb, name, receptacle = match.groups()
            self._stands_here(receptacle)
            known = self.states.setdefault(name, set())
            known.add(STATES[verb])
            if verb != "clean":
                known.discard("hot" if verb == "cool" else "cool")
        elif match := _USE.fullmatch(reply):
            self.lit.add(match.group(1))
        elif match := _FACING.match(reply):
            for receptacle in _FACED.findall(match.group(1)):
                self._stands_here(receptacle)
        elif match := _CARRY.fullmatch(reply):
            self.held = match.group(1)
        elif match := _CONDITION.fullmatch(reply):
            words = match.group(1).replace("cold", "cool").split()
            self.states.setdefault(match.group(2), set()).update(set(STATES.values()).intersection(words))
        else:
            self._see(reply)

    def _see(self, text: str) -> None:
        """A sentence about one receptacle within reach: what is on it, or in it, or that it is closed."""
        if match := _ON.fullmatch(text):
            self._looked_into(match.group(1), match.group(2))
        elif match := _OPENED.fullmatch(text):
            self._looked_into(match.group(1), match.group(2))
            self.door[match.group(1)] = True
        elif match := _CLOSED.fullmatch(text):
            self._stands_here(match.group(1))
            self.door[match.group(1)] = False

    def _looked_into(self, receptacle: str, listed: str) -> None:
        self._stands_here(receptacle)
        self.seen.add(receptacle)
        self.contents[receptacle] = _LISTED.findall(listed)

    def _learn_from_refusal(self, command: str) -> None:
        verb, _, rest = command.partition(" ")
        if command.startswith("go to ") and rest[3:] in self.receptacles:
            # The game goes anywhere but to where one already stands: this one shares the spot.
            self._stands_here(rest[3:])
        elif verb == "open" and self.is_here(rest) and rest not in self.door:
            self.refused.add(command)
        elif verb == "take" and self.held is None:
            name, _, receptacle = rest.partition(" from ")
            if self.is_here(receptacle) and self.is_accessible(receptacle) and name in self.contents[receptacle]:
                self.refused.add(command)
        elif verb == "move" and self.held is not None:
            name, _, receptacle = rest.partition(" to ")
            if name == self.held and self.is_here(receptacle) and self.is_accessible(receptacle):
                self.refused.add(command)

    def _arrive(self, receptacle: str) -> None:
        self._add(receptacle)
        if receptacle not in self._spot:
            self._spot[receptacle] = self._spots
            self._spots += 1
        self._at = self._spot[receptacle]

    def _stands_here(self, receptacle: str) -> None:
        self._add(receptacle)
        before = self._spot.get(receptacle)
        if before is None:
            self._spot[receptacle] = self._at
        elif before != self._at:
            # Two spots that were entered by different receptacles prove to be one.
            for name, spot in self._spot.items():
                if spot == before:
                    self._spot[name] = self._at

    def _add(self, receptacle: str) -> None:
        if receptacle not in self.receptacles:
            self.receptacles.append(receptacle)


@dataclass(slots=True)
class _Kept:
    """The belief about one trajectory, and how far it has read."""

    belief: Belief
    first: Observation
    steps: tuple[Step, ...] = ()
    last: Observation | None = None
    """The reply to the last of `steps`."""

    def is_prefix_of(self, so_far: PartialTrajectory, first: Observation) -> bool:
        """Whether the trajectory begins with all that was read. Equal objects are compared by identity first."""
        count = len(self.steps)
        if count == 0 or count > len(so_far.steps):
            return count == 0 and self.first == first
        reply = so_far.steps[count].observation if count < len(so_far.steps) else so_far.observation
        return self.steps == so_far.steps[:count] and self.last == reply


class Beliefs:
    """Beliefs about many trajectories. What it keeps only saves time: equal texts give equal beliefs."""

    def __init__(self) -> None:
        self._kept: dict[str, _Kept] = {}

    def of(self, so_far: PartialTrajectory) -> Belief:
        """What the texts so far have told. Not to be changed by the caller."""
        steps = so_far.steps
        first = steps[0].observation if steps else so_far.observation
        kept = self._kept.get(so_far.trajectory_id)
        if kept is None or not kept.is_prefix_of(so_far, first):
            kept = _Kept(belief=Belief(first.text), first=first)
            if len(self._kept) >= MAX_KEPT:
                self._kept.clear()
            self._kept[so_far.trajectory_id] = kept
        read = len(kept.steps)
        replies = [step.observation for step in steps[read + 1 :]] + [so_far.observation]
        for step, reply in zip(steps[read:], replies, strict=False):
            kept.belief.observe(step.action.command, reply.text)
        kept.steps, kept.last = steps, so_far.observation if steps else None
        return kept.belief

    def forget(self, trajectory_id: str) -> None:
        """Drop what was kept for one trajectory. Unknown ids are fine."""
        self._kept.pop(trajectory_id, None)
