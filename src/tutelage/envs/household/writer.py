"""Writing a household game as a folder of the released form, which `reader.read_game` and the original engine load.

In: a `Game`, generated or read. Out: `initial_state.pddl` (the problem), `traj_data.json` (task and goal in short) and
`game.tw-pddl` (the problem packed with a rule domain and a text grammar). Domain and grammar belong to the alfworld
package; whoever has it passes their text, and the original engine then plays the folder as it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from tutelage.envs.household.game import LIGHT_TASK, Game, Goal
from tutelage.envs.household.reader import (
    GAME_FILE,
    PROBLEM_FILE,
    PROPERTIES,
    STATE_PREDICATES,
    TASK_MARK,
    TRAJECTORY_FILE,
)

UNKNOWN_GOAL: Final = "UNKNOWN GOAL"
"""What stands in alfworld's grammar where the task sentence goes."""

NAMED_BY_RULES: Final = {
    "rtype": ("sinkbasin", "microwave", "fridge"),
    "otype": ("knife", "butterknife"),
}
"""Types that alfworld's rules name, so that every problem has to declare them, present or not."""

AGENT: Final = "agent1"

_TREATED: Final = {
    "pick_clean_then_place_in_recep": ("cleanable", "isclean"),
    "pick_heat_then_place_in_recep": ("heatable", "ishot"),
    "pick_cool_then_place_in_recep": ("coolable", "iscool"),
}


def write_game(game: Game, folder: Path, domain: str | None = None, grammar: str | None = None) -> None:
    """Write the three files of a game into `folder`, which is made if need be.

    domain: text of alfworld's rule file. None leaves it empty; our reader does not need it, the original engine does.
    grammar: text of alfworld's grammar; its `UNKNOWN GOAL` becomes the task sentence. None writes the sentence alone.
    """
    folder.mkdir(parents=True, exist_ok=True)
    problem = problem_text(game)
    if grammar is None:
        grammar = 'grammar :: """{"task": [{"rhs": "' + TASK_MARK + UNKNOWN_GOAL + '."}]}""";\n'
    packed = {
        "pddl_domain": domain or "",
        "grammar": grammar.replace(UNKNOWN_GOAL, game.task),
        "pddl_problem": problem,
        "solvable": True,
    }
    (folder / PROBLEM_FILE).write_text(problem, encoding="utf-8")
    (folder / TRAJECTORY_FILE).write_text(json.dumps(_trajectory_data(game), indent=1) + "\n", encoding="utf-8")
    (folder / GAME_FILE).write_text(json.dumps(packed) + "\n", encoding="utf-8")


def problem_text(game: Game) -> str:
    """The game as a PDDL problem. Facts are sorted, so equal games give equal text."""
    name = "".join(c if c.isalnum() else "_" for c in game.game_id)
    declared = [f"{thing} - {kind}" for kind, things in _declared(game) for thing in things]
    facts = [f"({' '.join(fact)})" for fact in sorted(_facts(game))]
    return (
        f"(define (problem {name})\n"
        "(:domain alfred)\n"
        "(:objects\n" + _indented(declared) + ")\n"
        "(:init\n" + _indented(facts) + ")\n"
        f"(:goal {_goal_text(game.goal)})\n"
        ")\n"
    )


def _indented(lines: Iterable[str]) -> str:
    return "".join(f"    {line}\n" for line in lines)


def _declared(game: Game) -> Iterator[tuple[str, list[str]]]:
    receptacle_types = {r.type for r in game.receptacles} | {r for r, _ in game.can_contain}
    object_types = {o.type for o in game.objects} | {o for _, o in game.can_contain} | {game.goal.object_type}
    receptacle_types.update(NAMED_BY_RULES["rtype"], filter(None, [game.goal.receptacle_type]))
    object_types.update(NAMED_BY_RULES["otype"], filter(None, [game.goal.lamp_type]))
    locations = {game.start_location, *(r.location for r in game.receptacles), *(at for _, at in game.object_locations)}
    yield "agent", [AGENT]
    yield "otype", [f"{kind}type" for kind in sorted(object_types)]
    yield "rtype", [f"{kind}type" for kind in sorted(receptacle_types)]
    yield "object", [o.id for o in game.objects]
    yield "receptacle", [r.id for r in game.receptacles]
    yield "location", sorted(locations)


def _facts(game: Game) -> Iterator[tuple[str, ...]]:
    yield "atlocation", AGENT, game.start_location
    for receptacle in game.receptacles:
        yield "receptacletype", receptacle.id, f"{receptacle.type}type"
        yield "receptacleatlocation", receptacle.id, receptacle.location
        if receptacle.openable:
            yield "openable", receptacle.id
    for thing in game.objects:
        yield "objecttype", thing.id, f"{thing.type}type"
        for predicate, field in PROPERTIES.items():
            if getattr(thing, field):
                yield predicate, thing.id
        for inner_id in thing.inner:
            yield "inreceptacleobject", inner_id, thing.id
    for object_id, receptacle_id in game.in_receptacle:
        yield "inreceptacle", object_id, receptacle_id
    for object_id, location in game.object_locations:
        yield "objectatlocation", object_id, location
    predicate_of = {state: predicate for predicate, state in STATE_PREDICATES.items()}
    for state, thing_id in game.initial_states:
        yield predicate_of[state], thing_id
    for receptacle_type, object_type in game.can_contain:
        yield "cancontain", f"{receptacle_type}type", f"{object_type}type"


def _goal_text(goal: Goal) -> str:
    if goal.task_type == LIGHT_TASK:
        return (
            "(and (exists (?t - object ?r - receptacle ?a - agent ?l - location) "
            f"(and (objecttype ?t {goal.lamp_type}type) (toggleable ?t) (istoggled ?t) (receptacleatlocation ?r ?l) "
            "(atlocation ?a ?l) (inreceptacle ?t ?r))) "
            f"(exists (?o - object ?a - agent) (and (objecttype ?o {goal.object_type}type) (holds ?a ?o))))"
        )
    object_type, receptacle_type = f"{goal.object_type}type", f"{goal.receptacle_type}type"
    conditions = _placed("?o", object_type, receptacle_type)
    if goal.task_type in _TREATED:
        able, state = _TREATED[goal.task_type]
        conditions += f" ({able} ?o) ({state} ?o)"
    if goal.task_type == "pick_two_obj_and_place":
        other = _placed("?p", object_type, receptacle_type)
        conditions += f" (exists (?p - object) (and (not (= ?o ?p)) {other}))"
    return f"(and (exists (?r - receptacle) (exists (?o - object) (and {conditions}))))"


def _placed(variable: str, object_type: str, receptacle_type: str) -> str:
    return f"(objecttype {variable} {object_type}) (receptacletype ?r {receptacle_type}) (inreceptacle {variable} ?r)"


def _trajectory_data(game: Game) -> dict[str, Any]:
    goal = game.goal
    return {
        "task_id": game.game_id,
        "task_type": goal.task_type,
        "pddl_params": {
            "mrecep_target": "",
            "object_sliced": False,
            "object_target": goal.object_type,
            "parent_target": goal.receptacle_type or "",
            "toggle_target": goal.lamp_type or "",
        },
        "turk_annotations": {"anns": [{"task_desc": game.task}]},
        "scene": {"floor_plan": "generated"},
        "plan": {"high_pddl": []},
    }
