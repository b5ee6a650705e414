"""Environments of verifiers (0.4: tasksets and their environments) by our contract: our loop, their rewards.

In: a `Task` whose settings name a taskset and hold one of its rows:

  taskset      id of an installed taskset package: a module that exports its Taskset
  config       settings of the taskset, an object
  data         the row, as the taskset's own data type writes it
  environment  id of an environment to pair it with; absent: the taskset's own, else one prompt and one reply
  agent        which of the environment's agents our policy plays; absent: its only one

and what all adapters read (`adapters.base`). The environment's own code runs in an event loop of the episode: what it sends
as the user is an observation, the reply of the policy is its agent's reply. The episode is terminated when that code has
finished; the reward is what the task's reward functions and the environment have recorded, weighted and summed. Where the
episode is cut short (`max_steps`, a limit of the loop), the conversation so far is scored, as verifiers does.

Not supported, and refused with the reason: tool servers, containers and hooks that work in a runtime, hooks around single
model calls, pictures, several agents that need models, several conversations in one episode.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tutelage.envs.adapters.base import AdapterEnv, Answer
from tutelage.errors import ConfigError, MissingExtra
from tutelage.types import Action, Message, Observation, Task

WAKE_SECONDS: Final = 1.0
"""How long `close` waits for a thread that it has woken up."""


class VerifiersEnv(AdapterEnv):
    """One episode of a verifiers environment."""

    def __init__(self, task: Task) -> None:
        """Raises ConfigError where the taskset cannot be found or needs what is not supported."""
        super().__init__(task)
        settings = task.settings
        self._env = _environment(settings)
        self._foreign_task = _row_task(self._env, settings)
        self._agent = _agent_name(self._env, settings.get("agent"))
        self._score: float | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._main: asyncio.Task[None] | None = None
        self._busy = threading.Lock()

    def reward(self) -> float | None:
        """The recorded rewards, weighted and summed. None: none was recorded.

        Read before the end, it is the end: the conversation so far is closed and scored, and no step can follow.
        """
        if self._main is not None and not self._main.done():
            self.life.hold()
            self._channel.replies.put_nowait(None)
            self._run(self._rest())
        return self._score

    def _reset(self, seed: int) -> Answer:
        from tutelage.envs.adapters.verifiers_seat import Channel, Seat

        self._loop = asyncio.new_event_loop()
        self._channel = Channel()
        self._seat = Seat(self._agent, self._channel)
        self._main = self._loop.create_task(self._play())
        return self._answer(self._run(self._advance()))

    def _step(self, action: Action) -> Answer:
        self._channel.replies.put_nowait(self.said(action))
        return self._answer(self._run(self._advance()))

    def _close(self) -> None:
        loop, main = self._loop, self._main
        if loop is None or main is None:
            return
        if not self._busy.acquire(blocking=False):
            # The thread that plays wakes up with an error. Where the environment's code does not let go, that thread
            # frees everything when it does.
            with contextlib.suppress(RuntimeError):  # The loop was closed by it already.
                loop.call_soon_threadsafe(main.cancel)
            if not self._busy.acquire(timeout=WAKE_SECONDS):
                return
        try:
            self._free()
        finally:
            self._busy.release()

    def _answer(self, asked: tuple[Message, ...] | None) -> Answer:
        over = asked is None
        return Answer(
            observation=Observation(messages=self._channel.unanswered if asked is None else asked),
            reward=self._score if over else None,
            terminated=over,
            truncated=False,
        )

    async def _play(self) -> None:
        """One episode as verifiers plays it: setup, run, finalize; at its end the score is known."""
        import verifiers.v1 as vf

        from tutelage.envs.adapters.verifiers_seat import NoSeat, Seats

        env, task = self._env, self._foreign_task
        names = _agent_names(env)
        agents = Seats({name: self._seat if name == self._agent else NoSeat(name, self._agent) for name in names})
        try:
            await env.start()
            await env.setup(agents)
            await env.run(task, agents)
            trace = self._seat.trace
            if trace is None or not trace.is_completed:
                raise self.error(f"the environment ended without a conversation with its agent '{self._agent}'")
            episode = vf.Episode(env=vf.EnvInfo(id=env.config.env_id), task=trace.task, traces=[trace], ok=True)
            await env.finalize(task, episode)
        finally:
            await env.stop()
        self._score = self._scored(trace.rewards)

    def _scored(self, rewards: Mapping[str, Any]) -> float | None:
        missing = sorted(name for name, reward in rewards.items() if reward is None)
        if missing:
            raise self.error(f"the rewards {', '.join(missing)} were not scored")
        return self.rewarded(sum(reward.value for reward in rewards.values())) if rewards else None

    # The event loop, which has no thread of its own: it runs while somebody waits for it

    async def _advance(self) -> tuple[Message, ...] | None:
        """The next request for a reply. None: the episode has ended."""
        assert self._main is not None
        request = asyncio.ensure_future(self._channel.requests.get())
        await asyncio.wait({request, self._main}, return_when=asyncio.FIRST_COMPLETED)
        if request.done():
            return request.result()
        request.cancel()
        await self._main
        return None

    async def _rest(self) -> None:
        """Play to the end; whoever still asks gets no reply."""
        while await self._advance() is not None:
            self._channel.replies.put_nowait(None)

    def _run(self, coroutine: Any) -> Any:
        assert self._loop is not None
        with self._busy:
            try:
                if self._loop.is_closed():
                    coroutine.close()
                    raise self.error("closed while it was played")
                return self._loop.run_until_complete(coroutine)
            except asyncio.CancelledError:
                raise self.error("closed while it was played") from None
            finally:
                if self.life.closed:
                    self._free()

    def _free(self) -> None:
        """End what runs, and the loop."""
        loop, main = self._loop, self._main
        assert loop is not None
        assert main is not None
        if loop.is_closed():
            return
        main.cancel()
        loop.run_until_complete(asyncio.gather(main, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


def taskset_rows(settings: Mapping[str, Any]) -> Iterator[tuple[Any, Any]]:
    """The rows of a taskset, in its own order: (task, its data as plain JSON). It may never end."""
    for row in _environment(settings).taskset:
        yield row, row.data.model_dump(mode="json", exclude_defaults=True)


def _environment(settings: Mapping[str, Any]) -> Any:
    """The environment of verifiers that the settings name, with its taskset."""
    try:
        import verifiers.v1 as vf
    except ImportError:
        raise MissingExtra("the adapter 'verifiers'", "verifiers") from None
    if "taskset" not in settings:
        raise ConfigError(f"verifiers: settings {sorted(settings)} name no 'taskset'.")
    named = {"id": settings["taskset"], **(settings.get("config") or {})}
    try:
        config = vf.resolve_env_config({"id": settings.get("environment") or "", "taskset": named})
        env = vf.load_environment(config)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise ConfigError(f"verifiers: taskset '{settings['taskset']}' cannot be loaded: {error}") from None
    if type(env.taskset).toolsets(env.taskset.config):
        raise ConfigError(
            f"verifiers: taskset '{settings['taskset']}' brings tool servers, and the adapter serves none. Use verifiers' "
            "own loop for it."
        )
    return env


def _row_task(env: Any, settings: Mapping[str, Any]) -> Any:
    """The task of verifiers whose data the settings hold."""
    from tutelage.envs.adapters.verifiers_seat import check_task

    kind = type(env.taskset).task_type()
    try:
        data = kind.data_type().model_validate(settings.get("data"))
    except ValueError as error:
        raise ConfigError(f"verifiers: 'data' is no row of taskset '{settings['taskset']}': {error}") from None
    task = kind(data, env.taskset.config.task)
    check_task(task)
    return task


def _agent_names(env: Any) -> list[str]:
    import verifiers.v1 as vf

    return [name for name, value in env.config if isinstance(value, vf.AgentConfig)]


def _agent_name(env: Any, wanted: str | None) -> str:
    names = _agent_names(env)
    if wanted is None and len(names) == 1:
        return names[0]
    if wanted is None:
        raise ConfigError(
            f"verifiers: the environment has the agents {', '.join(names)}; name the one to play in 'agent'."
        )
    if wanted not in names:
        raise ConfigError.unknown("verifiers: agent", wanted, names)
    return wanted
