"""Random play of generated household games, as texts for the warm-up of a student.

No expert plays here, and no rule of play looks at the task. A player draws a kind of command among the admissible ones
by fixed weights (`VERB_WEIGHTS`), then one of that kind, and now and then a command that is not admissible. Each play
has habits, drawn at its start (`Habits`): how readily it takes things, and whether it wanders or tours the room in the
order of the intro, up or down.

Hindsight: a play that by chance did something a task could have asked for is told as if it had been asked: its task
sentence is replaced, and it ends where that task is won. Of several plays of one game the one that did least besides
is kept. So the sentence, the thing taken and the place it goes to belong together, though nobody aimed at them.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tutelage.envs.household.engine import NOTHING_HAPPENS, Engine
from tutelage.envs.household.game import Game, Goal
from tutelage.envs.household.tables import APPLIANCES

VERB_WEIGHTS: Final = {
    "go": 3.0, "take": 4.0, "move": 4.0, "open": 6.0, "close": 0.2, "clean": 4.0, "heat": 4.0, "cool": 4.0, "use": 2.0,
    "slice": 0.3, "examine": 0.2, "look": 0.2, "inventory": 0.1, "help": 0.02,
}  # fmt: skip
"""First word of a command -> how often that kind is drawn while it is admissible."""

REPEAT_WEIGHT: Final = 0.2
"""How much less often a command is drawn that the play has done before, or that only undoes what it did."""

APPLIANCE_WEIGHT: Final = 3.0
"""How much more often `go to` picks a place that cleans, heats or cools while something is carried."""

TOUR_WEIGHT: Final = 30.0
"""How much more often `go to` picks the next receptacle of a tour than any other one."""

TREATED: Final = {
    "clean": "pick_clean_then_place_in_recep",
    "heat": "pick_heat_then_place_in_recep",
    "cool": "pick_cool_then_place_in_recep",
}
"""First word of a command -> the kind of task it belongs to."""


@dataclass(frozen=True, slots=True)
class Play:
    """One random play: the intro, then commands and replies in turn."""

    intro: str
    commands: tuple[str, ...]
    replies: tuple[str, ...]
    """One per command."""
    options: tuple[dict[str, float], ...] = ()
    """Per command, the chance that the player gave each admissible one. Empty: told in hindsight, so not known."""

    @property
    def effective(self) -> tuple[bool, ...]:
        """Per command, whether the game did anything but refuse it."""
        return tuple(reply != NOTHING_HAPPENS for reply in self.replies)


@dataclass(frozen=True, slots=True)
class Habits:
    """How one play moves and grabs. The task has no part in it."""

    grabbing: float = 1.0
    """Factor on the weight of `take`: low, and it passes many things before it takes one."""
    tour: int = 0
    """With empty hands it goes to the next receptacle of the intro's list (1), the one before (-1), or anywhere (0)."""

    @classmethod
    def draw(cls, rng: np.random.Generator, tour_share: float) -> Habits:
        tour = int(rng.choice([-1, 1])) if rng.random() < tour_share else 0
        return cls(grabbing=float(np.exp(rng.uniform(np.log(0.1), np.log(2.0)))), tour=tour)


def random_play(
    game: Game,
    rng: np.random.Generator,
    *,
    max_steps: int = 30,
    invalid_share: float = 0.05,
    habits: Habits = Habits(),
) -> Play:
    """Play `max_steps` random commands, each with chance `invalid_share` one that was admissible elsewhere."""
    engine = Engine(game)
    intro = engine.reset()
    player = _Player(intro, habits)
    commands: list[str] = []
    replies: list[str] = []
    options: list[dict[str, float]] = []
    known: dict[str, None] = {}
    for _ in range(max_steps):
        admissible = engine.admissible()
        known |= dict.fromkeys(admissible)
        chances = player.chances(admissible)
        drawn = int(np.searchsorted(np.cumsum(chances), rng.random(), side="right"))
        command = admissible[min(drawn, len(admissible) - 1)]
        if rng.random() < invalid_share:
            refused = [one for one in known if one not in set(admissible)]
            command = refused[int(rng.integers(len(refused)))] if refused else command
        commands.append(command)
        replies.append(engine.step(command))
        player.did(command, effective=replies[-1] != NOTHING_HAPPENS)
        options.append(dict(zip(admissible, chances.tolist(), strict=True)))
    return Play(intro, tuple(commands), tuple(replies), tuple(options))


def hindsight_play(
    game: Game,
    rng: np.random.Generator,
    *,
    num_plays: int = 8,
    max_steps: int = 30,
    invalid_share: float = 0.05,
    tour_share: float = 0.5,
) -> Play | None:
    """The tidiest of `num_plays` random plays that win something, told as if it had been asked. None: all won nothing.

    What is won is drawn evenly among the kinds of task that the plays won; then the play of that kind is taken that
    carried least about, and among those the one that was quickest once it had seen a thing of the task's type. It is
    run again under its new task, so every text is the game's own.
    """
    found: dict[str, tuple[tuple[int, int], Goal, Play]] = {}
    for _ in range(num_plays):
        habits = Habits.draw(rng, tour_share)
        play = random_play(game, rng, max_steps=max_steps, invalid_share=invalid_share, habits=habits)
        for length, goal in achievements(play):
            carried = sum(command.startswith(("take ", "move ")) for command in play.commands[:length])
            seen = next(i for i, reply in enumerate(play.replies) if f" {goal.object_type} " in reply)
            untidiness = (carried, length - seen)
            best = found.get(goal.task_type)
            if best is None or untidiness < best[0]:
                found[goal.task_type] = (untidiness, goal, play)
    for task_type in rng.permutation(sorted(found)):
        _, goal, play = found[str(task_type)]
        told = _retell(game, goal, play.commands, form=int(rng.integers(2)))
        if told is not None:
            return told
    return None


def achievements(play: Play) -> Iterator[tuple[int, Goal]]:
    """Goals that the replies of a play fulfil, with the number of commands each took. In order of play."""
    held = ""
    states: dict[str, str] = {}
    places: dict[str, str] = {}
    for index, (command, effective) in enumerate(zip(play.commands, play.effective, strict=True), start=1):
        verb, *_ = words = command.split()
        if not effective:
            continue
        if verb == "take":
            held = " ".join(words[1:3])
            places.pop(held, None)
        elif verb in TREATED:
            states[held] = verb
        elif verb == "use" and held:
            yield index, Goal(task_type="look_at_obj_in_light", object_type=_type(held), lamp_type=words[1])
        elif verb == "move":
            place, thing, held = " ".join(words[4:6]), held, ""
            places[thing] = place
            kinds = ["pick_and_place_simple"]
            kinds += [TREATED[states[thing]]] if thing in states else []
            alike = sum(_type(one) == _type(thing) and at == place for one, at in places.items())
            kinds += ["pick_two_obj_and_place"] if alike == 2 else []
            for kind in kinds:
                yield index, Goal(task_type=kind, object_type=_type(thing), receptacle_type=_type(place))


def _retell(game: Game, goal: Goal, commands: Sequence[str], *, form: int) -> Play | None:
    """The play under another task, up to its win. None: the task is won before the first command."""
    engine = Engine(dataclasses.replace(game, goal=goal, task=goal.sentence(form)))
    intro = engine.reset()
    if engine.won:
        return None
    replies: list[str] = []
    for command in commands:
        replies.append(engine.step(command))
        if engine.won:
            break
    return Play(intro, tuple(commands[: len(replies)]), tuple(replies))


class _Player:
    """What a random player remembers: what it has done, where it is, whether it holds something."""

    def __init__(self, intro: str, habits: Habits) -> None:
        self.habits = habits
        self.listed = re.findall(r"[a-z]+ \d+", intro.partition("Your task is to: ")[0])
        self.stale: set[str] = set()
        self.here = ""
        self.holds = False

    def chances(self, admissible: Sequence[str]) -> NDArray[np.float64]:
        """The chance of each admissible command."""
        verbs = [command.partition(" ")[0] for command in admissible]
        counts = Counter(verbs)
        following = self._next_of_tour(admissible)
        weights = np.ones(len(admissible))
        for index, (command, verb) in enumerate(zip(admissible, verbs, strict=True)):
            if command in self.stale:
                weights[index] *= REPEAT_WEIGHT
            if command == following:
                weights[index] *= TOUR_WEIGHT
            if self.holds and verb == "go" and command.split()[2] in APPLIANCES:
                weights[index] *= APPLIANCE_WEIGHT
        # Within `go to` the weights say where, not how often: else the last places of a tour would be left in haste.
        going = np.array([verb == "go" for verb in verbs])
        if going.any():
            weights[going] *= going.sum() / weights[going].sum()
        shares = {verb: VERB_WEIGHTS[verb] / count for verb, count in counts.items()}
        weights *= [shares[verb] * (self.habits.grabbing if verb == "take" else 1.0) for verb in verbs]
        chances: NDArray[np.float64] = weights / weights.sum()
        return chances

    def did(self, command: str, *, effective: bool) -> None:
        self.stale |= {command, _undoing(command)}
        if effective:
            verb, *words = command.split()
            self.here = " ".join(words[1:]) if verb == "go" else self.here
            self.holds = verb == "take" or (self.holds and verb != "move")

    def _next_of_tour(self, admissible: Sequence[str]) -> str:
        """The `go to` of the tour, '' if there is none. Places at the present location are passed over."""
        if not self.habits.tour or self.holds or self.here not in self.listed:
            return ""
        ahead = self.listed[:: self.habits.tour]
        for place in ahead[ahead.index(self.here) + 1 :]:
            if (command := f"go to {place}") in admissible:
                return command
        return ""


def _undoing(command: str) -> str:
    """What takes a `take` or a `move` back; else the command itself.

    Example: ``take cd 1 from desk 1`` -> ``move cd 1 to desk 1``
    """
    words = command.split()
    match words[0]:
        case "take":
            return f"move {words[1]} {words[2]} to {' '.join(words[4:])}"
        case "move":
            return f"take {words[1]} {words[2]} from {' '.join(words[4:])}"
    return command


def _type(name: str) -> str:
    return name.split(" ")[0]
