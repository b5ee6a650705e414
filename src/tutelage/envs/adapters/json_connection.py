"""One kept-alive connection to a server that speaks JSON over HTTP, with bounds on time, size and repetition.

What is repeated, at most `retries` times with a growing pause: making the connection, for every request, since nothing
has been sent; and a request that the caller calls repeatable, after a lost connection or a 5xx. A request that is not
repeatable and may have arrived is never sent again. A time-out is not repeated: the caller has waited long enough.
"""

from __future__ import annotations

import http.client
import json
import selectors
import socket
import threading
import time
from typing import Any, Final
from urllib.parse import urlsplit

from tutelage.errors import ConfigError

PAUSE_SECONDS: Final = 0.1
"""Before the first repetition; doubled before each further one."""
WAKE_SECONDS: Final = 1.0
"""How long `close` waits for a thread that it has woken up."""
MAX_BYTES: Final = 16 * 2**20
"""Of one answer."""
_CHUNK: Final = 1 << 16


class ServerFault(Exception):
    """The server is lost, late, failing, or answered something else than JSON."""


class JsonConnection:
    """Used by one thread at a time; `close` may come from another one and ends a request that is waiting."""

    def __init__(self, url: str, *, timeout: float, retries: int) -> None:
        """timeout: seconds for one request, and for making a connection. Raises ConfigError for a url that is none."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(f"url is {url!r}, expected something like http://127.0.0.1:8000.")
        self.url = url.rstrip("/")
        self.timeout = timeout
        self.retries = retries
        self._path = parts.path.rstrip("/")
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._connection = kind(parts.hostname, parts.port, timeout=timeout)
        self._busy = threading.Lock()
        self._closed = False

    def post(self, path: str, body: object, *, repeatable: bool = False) -> Any:
        """The JSON value that the server answers. Raises ServerFault."""
        return self._request("POST", path, json.dumps(body).encode(), repeatable)

    def get(self, path: str) -> Any:
        """The JSON value at a path. Repeatable. Raises ServerFault."""
        return self._request("GET", path, None, True)

    def close(self) -> None:
        """Drop the connection; again is harmless."""
        self._closed = True
        if not self._busy.acquire(blocking=False):
            # The thread that waits for the answer wakes up with an error. One that is still connecting does not; it
            # drops the connection itself when it comes back.
            _shut_down(self._connection.sock)
            if not self._busy.acquire(timeout=WAKE_SECONDS):
                return
        try:
            self._connection.close()
        finally:
            self._busy.release()

    def _request(self, method: str, path: str, data: bytes | None, repeatable: bool) -> Any:
        with self._busy:
            try:
                for attempt in range(self.retries + 1):
                    if attempt:
                        time.sleep(PAUSE_SECONDS * 2 ** (attempt - 1))
                    found = self._attempt(method, path, data, repeatable, last=attempt == self.retries)
                    if found is not None:
                        return self._value(path, *found)
            finally:
                if self._closed:
                    self._connection.close()
        raise AssertionError("the last attempt answers or raises")

    def _attempt(
        self, method: str, path: str, data: bytes | None, repeatable: bool, *, last: bool
    ) -> tuple[int, bytes] | None:
        """Status and body; None: to be repeated."""
        if self._closed:
            raise ServerFault(f"{self.url}{path}: the connection was closed")
        connected = False
        try:
            self._connect()
            connected = True
            status, payload = self._exchange(method, path, data)
        except TimeoutError:
            self._connection.close()
            raise ServerFault(f"{self.url}{path}: no answer within {self.timeout:g} s") from None
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            if last or (connected and not repeatable):
                raise ServerFault(f"{self.url}{path}: {_described(error, connected)}") from None
            return None
        return None if status >= 500 and repeatable and not last else (status, payload)

    def _connect(self) -> None:
        """A connection that can be sent on: a server may have dropped the old one while nobody spoke."""
        sock = self._connection.sock
        if sock is not None and _has_something(sock):
            self._connection.close()
        if self._connection.sock is None:
            self._connection.connect()

    def _exchange(self, method: str, path: str, data: bytes | None) -> tuple[int, bytes]:
        """Status and body of one answer."""
        deadline = time.monotonic() + self.timeout
        headers = {"Accept": "application/json"} | ({"Content-Type": "application/json"} if data is not None else {})
        self._connection.request(method, f"{self._path}{path}", body=data, headers=headers)
        response = self._connection.getresponse()
        chunks: list[bytes] = []
        size = 0
        while chunk := response.read1(_CHUNK):
            chunks.append(chunk)
            size += len(chunk)
            if size > MAX_BYTES:
                raise http.client.HTTPException(f"the answer is longer than {MAX_BYTES} bytes")
            if time.monotonic() > deadline:
                raise TimeoutError
        response.close()  # Read to its end, it gives the connection free for the next request.
        if response.will_close or self._closed:
            self._connection.close()
        return response.status, b"".join(chunks)

    def _value(self, path: str, status: int, payload: bytes) -> Any:
        if not 200 <= status < 300:
            raise ServerFault(f"{self.url}{path}: status {status}, {_cut(payload)}")
        try:
            return json.loads(payload, parse_constant=_no_constant)
        except (ValueError, RecursionError):
            raise ServerFault(f"{self.url}{path}: the answer is no JSON: {_cut(payload)}") from None


def _has_something(sock: socket.socket) -> bool:
    """Whether a connection on which nothing is due has something to read: its end, as a rule."""
    with selectors.DefaultSelector() as selector:
        selector.register(sock, selectors.EVENT_READ)
        return bool(selector.select(0))


def _shut_down(sock: socket.socket | None) -> None:
    if sock is not None:
        try:
            sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # It was gone already.


def _described(error: Exception, connected: bool) -> str:
    what = "the connection was lost" if connected else "no connection"
    return f"{what} ({type(error).__name__}: {error})"


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON")


def _cut(payload: bytes) -> str:
    text = payload.decode("utf-8", "replace").strip()
    return (text if len(text) <= 200 else text[:197] + "...") or "an empty body"
