"""Footprints of the python environment, from stored text alone: the code as Python reads it, and what it printed.

  symbol:X             a name of the module, bound by the code or used before it binds it
  import:M             a module imported; used through the name that the import bound
  call:F               a function called, ``math.sqrt`` as ``math.sqrt``
  result:V             a line printed, and each number in it
  answer_candidate:V   the answer

Code reads names, imports, and earlier results that stand in it as literals; it writes what it binds, imports, calls and
prints. A read that an earlier write of the same step satisfies is none. A failed run writes its calls alone, and names
inside functions, comprehensions and classes are nobody else's. An answer reads the results and symbols it equals.

Example (names persist):
  x = 6*7; print(x) -> 42     reads -          writes symbol:x, call:print, result:42
  print(x+1) -> 43            reads symbol:x   writes call:print, result:43
  answer 43                   reads result:43  writes answer_candidate:43
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from tutelage.envs.python.env import NO_OUTPUT, UNREADABLE
from tutelage.types import Effect, Footprint, Trajectory

LONGEST_VALUE: Final = 80
"""Characters of a printed line or an answer that become a key; longer ones are no value that anybody takes up."""

MOST_RESULTS: Final = 200
"""Results of one run that become keys."""

_COMMAND: Final = re.compile(r"<(python|answer)>(.*)</\1>", re.DOTALL)
_NUMBER: Final = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?![\w.]*\w)")
_ERROR: Final = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Iteration|Warning)(?::.*)?")


@dataclass(slots=True)
class Uses:
    """What a piece of code uses."""

    names: set[str] = field(default_factory=set)
    """Names read before the code itself binds them."""
    writes: set[str] = field(default_factory=set)
    """Keys of what it binds and imports."""
    calls: set[str] = field(default_factory=set)
    """Keys of what it calls."""
    literals: set[str] = field(default_factory=set)
    """Values as `result_keys` writes them."""


def python_footprints(trajectory: Trajectory) -> tuple[Footprint, ...]:
    """One footprint per step. No text makes it raise.

    The effect is `CHANGED` if something was written, `NO_EFFECT` for code that cannot be read or failed without a call,
    `READ_ONLY` for code that wrote nothing, `MALFORMED` without a command. The reply to the last step is the final
    observation; a missing one confirms nothing.
    """
    steps, final = trajectory.steps, trajectory.final_observation
    replies = [*(step.observation.text for step in steps[1:]), final.text if final else None]
    known: set[str] = set()
    footprints = []
    for index, (step, reply) in enumerate(zip(steps, replies, strict=False)):
        found = _COMMAND.fullmatch(step.action.command or "")
        if found is None:
            reads, writes, effect = set[str](), set[str](), Effect.MALFORMED
        elif found[1] == "answer":
            reads, writes, effect = _answer(found[2], reply, known)
        else:
            reads, writes, effect = _run(found[2], reply, known)
        known |= writes
        footprints.append(
            Footprint(
                trajectory_id=trajectory.trajectory_id,
                step_index=index,
                reads=frozenset(reads),
                writes=frozenset(writes),
                effect=Effect.CHANGED if writes else effect,
            )
        )
    return tuple(footprints)


def _answer(text: str, reply: str | None, known: set[str]) -> tuple[set[str], set[str], Effect]:
    value = _value(text)
    if value is None:
        return set(), set(), Effect.NO_EFFECT
    reads = {key for key in (f"result:{value}", f"symbol:{value}") if key in known}
    taken = reply is not None and reply != UNREADABLE
    return reads, {f"answer_candidate:{value}"} if taken else set(), Effect.NO_EFFECT


def _run(code: str, reply: str | None, known: set[str]) -> tuple[set[str], set[str], Effect]:
    uses = uses_of(code)
    if uses is None:
        return set(), set(), Effect.NO_EFFECT
    reads = {key for value in uses.literals if (key := f"result:{value}") in known}
    for name in uses.names:
        imported = f"import:{name}"
        if imported in known:
            reads.add(imported)
        elif not hasattr(builtins, name) or f"symbol:{name}" in known:
            reads.add(f"symbol:{name}")
    if reply is None or is_failure(reply):
        return reads, uses.calls if reply is not None else set(), Effect.NO_EFFECT
    return reads, uses.writes | uses.calls | result_keys(reply), Effect.READ_ONLY


def is_failure(reply: str) -> bool:
    """Whether a run failed, by its reply: it ends with the last line of a traceback, or was stopped.

    Code that prints such a line by itself cannot be told apart.
    """
    last = reply.rstrip("\n").rpartition("\n")[2]
    return last.startswith("Stopped: ") or _ERROR.fullmatch(last) is not None


def result_keys(reply: str) -> set[str]:
    """Keys of what was printed: every line, and every number in it. Example: ``area 12`` -> result:area 12, result:12"""
    if reply == NO_OUTPUT:
        return set()
    keys: dict[str, None] = {}
    for line in reply.split("\n"):
        for value in (_value(line), *(_value(number) for number in _NUMBER.findall(line))):
            if value is not None and len(keys) < MOST_RESULTS:
                keys[f"result:{value}"] = None
    return set(keys)


def _value(text: str) -> str | None:
    """A text as it stands in a key; numbers without needless zeros. None: it is empty or too long."""
    plain = " ".join(text.lower().split())
    if re.fullmatch(r"-?\d{1,80}", plain):
        plain = str(int(plain))
    return plain if 0 < len(plain) <= LONGEST_VALUE else None


def uses_of(code: str) -> Uses | None:
    """What a piece of code reads and writes. None: it is no Python.

    Example: ``import math; y = math.sqrt(x)`` reads x, writes import:math and symbol:y, calls math.sqrt.
    """
    visitor = _Visitor()
    try:
        visitor.visit_code(ast.parse(code))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return visitor.uses


class _Visitor(ast.NodeVisitor):
    """Walks code in the order in which it runs, as far as the text tells; bodies of functions come last."""

    def __init__(self) -> None:
        self.uses = Uses()
        self._bound: set[str] = set()
        """Names that the code has bound so far, outside of functions."""
        self._local: list[set[str]] = []
        """Names of the functions, comprehensions and classes around the place, outermost first."""
        self._later: list[tuple[list[set[str]], Iterable[ast.AST]]] = []
        """Bodies of functions, each with the names around it."""

    def visit_code(self, tree: ast.Module) -> None:
        self.visit(tree)
        for local, body in self._later:  # grows meanwhile, by functions in functions
            self._local = local
            self._visit_all(body)

    # Names

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self._read(node.id)
        else:
            self._bind(node.id)

    def _is_local(self, name: str) -> bool:
        return any(name in names for names in self._local)

    def _read(self, name: str) -> None:
        if name not in self._bound and not self._is_local(name):
            self.uses.names.add(name.lower())

    def _bind(self, name: str, key: str = "symbol") -> None:
        if self._local:
            self._local[-1].add(name)
        else:
            self._bound.add(name)
            self.uses.writes.add(f"{key}:{name.lower()}")

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self._part(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self._part(node)

    def _part(self, node: ast.Attribute | ast.Subscript) -> None:
        """Part of a thing. Setting it changes the thing, under whose name that is kept."""
        self.generic_visit(node)
        owner = node.value
        if not isinstance(node.ctx, ast.Load) and isinstance(owner, ast.Name) and not self._is_local(owner.id):
            self.uses.writes.add(f"symbol:{owner.id.lower()}")

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self.uses.writes.add(f"import:{alias.name.lower()}")
            self._bind(alias.asname or alias.name.partition(".")[0], "import")

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        self.uses.writes.add(f"import:{(node.module or '.').lower()}")
        for alias in node.names:
            if alias.name != "*":
                # A later use of `sqrt` of math is known by that name alone.
                self._bind(alias.asname or alias.name, "import")

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.type is not None:
            self.visit(node.type)
        if node.name is not None:
            self._bound.add(node.name)  # gone after the handler, so that it is no key
        self._visit_all(node.body)

    def visit_MatchAs(self, node: ast.MatchAs) -> None:
        self.generic_visit(node)
        if node.name is not None:
            self._bind(node.name)

    def visit_MatchStar(self, node: ast.MatchStar) -> None:
        if node.name is not None:
            self._bind(node.name)

    # Values

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, int | float | str) and not isinstance(node.value, bool):
            value = _value(str(node.value)) if not isinstance(node.value, int) or abs(node.value) < 10**80 else None
            if value is not None:
                self.uses.literals.add(value)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        operand = node.operand
        if (
            isinstance(node.op, ast.USub)
            and isinstance(operand, ast.Constant)
            and isinstance(operand.value, int | float)
        ):
            self.visit_Constant(ast.Constant(value=-operand.value))
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        self.generic_visit(node)
        name = _dotted(node.func)
        if name is not None and not self._is_local(name.partition(".")[0]):
            self.uses.calls.add(f"call:{name.lower()}")

    # Statements whose parts run in another order than they are written

    def visit_Assign(self, node: ast.Assign) -> None:
        self._visit_all([node.value, *node.targets])

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._visit_all([node.value, node.target])

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            self._read(node.target.id)
        self._visit_all([node.value, node.target])

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self._visit_all([node.value, node.target])

    def visit_For(self, node: ast.For) -> None:
        self._visit_all([node.iter, node.target, *node.body, *node.orelse])

    # Scopes of their own

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._visit_all(node.decorator_list)
        self._function(node.args, node.body)
        self._bind(node.name)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.visit_FunctionDef(node)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._function(node.args, [node.body])

    def _function(self, arguments: ast.arguments, body: Iterable[ast.AST]) -> None:
        self._visit_all([*arguments.defaults, *filter(None, arguments.kw_defaults)])
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
        names = {argument.arg for argument in every if argument is not None}
        self._later.append(([*self._local, names], body))

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._visit_all([*node.decorator_list, *node.bases])
        self._scope(set(), node.body)
        self._bind(node.name)

    def visit_ListComp(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> None:
        self._scope(set(), [*_parts(node.generators), node.elt])

    def visit_SetComp(self, node: ast.SetComp) -> None:
        self.visit_ListComp(node)

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> None:
        self.visit_ListComp(node)

    def visit_DictComp(self, node: ast.DictComp) -> None:
        self._scope(set(), [*_parts(node.generators), node.key, node.value])

    def _scope(self, names: set[str], body: Iterable[ast.AST]) -> None:
        self._local.append(names)
        self._visit_all(body)
        self._local.pop()

    def _visit_all(self, nodes: Iterable[ast.AST]) -> None:
        for node in nodes:
            self.visit(node)


def _parts(generators: Iterable[ast.comprehension]) -> Iterator[ast.AST]:
    for generator in generators:
        yield from (generator.iter, generator.target, *generator.ifs)


def _dotted(node: ast.expr) -> str | None:
    """``math.sqrt`` of a call's function. None: it is reached otherwise, e.g. through an index."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        owner = _dotted(node.value)
        return node.attr if owner is None else f"{owner}.{node.attr}"
    return None
