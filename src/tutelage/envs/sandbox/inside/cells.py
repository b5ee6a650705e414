"""Runs cells of Python source, one after the other in one namespace; only the last one's output is to be seen.

Called by itself as ``cells``: standard input begins with the length of a JSON list of cells, a newline and that list; what
follows is the standard input of the cells.

An exception shows as the last line of its traceback on standard error, and gives exit code 1.
"""

import atexit
import contextlib
import json
import os
import random
import sys
import threading
import traceback
import types
from typing import Any

RANDOM_SEED = 0
"""Of the module `random`, so that the same cells print the same."""


def main() -> None:
    digits = b""
    while not digits.endswith(b"\n"):
        digits += os.read(0, 1)
    left = int(digits)
    data = b""
    while left > len(data):
        data += os.read(0, left - len(data))
    os._exit(run_cells(json.loads(data)))


def run_cells(cells: list[str]) -> int:
    """Run cells in a fresh `__main__`. The exit code as an interpreter would give it."""
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    sys.argv = [""]
    random.seed(RANDOM_SEED)
    if len(cells) > 1:
        visible = os.dup(1), os.dup(2)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        _point_output((nowhere, nowhere))
        for cell in cells[:-1]:
            _run(cell, module.__dict__)
        _flush()
        _point_output(visible)
        for fd in (*visible, nowhere):
            os.close(fd)
    code, line = _run(cells[-1], module.__dict__)
    try:
        # What an interpreter does at its end: wait for threads, then call what was registered.
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
    except BaseException:
        code = code or 1
    _flush()
    if line:
        with contextlib.suppress(OSError):
            os.write(2, line.encode("utf-8", "backslashreplace") + b"\n")
    return code


def _run(source: str, namespace: dict[str, Any]) -> tuple[int, str]:
    """Exit code, and the last line of a traceback."""
    try:
        exec(compile(source, "<cell>", "exec", dont_inherit=True), namespace)
    except SystemExit as error:
        if error.code is None or isinstance(error.code, int):
            return (error.code or 0) & 255, ""
        return 1, str(error.code)
    except BaseException as error:
        return 1, _last_line(error)
    return 0, ""


def _last_line(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception_only(error)).strip().split("\n")[-1]
    except BaseException:
        return type(error).__name__


def _point_output(fds: tuple[int, int]) -> None:
    os.dup2(fds[0], 1)
    os.dup2(fds[1], 2)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BaseException:
            continue
