"""The formats that are read: by name, or found out by what a file holds. And reading many files with one ledger.

To add a format: a module with ``read_NAME(path, options)`` and one line in `FORMATS`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from tutelage.errors import ConfigError
from tutelage.formats.base import FormatLedger, ReadOptions, ReadProblem, Refused, counts_of, json_from_bytes, lines_of
from tutelage.formats.submits import cut_at_first_submit
from tutelage.types import Trajectory

Reader = Callable[[Path, ReadOptions], Iterator[Trajectory | ReadProblem]]

AUTO: Final = "auto"

NOTES_KEY: Final = "notes"
"""Key of `Trajectory.info` under which a reader says what looked odd and did not stop it."""

MAX_NOTES: Final = 10

PARQUET_MAGIC: Final = b"PAR1"


@dataclass(frozen=True, kw_only=True, slots=True)
class Format:
    """One format that is read."""

    name: str
    summary: str
    reader: str
    """``module:function`` below `tutelage.formats`."""
    patterns: tuple[str, ...]
    """File names that are looked for in a folder."""
    whole: bool = False
    """True: the identity of a trajectory is in the file, and is not numbered anew."""

    @property
    def read(self) -> Reader:
        module, name = self.reader.split(":")
        found: Reader = getattr(import_module(f"tutelage.formats.{module}"), name)
        return found


FORMATS: Final[dict[str, Format]] = {
    one.name: one
    for one in (
        Format(
            name="swe_agent",
            summary="SWE-agent .traj files",
            reader="read_swe_agent:read_swe_agent",
            patterns=("*.traj",),
        ),
        Format(
            name="mini_swe_agent",
            summary="mini-swe-agent .traj.json files",
            reader="read_mini_swe_agent:read_mini_swe_agent",
            patterns=("*.traj.json",),
        ),
        Format(
            name="openai_chat",
            summary="OpenAI chat rows (JSON lines or a JSON array)",
            reader="read_openai_chat:read_openai_chat",
            patterns=("*.jsonl", "*.json"),
        ),
        Format(
            name="sharegpt",
            summary="ShareGPT rows (JSON lines or a JSON array)",
            reader="read_sharegpt:read_sharegpt",
            patterns=("*.jsonl", "*.json"),
        ),
        Format(
            name="parquet",
            summary="Parquet with a column messages (extra 'data')",
            reader="read_parquet:read_parquet",
            patterns=("*.parquet",),
        ),
        Format(
            name="atif",
            summary="ATIF documents up to 1.8",
            reader="read_atif:read_atif",
            patterns=("*.json", "*.jsonl"),
        ),
        Format(
            name="native",
            summary="our own trajectories.jsonl",
            reader="read_native:read_native",
            patterns=("*.jsonl",),
            whole=True,
        ),
    )
}
"""Name -> format."""

_ANY: Final = ("*.traj", "*.traj.json", "*.json", "*.jsonl", "*.parquet")
_SIDE_FILES: Final = ("report.json", "results.json", "preds.json", "*.ledger.json", "*.supervision.jsonl")


def detect(path: Path) -> str:
    """The format of a file, by what stands in it; a broken file by its name. Raises `Refused` ``unknown_format``.

    Example: ``{"messages": ...}`` -> openai_chat; ``{"schema_version": "ATIF-v1.8", ...}`` -> atif; ``PAR1`` -> parquet
    """
    with open(path, "rb") as file:
        head = file.read(4)
    if head == PARQUET_MAGIC:
        return "parquet"
    found = _by_keys(_first_value(path))
    if found is not None:
        return found
    by_name = {".traj": "swe_agent", ".parquet": "parquet", ".jsonl": "openai_chat"}
    if path.name.endswith(".traj.json"):
        return "mini_swe_agent"
    if path.suffix in by_name:
        return by_name[path.suffix]
    raise Refused("unknown_format", f"neither its keys nor its name say what it is; name one of: {', '.join(FORMATS)}")


def _by_keys(value: Any) -> str | None:
    if isinstance(value, list):
        value = value[0] if value else None
    if not isinstance(value, dict):
        return None
    version = value.get("schema_version")
    if isinstance(version, str) and version.startswith("ATIF"):
        return "atif"
    if isinstance(version, int) and "kind" in value:
        return "native"
    if "trajectory_format" in value:
        return "mini_swe_agent"
    for key, name in (("conversations", "sharegpt"), ("trajectory", "swe_agent"), ("history", "swe_agent")):
        if key in value:
            return name
    if "messages" in value:
        told = value.get("info")
        return "mini_swe_agent" if isinstance(told, dict) and "exit_status" in told else "openai_chat"
    return None


def _first_value(path: Path) -> Any:
    """The first line as JSON, else the whole file; None where neither is."""
    first = next(lines_of(path), None)
    if first is None:
        return None
    try:
        return json_from_bytes(first.data)
    except Refused:
        pass
    try:
        return json_from_bytes(path.read_bytes())
    except Refused:
        return None


def files_of(paths: Sequence[Path], format_name: str) -> list[Path]:
    """The files that paths mean: a file itself; of a folder those whose names fit the format, below it too, in order.

    Raises `ConfigError` for a path that is not there, or a folder without such files.
    """
    patterns = _ANY if format_name == AUTO else FORMATS[format_name].patterns
    found: list[Path] = []
    for path in paths:
        if path.is_file():
            found.append(path)
        elif path.is_dir():
            inside = {one for pattern in patterns for one in path.rglob(pattern) if one.is_file()}
            inside -= {one for pattern in _SIDE_FILES for one in path.rglob(pattern)}
            if format_name != "mini_swe_agent":
                inside -= {one for one in inside if format_name != AUTO and one.name.endswith(".traj.json")}
            if not inside:
                raise ConfigError(f"{path}: no file named {' or '.join(patterns)} in this folder or below it.")
            found += sorted(inside)
        else:
            raise ConfigError(f"{path}: no such file or folder.")
    return list(dict.fromkeys(found))


def read_all(
    format_name: str, paths: Sequence[Path], options: ReadOptions, ledger: FormatLedger, *, out: Path | None = None
) -> Iterator[Trajectory]:
    """The trajectories of all files but `out`, each id once, and the account of everything else in `ledger`.

    Several of one task get growing sample indices and ids of their own. Of our own records an id that was there before is
    skipped as ``duplicate_id``.

    Raises `ConfigError` for an unknown format, paths that are not there, and steps whose author nobody named.
    """
    if format_name != AUTO and format_name not in FORMATS:
        raise ConfigError.unknown("import: format", format_name, [AUTO, *FORMATS])
    written = None if out is None else out.resolve()
    files = [path for path in files_of(paths, format_name) if path.resolve() != written]
    by_file, unknown = _formats(files, format_name)
    for problem in unknown:
        ledger.skip(problem)
    files = _roots(list(by_file), by_file)
    seen: set[str] = set()
    samples: Counter[str] = Counter()
    notes: Counter[str] = Counter()
    for path in files:
        used = FORMATS[by_file[path]]
        for one in _items(used, path, options):
            if isinstance(one, ReadProblem):
                ledger.skip(one)
                continue
            made = one if used.whole else _numbered(one, samples, seen)
            if options.one_submit:
                made, taken = cut_at_first_submit(made)
                ledger.counts["steps_after_first_submit"] += taken
            if made.trajectory_id in seen:
                detail = f"trajectory {made.trajectory_id} was read before"
                ledger.skip(Refused("duplicate_id", detail).at(path))
                continue
            seen.add(made.trajectory_id)
            ledger.converted(**counts_of(made))
            told = made.info.get(NOTES_KEY)
            notes.update(note for note in (told if isinstance(told, list) else ()) if isinstance(note, str))
            yield made
    ledger.notes += [f"{count} x {note}" for note, count in notes.most_common(MAX_NOTES)]


def _items(used: Format, path: Path, options: ReadOptions) -> Iterator[Trajectory | ReadProblem]:
    try:
        yield from used.read(path, options)
    except OSError as error:
        yield Refused("unreadable", error.strerror or str(error)).at(path)


def _formats(files: Sequence[Path], format_name: str) -> tuple[dict[Path, str], list[ReadProblem]]:
    by_file: dict[Path, str] = {}
    problems = []
    for path in files:
        try:
            by_file[path] = detect(path) if format_name == AUTO else format_name
        except Refused as refused:
            problems.append(refused.at(path, byte=0))
        except OSError as error:
            problems.append(Refused("unreadable", error.strerror or str(error)).at(path))
    return by_file, problems


def _roots(files: list[Path], by_file: dict[Path, str]) -> list[Path]:
    """Without ATIF files that others lead to: they are read from there."""
    documents = [path for path in files if by_file[path] == "atif"]
    if len(documents) < 2:
        return files
    from tutelage.formats.read_atif import referenced_files

    reached = {one for path in documents for one in referenced_files(path) if one != path.resolve()}
    return [path for path in files if by_file[path] != "atif" or path.resolve() not in reached]


def _numbered(trajectory: Trajectory, samples: Counter[str], seen: set[str]) -> Trajectory:
    """With the next sample index of its task; an id that is taken gets a number.

    Example: two files of task ``a`` -> ``a`` with sample 0, ``a.n1`` with sample 1
    """
    index = max(samples[trajectory.task_id], trajectory.sample_index)
    samples[trajectory.task_id] = index + 1
    trajectory_id, number = trajectory.trajectory_id, index
    while trajectory_id in seen:
        number = max(number, 1)
        trajectory_id = f"{trajectory.trajectory_id}.n{number}"
        number += 1
    return replace(trajectory, trajectory_id=trajectory_id, sample_index=index)


def read_switch_indices(path: Path) -> dict[str, int]:
    """A side file of switch indices: a JSON object id -> index, or JSON lines with an id and an index, or ``id,index`` lines.

    Raises `ConfigError` for a file of another kind, with its line.
    """
    data = path.read_bytes()
    try:
        value = json_from_bytes(data)
    except Refused:
        value = None
    if isinstance(value, dict) and not any(key in value for key in ("instance_id", "trajectory_id")):
        return {str(key): _index(one, f"{path}: {key}") for key, one in value.items()}
    found: dict[str, int] = {}
    for line in lines_of(path):
        where = f"{path}, line {line.number}"
        text = line.data.decode("utf-8", "replace").strip()
        if text.startswith("{"):
            try:
                row = json.loads(text)
            except ValueError as error:
                raise ConfigError(f"{where}: no JSON ({error}).") from None
            name = next((row[key] for key in ("trajectory_id", "instance_id", "task_id", "id") if key in row), None)
            index = next((row[key] for key in ("model_switch_idx", "switch_index") if key in row), None)
        else:
            name, _, index = text.rpartition(",")
            if line.number == 1 and not index.strip().lstrip("-").isdigit():
                continue  # Names of the columns.
            index = int(index) if index.strip().isdigit() else index
        if not isinstance(name, str) or not name:
            raise ConfigError(f"{where}: no id in {text[:60]!r}, expected an id and an index.")
        found[name.strip()] = _index(index, where)
    return found


def _index(value: Any, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ConfigError(f"{where}: switch index {value!r}, expected a count of student steps, 0 or more.")
    return value
