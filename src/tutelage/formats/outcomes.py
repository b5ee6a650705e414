"""Files beside a trajectory file that say how it went: reports of a grader, predictions, patches, exit statuses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from tutelage.formats.base import ReadOptions, Refused, clean_json, clean_text, json_from_bytes
from tutelage.formats.read_messages import reward_of
from tutelage.store import text_from_bytes

REPORTS: Final = ("report.json", "results.json")
PREDICTIONS: Final = "preds.json"
STATUSES: Final = "run_batch_exit_statuses.yaml"

_PASSED: Final = ("resolved_ids", "resolved")
_FAILED: Final = ("unresolved_ids", "unresolved", "empty_patch_ids", "no_generation")
_UNSCORED: Final = ("error_ids", "incomplete_ids", "error", "incomplete")


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What the files beside one trajectory file say of it."""

    rewards: Mapping[str, float | None]
    """By task id; under "" the verdict of a report that names no task."""
    predictions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    statuses: Mapping[str, str] = field(default_factory=dict)
    folder: Path = Path()
    notes: tuple[str, ...] = ()
    """Files that were there and could not be read."""

    @classmethod
    def beside(cls, path: Path, options: ReadOptions) -> Outcomes:
        """From the file's folder and the one above it; what the options say comes first."""
        rewards: dict[str, float | None] = {}
        predictions: dict[str, Mapping[str, Any]] = {}
        statuses: dict[str, str] = {}
        notes: list[str] = []
        for folder in (path.parent.parent, path.parent):
            for name in REPORTS:
                found = _read(folder / name)
                if isinstance(found, Refused):
                    notes.append(f"{name}: {found}")
                elif found is not None:
                    told = rewards_of(found)
                    # A report that names no task is of the one trajectory beside it.
                    if "" in told and (folder != path.parent or len(list(folder.glob("*.traj*"))) > 1):
                        del told[""]
                    rewards |= told
            found = _read(folder / PREDICTIONS)
            if isinstance(found, Refused):
                notes.append(f"{PREDICTIONS}: {found}")
            elif isinstance(found, dict):
                predictions |= {key: one for key, one in found.items() if isinstance(one, dict)}
            statuses |= _statuses(folder / STATUSES)
        return cls({**rewards, **options.outcomes}, predictions, statuses, path.parent, tuple(notes))

    def reward(self, task_id: str, *stated: Any) -> float | None:
        """What the trajectory file itself states, else the report; None: nobody scored it."""
        for value in stated:
            if value is not None:
                return reward_of(value, "resolved")
        return self.rewards.get(task_id, self.rewards.get(""))

    def patch(self, task_id: str) -> str | None:
        """The patch that was handed in, bytes as they are but for what UTF-8 cannot say."""
        predicted = self.predictions.get(task_id, {}).get("model_patch")
        if isinstance(predicted, str) and predicted:
            return predicted
        # A task id comes out of a file: it may hold anything, and only names a file of this folder.
        for suffix in (".patch", ".pred"):
            side = self.folder / f"{Path(task_id).name}{suffix}"
            try:
                data = side.read_bytes()
            except (OSError, ValueError):
                continue
            if suffix == ".patch":
                return clean_text(text_from_bytes(data))[0]
            found = _read(side)
            patch = found.get("model_patch") if isinstance(found, dict) else None
            if isinstance(patch, str):
                return patch
        return None

    def model(self, task_id: str) -> str | None:
        name = self.predictions.get(task_id, {}).get("model_name_or_path")
        return name if isinstance(name, str) else None


def rewards_of(report: Any) -> dict[str, float | None]:
    """Task id -> reward, of a report in any of its shapes; "" stands for a report that names no task.

    Example: ``{"resolved": true}`` -> {"": 1.0}; ``{"a": {"resolved": false}}`` -> {"a": 0.0};
    ``{"resolved_ids": ["a"], "unresolved_ids": ["b"]}`` and ``{"resolved": ["a"], "unresolved": ["b"]}`` -> {"a": 1.0, "b": 0.0};
    ``[{"instance_id": "a", "resolved": true}]`` -> {"a": 1.0}
    """
    found: dict[str, float | None] = {}
    if isinstance(report, list):
        for record in report:
            if isinstance(record, dict) and isinstance(record.get("instance_id"), str):
                _put(found, record["instance_id"], record.get("resolved", record.get("reward")))
        return found
    if not isinstance(report, dict):
        return found
    if isinstance(report.get("resolved"), bool | int | float):
        _put(found, "", report["resolved"])
    for names, reward in ((_UNSCORED, None), (_FAILED, 0.0), (_PASSED, 1.0)):
        for name in names:
            ids = report.get(name)
            for one in ids if isinstance(ids, list) else ():
                if isinstance(one, str):
                    found[one] = reward
    for key, value in report.items():
        if isinstance(value, dict) and "resolved" in value:
            _put(found, key, value["resolved"])
        elif isinstance(value, bool) and key not in ("resolved", "completed"):
            found[key] = float(value)
    return found


def _put(found: dict[str, float | None], key: str, value: Any) -> None:
    if isinstance(value, bool | int | float):
        found[key] = float(value)


def _statuses(path: Path) -> dict[str, str]:
    """Task id -> exit status, of ``instances_by_exit_status``."""
    if not path.is_file():
        return {}
    import yaml

    try:
        found = yaml.safe_load(clean_text(text_from_bytes(path.read_bytes()))[0])
    except (yaml.YAMLError, RecursionError, ValueError):
        return {}
    by_status = found.get("instances_by_exit_status") if isinstance(found, dict) else None
    return {
        str(task_id): str(status)
        for status, ids in (by_status.items() if isinstance(by_status, dict) else ())
        for task_id in (ids if isinstance(ids, list) else ())
    }


def _read(path: Path) -> Any:
    """The JSON of a file; None: there is none; `Refused`: it cannot be read."""
    try:
        stamp = path.stat()
    except (OSError, ValueError):
        return None
    return _read_once(path, stamp.st_mtime_ns, stamp.st_size)


@lru_cache(maxsize=16)
def _read_once(path: Path, _modified: int, _size: int) -> Any:
    # One report stands beside thousands of trajectories.
    try:
        return clean_json(json_from_bytes(path.read_bytes()))[0]
    except Refused as refused:
        return refused
    except OSError:
        return None
