"""Checks of the tasks themselves: what they say, and that the splits stay apart."""

from __future__ import annotations

import json
from typing import Any

from tutelage.errors import ConfigError
from tutelage.evaluation.env_check.case import Case
from tutelage.evaluation.env_check.report import Fault, Skip, listed, short
from tutelage.record_json import Malformed, decode_record, encode_record
from tutelage.tasks.base import check_disjoint, manifest_hash, manifest_line
from tutelage.tasks.registry import make_task_set
from tutelage.types import Task


def check_tasks(case: Case) -> str:
    """Tasks say what they are in plain JSON, load the same twice, and share neither id nor content between splits."""
    for task in case.tasks:
        _check_task(case, task)
    for split, panel in case.panels.items():
        ids = [task.task_id for task in panel]
        if len(set(ids)) < len(ids):
            twice = sorted({one for one in ids if ids.count(one) > 1})
            raise Fault(
                f"split {split}",
                got=f"several tasks called {listed(twice)}",
                expected="a different id for each task",
                remedy="Put the split and the index into the id.",
            )
        if any(task.split is not split for task in panel):
            raise Fault(
                f"split {split}",
                got=f"tasks of split {next(task.split for task in panel if task.split is not split)}",
                expected=f"Task.split to be {split}",
                remedy="Give each task the split that was asked for.",
            )
    try:
        check_disjoint(*case.panels.values())
    except ConfigError as error:
        raise Fault(
            "splits",
            got=short(str(error).splitlines()[0].removeprefix("tasks: "), 300),
            expected="no task in two splits, by id or by content_hash",
            remedy="Let something decide the split that the world itself depends on: disjoint seeds are not enough "
            "where few worlds exist.",
        ) from None
    _check_loading(case)
    names = ", ".join(case.panels)
    alone = "" if len(case.panels) > 1 else "; a single split, so nothing to keep apart"
    return f"{len(case.tasks)} tasks of {names}: plain JSON, same twice, nothing shared between splits{alone}"


def _check_task(case: Case, task: Task) -> None:
    where = f"task {task.task_id}"
    if task.env != case.spec.name:
        raise Fault(
            where,
            got=f"env '{task.env}'",
            expected=f"'{case.spec.name}', by which its environment is found",
            remedy="Set env in the task set to the name of the EnvSpec.",
        )
    wrong = _not_plain(task.settings, "settings")
    if wrong:
        raise Fault(
            where,
            got=wrong,
            expected="plain JSON values: text, numbers, true, false, null, lists, and mappings with text keys",
            remedy="Keep in the settings what rebuilds the world (a seed, sizes, a path), not the world itself.",
        )
    limit = task.settings.get("max_steps", "absent")
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 1):
        raise Fault(
            where,
            got=f"settings['max_steps'] is {limit!r}",
            expected="the step limit, 1 or more, or None where the world behind it has its own",
            remedy="Write the limit into the settings of every task, and let the environment read it there.",
        )
    if not isinstance(task.settings.get("content_hash"), str):
        raise Fault(
            where,
            got=f"settings['content_hash'] is {task.settings.get('content_hash')!r}",
            expected="a text that tells this world from every other",
            remedy="Hash what the world consists of (not its name or number), e.g. SHA-256 of its sorted JSON.",
        )
    try:
        again = decode_record(Task, json.loads(json.dumps(encode_record(task, exact=True))))
    except (Malformed, TypeError, ValueError) as error:
        raise Fault(
            where, got=str(error), expected="a task that can be written and read", remedy="Keep its fields plain."
        ) from None
    if again != task:
        raise Fault(
            where,
            got="a different task after writing and reading",
            expected="an equal one",
            remedy="Use lists, not tuples, in the settings.",
        )


def _not_plain(value: Any, path: str) -> str:
    """The first value that JSON does not give back as it was. Empty: all are plain."""
    if isinstance(value, dict):
        for key, one in value.items():
            if not isinstance(key, str):
                return f"{path} has the key {key!r}"
            if wrong := _not_plain(one, f"{path}[{key!r}]"):
                return wrong
        return ""
    if isinstance(value, list):
        return next((wrong for i, one in enumerate(value) if (wrong := _not_plain(one, f"{path}[{i}]"))), "")
    if value is None or isinstance(value, bool | int | float | str):
        return ""
    return f"{path} is {short(value)} ({type(value).__name__})"


def _check_loading(case: Case) -> None:
    """Once more, one further, and from the middle: index i of a split is one and the same task."""
    for split, panel in case.panels.items():
        again = make_task_set(case.spec.name, **case.options).load(split, start=0, count=len(panel) + 1)
        if again[: len(panel)] != panel:
            raise Fault(
                f"split {split}",
                got=_first_difference(again, panel),
                expected="the same tasks when they are loaded a second time",
                remedy="Draw from random.Random(stable_hash(split, index)), never from the global generator.",
            )
        half = len(again) // 2
        part = make_task_set(case.spec.name, **case.options).load(split, start=half, count=len(again) - half)
        if part != again[half:]:
            raise Fault(
                f"split {split}, loaded from index {half}",
                got=_first_difference(part, again[half:]),
                expected="the same tasks as in the whole panel",
                remedy="Let task i depend on the split and on i alone, not on where loading began.",
            )


def _first_difference(got: list[Task], expected: list[Task]) -> str:
    if len(got) < len(expected):
        return f"{len(got)} tasks instead of {len(expected)}"
    return next(f"{one}" for one, other in zip(got, expected, strict=False) if one != other)[:300]


def check_manifest(case: Case) -> str:
    """A fresh process writes the same manifest."""
    theirs = case.fresh.manifest
    if isinstance(theirs, str):
        raise Fault(
            "loading tasks in a fresh process",
            got=theirs if not case.fresh.ended else f"{theirs} ({case.fresh.ended})",
            expected="the tasks",
            remedy="Make the package importable from where the check is started.",
        )
    ours = [manifest_line(task) for task in case.tasks]
    for line, other in zip(ours, theirs, strict=False):
        if line != other:
            raise Fault(
                f"task {json.loads(line)['id']}, in a fresh process",
                got=short(other, 300),
                expected=short(line, 300),
                remedy="Build it from sorted lists and stable_hash; hash(), set order and folder order differ "
                "between processes.",
            )
    if len(ours) != len(theirs):
        raise Skip(f"{len(theirs)} tasks in a fresh process, {len(ours)} here")
    return f"{len(ours)} lines equal in a fresh process, hash {manifest_hash(case.tasks)[:12]}"
