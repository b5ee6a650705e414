"""Serving environments of ours over HTTP, by the contract of `adapters.http`.

    with serve_env(make_env, load_tasks("household", "test", count=20)) as server:
        print(server.url)
        server.wait()

Standard library only. One thread per connection; the episodes live in this process. There is no authentication: keep the
default host, or put something in front.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from tutelage.envs.base import Env
from tutelage.errors import MENDABLE
from tutelage.types import Action, Observation, ParseOutcome, Task

MAX_BYTES: Final = 16 * 2**20
"""Of one request."""
JOIN_SECONDS: Final = 5.0
"""How long the end of a server waits for a thread whose environment hangs."""
IDLE_SECONDS: Final = 3600.0
"""After so long without a request an episode is given up: its player has gone without a word."""


class Refused(Exception):
    """A request that cannot be served."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(kw_only=True, eq=False)
class Episode:
    """One live episode. Its requests come one at a time."""

    env: Env
    lock: threading.Lock = field(default_factory=threading.Lock)
    used: float = field(default_factory=time.monotonic)


class EnvServer:
    """A running server. Leaving the ``with`` block, or `close`, ends it and closes what is live."""

    def __init__(
        self, make_env: Callable[[Task], Env], tasks: Iterable[Task], host: str, port: int, idle_seconds: float
    ) -> None:
        self.tasks = {task.task_id: task for task in tasks}
        self._make_env = make_env
        self._idle_seconds = idle_seconds
        self._episodes: dict[str, Episode] = {}
        self._lock = threading.Lock()
        self._server = _Server((host, port), self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        host, port = self._server.server_address[:2]
        return f"http://{host if isinstance(host, str) else host.decode()}:{port}"

    @property
    def num_live(self) -> int:
        """Episodes that were reset and not closed."""
        return len(self._episodes)

    def wait(self) -> None:
        """Until the server ends, e.g. by Ctrl-C."""
        self._thread.join()

    def close(self) -> None:
        """End it: no thread, connection or environment is left. Again is harmless."""
        self._server.shutdown()
        self._thread.join()
        # Before and after: closing an environment wakes up who waits for it, and who was just resetting makes one more.
        self._end_all()
        self._server.end_connections()
        self._end_all()
        self._server.server_close()

    def __enter__(self) -> EnvServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # The requests

    def answer(self, path: str, body: Any) -> dict[str, Any]:
        """The JSON object for one request. Raises Refused."""
        known = {"/reset": self._reset, "/step": self._step, "/state": self._state, "/close": self._close}
        if path not in known:
            raise Refused(404, f"no {path}; there are GET /tasks, and POST {', '.join(known)}")
        if not isinstance(body, dict):
            raise Refused(400, f"the body is a {type(body).__name__}, expected an object")
        return known[path](body)

    def listed(self, query: Mapping[str, list[str]]) -> dict[str, Any]:
        """The tasks of a split, or of all, in order: what a client needs to play them."""
        split = query.get("split", [""])[0]
        return {"tasks": [_line(task) for task in self.tasks.values() if split in ("", task.split.value)]}

    def _reset(self, body: Mapping[str, Any]) -> dict[str, Any]:
        wanted = body.get("task")
        task_id = wanted.get("id") if isinstance(wanted, dict) else wanted
        if not isinstance(task_id, str) or task_id not in self.tasks:
            raise Refused(404, f"no task {task_id!r} among the {len(self.tasks)} of this server (GET /tasks)")
        seed = body.get("seed", 0)
        if not isinstance(seed, int) or isinstance(seed, bool):
            raise Refused(400, f"'seed' is {seed!r}, expected a whole number")
        self._give_up_idle()
        env = self._make_env(self.tasks[task_id])
        try:
            observation = env.reset(seed)
        except BaseException:
            env.close()
            raise
        episode_id = secrets.token_hex(8)
        with self._lock:
            self._episodes[episode_id] = Episode(env=env)
        return {"episode_id": episode_id, "observation": _written(observation), "info": _info(env), "tutelage": 1}

    def _step(self, body: Mapping[str, Any]) -> dict[str, Any]:
        text = body.get("action")
        if text is not None and not isinstance(text, str):
            raise Refused(400, f"'action' is a {type(text).__name__}, expected a string, or null where there is none")
        action = Action.of(text) if text is not None else Action(text="", parse=ParseOutcome.MALFORMED)
        with self._live(body) as env:
            result = env.step(action)
            return {
                "observation": _written(result.observation),
                "reward": result.reward,
                "terminated": result.terminated,
                "truncated": result.truncated,
                "info": _info(env),
            }

    def _state(self, body: Mapping[str, Any]) -> dict[str, Any]:
        want = body.get("want")
        if want not in ("reward", "state_hash", "admissible", "progress"):
            raise Refused(400, f"'want' is {want!r}, expected reward, state_hash, admissible or progress")
        with self._live(body) as env:
            known = getattr(env, want, None)  # Progress is what an environment may lack.
            return {"value": None if known is None else known()}

    def _close(self, body: Mapping[str, Any]) -> dict[str, Any]:
        self._end(str(body.get("episode_id")))
        return {"closed": True}

    # The episodes

    @contextlib.contextmanager
    def _live(self, body: Mapping[str, Any]) -> Any:
        episode_id = body.get("episode_id")
        episode = self._episodes.get(episode_id) if isinstance(episode_id, str) else None
        if episode is None:
            raise Refused(404, f"no episode {episode_id!r}; it was closed, given up, or never begun here")
        with episode.lock:
            episode.used = time.monotonic()
            yield episode.env

    def _end(self, episode_id: str) -> None:
        """Close an episode; an unknown one is none to close. A step that hangs is not waited for."""
        with self._lock:
            episode = self._episodes.pop(episode_id, None)
        if episode is not None:
            episode.env.close()

    def _end_all(self) -> None:
        for episode_id in list(self._episodes):
            self._end(episode_id)

    def _give_up_idle(self) -> None:
        before = time.monotonic() - self._idle_seconds
        for episode_id, episode in list(self._episodes.items()):
            if episode.used < before and not episode.lock.locked():
                self._end(episode_id)


def serve_env(
    make_env: Callable[[Task], Env],
    tasks: Iterable[Task],
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    idle_seconds: float = IDLE_SECONDS,
) -> EnvServer:
    """Serve episodes of these tasks; returns when the server listens.

    port: 0 takes a free one; see `EnvServer.url`.
    """
    return EnvServer(make_env, tasks, host, port, idle_seconds)


class _Server(socketserver.TCPServer):
    """Each connection has a thread; both are known, so that none is left at the end."""

    allow_reuse_address = True
    request_queue_size = 256

    def __init__(self, address: tuple[str, int], env_server: EnvServer) -> None:
        self.env_server = env_server
        self._connections: dict[threading.Thread, socket.socket] = {}
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        thread = threading.Thread(target=self._in_thread, args=(request, client_address), daemon=True)
        self._connections[thread] = request
        thread.start()

    def _in_thread(self, request: Any, client_address: Any) -> None:
        try:
            # A client that has gone is nobody to complain to.
            with contextlib.suppress(OSError):
                self.finish_request(request, client_address)
        finally:
            self.shutdown_request(request)
            self._connections.pop(threading.current_thread(), None)

    def end_connections(self) -> None:
        for thread, connection in list(self._connections.items()):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            thread.join(JOIN_SECONDS)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 1 << 16
    """Head and body in one piece: two small ones would each wait for the other side's receipt."""
    server: _Server

    def do_POST(self) -> None:
        self._serve(lambda: self.server.env_server.answer(urlsplit(self.path).path, self._body()))

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        if parts.path == "/tasks":
            self._serve(lambda: self.server.env_server.listed(parse_qs(parts.query)))
        else:
            self._serve(lambda: self.server.env_server.answer(parts.path, None))

    def log_message(self, format: str, *args: object) -> None:
        """Silent: the client keeps the record."""

    def _serve(self, request: Callable[[], dict[str, Any]]) -> None:
        try:
            self._send(200, request())
        except Refused as refused:
            self._send(refused.status, {"error": str(refused)})
        except MENDABLE as error:
            self._send(400, {"error": f"{type(error).__name__}: {error}"})
        except Exception as error:
            self._send(500, {"error": f"{type(error).__name__}: {error}"})

    def _body(self) -> Any:
        length = self.headers.get("Content-Length", "")
        if not length.isdigit() or int(length) > MAX_BYTES:
            self.close_connection = True  # What follows cannot be told from the next request.
            raise Refused(413 if length.isdigit() else 411, f"Content-Length {length!r}, expected up to {MAX_BYTES}")
        try:
            return json.loads(self.rfile.read(int(length)))
        except (ValueError, RecursionError):
            raise Refused(400, "the body is no JSON") from None

    def _send(self, status: int, body: dict[str, Any]) -> None:
        payload = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)


def _written(observation: Observation) -> str | list[dict[str, str]]:
    """An observation of one user message as its text, another one as its messages."""
    messages = observation.messages
    if len(messages) == 1 and messages[0].role == "user":
        return messages[0].content
    return [{"role": message.role, "content": message.content} for message in messages]


def _info(env: Env) -> dict[str, Any]:
    """What a served environment reports of its latest step, if it does: the rest may be no JSON, and nobody reads it."""
    info: Mapping[str, Any] = getattr(env, "info", {})
    return {"footprint": info["footprint"]} if "footprint" in info else {}


def _line(task: Task) -> dict[str, Any]:
    return {
        "id": task.task_id,
        "split": task.split.value,
        "seed": task.seed,
        "goal": task.goal,
        "kind": task.kind,
        "max_steps": task.settings.get("max_steps"),
        "content_hash": task.settings.get("content_hash"),
    }
