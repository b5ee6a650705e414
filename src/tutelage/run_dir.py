"""The folder of one run: where each stage reads and writes, what is finished, and who is at work in it.

runs/<name>/
  recipe.yaml                     the resolved recipe
  run.json                        summary: state of every stage, versions, machine, times
  stages/<kind>/<name>.json       one record per stage; written last, so that a finished stage is a whole one
  rollouts/<name>/                trajectories.jsonl verdicts.jsonl ledger.json
  samples/                        <model>.jsonl <model>.ledger.json
  models/<model>/                 a plain model folder with metrics.jsonl
  evaluations/<model>/            trajectories.jsonl result.json
  comparison.json  report.html  log.txt
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import fcntl
import hashlib
import json
import os
import platform
import shutil
import socket
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, Literal

import tutelage
from tutelage.errors import ConfigError, FormatError, StoreError
from tutelage.policies.endpoint.config import OPERATIONAL
from tutelage.recipe import Recipe, check_recipe
from tutelage.recipe_file import read_yaml
from tutelage.store import write_atomic

FREE_TO_CHANGE = ("workers", "description")
"""Keys of a recipe that decide nothing about the results, so that a resume may change them."""


@dataclass(frozen=True, kw_only=True)
class StageRecord:
    """What is known of one stage of a run."""

    state: Literal["started", "done"]
    inputs: str
    """Hash of all that decides the result: settings, and the outputs of the stages it needs."""
    outputs: str = ""
    """Hash of the files it wrote. Empty until it is done."""
    summary: dict[str, Any] = field(default_factory=dict)
    """Figures for tables, e.g. numbers of trajectories."""
    started_at: str = ""
    finished_at: str = ""
    seconds: float = 0.0
    """Wall-clock time of the last go."""
    goes: int = 1
    """1, or more if it was interrupted and went on."""
    manifest: str = ""
    """SHA-256 of the manifest of the tasks that it played. Empty: it played none."""


class RunDir:
    """Paths and records of one run directory."""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root)

    def __repr__(self) -> str:
        return f"RunDir({str(self.root)!r})"

    @property
    def recipe_path(self) -> Path:
        return self.root / "recipe.yaml"

    @property
    def summary_path(self) -> Path:
        return self.root / "run.json"

    @property
    def log_path(self) -> Path:
        return self.root / "log.txt"

    @property
    def comparison_path(self) -> Path:
        return self.root / "comparison.json"

    @property
    def report_path(self) -> Path:
        return self.root / "report.html"

    def trajectories_path(self, rollout: str) -> Path:
        return self.root / "rollouts" / rollout / "trajectories.jsonl"

    def verdicts_path(self, rollout: str) -> Path:
        return self.root / "rollouts" / rollout / "verdicts.jsonl"

    def ledger_path(self, rollout: str) -> Path:
        """Counts of the selection: in = kept + dropped by reason."""
        return self.root / "rollouts" / rollout / "ledger.json"

    def samples_path(self, model: str) -> Path:
        return self.root / "samples" / f"{model}.jsonl"

    def sample_ledger_path(self, model: str) -> Path:
        return self.root / "samples" / f"{model}.ledger.json"

    def model_dir(self, model: str) -> Path:
        return self.root / "models" / model

    def evaluation_dir(self, arm: str) -> Path:
        return self.root / "evaluations" / arm

    def evaluation_trajectories_path(self, arm: str) -> Path:
        return self.evaluation_dir(arm) / "trajectories.jsonl"

    def audit_dir(self, arm: str) -> Path:
        return self.root / "audits" / arm

    def result_path(self, arm: str) -> Path:
        return self.evaluation_dir(arm) / "result.json"

    # Recipe

    def recipe(self) -> Recipe:
        """The resolved recipe of this run."""
        if not self.recipe_path.is_file():
            raise ConfigError(
                f"{self.root}: not a run directory (it has no recipe.yaml). Start one with: tutelage run RECIPE --out {self.root}"
            )
        return check_recipe(read_yaml(self.recipe_path), where=str(self.recipe_path))

    def adopt_recipe(self, recipe: Recipe, *, force: bool) -> list[str]:
        """Store the recipe. A run that was begun with another one is refused unless forced; returns the changed keys."""
        changed: list[str] = []
        if self.recipe_path.is_file():
            old = read_yaml(self.recipe_path)
            changed = changed_keys(old, recipe.model_dump(mode="json"))
            decisive = [key for key in changed if not is_free_to_change(key)]
            if decisive and not force:
                raise StoreError(
                    f"{self.root}: was begun with another recipe; changed: {', '.join(decisive)}.\n"
                    "Take --force to do again what depends on these keys, --out for another directory, or the old values."
                )
        write_atomic(self.recipe_path, recipe.to_yaml().encode())
        return changed

    # Stages

    def record_path(self, stage_id: str) -> Path:
        kind, _, name = stage_id.partition(":")
        return self.root / "stages" / kind / f"{name or kind}.json"

    def record(self, stage_id: str) -> StageRecord | None:
        """What is known of a stage, e.g. ``train:corrected``. None: it was never begun."""
        path = self.record_path(stage_id)
        if not path.is_file():
            return None
        data = read_json(path)
        try:
            return StageRecord(**data)
        except TypeError:
            raise FormatError(f"{path}: not a stage record. Delete it; the stage is then done again.") from None

    def write_record(self, stage_id: str, record: StageRecord) -> None:
        write_json(self.record_path(stage_id), asdict(record))

    def write_summary(self, recipe: Recipe, stage_ids: list[str]) -> None:
        """Remake run.json from the records."""
        records = {stage_id: self.record(stage_id) for stage_id in stage_ids}
        write_json(
            self.summary_path,
            {
                "name": recipe.name,
                "finished": all(record is not None and record.state == "done" for record in records.values()),
                "written_at": now(),
                "versions": versions(),
                "machine": machine(),
                "stages": {
                    stage_id: asdict(record) if record is not None else {"state": "waiting"}
                    for stage_id, record in records.items()
                },
            },
        )

    def log(self, message: str) -> None:
        """One line with the time to log.txt."""
        with self.log_path.open("a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(f"{now()} {message}\n")

    @contextlib.contextmanager
    def lock(self) -> Iterator[RunLock]:
        """Nobody else works in this directory inside the block."""
        try:
            self.root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(
                f"{self.root}: cannot be made ({error.strerror}). Choose another place with --out."
            ) from None
        with RunLock(self.root / ".lock") as lock:
            yield lock


class RunLock:
    """A lock that the operating system frees when its holder and all the holder's workers are dead.

    The file tells who holds it. A note that was not cleared tells that the last holder was killed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.killed_holder: str | None = None
        """Who held it before and did not end in order. None: nobody."""
        self._file: IO[str] | None = None

    @property
    def fd(self) -> int:
        """Descriptor that workers inherit, so that the lock is theirs as well."""
        assert self._file is not None
        return self._file.fileno()

    def __enter__(self) -> RunLock:
        file = self.path.open("a+", encoding="utf-8")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.seek(0)
            holder = file.read().strip() or "another process"
            file.close()
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise StoreError(
                    f"{self.path}: this file system has no locks ({error.strerror}). Use another for --out."
                ) from None
            raise StoreError(
                f"{self.path.parent}: in use by {holder}.\nWait until it has ended, stop it, or choose another directory with --out."
            ) from None
        file.seek(0)
        self.killed_holder = file.read().strip() or None
        self._file = file
        self._write(f"process {os.getpid()} on {socket.gethostname()}, since {now()}")
        return self

    def __exit__(self, *_: object) -> None:
        assert self._file is not None
        self._write("")
        self._file.close()
        self._file = None

    def _write(self, text: str) -> None:
        assert self._file is not None
        self._file.seek(0)
        self._file.truncate()
        self._file.write(text)
        self._file.flush()


def is_free_to_change(key: str) -> bool:
    """Whether a dotted key of a recipe decides nothing about the results.

    Example: ``workers`` and ``endpoints.gpt.max_run_cost`` do not, ``endpoints.gpt.model`` does.
    """
    section, _, rest = key.partition(".")
    return section in FREE_TO_CHANGE or (section == "endpoints" and rest.rpartition(".")[2] in OPERATIONAL)


def changed_keys(old: Any, new: Any, prefix: str = "") -> list[str]:
    """Dotted keys at which two plain structures differ.

    Example: ``changed_keys({"a": {"b": 1}}, {"a": {"b": 2}, "c": 3}) == ["a.b", "c"]``
    """
    if isinstance(old, dict) and isinstance(new, dict):
        keys = [*old, *(key for key in new if key not in old)]
        missing = object()
        return [
            changed
            for key in keys
            for changed in changed_keys(
                old.get(key, missing), new.get(key, missing), f"{prefix}.{key}" if prefix else str(key)
            )
        ]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [
            changed
            for index in range(len(old))
            for changed in changed_keys(old[index], new[index], f"{prefix}.{index}")
        ]
    return [] if old == new else [prefix]


def hash_json(data: Any) -> str:
    """Hash of plain data, the order of keys aside."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def hash_files(paths: list[Path]) -> str:
    """Hash of the contents of files and folders, by name. A missing one counts as such."""
    digest = hashlib.sha256()
    for path in paths:
        files = sorted(one for one in path.rglob("*") if one.is_file()) if path.is_dir() else [path]
        for file in files:
            digest.update(f"{file.relative_to(path.parent)}\0".encode())
            if file.is_file():
                with file.open("rb") as opened:
                    digest.update(hashlib.file_digest(opened, "sha256").digest())
    return digest.hexdigest()[:16]


def remove(path: Path) -> None:
    """Delete a file or a folder, if it is there."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        raise StoreError(f"{path}: is missing. Run the stage that writes it, or the whole run again.") from None
    except ValueError as error:
        raise FormatError(f"{path}: not valid JSON ({error}). Delete it and run the stage again.") from None


def write_json(path: Path, data: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, (json.dumps(data, indent=1, ensure_ascii=False) + "\n").encode("utf-8", "backslashreplace"))


def now() -> str:
    return datetime.datetime.now().astimezone().isoformat(timespec="seconds")


def versions() -> dict[str, str]:
    """Versions of what decides the numbers; packages that are not installed are left out."""
    from importlib.metadata import PackageNotFoundError, version

    found = {"tutelage": tutelage.__version__, "python": platform.python_version()}
    for package in ("torch", "transformers", "accelerate", "numpy"):
        with contextlib.suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def machine() -> dict[str, Any]:
    """The machine, in words that a report can print."""
    return {"system": platform.platform(), "processor": platform.machine(), "cores": os.cpu_count()}
