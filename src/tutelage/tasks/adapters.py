"""Tasks for the adapters: which foreign environment, with which seed or row, and how its texts are read.

Where tasks come from is the same for all but verifiers, whose tasksets are the tasks:

  numbered     without an option `tasks`: index i of a split has a seed that no other task has; nothing else differs
  from a file  `tasks: PATH`, one JSON object per line; all keys may be left out:
               id, split (train), seed (the line's number), goal, kind, task (what the environment is given at reset)
  from our own server  `tasks: server`, for `http` alone: the tasks that it serves

A task's settings are plain JSON and all that its environment needs, so a worker process can build it anew.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import count as numbers
from itertools import islice
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from tutelage.errors import ConfigError, FormatError
from tutelage.tasks.base import split_named
from tutelage.types import Split, Task

DEFAULT_COUNT: Final = 100
"""Tasks of a source without end, if no number is given."""
MAX_STEPS: Final = 50
SPLITS: Final = (Split.TRAIN, Split.VALIDATION, Split.TEST)
SERVER: Final = "server"
_ROW_KEYS: Final = ("id", "split", "seed", "goal", "kind", "task")


class AdapterTasks:
    """What the task sets of the adapters share."""

    adapter = ""
    """Name of the environment, unless one of the user's own plays through the adapter."""

    def __init__(
        self,
        settings: Mapping[str, Any],
        *,
        env_name: str | None,
        tasks: str | None,
        goal: str,
        max_steps: int | None,
        identity: Sequence[str],
    ) -> None:
        """identity: the settings that decide which environment it is; the others say how it is reached and read."""
        if max_steps is not None and max_steps < 1:
            raise ConfigError(f"{self.adapter} tasks: max_steps is {max_steps}, expected at least 1, or none.")
        self.env_name = env_name or self.adapter
        self.goal = goal
        self.settings = {key: value for key, value in settings.items() if value is not None} | {"max_steps": max_steps}
        self._tasks = tasks
        self._identity = {key: self.settings.get(key) for key in identity}

    def load(self, split: Split | str, start: int = 0, count: int | None = None) -> list[Task]:
        """Tasks start, start + 1, ... of a split; `count` None takes 100, or all of a file or a server.

        A file may have fewer than asked for; none at all is a FormatError.
        """
        split = split_named(split)
        if start < 0 or (count is not None and count < 1):
            raise ConfigError(
                f"{self.adapter} tasks: start {start} and count {count}, expected start >= 0 and count >= 1 or none."
            )
        if self._tasks is None:
            return [self._numbered(split, index) for index in range(start, start + (count or DEFAULT_COUNT))]
        found = [row for row in self._rows() if row["split"] == split.value]
        if not found:
            raise FormatError(f"{self._tasks}: no task of split '{split.value}'.")
        return [self._of_row(split, row) for row in found[start : None if count is None else start + count]]

    def _rows(self) -> list[dict[str, Any]]:
        assert self._tasks is not None
        return read_rows(Path(self._tasks), self.adapter)

    def _given(self, task_id: str, split: Split, index: int) -> Any:
        """What the environment is given at the reset of a numbered task."""
        return None

    def _numbered(self, split: Split, index: int) -> Task:
        task_id = f"{self.adapter}-{split.value}-{index:06d}"
        # Disjoint between splits by the remainder.
        seed = index * len(SPLITS) + SPLITS.index(split)
        given = self._given(task_id, split, index)
        return self._task(task_id, split, seed, {} if given is None else {"task": given})

    def _of_row(self, split: Split, row: Mapping[str, Any]) -> Task:
        own = {"task": row["task"]} if "task" in row else {}
        return self._task(row["id"], split, row["seed"], own, goal=row.get("goal"), kind=row.get("kind") or "")

    def _task(
        self,
        task_id: str,
        split: Split,
        seed: int,
        own: Mapping[str, Any],
        *,
        goal: str | None = None,
        kind: str = "",
        content: object = None,
    ) -> Task:
        """content: what tells this task from others, where `own` and the seed do not."""
        identity = {"adapter": self.adapter, **self._identity, "seed": seed, "own": own} if content is None else content
        return Task(
            task_id=task_id,
            env=self.env_name,
            goal=self.goal if goal is None else goal,
            split=split,
            seed=seed,
            kind=kind,
            settings={**self.settings, **own, "content_hash": _hash(identity)},
        )


class GymnasiumTasks(AdapterTasks):
    """Tasks of a Gymnasium environment; for the options see `envs.adapters.gymnasium` and `envs.adapters.base`."""

    adapter = "gymnasium"

    def __init__(
        self,
        id: str | None = None,
        make: str | None = None,
        kwargs: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
        observe: str | None = None,
        act: str | None = None,
        inline: bool = False,
        tasks: str | None = None,
        env_name: str | None = None,
        goal: str = "",
        max_steps: int | None = MAX_STEPS,
        score: str = "sum",
        help: str | None = None,
        action_format: str | None = None,
        footprints: str | None = None,
    ) -> None:
        if (id is None) == (make is None):
            raise ConfigError("gymnasium tasks: give either 'id' (for gymnasium.make) or 'make' (place of a function).")
        settings = _named(locals(), "id make kwargs options observe act inline score help action_format footprints")
        super().__init__(
            settings, env_name=env_name, tasks=tasks, goal=goal, max_steps=max_steps, identity=("id", "make", "kwargs")
        )


class HttpTasks(AdapterTasks):
    """Tasks of an environment behind HTTP; for the options see `envs.adapters.http` and `envs.adapters.base`.

    A numbered task is given ``{"id", "split", "index"}``. max_steps None leaves the limit to the server.
    """

    adapter = "http"

    def __init__(
        self,
        url: str,
        timeout: float = 60.0,
        retries: int = 2,
        tasks: str | None = None,
        env_name: str | None = None,
        goal: str = "",
        max_steps: int | None = None,
        score: str = "sum",
        help: str | None = None,
        action_format: str | None = None,
        footprints: str | None = None,
    ) -> None:
        if not timeout > 0 or retries < 0:
            raise ConfigError(
                f"http tasks: timeout {timeout} and retries {retries}, expected more than 0 and 0 or more."
            )
        settings = _named(locals(), "url timeout retries score help action_format footprints")
        super().__init__(settings, env_name=env_name, tasks=tasks, goal=goal, max_steps=max_steps, identity=())

    def _given(self, task_id: str, split: Split, index: int) -> Any:
        return {"id": task_id, "split": split.value, "index": index}

    def _rows(self) -> list[dict[str, Any]]:
        return super()._rows() if self._tasks != SERVER else list(self._served())

    def _of_row(self, split: Split, row: Mapping[str, Any]) -> Task:
        if self._tasks != SERVER:
            return super()._of_row(split, row)
        own = {"task": row["id"], "max_steps": self.settings["max_steps"] or row.get("max_steps")}
        content = row.get("content_hash")
        return self._task(
            row["id"],
            split,
            row["seed"],
            own,
            goal=row["goal"],
            kind=row["kind"],
            content=content and {"served": content},
        )

    def _served(self) -> Iterator[dict[str, Any]]:
        from tutelage.envs.adapters.json_connection import JsonConnection, ServerFault

        server = JsonConnection(
            self.settings["url"], timeout=self.settings["timeout"], retries=self.settings["retries"]
        )
        try:
            found = server.get("/tasks")
            for row in found["tasks"]:
                yield {"split": Split.TRAIN.value, "seed": 0, "goal": "", "kind": "", **row, "id": str(row["id"])}
        except ServerFault as fault:
            raise ConfigError(f"http tasks: {fault}\n  Start the server, or give the tasks in a file.") from None
        except (KeyError, TypeError) as error:
            raise ConfigError(
                f"http tasks: {quote(self.settings['url'], safe=':/')}/tasks lists no tasks ({error!r}). Only a server made "
                "with serve_env does; give the tasks in a file, or none for numbered ones."
            ) from None
        finally:
            server.close()


class OpenEnvTasks(AdapterTasks):
    """Tasks of an OpenEnv server; for the options see `envs.adapters.openenv` and `envs.adapters.base`.

    A row's `task` holds further arguments of the environment's reset.
    """

    adapter = "openenv"

    def __init__(
        self,
        url: str,
        act: str | None = None,
        action_field: str | None = None,
        observe: str | None = None,
        observation_field: str | None = None,
        end: str | None = None,
        timeout: float = 60.0,
        tasks: str | None = None,
        env_name: str | None = None,
        goal: str = "",
        max_steps: int | None = MAX_STEPS,
        score: str = "sum",
        help: str | None = None,
        action_format: str | None = None,
        footprints: str | None = None,
    ) -> None:
        if (act is None) == (action_field is None) or (observe is None) == (observation_field is None):
            raise ConfigError(
                "openenv tasks: give either 'act' or 'action_field', and either 'observe' or 'observation_field'."
            )
        if not timeout > 0:
            raise ConfigError(f"openenv tasks: timeout is {timeout}, expected more than 0.")
        settings = _named(
            locals(),
            "url act action_field observe observation_field end timeout score help action_format footprints",
        )
        super().__init__(settings, env_name=env_name, tasks=tasks, goal=goal, max_steps=max_steps, identity=())


class VerifiersTasks(AdapterTasks):
    """The rows of a verifiers taskset; for the options see `envs.adapters.verifiers` and `envs.adapters.base`.

    Splits: where `split_config` names a split, its rows are those of the taskset with these settings in place of
    ``config``'s, e.g. ``{train: {split: train}, test: {split: test}}``. Without it, rows are dealt out in turns of ten:
    the ninth is for validation, the tenth for test, the others for training.
    """

    adapter = "verifiers"

    def __init__(
        self,
        taskset: str,
        config: Mapping[str, Any] | None = None,
        split_config: Mapping[str, Mapping[str, Any]] | None = None,
        environment: str | None = None,
        agent: str | None = None,
        env_name: str | None = None,
        max_steps: int | None = MAX_STEPS,
        help: str | None = None,
        action_format: str | None = None,
        footprints: str | None = None,
    ) -> None:
        settings = _named(locals(), "taskset config environment agent help action_format footprints")
        super().__init__(settings, env_name=env_name, tasks=None, goal="", max_steps=max_steps, identity=())
        self._split_config = None if split_config is None else {split_named(k): v for k, v in split_config.items()}

    def load(self, split: Split | str, start: int = 0, count: int | None = None) -> list[Task]:
        """Rows start, start + 1, ... of a split; `count` None takes 100. A taskset may have fewer."""
        from tutelage.envs.adapters.verifiers import taskset_rows

        split = split_named(split)
        if start < 0 or (count is not None and count < 1):
            raise ConfigError(
                f"verifiers tasks: start {start} and count {count}, expected start >= 0 and count >= 1 or none."
            )
        settings = dict(self.settings)
        if self._split_config is not None:
            if split not in self._split_config:
                raise ConfigError.unknown("verifiers tasks: split_config: split", split.value, self._split_config)
            settings["config"] = {**settings.get("config", {}), **self._split_config[split]}
        rows = (
            (index, row, data)
            for index, (row, data) in zip(numbers(), taskset_rows(settings), strict=False)
            if self._split_config is not None or _dealt(index) is split
        )
        chosen = list(islice(rows, start, start + (count or DEFAULT_COUNT)))
        if not chosen:
            raise FormatError(f"taskset {settings['taskset']}: no row {start} of split '{split.value}'.")
        return [self._of_taskset(split, settings, *one) for one in chosen]

    def _of_taskset(self, split: Split, settings: Mapping[str, Any], index: int, row: Any, data: Any) -> Task:
        name = str(settings["taskset"]).rsplit("/", 1)[-1]
        # The position in the taskset is no content: the same row may stand elsewhere in another split.
        content = {"taskset": settings["taskset"], "data": {key: value for key, value in data.items() if key != "idx"}}
        own = {"data": data} | ({"config": settings["config"]} if "config" in settings else {})
        goal = row.data.description or row.data.prompt_text
        return self._task(f"vf-{name}-{split.value}-{index:06d}", split, 0, own, goal=goal, content=content)


def read_rows(path: Path, adapter: str) -> list[dict[str, Any]]:
    """The tasks of a JSONL file, with id, split and seed filled in. Raises FormatError with the line."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise FormatError(f"{path}: cannot be read ({error.strerror}).") from None
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise FormatError(f"{path}, line {number}: no JSON ({error}).") from None
        rows.append(_row(row, f"{path}, line {number}", f"{adapter}-{path.stem}-{number:06d}", number))
    ids = [row["id"] for row in rows]
    if twice := next((one for one in ids if ids.count(one) > 1), None):
        raise FormatError(f"{path}: the id '{twice}' stands twice.")
    return rows


def _row(row: object, where: str, task_id: str, number: int) -> dict[str, Any]:
    if not isinstance(row, dict):
        raise FormatError(f"{where}: a {type(row).__name__}, expected an object.")
    for key in row:
        if key not in _ROW_KEYS:
            raise FormatError(f"{where}: unknown key {key!r}. Known: {', '.join(_ROW_KEYS)}.")
    filled = {"id": task_id, "split": Split.TRAIN.value, "seed": number, **row}
    for key, kind in (("id", str), ("seed", int), ("goal", str), ("kind", str)):
        if key in filled and not isinstance(filled[key], kind):
            raise FormatError(f"{where}: {key} is {filled[key]!r}, expected a {kind.__name__}.")
    if filled["split"] not in [split.value for split in SPLITS]:
        raise FormatError(f"{where}: split is {filled['split']!r}, expected one of {', '.join(SPLITS)}.")
    return filled


def _dealt(index: int) -> Split:
    """Example: rows 0 to 7 train, 8 validation, 9 test, 10 to 17 train."""
    return {8: Split.VALIDATION, 9: Split.TEST}.get(index % 10, Split.TRAIN)


def _named(given: Mapping[str, Any], names: str) -> dict[str, Any]:
    return {name: given[name] for name in names.split()}


def _hash(identity: object) -> str:
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
