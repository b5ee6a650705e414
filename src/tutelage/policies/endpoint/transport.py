"""One try of one request over HTTP, under a limit that holds from connecting to the last byte; and the thread it runs in.

A limit per read would not do: a server that sends one byte a second never meets it. The whole try is one task of an
event loop, and its end by time or by `cancel` ends the wait wherever it is.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from tutelage.errors import MissingExtra

T = TypeVar("T")

MOST_BYTES = 256 * 1024 * 1024
"""Of one answer; a longer one is an endless one. Log-probabilities of a long prompt take tens of millions."""


GRACE_SECONDS = 5.0
"""How long the end waits for answers to what was sent: they are perhaps paid for."""

SENDING = "tutelage-endpoint-send"
"""Name of the tasks that wait for an answer."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back: a status with a body, or the kind of failure."""

    failure: str | None
    """``timeout`` or ``transport``. None: a whole answer came, whatever its status."""
    detail: str = ""
    status: int | None = None
    body: bytes = b""
    retry_after: str | None = None


class LoopThread:
    """An event loop in a thread of its own, with as many HTTP connections as there are requests under way.

    trust_env: use the proxies that the environment names.
    """

    def __init__(self, *, trust_env: bool) -> None:
        try:
            import httpx
        except ImportError as error:
            raise MissingExtra("an endpoint", "serve") from error
        self._httpx = httpx
        self._trust_env = trust_env
        # A pool looks at all its connections for each request, which costs more than the request where there are many.
        # So each client has one connection, and the one that was used last is taken first.
        self._free: list[Any] = []
        self._verify = httpx.create_ssl_context()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="tutelage-endpoint", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self._loop.run_forever()
        self._loop.close()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def send(
        self, method: str, url: str, content: bytes | None, headers: Mapping[str, str], seconds: float
    ) -> tuple[Reply, bool]:
        """One try, and whether it was called off meanwhile. A call-off does not end it; only `close` does, after a while."""
        sending = asyncio.create_task(self._request(method, url, content, headers, seconds), name=SENDING)
        called_off = False
        while not sending.done():
            try:
                await asyncio.shield(sending)
            except asyncio.CancelledError:
                called_off = True
        if sending.cancelled():
            raise asyncio.CancelledError
        return sending.result(), called_off

    async def _request(
        self, method: str, url: str, content: bytes | None, headers: Mapping[str, str], seconds: float
    ) -> Reply:
        """Never raises for what a server or the network does."""
        httpx = self._httpx
        http = self._free.pop() if self._free else self._new_client()
        status: int | None = None
        try:
            async with asyncio.timeout(seconds):
                async with http.stream(method, url, content=content, headers=headers) as response:
                    status = response.status_code
                    body = bytearray()
                    async for part in response.aiter_bytes():
                        body += part
                        if len(body) > MOST_BYTES:
                            return Reply("transport", f"an answer of more than {MOST_BYTES} bytes", status)
                    return Reply(None, "", status, bytes(body), response.headers.get("retry-after"))
        except TimeoutError:
            return Reply("timeout", f"no whole answer within {seconds:g} s", status)
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            return Reply("transport", f"{type(error).__name__}: {error}", status)
        finally:
            self._free.append(http)

    def _new_client(self) -> Any:
        limits = self._httpx.Limits(max_connections=1, max_keepalive_connections=1)
        # A redirect would carry the key to another host, so it is an answer like any other.
        return self._httpx.AsyncClient(timeout=None, limits=limits, trust_env=self._trust_env, verify=self._verify)

    def close(self) -> None:
        """End all that is under way, close connections, end the thread. Twice is fine."""
        if not self._thread.is_alive():
            return
        ending = asyncio.run_coroutine_threadsafe(self._end(), self._loop)
        ending.add_done_callback(lambda _: self._loop.call_soon_threadsafe(self._loop.stop))
        # A forgotten client may be collected by this very thread, which cannot wait for itself.
        if threading.current_thread() is not self._thread:
            self._thread.join(GRACE_SECONDS + 5.0)

    async def _end(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            if task.get_name() != SENDING:
                task.cancel()
        _, pending = await asyncio.wait(tasks, timeout=GRACE_SECONDS) if tasks else (set(), set())
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        for http in self._free:
            await http.aclose()
