"""Hidden tests of a program, run in the sandbox. What is expected stays outside of it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from tutelage.envs.python.problems import HiddenTest
from tutelage.envs.sandbox import PYTHON_LIMITS, PythonRunner

TEST_SECONDS: Final = 12.0
TEST_CPU_SECONDS: Final = 6

IMPORTS: Final = (
    "from typing import *\nfrom collections import *\nfrom itertools import *\nfrom functools import *\n"
    "from heapq import *\nfrom bisect import *\nfrom math import *\nimport sys, math, re, random, string, collections, "
    "itertools, functools, heapq, bisect, operator, copy, json"
)
"""What programs of such collections take for granted."""

_CALL: Final = """\
import io as _io, json as _json, sys as _sys
_shown, _sys.stdout = _sys.stdout, _io.StringIO()
_function = getattr(Solution(), {name!r}) if "Solution" in globals() else globals()[{name!r}]
_result = _function(*[_json.loads(_line) for _line in {lines!r}])
_sys.stdout = _shown
print(_json.dumps(_result))
"""

_FENCE: Final = re.compile(r"```(?:python|py)?[ \t]*\n(.*?)```", re.DOTALL | re.IGNORECASE)


def source_in(answer: str) -> str:
    """The program in an answer: the last fenced block, or all of it."""
    blocks = _FENCE.findall(answer)
    return str(blocks[-1]) if blocks else answer


def passes_all(source: str, tests: Sequence[HiddenTest], runner: PythonRunner) -> bool:
    """Whether a program passes every test; the first failure ends it. Raises EnvError if the sandbox failed."""
    return all(_passes(source, test, runner) for test in tests)


def _passes(source: str, test: HiddenTest, runner: PythonRunner) -> bool:
    limits = replace(
        PYTHON_LIMITS,
        seconds=TEST_SECONDS,
        cpu_seconds=TEST_CPU_SECONDS,
        output_chars=max(PYTHON_LIMITS.output_chars, 2 * len(test.expected)),
    )
    if test.function is None:
        result = runner.run([IMPORTS, source], stdin=test.given.encode(), limits=limits)
        return result.exit_code == 0 and not result.output_cut and same_output(result.stdout, test.expected)
    lines = [line for line in test.given.split("\n") if line.strip()]
    call = _CALL.format(name=test.function, lines=lines)
    result = runner.run([IMPORTS, source, call], limits=limits)
    return result.exit_code == 0 and not result.output_cut and _same_value(result.stdout, test.expected)


def same_output(got: str, expected: str) -> bool:
    """Whether two outputs are equal but for white space at the ends of lines and of all, and for how numbers are written.

    Example: ``"1.0 x \\n"`` equals ``"1 x"``; ``"1 2"`` does not equal ``"1\\n2"``.
    """
    lines, wanted = got.strip().split("\n"), expected.strip().split("\n")
    return len(lines) == len(wanted) and all(map(_same_line, lines, wanted))


def _same_line(got: str, expected: str) -> bool:
    if got.strip() == expected.strip():
        return True
    left, right = _numbers(got), _numbers(expected)
    return left is not None and left == right


def _numbers(line: str) -> list[Decimal] | None:
    try:
        return [Decimal(word) for word in line.split()]
    except InvalidOperation:
        return None


def _same_value(got: str, expected: str) -> bool:
    try:
        value: Any = json.loads(got)
        return bool(value == json.loads(expected))
    except ValueError:
        return False
