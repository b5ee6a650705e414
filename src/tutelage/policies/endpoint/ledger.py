"""What an endpoint was asked and what it cost: one line per request, append-only, shared by the processes of a run.

    endpoints/NAME.requests.jsonl   id, tries with their outcomes, status, tokens, seconds, cost; no key, no header, no text
    endpoints/NAME.answers.jsonl    id and answer, so that a resumed run asks nothing twice

Budgets are counted from the first file, so that a resume goes on counting. A line without its newline (its writer was
killed) is skipped and cut off from the next line by one.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import orjson

from tutelage.errors import EpisodeBudgetSpent, RunBudgetSpent, StoreError
from tutelage.policies.endpoint.config import EndpointConfig

ANSWERED = "answered"


@dataclass(frozen=True, kw_only=True, slots=True)
class Try:
    """One sending of a request."""

    outcome: str
    """``answered``, or the reason why not."""
    status: int | None
    """Of HTTP. None: no status came."""
    seconds: float
    waited: float = 0.0
    """Seconds before it, for backoff or Retry-After."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestRecord:
    """One request with all its tries."""

    request_id: str
    kind: str
    """``chat``, ``completions`` or ``score``."""
    outcome: str
    """``answered``, or the reason of the failure."""
    tries: tuple[Try, ...]
    episode: str = ""
    """The trajectory it was for. Empty: for none."""
    model: str = ""
    """As the server names it."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    estimated: bool = False
    """The server told no usage; tokens are counted from the text, 4 bytes each."""
    cost: float = 0.0
    seconds: float = 0.0
    """From the first try to the end, waits included."""


@dataclass(kw_only=True)
class Spent:
    """Sums over requests."""

    requests: int = 0
    """Answered or not."""
    tokens: int = 0
    cost: float = 0.0

    def add(self, record: RequestRecord) -> None:
        self.requests += 1
        self.tokens += record.prompt_tokens + record.completion_tokens
        self.cost += record.cost


@dataclass(kw_only=True)
class EndpointUsage:
    """The account of one endpoint, for tables. ``requests`` = ``answered`` + the sum of ``failed``."""

    requests: int = 0
    answered: int = 0
    failed: dict[str, int] = field(default_factory=dict)
    """Requests without an answer, by reason."""
    retries: int = 0
    """Tries after the first ones."""
    faults: dict[str, int] = field(default_factory=dict)
    """Failed tries, by outcome, whether or not a later one was answered."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    estimated: int = 0
    """Requests whose tokens are an estimate."""
    cost: float = 0.0
    seconds: float = 0.0

    @classmethod
    def of(cls, records: Iterator[RequestRecord]) -> EndpointUsage:
        usage, failed, faults = cls(), Counter[str](), Counter[str]()
        for one in records:
            usage.requests += 1
            usage.answered += one.outcome == ANSWERED
            failed.update([one.outcome] if one.outcome != ANSWERED else [])
            usage.retries += max(0, len(one.tries) - 1)
            faults.update(each.outcome for each in one.tries if each.outcome != ANSWERED)
            usage.prompt_tokens += one.prompt_tokens
            usage.completion_tokens += one.completion_tokens
            usage.estimated += one.estimated
            usage.cost += one.cost
            usage.seconds += one.seconds
        usage.failed, usage.faults = dict(sorted(failed.items())), dict(sorted(faults.items()))
        return usage

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class LineFile:
    """JSON lines that several processes append to. Every line goes out in one write, which the system does not mix."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.read_to = 0
        """Bytes that `new_lines` has seen."""

    def append(self, data: dict[str, Any]) -> None:
        line = orjson.dumps(data) + b"\n"
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
            try:
                size = os.fstat(descriptor).st_size
                if size and os.pread(descriptor, 1, size - 1) != b"\n":
                    line = b"\n" + line  # A killed writer left half a line; it stays one broken line by itself.
                if (written := os.write(descriptor, line)) != len(line):
                    raise OSError(28, f"only {written} of {len(line)} bytes could be written")
            finally:
                os.close(descriptor)
        except OSError as error:
            raise StoreError(
                f"{self.path}: cannot write: {error.strerror}. Make room or make it writable, and run the same command again."
            ) from error

    def new_lines(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Offset and content of each whole line that was not seen yet. Broken lines are passed over."""
        try:
            if self.path.stat().st_size <= self.read_to:
                return
        except FileNotFoundError:
            return
        except OSError as error:
            raise StoreError(
                f"{self.path}: cannot be read: {error.strerror}. Make room for it or choose another --out."
            ) from error
        with self.path.open("rb") as file:
            file.seek(self.read_to)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                offset, self.read_to = self.read_to, self.read_to + len(line)
                try:
                    data = orjson.loads(line)
                except orjson.JSONDecodeError:
                    continue
                if isinstance(data, dict):
                    yield offset, data

    def line_at(self, offset: int) -> dict[str, Any]:
        with self.path.open("rb") as file:
            file.seek(offset)
            data: dict[str, Any] = orjson.loads(file.readline())
            return data


class RequestLedger:
    """Counts requests, keeps answers, says when a budget is spent.

    folder: where the files are, e.g. ``runs/a/endpoints``. None: everything is kept in memory, for this process.

    Budgets of requests are exact within a process. Tokens and money are known afterwards, so requests in flight may
    exceed these by what they themselves use.
    """

    def __init__(self, config: EndpointConfig, folder: str | Path | None = None) -> None:
        self.config = config
        self._requests = None if folder is None else LineFile(Path(folder) / f"{config.name}.requests.jsonl")
        self._answers = None if folder is None else LineFile(Path(folder) / f"{config.name}.answers.jsonl")
        self._records: list[RequestRecord] = []
        self._lock = threading.RLock()
        self._spent = Spent()
        self._by_episode: dict[str, Spent] = {}
        self._in_flight: Counter[str] = Counter()
        self._places: dict[str, int] = {}
        """Id -> where its answer stands in the file."""

    def admit(self, episode: str) -> None:
        """A request goes out. Raises `EpisodeBudgetSpent` or `RunBudgetSpent`. Pair it with `finish`."""
        with self._lock:
            self._refresh()
            limit = _reached(self.config, "run", self._spent, self._in_flight.total())
            if limit is not None:
                raise RunBudgetSpent(
                    f"endpoint '{self.config.name}': the budget of the run is spent: {limit}.\n"
                    "What was played is stored. Raise the budget in the recipe and run again to go on."
                )
            spent = self._by_episode.get(episode, Spent())
            limit = _reached(self.config, "episode", spent, self._in_flight[episode]) if episode else None
            if limit is not None:
                raise EpisodeBudgetSpent(f"episode {episode}: {limit}", endpoint=self.config.name)
            self._in_flight[episode] += 1

    def finish(self, episode: str, record: RequestRecord | None, answer: dict[str, Any] | None = None) -> None:
        """The request is over. record: None if it was called off before it was sent. answer: kept for a resume."""
        with self._lock:
            self._in_flight[episode] -= 1
            if record is None:
                return
            if self._requests is None or self._answers is None:
                self._count(record)
                self._records.append(record)
                return
            if answer is not None:
                # Before the count: a kill between the two costs a line of the account, never a second payment.
                self._answers.append({"id": record.request_id, "answer": answer})
            self._requests.append(asdict(record))

    def answer(self, request_id: str) -> dict[str, Any] | None:
        """The answer that this request had before, in this run. None: it has none yet."""
        if self._answers is None:
            return None
        with self._lock:
            for offset, data in self._answers.new_lines():
                self._places.setdefault(str(data.get("id")), offset)
            place = self._places.get(request_id)
            return None if place is None else self._answers.line_at(place)["answer"]

    def spent(self, episode: str | None = None) -> Spent:
        """What was spent so far, by the run or by one episode."""
        with self._lock:
            self._refresh()
            return self._spent if episode is None else self._by_episode.get(episode, Spent())

    def usage(self) -> EndpointUsage:
        """The account of everything so far."""
        return EndpointUsage.of(iter(self._records) if self._requests is None else read_requests(self._requests.path))

    def _refresh(self) -> None:
        """Take in what this and other processes have written."""
        if self._requests is not None:
            for _, data in self._requests.new_lines():
                self._count(record_of(data))

    def _count(self, record: RequestRecord) -> None:
        self._spent.add(record)
        if record.episode:
            self._by_episode.setdefault(record.episode, Spent()).add(record)


def _reached(config: EndpointConfig, scope: str, spent: Spent, in_flight: int) -> str | None:
    """The limit that is met, in words."""
    for what, value, more in (
        ("requests", spent.requests, in_flight),
        ("tokens", spent.tokens, 0),
        ("cost", spent.cost, 0),
    ):
        limit = getattr(config, f"max_{scope}_{what}")
        if limit is not None and value + more >= limit:
            pending = f" and {more} in flight" if more else ""
            return f"{value:g} {what}{pending}, max_{scope}_{what} is {limit:g}"
    return None


def record_of(data: dict[str, Any]) -> RequestRecord:
    """A line of the file as a record."""
    return RequestRecord(**{**data, "tries": tuple(Try(**one) for one in data["tries"])})


def read_requests(path: str | Path) -> Iterator[RequestRecord]:
    """The records of a file, oldest first; none if there is no file. Broken lines are passed over."""
    for _, data in LineFile(Path(path)).new_lines():
        yield record_of(data)


def usage_by_endpoint(folder: str | Path) -> dict[str, EndpointUsage]:
    """The accounts in a run's folder ``endpoints``, by name."""
    suffix = ".requests.jsonl"
    paths = sorted(Path(folder).glob(f"*{suffix}"))
    return {path.name.removesuffix(suffix): EndpointUsage.of(read_requests(path)) for path in paths}
