"""A retriever behind an HTTP server of the usual contract.

  POST {"query": "...", "topk": 3, "return_scores": true}
    -> {"result": [[{"document": {"contents": "Title\\nText"}, "score": 1.0}, ...]]}

Batched servers (Search-R1's own) take ``queries``, a list, and give one list for each. A document may also be given
without its score, or with `title` and `text`. Order and ties are the server's.

Failures: what may pass (connection, time-out, 5xx, a body cut short) is tried again with growing delays; what will not
(4xx, an answer that is not the contract's JSON) ends at once. The end of it is an EnvError, never a passage.
"""

from __future__ import annotations

import http.client
import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from tutelage.envs.search.passages import Passage, passage_of
from tutelage.errors import ConfigError, EnvError, FormatError

MOST_BYTES: Final = 32 * 1024 * 1024
"""Of an answer; a longer one is an endless one."""

LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")


class _Passing(Exception):
    """A failure that may pass."""


class HttpRetriever:
    """Asks a server. Not shared: closing it ends the waits of its own episode only.

    batched: the server takes ``queries``; else one request a query.
    timeout: seconds for one try, all of its answer included.
    retries: tries after the first one.
    first_delay, longest_delay: seconds before the first retry, doubled for each further one up to the longest.
    """

    def __init__(
        self,
        url: str,
        *,
        batched: bool = False,
        timeout: float = 10.0,
        retries: int = 10,
        first_delay: float = 0.5,
        longest_delay: float = 8.0,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(f"http retriever: url is {url!r}, expected http://host:port/path.")
        if timeout <= 0 or retries < 0 or first_delay < 0 or longest_delay < first_delay:
            raise ConfigError(
                f"http retriever: timeout {timeout}, retries {retries}, delays {first_delay} to {longest_delay}; expected "
                "timeout > 0, retries >= 0, 0 <= first_delay <= longest_delay."
            )
        self.url = url
        self.batched = batched
        self.timeout = timeout
        self.delays = tuple(min(longest_delay, first_delay * 2.0**index) for index in range(retries))
        self._closed = threading.Event()
        # A proxy is for the world outside; it does not know this machine's loopback.
        handlers = [urllib.request.ProxyHandler({})] if parts.hostname in LOOPBACK else []
        self._opener = urllib.request.build_opener(*handlers)

    def search(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        queries = list(queries)
        if not queries:
            return []
        if self.batched:
            return self._ask({"queries": queries}, len(queries), k)
        return [self._ask({"query": query}, 1, k)[0] for query in queries]

    def close(self) -> None:
        self._closed.set()

    def _ask(self, asked: dict[str, Any], num_queries: int, k: int) -> list[list[Passage]]:
        body = json.dumps({**asked, "topk": k, "return_scores": True}).encode()
        tried = 0
        while True:
            try:
                answer = self._post(body)
            except _Passing as error:
                if tried == len(self.delays):
                    raise EnvError(f"retriever {self.url}: {error}; given up after {tried + 1} tries.") from error
                if self._closed.wait(self.delays[tried]):
                    raise EnvError(f"retriever {self.url}: {error}; the episode is over, not tried again.") from error
                tried += 1
            else:
                return self._read(answer, num_queries, k)

    def _post(self, body: bytes) -> bytes:
        """One try. Raises _Passing, or EnvError on what will not pass."""
        request = urllib.request.Request(self.url, data=body, headers={"Content-Type": "application/json"})
        deadline = time.monotonic() + self.timeout
        try:
            with self._opener.open(request, timeout=self.timeout) as response:
                return _read_all(response, deadline)
        except urllib.error.HTTPError as error:
            with error:
                said = error.read(300).decode(errors="replace") if error.fp else ""
            if error.code >= 500:
                raise _Passing(f"HTTP {error.code} {said!r}") from error
            raise EnvError(
                f"retriever {self.url}: HTTP {error.code} {said!r}. The request or address is wrong."
            ) from error
        except (OSError, http.client.HTTPException) as error:
            raise _Passing(f"{type(error).__name__}: {error}") from error

    def _read(self, answer: bytes, num_queries: int, k: int) -> list[list[Passage]]:
        try:
            result = json.loads(answer)["result"]
            if not isinstance(result, list) or len(result) != num_queries:
                raise FormatError(f"result: {str(result)[:80]!r}, expected {num_queries} lists of documents")
            return [[_document(entry) for entry in _list(found)[:k]] for found in result]
        except (ValueError, KeyError, TypeError) as error:
            raise EnvError(
                f"retriever {self.url}: answer {answer[:120]!r} is not of the contract ({error}).\n"
                '  Expected {"result": [[{"document": {"contents": ...}, "score": ...}, ...]]}.'
            ) from error


def _read_all(response: http.client.HTTPResponse, deadline: float) -> bytes:
    """The whole body, before the deadline even if it comes in drops."""
    parts: list[bytes] = []
    size = 0
    while part := response.read1(1 << 16):
        parts.append(part)
        size += len(part)
        if time.monotonic() > deadline:
            raise _Passing(f"time-out with {size} bytes of the answer read")
        if size > MOST_BYTES:
            raise _Passing(f"answer of more than {MOST_BYTES} bytes")
    # read1 ends silently where the connection does.
    promised = response.headers.get("Content-Length", "")
    if promised.isdecimal() and size < int(promised):
        raise _Passing(f"answer cut short, {size} of {promised} bytes came")
    return b"".join(parts)


def _list(found: Any) -> list[Any]:
    if not isinstance(found, list):
        raise FormatError(f"result: {type(found).__name__} for a query, expected a list of documents")
    return found


def _document(entry: Any) -> Passage:
    document = entry["document"] if isinstance(entry, dict) and "document" in entry else entry
    return passage_of(document, "result")
