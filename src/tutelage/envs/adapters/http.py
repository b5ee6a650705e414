"""Environments behind plain HTTP: in another process, another interpreter, another language.

    POST /reset  {"task", "seed"}          -> {"episode_id", "observation"}
    POST /step   {"episode_id", "action"}  -> {"observation", "reward", "terminated", "truncated", "info"}
    POST /close  {"episode_id"}            -> anything

`task` is what the settings say (`task`), any JSON value; `action` the command, a string; an observation is text or a list
of messages ``{"role", "content"}``; a reward is a number or null; the flags are true or false; `info` may be left out.

Our own server (`adapters.serve`) marks its answer to /reset with ``"tutelage": 1`` and knows more: an action null for a
reply without a command, GET /tasks, and

    POST /state  {"episode_id", "want"}    -> {"value"}     want: reward, state_hash, admissible or progress

so that an environment of ours is the same through it as in process. Settings:

  url             where the server is
  task            the value of `task`
  timeout         seconds for one request
  retries         how often a request is repeated that may be: /reset and /state, after a lost connection or a 5xx, and
                  any request whose connection could not be made. A step that may have arrived is never made twice.

and what all adapters read (`adapters.base`). A lost or late server, a 4xx or 5xx, and an answer that is no JSON or lacks
something are `EnvError`s: the episode has no reward, and the runner may play it again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tutelage.envs.adapters.base import AdapterEnv, Answer
from tutelage.envs.adapters.json_connection import JsonConnection, ServerFault
from tutelage.errors import ConfigError
from tutelage.types import Action, Task

TIMEOUT_SECONDS: Final = 60.0
RETRIES: Final = 2
CLOSE_SECONDS: Final = 5.0
"""How long the end of an episode waits for the server."""


class HttpEnv(AdapterEnv):
    """One episode on a server, over one kept-alive connection."""

    def __init__(self, task: Task) -> None:
        """Raises ConfigError where the settings name no server. Connects at `reset`."""
        super().__init__(task)
        settings = task.settings
        if "url" not in settings:
            raise ConfigError(f"task {task.task_id}: settings {sorted(settings)} name no 'url' of a server.")
        timeout = float(settings.get("timeout", TIMEOUT_SECONDS))
        self._server = JsonConnection(
            str(settings["url"]), timeout=timeout, retries=int(settings.get("retries", RETRIES))
        )
        self._episode_id: object = None
        self._is_ours = False
        self._failed = False

    def _reset(self, seed: int) -> Answer:
        # Safe to repeat: an episode whose first answer was lost is one that nobody plays.
        found = self._ask("/reset", {"task": self.task.settings.get("task"), "seed": seed}, repeatable=True)
        self._episode_id = _taken(self, "/reset", found, "episode_id")
        self._is_ours = found.get("tutelage") == 1
        return Answer(
            observation=self.observed(_taken(self, "/reset", found, "observation")),
            reward=None,
            terminated=False,
            truncated=False,
            info=self.informed(found.get("info")),
        )

    def _step(self, action: Action) -> Answer | None:
        # Where a format has read the reply, the server's own reading needs the reply as well.
        return self._acted(action.command if action.call is None else self.said(action))

    def _step_malformed(self) -> Answer | None:
        return self._acted(None) if self._is_ours else None

    def _acted(self, text: str | None) -> Answer:
        found = self._ask("/step", {"episode_id": self._episode_id, "action": text})
        return Answer(
            observation=self.observed(_taken(self, "/step", found, "observation")),
            reward=self.rewarded(_taken(self, "/step", found, "reward")),
            terminated=self.flag("terminated", _taken(self, "/step", found, "terminated")),
            truncated=self.flag("truncated", _taken(self, "/step", found, "truncated")),
            info=self.informed(found.get("info")),
        )

    def _close(self) -> None:
        """Tell the server, and drop the connection. After a failure, one that cannot be told is no news."""
        failed = self._failed
        self._server.close()
        if self._episode_id is None:
            return
        # A connection of its own: the first one may be waiting in another thread for a step that hangs.
        farewell = JsonConnection(self._server.url, timeout=min(self._server.timeout, CLOSE_SECONDS), retries=0)
        try:
            farewell.post("/close", {"episode_id": self._episode_id})
        except ServerFault as fault:
            if not failed:
                raise self.error(str(fault)) from None
        finally:
            farewell.close()

    # What only our own server knows

    def reward(self) -> float | None:
        """What the served environment says, where it is one of ours; else from the rewards of the steps."""
        return self.rewarded(self._state("reward")) if self._is_ours else super().reward()

    def admissible(self) -> tuple[str, ...] | None:
        found = self._state("admissible") if self._is_ours else None
        return None if found is None else tuple(str(command) for command in found)

    def state_hash(self) -> str | None:
        found = self._state("state_hash") if self._is_ours else None
        return None if found is None else str(found)

    def progress(self) -> float | None:
        """Share of the goal that is reached. None: the server cannot tell."""
        return self.rewarded(self._state("progress")) if self._is_ours else None

    def _state(self, want: str) -> Any:
        found = self._ask("/state", {"episode_id": self._episode_id, "want": want}, repeatable=True)
        return _taken(self, "/state", found, "value")

    def _ask(self, path: str, body: Mapping[str, object], *, repeatable: bool = False) -> dict[str, Any]:
        try:
            found = self._server.post(path, body, repeatable=repeatable)
        except ServerFault as fault:
            self._failed = True
            raise self.error(str(fault)) from None
        if not isinstance(found, dict):
            raise self.error(f"{self._server.url}{path}: the answer is a {type(found).__name__}, expected an object")
        return found


def _taken(env: HttpEnv, path: str, found: Mapping[str, Any], key: str) -> Any:
    if key not in found:
        raise env.error(f"{path}: the answer has no '{key}', only {', '.join(sorted(found)) or 'nothing'}")
    return found[key]
