"""Environments on an OpenEnv server, over its WebSocket: one connection, which is one session, per episode.

In: a `Task` whose settings name a server and say how its typed actions and observations are texts:

  url                where the server is, ``http://...`` or ``ws://...``
  task               further arguments of the environment's reset, an object; absent: seed and episode id alone
  act                place of a function (command) -> action: an object or a typed Action; None where it is none
  action_field       instead of `act`: the field of the action that takes the command
  observe            place of a function (observation) -> text or messages; the observation is an object
  observation_field  instead of `observe`: the field of the observation that holds the text
  end                place of a function (observation) -> ``terminated`` or ``truncated``, asked when the episode is done;
                     absent: done means terminated, as OpenEnv says
  timeout            seconds for one request, and for making the connection

and what all adapters read (`adapters.base`). Nothing is repeated: a session that is lost is lost. A lost or late server and
a refused request are `EnvError`s. The server's HTTP endpoints /reset and /step make a new environment for each request, so
they cannot play an episode and are not used. By default a server has room for one session; start it with as many
(``max_concurrent_envs``) as the rollout has live episodes.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from tutelage.envs.adapters.base import AdapterEnv, Answer
from tutelage.errors import ConfigError, EnvError, MissingExtra
from tutelage.types import Action, Observation, Task

TIMEOUT_SECONDS: Final = 60.0
CLOSE_SECONDS: Final = 2.0
MAX_BYTES: Final = 100 * 2**20
"""Of one message; observations of some environments hold pictures."""
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_MAX_EPISODE_ID: Final = 255


class OpenEnvEnv(AdapterEnv):
    """One episode on an OpenEnv server."""

    def __init__(self, task: Task) -> None:
        """Raises ConfigError where settings are missing. Connects at `reset`."""
        super().__init__(task)
        settings = task.settings
        self.url = _socket_url(str(settings.get("url", "")), task.task_id)
        self.timeout = float(settings.get("timeout", TIMEOUT_SECONDS))
        self._act = self.place("act")
        self._observe = self.place("observe")
        self._end = self.place("end")
        for function, other in (("act", "action_field"), ("observe", "observation_field")):
            if (settings.get(function) is None) == (settings.get(other) is None):
                raise ConfigError(f"task {task.task_id}: give either '{function}' (place of a function) or '{other}'.")
        self._connection: Any = None
        self._failed = False
        self._hang_up = contextlib.ExitStack()

    def _reset(self, seed: int) -> Answer:
        self._connection = self._connected()
        if self.life.closed:  # While it was being made.
            self._hang_up.close()
            raise self.error("closed during reset")
        data = {
            "seed": seed,
            "episode_id": self.task.task_id[:_MAX_EPISODE_ID],
            **(self.task.settings.get("task") or {}),
        }
        return self._answer(self._asked("reset", data))

    def _step(self, action: Action) -> Answer | None:
        made = (
            {self.task.settings.get("action_field"): action.command} if self._act is None else self._act(action.command)
        )
        if made is None:
            return None
        data = made.model_dump(mode="json") if hasattr(made, "model_dump") else made
        if not isinstance(data, dict):
            raise ConfigError(
                f"task {self.task.task_id}: act: {self.task.settings['act']} returned a {type(made).__name__}, "
                "expected an object, a typed Action, or None."
            )
        return self._answer(self._asked("step", data))

    def _close(self) -> None:
        """Say goodbye and hang up. A thread that waits for an answer wakes up with an error."""
        if self._connection is None:
            return
        from websockets.exceptions import ConcurrencyError, ConnectionClosed

        with self._hang_up, contextlib.suppress(ConnectionClosed, ConcurrencyError, TimeoutError):
            self._connection.send(json.dumps({"type": "close"}))
            if not self._failed:
                # The server hangs up when it has freed the session's place, which the next episode may need.
                self._connection.recv(timeout=CLOSE_SECONDS)

    def _answer(self, data: Mapping[str, Any]) -> Answer:
        observation = self._part(data, "observation")
        if not isinstance(observation, dict):
            raise self.error(f"the observation is a {type(observation).__name__}, expected an object")
        done = self.flag("done", self._part(data, "done"))
        kind = "terminated" if done else None
        if done and self._end is not None:
            kind = self._end(observation)
            if kind not in ("terminated", "truncated"):
                raise self.error(
                    f"done, and {self.task.settings['end']} calls this kind of end {kind!r}, expected 'terminated' "
                    "or 'truncated'"
                )
        metadata = data.get("metadata") or observation.get("metadata")
        return Answer(
            observation=self._text(observation),
            reward=self.rewarded(data.get("reward")),
            terminated=kind == "terminated",
            truncated=kind == "truncated",
            info=self.informed(metadata),
        )

    def _text(self, observation: Mapping[str, Any]) -> Observation:
        if self._observe is not None:
            return self.observed(self._observe(observation))
        return self.observed(self._part(observation, str(self.task.settings["observation_field"])))

    def _connected(self) -> Any:
        try:
            from websockets.exceptions import InvalidHandshake
            from websockets.sync.client import connect
        except ImportError:
            raise MissingExtra("the adapter 'openenv'", "openenv") from None
        options: dict[str, Any] = {"proxy": None} if urlsplit(self.url).hostname in _LOOPBACK else {}
        try:
            # No pings: a server that computes a step may be silent for longer than they allow; `timeout` bounds that.
            connecting = connect(
                self.url,
                open_timeout=self.timeout,
                close_timeout=CLOSE_SECONDS,
                ping_interval=None,
                max_size=MAX_BYTES,
                **options,
            )
            return self._hang_up.enter_context(connecting)
        except (OSError, InvalidHandshake) as error:
            raise self.error(f"{self.url}: no connection ({type(error).__name__}: {error})") from None

    def _asked(self, kind: str, data: Mapping[str, Any]) -> Mapping[str, Any]:
        """The data of the answer to one message."""
        from websockets.exceptions import ConnectionClosed

        try:
            # A server without room says so and hangs up, maybe before this is sent; what it said can still be read.
            with contextlib.suppress(ConnectionClosed):
                self._connection.send(json.dumps({"type": kind, "data": data}))
            received = self._connection.recv(timeout=self.timeout)
        except TimeoutError:
            self._failed = True
            raise self.error(f"{self.url}: no answer to '{kind}' within {self.timeout:g} s") from None
        except ConnectionClosed as error:
            raise self.error(f"{self.url}: the connection was lost ({error})") from None
        try:
            found = json.loads(received)
        except (ValueError, RecursionError):
            raise self.error(f"{self.url}: the answer to '{kind}' is no JSON: {str(received)[:200]!r}") from None
        if not isinstance(found, dict) or not isinstance(found.get("data"), dict):
            raise self.error(
                f"{self.url}: the answer to '{kind}' is {str(found)[:200]}, expected an object with 'data'"
            )
        if found.get("type") != "observation":
            raise self._refused(kind, found["data"])
        answered: Mapping[str, Any] = found["data"]
        return answered

    def _refused(self, kind: str, data: Mapping[str, Any]) -> EnvError:
        detail = f"{data.get('code', 'no code')}: {data.get('message', '')}"
        if data.get("code") == "CAPACITY_REACHED":
            detail += (
                ". Start the server with a larger max_concurrent_envs, or play fewer episodes at once (concurrency)"
            )
        return self.error(f"{self.url}: '{kind}' was refused ({detail})")

    def _part(self, data: Mapping[str, Any], key: str) -> Any:
        if key not in data:
            raise self.error(f"{self.url}: the answer has no '{key}', only {', '.join(sorted(data)) or 'nothing'}")
        return data[key]


def _socket_url(url: str, task_id: str) -> str:
    """Example: ``http://127.0.0.1:8000`` -> ``ws://127.0.0.1:8000/ws``"""
    scheme, separator, rest = url.rstrip("/").partition("://")
    schemes = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}
    if not (separator and rest and scheme in schemes):
        raise ConfigError(f"task {task_id}: url is {url!r}, expected something like http://127.0.0.1:8000.")
    return f"{schemes[scheme]}://{rest.removesuffix('/ws')}/ws"
