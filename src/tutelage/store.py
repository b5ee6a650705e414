"""Records in files: append-only JSON lines that survive a kill, a full disk and any text.

In come records of `types.py`; out comes a file whose first line is a header and whose other lines are one record each:

    {"schema_version":1,"kind":"verdict"}
    {"trajectory_id":"hh-1.never.s0.n0.a0","keep":true,"filter":"all","reason":"kept"}
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from tutelage.errors import FormatError, StoreError, TutelageError
from tutelage.record_json import decode_record, encode_record
from tutelage.types import (
    SCHEMA_VERSION,
    DependencyGraph,
    Footprint,
    Judgement,
    StepAptitude,
    StepSupervision,
    Task,
    TrainingSample,
    Trajectory,
    TrajectoryGroup,
    Verdict,
)

KINDS: dict[str, type] = {
    "task": Task,
    "trajectory": Trajectory,
    "trajectory_group": TrajectoryGroup,
    "verdict": Verdict,
    "judgement": Judgement,
    "footprint": Footprint,
    "dependency_graph": DependencyGraph,
    "step_aptitude": StepAptitude,
    "step_supervision": StepSupervision,
    "training_sample": TrainingSample,
}
"""Kind of record in files -> its class."""

_ID_FIELDS: dict[str, tuple[str, ...]] = {
    "task": ("task_id",),
    "trajectory": ("trajectory_id",),
    "trajectory_group": ("group_id",),
    "verdict": ("trajectory_id", "filter"),
    "judgement": ("source", "trajectory_id", "judge", "attempt"),
    "footprint": ("trajectory_id", "step_index"),
    "dependency_graph": ("trajectory_id", "writer_rule"),
    "step_aptitude": ("trajectory_id", "config_id"),
    "step_supervision": ("trajectory_id", "source"),
    "training_sample": ("sample_id",),
}

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def text_from_bytes(data: bytes) -> str:
    """Any bytes as text: UTF-8 where it is, one lone surrogate (U+DC80..U+DCFF) per byte where it is not.

    Example: ``text_from_bytes(b"ok \\xff") == "ok \\udcff"``; ``.encode("utf-8", "surrogateescape")`` undoes it.
    """
    return data.decode("utf-8", "surrogateescape")


def to_json(record: Any) -> dict[str, Any]:
    """A record as plain JSON values: enums by value, tuples as lists, odd values marked, defaults left out."""
    return encode_record(record, exact=True)


def from_json(kind: str, data: Any, *, where: str = "") -> Any:
    """The record that `to_json` made. `where` (file and line) opens the message of an error.

    Raises `FormatError` for an unknown kind or field, a missing field, a value of the wrong type, and a record
    that its own checks refuse.
    """
    at = f"{where}: " if where else ""
    if kind not in KINDS:
        raise FormatError(f"{at}unknown kind of record {kind!r}, expected one of: {', '.join(KINDS)}")
    try:
        return decode_record(KINDS[kind], data)
    except (TutelageError, ValueError) as error:
        raise FormatError(f"{at}{kind}: {error}") from error


def record_id(record: Any) -> str:
    """Id of a record within its kind, e.g. its trajectory_id."""
    for kind, cls in KINDS.items():
        if type(record) is cls:
            return "/".join(str(getattr(record, name)) for name in _ID_FIELDS[kind])
    raise TypeError(f"{type(record).__name__} is no record, expected one of: {', '.join(KINDS)}")


def write_atomic(path: str | Path, data: bytes) -> None:
    """Replace a file as a whole: a reader sees the old content or the new, never a part."""
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise _write_failed(path, error, "Its former content is untouched.") from error


class _Place(NamedTuple):
    """Where a record stands in the file."""

    offset: int
    line: int


class RecordStore:
    """An append-only file of records of one kind, each id once. One process writes at a time.

    Opening reads the ids and changes nothing. A torn last line (its writer was killed) is left out, `note` says so,
    and the first append cuts it off. A broken line elsewhere raises `FormatError` with file and line. A file that
    does not exist is an empty store; the first append makes it.

    Example::

        store = RecordStore("runs/a/verdicts.jsonl", "verdict")
        store.append(verdict)   # True: written
        store.append(verdict)   # False: its id is there already
    """

    def __init__(
        self, path: str | Path, kind: str, *, header: Mapping[str, Any] | None = None, fsync: bool = False
    ) -> None:
        if kind not in KINDS:
            raise FormatError(f"{path}: unknown kind of record {kind!r}, expected one of: {', '.join(KINDS)}")
        self.path = Path(path)
        self.kind = kind
        self.header: dict[str, Any] = {"schema_version": SCHEMA_VERSION, "kind": kind, **(header or {})}
        """First line of the file. Of an existing file: as it stands there."""
        self.fsync = fsync
        """True: append returns when the disk has the record, so that it survives a loss of power too."""
        self.note: str | None = None
        """What was left out on opening, in words. None: nothing."""
        self._places: dict[str, _Place] = {}
        self._end = 0
        """Bytes of whole lines; a torn line begins here."""
        self._num_lines = 0
        if self.path.exists():
            self._scan()

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, record_id: object) -> bool:
        return record_id in self._places

    def __repr__(self) -> str:
        return f"RecordStore({str(self.path)!r}, {self.kind}, {len(self)} records)"

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids in the order of the file."""
        return tuple(self._places)

    def __iter__(self) -> Iterator[Any]:
        """The records in the order of the file, as many as there are when the iteration begins."""
        places = list(self._places.values())
        if places:
            with open(self.path, "rb") as file:
                for place in places:
                    file.seek(place.offset)
                    yield self._record(file.readline(), place.line)

    def __getitem__(self, record_id: str) -> Any:
        """The record with this id. Raises KeyError."""
        place = self._places[record_id]
        with open(self.path, "rb") as file:
            file.seek(place.offset)
            return self._record(file.readline(), place.line)

    def append(self, record: Any) -> bool:
        """Write one record as one line. False: its id is there already, and nothing is written.

        Raises `StoreError` when the file cannot be written (a full disk); the file then ends with its last whole line.
        """
        if type(record) is not KINDS[self.kind]:
            raise TypeError(f"{self.path}: got a {type(record).__name__}, expected {KINDS[self.kind].__name__}")
        identity = record_id(record)
        if identity in self._places:
            return False
        header = b"" if self._end else orjson.dumps(self.header) + b"\n"
        number = self._num_lines + 1 if self._end else 2
        self._places[identity] = _Place(self._end + len(header), number)
        try:
            self._write(header + _dump(record))
        except BaseException:
            del self._places[identity]
            raise
        self._num_lines = number
        return True

    def _write(self, data: bytes) -> None:
        """Put `data` behind the last whole line, as a whole or not at all."""
        start = self._end
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise self._failed(error) from error
        try:
            os.ftruncate(descriptor, start)
            os.lseek(descriptor, start, os.SEEK_SET)
            remaining = memoryview(data)
            while remaining:
                remaining = remaining[os.write(descriptor, remaining) :]
            if self.fsync:
                os.fsync(descriptor)
            self._end = start + len(data)
        except BaseException as error:
            # Also on KeyboardInterrupt: a line that may be half written, or whole but not yet known, is cut back.
            self._end = start
            os.ftruncate(descriptor, start)
            if isinstance(error, OSError):
                raise self._failed(error) from error
            raise
        finally:
            os.close(descriptor)

    def _failed(self, error: OSError) -> StoreError:
        return _write_failed(self.path, error, f"Its {max(self._num_lines - 1, 0)} records are whole.")

    def _scan(self) -> None:
        """Read header and ids, and find the end of the last whole line."""
        with open(self.path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            for number, line in enumerate(file, start=1):
                offset = self._end
                last = offset + len(line) >= size
                data: Any = None
                try:
                    data = orjson.loads(line)
                except orjson.JSONDecodeError as error:
                    if not last:
                        raise FormatError(
                            f"{self.path}, line {number}: no JSON ({error}). The file was changed by hand or by the "
                            "disk; mend or delete that line and run again."
                        ) from error
                if last and (data is None or not line.endswith(b"\n")):
                    self.note = (
                        f"{self.path}: left out a torn last line of {len(line)} bytes (line {number}); "
                        f"the {len(self)} records before it are whole"
                    )
                    return
                if number == 1:
                    self._read_header(data)
                else:
                    self._places.setdefault(self._id_of(data, number), _Place(offset, number))
                self._end += len(line)
                self._num_lines = number

    def _read_header(self, data: Any) -> None:
        if not isinstance(data, dict) or "schema_version" not in data or "kind" not in data:
            raise FormatError(
                f"{self.path}, line 1: expected a header with schema_version and kind, got {orjson.dumps(data)[:80]!r}"
            )
        if data["kind"] != self.kind:
            raise FormatError(f"{self.path}: holds records of kind {data['kind']!r}, expected {self.kind!r}")
        if not isinstance(data["schema_version"], int) or data["schema_version"] > SCHEMA_VERSION:
            raise FormatError(
                f"{self.path}, line 1: schema version {data['schema_version']!r}, this tutelage reads up to "
                f"{SCHEMA_VERSION}. Upgrade tutelage, or read the file with the version that wrote it."
            )
        self.header = data

    def _id_of(self, data: Any, number: int) -> str:
        fields = _ID_FIELDS[self.kind]
        if not isinstance(data, dict) or fields[0] not in data:
            raise FormatError(f"{self.path}, line {number}: a {self.kind} without {', '.join(fields)}")
        # A field that holds its default is not written; the record knows it.
        values = [data.get(name) for name in fields]
        if all(isinstance(value, str | int) for value in values):
            return "/".join(str(value) for value in values)
        return record_id(from_json(self.kind, data, where=f"{self.path}, line {number}"))

    def _record(self, line: bytes, number: int) -> Any:
        return from_json(self.kind, orjson.loads(line), where=f"{self.path}, line {number}")


def read_records(path: str | Path, kind: str) -> list[Any]:
    """All records of a file that must be there. Raises `StoreError` when it is not."""
    if not Path(path).exists():
        raise StoreError(f"{path}: no such file; run the stage that writes it ({kind} records) first")
    return list(RecordStore(path, kind))


def _dump(record: Any) -> bytes:
    try:
        return orjson.dumps(encode_record(record, exact=False)) + b"\n"
    except orjson.JSONEncodeError:
        # Lone surrogates or integers above 64 bits: rare, so that looking for them first would cost more.
        return orjson.dumps(encode_record(record, exact=True)) + b"\n"


def _write_failed(path: Path, error: OSError, state: str) -> StoreError:
    remedy = "Free some space" if error.errno in _NO_SPACE else "Make the path writable"
    return StoreError(f"{path}: cannot write: {error.strerror}. {state} {remedy} and run the same command again.")
