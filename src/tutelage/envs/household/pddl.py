"""The small part of PDDL that game files use: one problem with objects, facts and a goal.

In: the text of a problem. Out: its sections as nested lists of lower-case words, and the goal as a `Goal`.
"""

from __future__ import annotations

import re
from itertools import permutations
from typing import Any, Final

from tutelage.envs.household.game import Goal
from tutelage.errors import FormatError

Expression = Any
"""A lower-case word, or a list of expressions. Any, since the type is recursive."""

TOKEN: Final = re.compile(r"[()]|[^\s()]+")
COMMENT: Final = re.compile(r";[^\n]*")


def parse_pddl(text: str, *, source: str) -> dict[str, list[Expression]]:
    """Section name -> what follows it: `{":init": [["openable", "drawer_bar_1"], ...], ":goal": [[...]], ...}`."""
    tokens = TOKEN.findall(COMMENT.sub("", text).lower())
    stack: list[list[Expression]] = [[]]
    for token in tokens:
        if token == "(":
            stack.append([])
        elif token == ")":
            if len(stack) == 1:
                raise FormatError(f"{source}: a closing bracket too many. The file is damaged; copy it again.")
            inner = stack.pop()
            stack[-1].append(inner)
        else:
            stack[-1].append(token)
    if len(stack) > 1:
        raise FormatError(
            f"{source}: the file ends inside {len(stack) - 1} open brackets, after {' '.join(tokens[-4:])!r}.\n"
            "  It is truncated; copy it again from its release."
        )
    top = stack[0]
    if len(top) != 1 or not isinstance(top[0], list) or top[0][:1] != ["define"]:
        came = f"{len(tokens)} words starting with {' '.join(tokens[:4])!r}" if tokens else "an empty file"
        raise FormatError(f"{source}: {came}, expected one (define (problem ...) ...).")
    sections = {part[0]: part[1:] for part in top[0][1:] if isinstance(part, list) and part}
    for name in (":init", ":goal"):
        if name not in sections:
            raise FormatError(f"{source}: no {name} section; it has {', '.join(map(str, sections))}.")
    return sections


Atom = tuple[str, ...]

_PLACED: Final = (("inreceptacle", "o", "r"), ("objecttype", "o", "O"), ("receptacletype", "r", "R"))

GOAL_SHAPES: Final[dict[str, frozenset[Atom]]] = {
    "pick_and_place_simple": frozenset(_PLACED),
    "pick_clean_then_place_in_recep": frozenset({*_PLACED, ("cleanable", "o"), ("isclean", "o")}),
    "pick_heat_then_place_in_recep": frozenset({*_PLACED, ("heatable", "o"), ("ishot", "o")}),
    "pick_cool_then_place_in_recep": frozenset({*_PLACED, ("coolable", "o"), ("iscool", "o")}),
    "pick_two_obj_and_place": frozenset(
        {*_PLACED, ("not =", "o", "p"), ("objecttype", "p", "O"), ("inreceptacle", "p", "r")}
    ),
    "look_at_obj_in_light": frozenset(
        {
            ("objecttype", "p", "T"), ("toggleable", "p"), ("istoggled", "p"), ("inreceptacle", "p", "r"),
            ("receptacleatlocation", "r", "l"), ("atlocation", "a", "l"), ("objecttype", "o", "O"), ("holds", "a", "o"),
        }
    ),
}  # fmt: skip
"""Task type -> the conditions of its goal. Small letters stand for variables (o, p objects; r receptacle;
l location; a agent), capitals for types (O object, R receptacle, T lamp)."""

ROLES: Final = {"receptacle": "r", "location": "l", "agent": "a"}
MAX_GOAL_OBJECTS: Final = 2


def read_goal(section: list[Expression], *, source: str) -> Goal:
    """Recognise one of the six kinds of goal by its conditions, and take the types from it."""
    atoms: list[Atom] = []
    object_variables: list[str] = []
    for expression in section:
        _collect(expression, {}, atoms, object_variables, source)
    if len(object_variables) <= MAX_GOAL_OBJECTS:
        for names in permutations(("o", "p"), len(object_variables)):
            renamed = dict(zip(object_variables, names, strict=True))
            shaped = [(atom[0], *(renamed.get(word, word) for word in atom[1:])) for atom in atoms]
            for task_type, shape in GOAL_SHAPES.items():
                types = _types_if_equal(shaped, shape)
                if types is not None:
                    return Goal(
                        task_type=task_type,
                        object_type=types["O"],
                        receptacle_type=types.get("R"),
                        lamp_type=types.get("T"),
                    )
    raise FormatError(
        f"{source}: the goal is none of the six known kinds ({', '.join(GOAL_SHAPES)}). It reads {_show(section)}."
    )


def _collect(
    expression: Expression, scope: dict[str, str], atoms: list[Atom], object_variables: list[str], source: str
) -> None:
    """Flatten and / exists into atoms. Object variables get names of their own, the others their role."""
    match expression:
        case ["and", *parts]:
            for part in parts:
                _collect(part, scope, atoms, object_variables, source)
        case ["exists", list(declared), body]:
            inner = dict(scope)
            pending: list[str] = []
            words = iter(declared)
            for word in words:
                if word != "-":
                    pending.append(word)
                    continue
                kind = next(words, "")
                for variable in pending:
                    if kind == "object":
                        inner[variable] = f"object {len(object_variables)}"
                        object_variables.append(inner[variable])
                    else:
                        inner[variable] = ROLES.get(kind, f"unknown kind {kind}")
                pending = []
            _collect(body, inner, atoms, object_variables, source)
        case ["not", ["=", left, right]]:
            atoms.append(("not =", *sorted(scope.get(word, word) for word in (left, right))))
        case [str(name), *arguments] if all(isinstance(word, str) for word in arguments):
            atoms.append((name, *(scope.get(word, word) for word in arguments)))
        case _:
            raise FormatError(f"{source}: the goal has {_show(expression)}, expected and, exists or a plain fact.")


def _types_if_equal(atoms: list[Atom], shape: frozenset[Atom]) -> dict[str, str] | None:
    """The types named by `atoms` if they are exactly the conditions of `shape`, each type the same throughout."""
    wanted = {atom[:2]: atom[2] for atom in shape if atom[0] in ("objecttype", "receptacletype")}
    types: dict[str, str] = {}
    seen: set[Atom] = set()
    for atom in atoms:
        letter = wanted.get(atom[:2])
        if letter is not None:
            name = atom[2].removesuffix("type")
            if types.setdefault(letter, name) != name:
                return None
            atom = (*atom[:2], letter)
        elif atom[0] == "not =":
            atom = ("not =", *sorted(atom[1:]))
        seen.add(atom)
    return types if seen == shape else None


def _show(expression: Expression) -> str:
    if isinstance(expression, list):
        return "(" + " ".join(_show(part) for part in expression) + ")"
    return str(expression)
