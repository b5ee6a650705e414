"""Many requests to a server that fails by plan, and the two accounts of it side by side.

    result = fault_drill(5000, folder="runs/drill")
    print(result.table())

Each request must end in exactly one result, and for each try the client must have seen what the server played. The server
counts by itself; nothing of its count comes from the client.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tutelage.errors import EndpointError
from tutelage.policies.endpoint.client import EndpointClient
from tutelage.policies.endpoint.config import EndpointConfig
from tutelage.policies.endpoint.ledger import ANSWERED, RequestRecord, read_requests
from tutelage.policies.endpoint.prompt_scores import read_scores, score_body
from tutelage.testing.fault_server import FAULTS, FaultServer, hash_logprobs

EXPECTED: Final[Mapping[str, str]] = {
    "429": "rate_limit",
    "429_retry_after": "rate_limit",
    "429_http_date": "rate_limit",
    "500": "server",
    "503": "server",
    "hang": "timeout",
    "drip": "timeout",
    "late": "timeout",
    "cut": "transport",
    "closed": "transport",
    "not_json": "malformed_answer",
    "wrong_shape": "malformed_answer",
    "wrong_length": "malformed_answer",
    "answered": ANSWERED,
    "unseen": "timeout",
}
"""What the server plays -> what the client must see."""


MIXED_UP: Final = "mixed_up"
UNSEEN: Final = "unseen"
"""A try that was over before the server had read it."""


@dataclass(frozen=True, kw_only=True)
class DrillResult:
    """Both accounts of a drill."""

    num_requests: int
    num_results: int
    """Requests that ended, in an answer or an error. Fewer than asked would be lost ones."""
    num_ids: int
    """Different request ids that the server saw."""
    ledger_lines: int
    answered: int
    """Requests with an answer, by the client."""
    given_up: int
    """Requests with an error after all tries."""
    mixed_up: int
    """Requests that got the answer to another one."""
    answers_sent: int
    """Whole answers, by the server."""
    answers_unread: int
    """Of these, sent when the client had given the try up; each is of a try that the client counts as a time-out."""
    played: dict[str, int]
    """Tries by what the server played."""
    seen: dict[str, dict[str, int]]
    """What was played -> what the client saw -> tries."""
    disagreements: tuple[str, ...]
    """Requests whose two accounts differ. Empty: none does."""

    def table(self) -> str:
        """A Markdown table by fault, and the totals."""
        rows = ["| played by the server | tries | seen by the client |", "|---|---:|---|"]
        for fault in (*FAULTS, UNSEEN, "answered"):
            if self.played.get(fault):
                seen = ", ".join(f"{name} {count}" for name, count in sorted(self.seen[fault].items()))
                rows.append(f"| {fault} | {self.played[fault]} | {seen} |")
        return "\n".join(
            [
                *rows,
                "",
                f"{self.num_requests} requests, {self.num_results} results: {self.answered} answered, {self.given_up} given "
                f"up after all tries, {self.mixed_up} with the answer to another; {self.num_requests - self.num_results} lost, "
                f"{self.ledger_lines - self.num_ids} double.",
                f"{sum(self.played.values())} tries; {self.answers_sent} whole answers sent, {self.answers_unread} of them "
                "after the client had given that try up.",
                f"Requests on which the two accounts differ: {len(self.disagreements)}.",
            ]
        )


def fault_drill(
    num_requests: int,
    *,
    folder: str | Path,
    seed: int = 0,
    share: float = 0.01,
    concurrency: int = 32,
    try_seconds: float = 1.0,
    max_tries: int = 10,
) -> DrillResult:
    """Send requests of three kinds (chat, completions of ids, log-probabilities of a prompt) through every fault.

    folder: for the client's ledger; must not hold one yet. share: of all tries, for each fault; of the faults
    that a client can only wait out, a third of it.
    """
    faults = {fault: share / 3 if EXPECTED[fault] == "timeout" else share for fault in FAULTS}
    with FaultServer(
        faults=faults, seed=seed, drip_seconds=0.05, late_seconds=1.5 * try_seconds, reply=_echo
    ) as server:
        config = EndpointConfig(
            name="drill",
            url=server.url,
            model="fake",
            server="vllm",
            concurrency=concurrency,
            try_seconds=try_seconds,
            max_tries=max_tries,
            first_delay=0.005,
            longest_delay=0.05,
            seed=seed,
        )
        client = EndpointClient(config, folder=folder)
        try:
            with ThreadPoolExecutor(concurrency) as threads:
                outcomes = list(threads.map(lambda index: _one(client, index), range(num_requests)))
        finally:
            client.close()
    records = list(read_requests(Path(folder) / "drill.requests.jsonl"))
    return _compared(num_requests, outcomes, records, server)


def _echo(body: dict[str, Any]) -> str:
    """What makes an answer tell whose it is."""
    return str(body["messages"][0]["content"] if "messages" in body else body["prompt"])


def _one(client: EndpointClient, index: int) -> str:
    """One request; what came of it."""
    prompt = [index // 100, index % 100, 11]
    try:
        if index % 3 == 0:
            mine = client.chat([{"role": "user", "content": f"request {index}"}]).text == f"request {index}"
        elif index % 3 == 1:
            mine = client.complete(prompt).text == str(prompt)
        else:
            path, body = score_body("vllm", "fake", prompt, 0)
            found = client.post(path, body, lambda data: read_scores("vllm", data, prompt), kind="score")
            mine = found.logprobs == hash_logprobs(prompt)
    except EndpointError as error:
        return error.reason
    return ANSWERED if mine else MIXED_UP


def _compared(num_requests: int, outcomes: list[str], records: list[RequestRecord], server: FaultServer) -> DrillResult:
    seen: dict[str, Counter[str]] = {}
    disagreements = []
    unread = 0
    by_id = {record.request_id: record for record in records}
    num_unseen = 0
    for request_id, theirs in server.seen.items():
        record = by_id.get(request_id)
        mine = [] if record is None else [one.outcome for one in record.tries]
        for number, outcome in enumerate(mine):
            # On a busy machine a try may be over before the server has read it.
            played = theirs.played.get(number, UNSEEN)
            seen.setdefault(played, Counter())[outcome] += 1
            num_unseen += played == UNSEEN
        # For the same reason a good answer may come too late; that the client must count as a time-out, too.
        fits = [b in (EXPECTED[theirs.played.get(a, UNSEEN)], "timeout") for a, b in enumerate(mine)]
        unread += theirs.answered - mine.count(ANSWERED)
        if any(one >= len(mine) for one in theirs.played) or not all(fits) or mine.count(ANSWERED) > 1:
            disagreements.append(f"{request_id}: played {theirs.played}, seen {mine}")
    missing = [f"{one}: in the ledger, never seen by the server" for one in by_id.keys() - server.seen.keys()]
    result: dict[str, Any] = {
        "num_requests": num_requests,
        "num_results": len(outcomes),
        "num_ids": len(server.seen),
        "ledger_lines": len(records),
        "answered": outcomes.count(ANSWERED),
        "given_up": len(outcomes) - outcomes.count(ANSWERED) - outcomes.count(MIXED_UP),
        "mixed_up": outcomes.count(MIXED_UP),
        "answers_sent": sum(server.answered.values()),
        "answers_unread": unread,
        "played": dict(Counter(one for theirs in server.seen.values() for one in theirs.played.values()))
        | ({UNSEEN: num_unseen} if num_unseen else {}),
        "seen": {played: dict(counts) for played, counts in seen.items()},
        "disagreements": (*disagreements, *missing),
    }
    return DrillResult(**result)
