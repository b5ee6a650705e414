"""Small changes of Python source that may break it: one place, one change, the rest byte for byte as it was.

Places come from the syntax tree, inside functions only; the text is changed by byte offsets, so that layout and comments
stay. Whether a mutation breaks anything is for `bugs` to find out.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

MUTATORS: Final = (
    "flip_comparison",
    "swap_operator",
    "negate_condition",
    "return_none",
    "off_by_one",
    "drop_statement",
    "wrong_default",
)

COMPARISONS: Final = {
    "<": "<=",
    "<=": "<",
    ">": ">=",
    ">=": ">",
    "==": "!=",
    "!=": "==",
    "in": "not in",
    "not in": "in",
    "is": "is not",
    "is not": "is",
}
OPERATORS: Final = {"+": "-", "-": "+", "*": "+", "/": "*", "//": "*", "%": "//", "**": "*", "and": "or", "or": "and"}

_COMPARISON: Final = re.compile(rb"\bnot\s+in\b|\bis\s+not\b|\bin\b|\bis\b|<=|>=|==|!=|<|>")
_OPERATOR: Final = re.compile(rb"\band\b|\bor\b|\*\*|//|[-+*/%]")


@dataclass(frozen=True, kw_only=True, slots=True)
class Mutation:
    """One change of one file."""

    path: str
    function: str
    """Qualified name of the function it is in, e.g. ``Account.deposit``."""
    mutator: str
    start: int
    """Byte offset of the replaced text."""
    end: int
    new: str

    @property
    def name(self) -> str:
        """Distinct within a tree, e.g. ``off_by_one:purse/amounts.py:1043-1044``."""
        return f"{self.mutator}:{self.path}:{self.start}-{self.end}"

    def apply(self, source: bytes) -> bytes:
        return source[: self.start] + self.new.encode() + source[self.end :]


def mutations(path: str, source: bytes) -> list[Mutation]:
    """All mutations of a file, in the order of their places. Source that is no UTF-8 or no Python has none."""
    try:
        source.decode()
        module = ast.parse(source)
    except (UnicodeDecodeError, SyntaxError, ValueError):
        return []
    text = _Text(source)
    found = {}
    for function, name in _functions(module, ""):
        for node in _own_nodes(function):
            for mutator, make in _MAKERS.items():
                for start, end, new in make(node, text):
                    mutation = Mutation(path=path, function=name, mutator=mutator, start=start, end=end, new=new)
                    found[start, end, new] = mutation
    return [found[place] for place in sorted(found)]


class _Text:
    """Source with the positions of its syntax tree as byte offsets."""

    def __init__(self, source: bytes) -> None:
        self.source = source
        self._lines = [0]
        for line in source.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))

    def start(self, node: ast.expr | ast.stmt) -> int:
        return self._lines[node.lineno - 1] + node.col_offset

    def end(self, node: ast.expr | ast.stmt) -> int:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._lines[node.end_lineno - 1] + node.end_col_offset

    def of(self, node: ast.expr) -> str:
        return self.source[self.start(node) : self.end(node)].decode()


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[ast.FunctionDef | ast.AsyncFunctionDef, str]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{prefix}{child.name}"
            if not isinstance(child, ast.ClassDef):
                yield child, name
            yield from _functions(child, f"{name}.")
        else:
            yield from _functions(child, prefix)


def _own_nodes(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.AST]:
    """The function and what is in it, functions and classes inside it left out."""
    stack: list[ast.AST] = [function]
    while stack:
        node = stack.pop()
        yield node
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                stack.append(child)


Change = tuple[int, int, str]
"""Start and end of the replaced bytes, and what stands there instead."""


def _between(
    text: _Text, left: ast.expr, right: ast.expr, pattern: re.Pattern[bytes], new: dict[str, str]
) -> Iterator[Change]:
    """Replace the one operator between two expressions; where a comment makes it unclear, nothing."""
    low, high = text.end(left), text.start(right)
    matches = list(pattern.finditer(text.source, low, high))
    if len(matches) == 1:
        found = " ".join(matches[0][0].decode().split())
        if found in new:
            yield matches[0].start(), matches[0].end(), new[found]


def _flip_comparison(node: ast.AST, text: _Text) -> Iterator[Change]:
    if isinstance(node, ast.Compare):
        for left, right in zip([node.left, *node.comparators], node.comparators, strict=False):
            yield from _between(text, left, right, _COMPARISON, COMPARISONS)


def _swap_operator(node: ast.AST, text: _Text) -> Iterator[Change]:
    if isinstance(node, ast.BinOp) and not (_is_text(node.left) or _is_text(node.right)):
        yield from _between(text, node.left, node.right, _OPERATOR, OPERATORS)
    elif isinstance(node, ast.BoolOp):
        yield from _between(text, node.values[0], node.values[1], _OPERATOR, OPERATORS)
    elif isinstance(node, ast.AugAssign) and not _is_text(node.value):
        yield from _between(text, node.target, node.value, _OPERATOR, OPERATORS)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))


def _negate_condition(node: ast.AST, text: _Text) -> Iterator[Change]:
    if isinstance(node, ast.If | ast.IfExp):
        test = node.test
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            yield text.start(test), text.end(test), text.of(test.operand)
        elif not isinstance(test, ast.Compare):
            yield text.start(test), text.end(test), f"not ({text.of(test)})"


def _return_none(node: ast.AST, text: _Text) -> Iterator[Change]:
    if isinstance(node, ast.Return) and node.value is not None and not _is_constant(node.value, None):
        yield text.start(node), text.end(node), "return None"


def _off_by_one(node: ast.AST, text: _Text) -> Iterator[Change]:
    if isinstance(node, ast.Compare):
        places = [node.left, *node.comparators]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range":
        places = node.args
    elif isinstance(node, ast.Slice):
        places = [bound for bound in (node.lower, node.upper) if bound is not None]
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        places = [node.right]
    else:
        places = []
    for place in places:
        if isinstance(place, ast.Constant) and type(place.value) is int:
            yield text.start(place), text.end(place), str(place.value + 1)


def _drop_statement(node: ast.AST, text: _Text) -> Iterator[Change]:
    is_call = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    stores = isinstance(node, ast.Assign) and all(
        isinstance(one, ast.Subscript | ast.Attribute) for one in node.targets
    )
    if isinstance(node, ast.AugAssign | ast.Raise | ast.Continue) or is_call or stores:
        assert isinstance(node, ast.stmt)
        yield text.start(node), text.end(node), "pass"


def _wrong_default(node: ast.AST, text: _Text) -> Iterator[Change]:
    if isinstance(node, ast.arguments):
        for default in (*node.defaults, *node.kw_defaults):
            if isinstance(default, ast.Constant):
                value = default.value
                new = str(not value) if isinstance(value, bool) else str(value + 1) if isinstance(value, int) else None
                if new is not None:
                    yield text.start(default), text.end(default), new


def _is_constant(node: ast.expr, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value is value


_MAKERS: Final[dict[str, Callable[[ast.AST, _Text], Iterator[Change]]]] = dict(
    zip(
        MUTATORS,
        (
            _flip_comparison,
            _swap_operator,
            _negate_condition,
            _return_none,
            _off_by_one,
            _drop_statement,
            _wrong_default,
        ),
        strict=True,
    )
)
