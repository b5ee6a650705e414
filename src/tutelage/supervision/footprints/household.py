"""Footprints of household episodes from their texts alone, ours and those of ALFWorld.

In: a stored trajectory. Out: keys read and written per step. The command says what a step reads; it writes only what
the reply confirms. Both verb forms are read (`move X to Y`, `put X in/on Y`).

  location:R           the agent went to R. A receptacle that merely shares the spot is not entered.
  visible_at:R         what is in R was shown, or changed by the agent
  container_state:R    R was shown to be open or closed, or was opened or closed
  holding:X            X came into the hand, or left it
  placed:X@R           X was put into R
  object_state:X:S     X became S: hot, cold, clean, sliced, on

Example:
  go to fridge 1 -> The fridge 1 is closed.    reads -                            writes location, container_state
  open fridge 1                                reads location, container_state    writes container_state, visible_at
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from tutelage.envs.household.rooms import CAN_CONTAIN, OPENABLE
from tutelage.types import Effect, Footprint, Trajectory

MADE: Final = {"heat": "hot", "cool": "cold", "clean": "clean"}
"""Verb -> what it makes of an object."""

_PUT: Final = re.compile(r"(.+?) (?:in/on|in|on|to) (.+)")
_LISTED: Final = re.compile(r"\ba ([^\s,]+ \d+)")
_BETWEEN: Final = {"take": " from ", "move": " to ", **dict.fromkeys((*MADE, "slice"), " with ")}
"""Verb with two names -> what stands between them."""


class Command(NamedTuple):
    """A command taken apart. Example: ``take egg 1 from fridge 1`` is (take, egg 1, fridge 1)."""

    verb: str
    """`go`, `open`, ..., or empty for what is no command of the game. `put` counts as `move`."""
    first: str = ""
    second: str = ""


def parse_command(text: str) -> Command:
    """Read a command of the household game, in any case and spacing. The names come out in lower case."""
    text = plain(text)
    verb, _, rest = text.partition(" ")
    if text.startswith("go to ") and rest[3:]:
        return Command("go", rest[3:])
    if text in ("look", "inventory", "help"):
        return Command(text)
    if verb in ("open", "close", "examine", "use") and rest:
        return Command(verb, rest)
    if verb == "put":
        match = _PUT.fullmatch(rest)
        return Command("move", match[1], match[2]) if match else Command("")
    first, _, second = rest.partition(_BETWEEN.get(verb, " "))
    return Command(verb, first, second) if verb in _BETWEEN and first and second else Command("")


def plain(text: str) -> str:
    """Lower case, with single spaces."""
    return " ".join(text.lower().split())


def type_has_door(receptacle: str) -> bool:
    """Whether receptacles of that name mostly have a door or are drawers."""
    return receptacle.rpartition(" ")[0] in OPENABLE


class Keys(NamedTuple):
    """What a command reads, and what it writes if the reply confirms it."""

    reads: Iterable[str] = ()
    writes: Iterable[str] = ()
    confirmed: bool = False


def household_footprints(trajectory: Trajectory) -> tuple[Footprint, ...]:
    """One footprint per step of a household or ALFWorld trajectory. No text makes it raise.

    The effect is `CHANGED` if something was written (also if it was only shown), `READ_ONLY` if the reply confirms a
    command that writes nothing, `NO_EFFECT` if it confirms nothing (`Nothing happens.`), `MALFORMED` without a command.
    The reply to the last step is the final observation; a missing one confirms nothing.
    """
    steps, final = trajectory.steps, trajectory.final_observation
    replies = [step.observation.text for step in steps[1:]] + [final.text if final else ""]
    texts = _Texts(steps[0].observation.text if steps else "")
    footprints = []
    for index, (step, reply) in enumerate(zip(steps, replies, strict=False)):
        if step.action.command is None:
            keys, effect = Keys(), Effect.MALFORMED
        else:
            keys = texts.step(parse_command(step.action.command), plain(reply))
            effect = Effect.READ_ONLY if keys.confirmed else Effect.NO_EFFECT
        writes = frozenset(keys.writes) if keys.confirmed else frozenset()
        texts.known |= writes
        footprints.append(
            Footprint(
                trajectory_id=trajectory.trajectory_id,
                step_index=index,
                reads=frozenset(keys.reads),
                writes=writes,
                effect=Effect.CHANGED if writes else effect,
            )
        )
    return tuple(footprints)


class _Texts:
    """What the texts so far have told, as far as later rows of the table ask for it."""

    def __init__(self, intro: str) -> None:
        self.known: set[str] = set()
        """Keys that some earlier step wrote."""
        self.current: str | None = None
        """The receptacle that the agent last went to."""
        self.held: str | None = None
        self.states: dict[str, set[str]] = {}
        """Object -> the known keys of its state."""
        self.surfaces: set[str] = set()
        """Receptacles shown to have no door."""
        self.receptacles = set(_LISTED.findall(plain(intro)))

    def step(self, command: Command, reply: str) -> Keys:
        """One row of the table; both are in lower case."""
        row = _ROWS.get(command.verb)
        return row(self, command, reply) if row else Keys()

    # Parts of rows

    def _if_known(self, *keys: str) -> list[str]:
        return [key for key in keys if key in self.known]

    def _here(self) -> list[str]:
        return [] if self.current is None else [f"location:{self.current}"]

    def _in_hand(self) -> list[str]:
        return [] if self.held is None else [f"holding:{self.held}"]

    def _contents_shown(self, name: str, reply: str) -> bool:
        if f"on the {name}, you see " in reply:
            self.surfaces.add(name)
            return True
        return f"the {name} is open. in it, you see " in reply

    # Rows

    def _go(self, command: Command, reply: str) -> Keys:
        name = command.first
        reads = [*self._here(), *self._if_known(f"visible_at:{name}", f"container_state:{name}")]
        shown = self._contents_shown(name, reply)
        door = f"the {name} is closed" in reply or f"the {name} is open" in reply
        # Some interfaces to ALFWorld cut off `You arrive at loc 3.`
        if not (reply.startswith("you arrive at ") or shown or door):
            return Keys(reads)
        self.current = name
        writes = [f"location:{name}"]
        if shown:
            writes.append(f"visible_at:{name}")
        if door:
            writes.append(f"container_state:{name}")
        return Keys(reads, writes, confirmed=True)

    def _look(self, _command: Command, reply: str) -> Keys:
        confirmed = reply.startswith(("you are facing ", "you are in the middle of a room"))
        if self.current is None:
            return Keys(confirmed=confirmed)
        visible = f"visible_at:{self.current}"
        return Keys([*self._here(), *self._if_known(visible)], [visible], confirmed)

    def _examine(self, command: Command, reply: str) -> Keys:
        name = command.first
        is_receptacle = name in self.receptacles or name.rpartition(" ")[0] in CAN_CONTAIN
        if is_receptacle:
            visible = f"visible_at:{name}"
            shown = self._contents_shown(name, reply)
            confirmed = shown or reply.startswith(f"the {name} is closed")
            return Keys([*self._here(), *self._if_known(visible)], [visible] if shown else [], confirmed)
        confirmed = reply.startswith(("this is a ", f"this {name} is ", "there's nothing special about "))
        return Keys([*self._in_hand(), *self.states.get(name, ())], (), confirmed)

    def _door(self, command: Command, reply: str) -> Keys:
        verb, name, _ = command
        door, visible = f"container_state:{name}", f"visible_at:{name}"
        return Keys(
            [f"location:{name}", door, *self._if_known(visible)],
            [door, visible] if verb == "open" else [door],
            confirmed=reply.startswith(f"you {verb} the {name}."),
        )

    def _take(self, command: Command, reply: str) -> Keys:
        _, thing, name = command
        door, visible = f"container_state:{name}", f"visible_at:{name}"
        reads = [f"location:{name}", visible]
        if door in self.known or (type_has_door(name) and name not in self.surfaces):
            reads.append(door)
        confirmed = reply.startswith(f"you pick up the {thing} from the {name}.")
        if confirmed:
            self.held = thing
        return Keys(reads, [f"holding:{thing}", visible], confirmed)

    def _move(self, command: Command, reply: str) -> Keys:
        _, thing, name = command
        confirmed = reply.startswith((f"you move the {thing} to the {name}.", f"you put the {thing} in/on the {name}."))
        reads = [f"holding:{thing}", f"location:{name}", *self._if_known(f"container_state:{name}")]
        if confirmed:
            self.held = None
        return Keys(
            [*reads, *self.states.get(thing, ())],
            [f"placed:{thing}@{name}", f"holding:{thing}", f"visible_at:{name}"],
            confirmed,
        )

    def _treat(self, command: Command, reply: str) -> Keys:
        verb, thing, name = command
        reads = [f"holding:{thing}", f"location:{name}", *self._if_known(f"container_state:{name}")]
        return self._new_state(thing, MADE[verb], reads, reply.startswith(f"you {verb} the {thing} using the {name}."))

    def _use(self, command: Command, reply: str) -> Keys:
        lamp = command.first
        confirmed = reply.startswith(f"you turn on the {lamp}.")
        return self._new_state(lamp, "on", [*self._here(), *self._in_hand()], confirmed)

    def _slice(self, command: Command, reply: str) -> Keys:
        _, thing, knife = command
        reads = [f"holding:{knife}", *self._here()]
        if self.current is not None:
            reads += self._if_known(f"visible_at:{self.current}")
        confirmed = reply.startswith((f"you sliced the {thing} with ", f"you slice the {thing} with "))
        return self._new_state(thing, "sliced", reads, confirmed)

    def _new_state(self, thing: str, state: str, reads: list[str], confirmed: bool) -> Keys:
        key = f"object_state:{thing}:{state}"
        if confirmed:
            self.states.setdefault(thing, set()).add(key)
        return Keys(reads, [key], confirmed)

    def _inventory(self, _command: Command, reply: str) -> Keys:
        return Keys(self._in_hand(), (), reply.startswith(("you are carrying", "you are not carrying")))

    def _help(self, _command: Command, reply: str) -> Keys:
        return Keys((), (), reply.startswith("available commands"))


_ROWS: Final[dict[str, Callable[[_Texts, Command, str], Keys]]] = {
    "go": _Texts._go,
    "look": _Texts._look,
    "examine": _Texts._examine,
    "open": _Texts._door,
    "close": _Texts._door,
    "take": _Texts._take,
    "move": _Texts._move,
    **dict.fromkeys(MADE, _Texts._treat),
    "use": _Texts._use,
    "slice": _Texts._slice,
    "inventory": _Texts._inventory,
    "help": _Texts._help,
}
"""Verb -> its row of the table."""
