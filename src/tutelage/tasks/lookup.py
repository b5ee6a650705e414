"""From the ids in stored trajectories back to the tasks they were played on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from tutelage.errors import ConfigError
from tutelage.tasks.household import HouseholdTasks
from tutelage.types import Task

GENERATED_ID: Final = re.compile(r"hh-(?P<size>[a-z]+)-(?P<split>train|validation|test)-(?P<index>\d{6,})")
"""Id of a generated household game, e.g. ``hh-small-train-000123``; it says all but the step limit."""


def household_tasks(
    task_ids: Iterable[str], *, games: Path | None = None, options: Mapping[str, Any] | None = None
) -> dict[str, Task]:
    """Task id -> task. Generated games are made anew from their id; others are looked for below the folder `games`.

    options: `max_steps` and `accept_put` of the tasks, as in `HouseholdTasks`; they do not stand in an id.
    Raises ConfigError where an id is not a household task's, or its game is not there.
    """
    wanted = list(dict.fromkeys(task_ids))
    options = dict(options or {})
    found = {
        task.task_id: task
        for task_set in ([] if games is None else [HouseholdTasks(source="folder", root=games, **options)])
        for split in task_set.splits
        for task in task_set.load(split)
    }
    sources: dict[str, HouseholdTasks] = {}
    for task_id in wanted:
        if task_id in found:
            continue
        match = GENERATED_ID.fullmatch(task_id)
        if match is None:
            raise ConfigError(_not_found(task_id, games, len(found)))
        size = match["size"]
        if size not in sources:
            sources[size] = HouseholdTasks(size=size, **options)
        found[task_id] = sources[size].load(match["split"], start=int(match["index"]), count=1)[0]
    return {task_id: found[task_id] for task_id in wanted}


def _not_found(task_id: str, games: Path | None, num_games: int) -> str:
    if games is None:
        return (
            f"task {task_id}: not a generated household game, so its game must be read from disk.\n"
            "  Give the folder that it was loaded from (--games), the same one as when it was played."
        )
    return (
        f"task {task_id}: not among the {num_games} games below {games}.\n"
        "  Ids come from the path below the folder: give the same folder as when it was played."
    )
