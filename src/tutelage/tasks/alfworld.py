"""ALFWorld tasks: the household tasks, played by the original engine. Ids, settings and manifests are the same."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from tutelage.envs.alfworld.env import DataMismatch
from tutelage.envs.household.env import DEFAULT_MAX_STEPS
from tutelage.tasks.base import read_manifest
from tutelage.tasks.household import HouseholdTasks
from tutelage.types import Split, Task


class AlfworldTasks(HouseholdTasks):
    """Tasks of the original game.

    size, source, root, max_steps, accept_put: as in `HouseholdTasks`.
    python: a Python interpreter that has alfworld and textworld; None takes the running one.
    manifest: a recorded manifest. A loaded task that it lists with another content hash, or does not list, is a
      `DataMismatch` warning: the data are not those that the earlier results came from.
    """

    env = "alfworld"

    def __init__(
        self,
        size: str = "small",
        source: str = "generated",
        root: str | Path | None = None,
        max_steps: int = DEFAULT_MAX_STEPS,
        accept_put: bool = False,
        python: str | None = None,
        manifest: str | Path | None = None,
    ) -> None:
        super().__init__(size=size, source=source, root=root, max_steps=max_steps, accept_put=accept_put)
        self._shared |= {} if python is None else {"python": python}
        self.manifest = None if manifest is None else Path(manifest)

    def load(self, split: Split | str, start: int = 0, count: int | None = None) -> list[Task]:
        """As `HouseholdTasks.load`. Raises FormatError also where the manifest cannot be read."""
        tasks = super().load(split, start=start, count=count)
        if self.manifest is not None:
            _compare(tasks, self.manifest)
        return tasks


def _compare(tasks: list[Task], path: Path) -> None:
    recorded: dict[str, Any] = read_manifest(path)
    changed = [
        task.task_id for task in tasks if recorded.get(task.task_id, "") not in ("", task.settings["content_hash"])
    ]
    unlisted = [task.task_id for task in tasks if task.task_id not in recorded]
    for ids, what in ((changed, "have another content hash than recorded"), (unlisted, "are not listed")):
        if ids:
            warnings.warn(
                DataMismatch(
                    f"{path}: {len(ids)} of {len(tasks)} tasks {what}, first {ids[0]}. Their data are not those of the "
                    "manifest, so results are not comparable with it."
                ),
                stacklevel=3,
            )
