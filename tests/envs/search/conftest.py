"""For the search tests: a retriever server that fails as told."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest


class FaultyServer:
    """A retriever server on loopback. Each request takes the next fault from `faults`; without one it answers.

    ``500`` and other numbers: that status; ``hang``: no answer for a second; ``drip``: a byte at a time; ``cut``: half
    of the body; ``reset``: the connection breaks; anything else is sent as the body.
    """

    def __init__(self, answer: Callable[[dict[str, Any]], Any]) -> None:
        self.answer = answer
        self.faults: list[str] = []
        self.requests: list[dict[str, Any]] = []
        self.times: list[float] = []
        self._released = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                outer.serve(self)

            def log_message(self, *_: object) -> None:
                return None

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = False
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/retrieve"

    def serve(self, handler: BaseHTTPRequestHandler) -> None:
        asked = json.loads(handler.rfile.read(int(handler.headers["Content-Length"])))
        self.requests.append(asked)
        self.times.append(time.monotonic())
        fault = self.faults.pop(0) if self.faults else ""
        if fault == "reset":
            # Linger 0: the kernel sends a reset instead of an end.
            handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            handler.connection.close()
            handler.wfile = handler.rfile  # type: ignore[assignment]
            return
        if fault == "hang":
            self._released.wait(5)
        status = int(fault) if fault.isdecimal() else 200
        special = fault in ("", "hang", "drip", "cut") or fault.isdecimal()
        body = json.dumps(self.answer(asked)).encode() if special else fault.encode()
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        try:
            if fault == "drip":
                for byte in body:
                    handler.wfile.write(bytes([byte]))
                    handler.wfile.flush()
                    if self._released.wait(0.02):
                        break
            else:
                handler.wfile.write(body[: len(body) // 2] if fault == "cut" else body)
        except OSError:
            pass  # The client has gone.

    def close(self) -> None:
        self._released.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def faulty_server() -> Iterator[Callable[[Callable[[dict[str, Any]], Any]], FaultyServer]]:
    """Makes servers that are gone when the test is over."""
    servers: list[FaultyServer] = []

    def make(answer: Callable[[dict[str, Any]], Any]) -> FaultyServer:
        servers.append(FaultyServer(answer))
        return servers[-1]

    yield make
    for server in servers:
        server.close()
