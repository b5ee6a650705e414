"""Reading a game from the folder of an ALFWorld release.

In: a folder with `initial_state.pddl`, `traj_data.json` and `game.tw-pddl`; the problem alone is enough to play,
since `traj_data.json` only confirms the goal and `game.tw-pddl` only brings the task sentence. Out: a `Game`.
Nothing is guessed: a file that says something unknown is refused with its name and what was expected.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tutelage.envs.household.game import LIGHT_TASK, TASK_TYPES, Game, Goal, HouseholdObject, Receptacle
from tutelage.envs.household.pddl import Expression, parse_pddl, read_goal
from tutelage.errors import FormatError

PROBLEM_FILE: Final = "initial_state.pddl"
TRAJECTORY_FILE: Final = "traj_data.json"
GAME_FILE: Final = "game.tw-pddl"
TASK_MARK: Final = "Your task is to: "

logger = logging.getLogger(__name__)

PROPERTIES: Final = {
    "pickupable": "pickupable",
    "cleanable": "cleanable",
    "heatable": "heatable",
    "coolable": "coolable",
    "sliceable": "sliceable",
    "toggleable": "toggleable",
    "isreceptacleobject": "is_receptacle_object",
}
"""Predicate -> field of `HouseholdObject`."""

STATE_PREDICATES: Final = {
    "opened": "opened",
    "ishot": "hot",
    "iscool": "cool",
    "isclean": "clean",
    "issliced": "sliced",
    "istoggled": "toggled",
}
"""Predicate -> state in `Game.initial_states`."""

NUM_ARGUMENTS: Final = {
    "atlocation": 2,
    "receptacletype": 2,
    "receptacleatlocation": 2,
    "openable": 1,
    "objecttype": 2,
    "objectatlocation": 2,
    "inreceptacle": 2,
    "inreceptacleobject": 2,
    "cancontain": 2,
    **dict.fromkeys(PROPERTIES, 1),
    **dict.fromkeys(STATE_PREDICATES, 1),
}
"""Every fact that an initial state may hold, with its number of arguments."""


@dataclass(frozen=True, slots=True)
class GameScan:
    """What a folder of games holds."""

    folders: tuple[Path, ...]
    """Game folders that can be played, sorted."""
    skipped: tuple[tuple[Path, str], ...]
    """Game folders left out as the original leaves them out, each with the reason."""


def scan_games(root: Path) -> GameScan:
    """Find the game folders under `root` and sort out those that the original does not play either.

    Left out: a folder with `movable` or `Sliced` in its path below root, one without `traj_data.json` or without
    `game.tw-pddl`, and one whose `game.tw-pddl` does not say that it is solvable.
    """
    if not root.is_dir():
        raise FormatError(f"{root}: no such folder. Pass the folder that holds split/task/trial folders of games.")
    folders: list[Path] = []
    skipped: list[tuple[Path, str]] = []
    found = {path.parent for name in (TRAJECTORY_FILE, GAME_FILE) for path in root.rglob(name)}
    for folder in sorted(found):
        reason = _skip_reason(folder, root)
        if reason is None:
            folders.append(folder)
        else:
            skipped.append((folder, reason))
    if not found:
        raise FormatError(
            f"{root}: no game found below it, expected folders with {TRAJECTORY_FILE} and {GAME_FILE}.\n"
            "  Pass the folder that holds split/task/trial folders of games."
        )
    return GameScan(tuple(folders), tuple(skipped))


def find_games(root: Path) -> list[Path]:
    """The playable game folders under `root`, sorted. Skipped ones are counted in the log; see `scan_games`."""
    scan = scan_games(root)
    if scan.skipped:
        reasons = ", ".join(f"{n} {why}" for why, n in sorted(Counter(why for _, why in scan.skipped).items()))
        logger.warning("%s: %d games found, %d skipped (%s)", root, len(scan.folders), len(scan.skipped), reasons)
    return list(scan.folders)


def _skip_reason(folder: Path, root: Path) -> str | None:
    below = folder.relative_to(root).as_posix()
    for word in ("movable", "Sliced"):
        if word in below:
            return f"with {word!r} in the path"
    for name in (TRAJECTORY_FILE, GAME_FILE):
        if not (folder / name).is_file():
            return f"without {name}"
    solvable = _read_json(folder / GAME_FILE).get("solvable")
    if solvable is None:
        return f"without 'solvable' in {GAME_FILE}"
    return None if solvable else "not solvable"


def read_game(folder: Path, task: str | None = None, *, game_id: str | None = None) -> Game:
    """Read one game folder.

    task: the sentence to show, without full stop. None takes the one in `game.tw-pddl`, or if that file is absent
    the first sentence form of the goal.
    game_id: None takes the last two folder names, `task/trial`.
    """
    text, source, packed = _read_problem(folder)
    sections = parse_pddl(text, source=str(source))
    goal = read_goal(sections[":goal"], source=str(source))
    if (folder / TRAJECTORY_FILE).is_file():
        _confirm_goal(goal, folder / TRAJECTORY_FILE)
    if task is None:
        task = _task_sentence(packed, folder / GAME_FILE) if "grammar" in packed else goal.sentence()
    if game_id is None:
        game_id = "/".join(folder.absolute().parts[-2:])
    try:
        return _build_game(sections[":init"], goal, task=task, game_id=game_id)
    except FormatError as error:
        raise FormatError(f"{source}: {error}") from None


def problem_of(folder: Path) -> str:
    """The problem of a game folder as it stands in its file, which is what the original engine is given."""
    return _read_problem(folder)[0]


def _read_problem(folder: Path) -> tuple[str, Path, dict[str, Any]]:
    """Text of the problem, the file it stands in, and what `game.tw-pddl` holds (empty where there is none)."""
    if not folder.is_dir():
        raise FormatError(f"{folder}: no such folder, expected a game folder with {PROBLEM_FILE}.")
    packed = _read_json(folder / GAME_FILE) if (folder / GAME_FILE).is_file() else {}
    problem = folder / PROBLEM_FILE
    if problem.is_file():
        return _read_text(problem), problem, packed
    if isinstance(packed.get("pddl_problem"), str):
        return packed["pddl_problem"], folder / GAME_FILE, packed
    raise FormatError(
        f"{folder}: neither {PROBLEM_FILE} nor a {GAME_FILE} with 'pddl_problem' is there.\n"
        f"  It holds: {', '.join(sorted(p.name for p in folder.iterdir())) or 'nothing'}. Pass a game folder."
    )


def _build_game(init: list[Expression], goal: Goal, *, task: str, game_id: str) -> Game:
    facts: dict[str, list[tuple[str, ...]]] = {name: [] for name in NUM_ARGUMENTS}
    for fact in init:
        if not isinstance(fact, list) or not fact or not all(isinstance(word, str) for word in fact):
            raise FormatError(f"{fact!r} in :init, expected a fact such as (objectType o MugType).")
        name, *arguments = (str(word) for word in fact)
        if name not in NUM_ARGUMENTS:
            raise FormatError(f"unknown fact {name!r} in :init. Known: {', '.join(sorted(NUM_ARGUMENTS))}.")
        if len(arguments) != NUM_ARGUMENTS[name]:
            raise FormatError(
                f"({' '.join([name, *arguments])}) has {len(arguments)} arguments, expected {NUM_ARGUMENTS[name]}."
            )
        facts[name].append(tuple(arguments))

    starts = {location for _agent, location in facts["atlocation"]}
    if len(starts) != 1:
        raise FormatError(f"{len(starts)} start locations (atLocation) in :init, expected 1.")
    receptacle_types = _one_each(facts["receptacletype"], "receptacleType")
    receptacle_locations = _one_each(facts["receptacleatlocation"], "receptacleAtLocation")
    object_types = _one_each(facts["objecttype"], "objectType")
    for receptacle_id in sorted(receptacle_types.keys() ^ receptacle_locations.keys()):
        missing = "receptacleType" if receptacle_id in receptacle_locations else "receptacleAtLocation"
        raise FormatError(f"receptacle {receptacle_id} has no {missing} in :init, expected one.")
    openable = {receptacle_id for (receptacle_id,) in facts["openable"]}
    properties = {field: {object_id for (object_id,) in facts[predicate]} for predicate, field in PROPERTIES.items()}
    for name, ids, known in (
        ("openable", openable, receptacle_types),
        *((field, ids, object_types) for field, ids in properties.items()),
    ):
        if unknown := ids - known.keys():
            raise FormatError(f"{name} of {min(unknown)}, which has no type in :init.")
    inner: dict[str, set[str]] = {}
    for inner_id, outer_id in facts["inreceptacleobject"]:
        inner.setdefault(outer_id, set()).add(inner_id)

    return Game(
        game_id=game_id,
        task=task,
        goal=goal,
        start_location=starts.pop(),
        receptacles=tuple(
            Receptacle(
                id=receptacle_id,
                type=_plain_type(kind),
                location=receptacle_locations[receptacle_id],
                openable=receptacle_id in openable,
            )
            for receptacle_id, kind in sorted(receptacle_types.items())
        ),
        objects=tuple(
            HouseholdObject(
                id=object_id,
                type=_plain_type(kind),
                inner=tuple(sorted(inner.get(object_id, ()))),
                **{field: object_id in ids for field, ids in properties.items()},
            )
            for object_id, kind in sorted(object_types.items())
        ),
        in_receptacle=tuple(sorted({(o, r) for o, r in facts["inreceptacle"]})),
        object_locations=tuple(sorted({(o, at) for o, at in facts["objectatlocation"]})),
        initial_states=tuple(
            sorted({(state, thing) for name, state in STATE_PREDICATES.items() for (thing,) in facts[name]})
        ),
        can_contain=frozenset((_plain_type(r), _plain_type(o)) for r, o in facts["cancontain"]),
    )


def _one_each(pairs: list[tuple[str, ...]], predicate: str) -> dict[str, str]:
    values: dict[str, str] = {}
    for thing, value in pairs:
        if values.setdefault(thing, value) != value:
            raise FormatError(f"{thing} has two facts {predicate}, {values[thing]} and {value}, expected one.")
    return values


def _plain_type(name: str) -> str:
    """`countertoptype` -> `countertop`."""
    return name.removesuffix("type")


def _confirm_goal(goal: Goal, path: Path) -> None:
    data = _read_json(path)
    task_type = data.get("task_type")
    if task_type not in TASK_TYPES:
        raise FormatError(f"{path}: task_type is {task_type!r}, expected one of {', '.join(TASK_TYPES)}.")
    parameters = data.get("pddl_params")
    if not isinstance(parameters, dict):
        raise FormatError(f"{path}: pddl_params is {parameters!r}, expected an object with 'object_target'.")
    second = "toggle_target" if task_type == LIGHT_TASK else "parent_target"
    told = (task_type, *(str(parameters.get(key, "")).lower() for key in ("object_target", second)))
    read = (goal.task_type, goal.object_type, goal.lamp_type or goal.receptacle_type)
    if told != read:
        raise FormatError(
            f"{path}: tells of the goal {told}, but the goal in the problem is {read}.\n"
            "  The files of this folder do not belong together; copy the folder again from its release."
        )


def _task_sentence(packed: dict[str, Any], path: Path) -> str:
    grammar = str(packed["grammar"])
    _before, found, rest = grammar.partition(TASK_MARK)
    if not found:
        raise FormatError(f"{path}: no {TASK_MARK!r} in the grammar. Pass the sentence as `task`.")
    return rest.split('"', 1)[0].split("\n", 1)[0].strip().removesuffix(".")


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(f"{path}: byte {error.start} is no UTF-8 text. Copy the file again.") from None


def _read_json(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(_read_text(path))
    except json.JSONDecodeError as error:
        raise FormatError(
            f"{path}: broken JSON at line {error.lineno}, column {error.colno} ({error.msg}).\n"
            "  The file is truncated or damaged; copy it again from its release."
        ) from None
    if not isinstance(data, dict):
        raise FormatError(f"{path}: a JSON {type(data).__name__}, expected an object.")
    return data
