"""Runs tests with pytest inside a sandbox and reports the outcome of each, sealed with a key.

stdin: JSON {"key": hex, "root": folder, "files": [...], "arguments": [...]}. stdout: two lines, each a seal and JSON:

    {"started": true}                 before any file of the tree is looked at
    {"outcomes": {...}, ...}          at the end; see `main`

The code under test runs in the same process, so nothing here is out of its reach for good. What it takes to forge a
report unnoticed: find the key in memory. Exit codes, files, output and reports by other plugins decide nothing; a patched
pytest, a foreign plugin, an import hook ahead of pytest's, and a planted test that does not fail are told as tampering.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

GUARDED = ("_pytest", "pluggy", "pytest", "json", "builtins", "os", "_frozen_importlib", "_frozen_importlib_external")
"""Modules whose functions and classes must be the same at the end."""

JUDGES = ("_pytest.runner.", "_pytest.reports.", "_pytest.python.", "_pytest.nodes.", "_pytest.skipping.", "pluggy._")
"""Those that make an outcome out of a test; looked at after every test."""


def main() -> None:
    """Report ``outcomes`` (test id -> passed, failed, error, skipped, xfailed or xpassed), ``broken`` (ids of what could
    not be collected), and ``tampered`` (what was found changed, in words)."""
    order = json.loads(sys.stdin.buffer.read())
    answer = _answerer(bytes.fromhex(order.pop("key")))
    root = order["root"]

    import pytest
    from _pytest.assertion.rewrite import AssertionRewritingHook
    from _pytest.config import default_plugins

    for name in default_plugins:
        importlib.import_module(f"_pytest.{name}")
    changed = _guard()
    classes = {item for module in _guarded() for item in vars(module).values() if isinstance(item, type)}
    outcomes: dict[str, str] = {}
    broken: list[str] = []
    tampered: set[str] = set()
    planted: dict[str, str] = {}

    def look(config: Any = None, all_of_it: bool = True) -> None:
        tampered.update(changed(all_of_it))
        for finder in sys.meta_path:
            if isinstance(finder, AssertionRewritingHook):
                break
            if finder not in finders:
                tampered.add("an import hook ahead of pytest's")
        for plugin in config.pluginmanager.get_plugins() if config is not None else ():
            known = type(plugin) in classes or (isinstance(plugin, types.ModuleType) and plugin in modules)
            is_conftest = isinstance(plugin, types.ModuleType) and _is_conftest(plugin, root)
            if not known and not is_conftest and plugin is not recorder:
                tampered.add(f"a foreign plugin, {type(plugin).__name__}")

    class Recorder:
        @pytest.hookimpl(trylast=True)
        def pytest_collection_modifyitems(self, config: Any, items: list[Any]) -> None:
            look(config)
            functions = [item for item in items if type(item) is pytest.Function and item.cls is None]
            if functions:
                place = functions[len(functions) // 2]
                name = f"{place.originalname}_{os.urandom(4).hex()}"
                item = pytest.Function.from_parent(place.parent, name=name, callobj=_fails)
                items.insert(items.index(place), item)
                planted[item.nodeid] = ""

        def pytest_collectreport(self, report: Any) -> None:
            look()
            if report.failed:
                broken.append(report.nodeid)

        def pytest_runtest_logreport(self, report: Any) -> None:
            into = planted if report.nodeid in planted else outcomes
            if report.when == "call" or not report.passed:
                into[report.nodeid] = _outcome(report)
            if report.when == "teardown":
                look(all_of_it=False)

        @pytest.hookimpl(trylast=True)
        def pytest_sessionfinish(self, session: Any) -> None:
            look(session.config)

    os.chdir(root)
    # As `python -m pytest` does, so that a package at the top is found.
    sys.path.insert(0, root)
    recorder = Recorder()
    modules = set(_guarded())
    finders = list(sys.meta_path)
    answer({"started": True})
    options = ["-q", "--tb=no", "--no-header", "-p", "no:cacheprovider", "--continue-on-collection-errors"]
    options += [f"--rootdir={root}", "-o", "addopts="]
    pytest.main([*options, *order["arguments"], *order["files"]], plugins=[recorder])
    look()
    if any(outcome != "failed" and outcome != "error" for outcome in planted.values()):
        tampered.add("a planted test that fails was reported otherwise")
    answer({"outcomes": outcomes, "broken": sorted(broken), "tampered": sorted(tampered)})
    # What the code under test left to be done at exit is not.
    os._exit(0)


def _answerer(key: bytes) -> Callable[[dict[str, Any]], None]:
    """Writes sealed lines to what is stdout now; everybody else's stdin, stdout and stderr become the null device."""
    seal, encode, write, out = hashlib.blake2b(key=key, digest_size=32), json.JSONEncoder().encode, os.write, os.dup(1)
    os.set_inheritable(out, False)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)

    def answer(value: dict[str, Any]) -> None:
        text = encode(value).encode()
        sealed = seal.copy()
        sealed.update(text)
        left = sealed.hexdigest().encode() + b" " + text + b"\n"
        while left:
            left = left[write(out, left) :]

    return answer


def _fails() -> None:
    raise AssertionError("planted")


def _outcome(report: Any) -> str:
    expected = hasattr(report, "wasxfail")
    if report.when != "call" and report.failed:
        return "error"
    if report.skipped:
        return "xfailed" if expected else "skipped"
    if report.passed:
        return "xpassed" if expected else "passed"
    return "failed"


def _is_conftest(plugin: types.ModuleType, root: str) -> bool:
    """A conftest.py of the tree: the caller has put these there."""
    path = getattr(plugin, "__file__", None) or ""
    return os.path.basename(path) == "conftest.py" and os.path.realpath(path).startswith(
        os.path.realpath(root) + os.sep
    )


def _guarded() -> list[types.ModuleType]:
    return [
        module
        for name, module in sorted(sys.modules.items())
        if isinstance(module, types.ModuleType) and any(name == one or name.startswith(f"{one}.") for one in GUARDED)
    ]


def _guard() -> Callable[[bool], list[str]]:
    """Remembers all functions and classes of the guarded modules. Returns what tells which are others now, of all of them
    or of the `JUDGES` alone."""
    remembered: list[tuple[Any, str, Any, Any]] = []
    for module in _guarded():
        for owner, label in _owners(module):
            for name, value in vars(owner).items():
                if isinstance(
                    value, (types.FunctionType, types.BuiltinFunctionType, type, classmethod, staticmethod, property)
                ):
                    remembered.append((owner, f"{label}.{name}", value, getattr(value, "__code__", None)))
    keep = [(vars(owner), label.rpartition(".")[2], label, value, code) for owner, label, value, code in remembered]
    # The one part of pytest that replaces methods of others does so after this.
    legacy = [value for value in vars(sys.modules["_pytest.legacypath"]).values() if callable(value)]
    judges = [one for one in keep if one[2].startswith(JUDGES)]
    find = getattr

    def changed(all_of_it: bool) -> list[str]:
        return [
            f"{label} is not what it was"
            for names, name, label, value, code in (keep if all_of_it else judges)
            if (names.get(name) is not value and not any(names.get(name) is one for one in legacy))
            or (code is not None and find(value, "__code__", None) is not code)
        ]

    return changed


def _owners(module: types.ModuleType) -> Iterator[tuple[Any, str]]:
    """The module and the classes it defines."""
    yield module, module.__name__
    for name, value in list(vars(module).items()):
        if isinstance(value, type) and value.__module__ == module.__name__:
            yield value, f"{module.__name__}.{name}"


if __name__ == "__main__":
    main()
