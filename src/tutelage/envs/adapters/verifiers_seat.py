"""The seat at which our policy sits in an environment of verifiers: its agent, answered by steps instead of a model.

The environment's own code runs as it is written: it opens an interaction, sends user turns, reads replies, records rewards.
Each of its requests for a reply is an observation; the next action is the reply. What verifiers does around a rollout is
done here in the same order: setup, turns with the task's `@stop`s before each, finalize, scoring.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, get_origin, get_type_hints

import verifiers.v1 as vf
from verifiers.v1.state import state_cls
from verifiers.v1.utils.decorators import discover_decorated

from tutelage.errors import ConfigError
from tutelage.types import Message

LIMIT = "max_turns"
"""The stop condition of a conversation that was ended from our side."""


class Channel:
    """Requests for a reply, and replies, between the environment's code and the steps of an episode."""

    def __init__(self) -> None:
        self.requests: asyncio.Queue[tuple[Message, ...]] = asyncio.Queue()
        self.replies: asyncio.Queue[str | None] = asyncio.Queue()
        """None: no reply will come any more."""
        self.unanswered: tuple[Message, ...] = ()
        """The last messages that a stop left without a reply."""

    async def ask(self, messages: tuple[Message, ...]) -> str | None:
        self.requests.put_nowait(messages)
        return await self.replies.get()


class Seat:
    """What the environment sees as an agent. It takes one conversation."""

    def __init__(self, name: str, channel: Channel) -> None:
        self.name = name
        self.channel = channel
        self.trainable = True
        self.trace: Any = None
        """Of the conversation, once it is open."""

    async def run(self, task: vf.Task[Any, Any, Any], **borrowed: object) -> Any:
        """One reply to the task's prompt; its scored trace."""
        async with self._open(task, borrowed) as conversation:
            await conversation.turn()
            conversation.trace.stop("agent_completed")
        return conversation.trace

    @asynccontextmanager
    async def interaction(self, task: vf.Task[Any, Any, Any], **borrowed: object) -> AsyncIterator[Conversation]:
        """A conversation whose user is the caller; scored when the context is left."""
        async with self._open(task, borrowed) as conversation:
            yield conversation
            if conversation.trace.stop_condition is None:
                conversation.trace.stop("user_closed")

    @asynccontextmanager
    async def _open(self, task: Any, borrowed: Mapping[str, object]) -> AsyncIterator[Conversation]:
        if any(value is not None for value in borrowed.values()):
            raise ConfigError(
                f"verifiers: agent '{self.name}' is given {', '.join(borrowed)}; the adapter has no such."
            )
        if self.trace is not None:
            raise ConfigError(
                f"verifiers: the environment opens a second conversation with agent '{self.name}' in one episode, where "
                "an episode is one conversation here. Use verifiers' own loop for it."
            )
        check_task(task)
        conversation = Conversation(task, self.name, self.channel)
        self.trace = conversation.trace
        await _awaited(_called(task.setup, self.trace))
        yield conversation
        await conversation.close()


class NoSeat:
    """An agent that nobody plays. The environment may set it up, not ask it."""

    def __init__(self, name: str, ours: str) -> None:
        self.name = name
        self.ours = ours
        self.trainable = False

    def run(self, *_: object, **__: object) -> Any:
        raise ConfigError(
            f"verifiers: the environment asks its agent '{self.name}', which needs a model of its own; our policy plays "
            f"'{self.ours}'. Name the agent to be played in 'agent', or use verifiers' own loop."
        )

    interaction = run


class Seats:
    """The agents of an environment, by attribute."""

    def __init__(self, seats: Mapping[str, Seat | NoSeat]) -> None:
        self.__dict__.update(seats)


class Conversation:
    """One exchange between the environment, as the user, and our policy."""

    def __init__(self, task: Any, name: str, channel: Channel) -> None:
        self.task = task
        self.channel = channel
        self.trace: Any = vf.Trace(
            task=vf.TraceTask(type=type(task).__name__, data=task.data, key=task.key, hash=task.hash),
            state=state_cls(type(task))(),
            agent=vf.AgentInfo(config=vf.AgentConfig(), name=name),
        )
        self._stops = [(stop, _trace_parameter(stop)) for stop in task.hooks("stop")]
        self._over = False
        self._closed = False

    async def turn(self, message: str | Sequence[Any] | None = None) -> Any:
        """Send a user's turn, or none where the task's prompt comes first; the reply, or a terminated segment."""
        if self._over or self._closed:
            raise RuntimeError("the exchange is over; read interaction.trace")
        new = self._new_messages(message)
        shown = tuple(plain_message(one) for one in new)
        if await self._is_stopped():
            self.channel.unanswered = shown
            return self._terminated()
        reply = await self.channel.ask(shown)
        if reply is None:
            self.trace.stop(LIMIT)
            return self._terminated()
        answer = vf.AssistantMessage(content=reply)
        for one in (*new, answer):
            parent = len(self.trace.nodes) - 1 if self.trace.nodes else None
            self.trace.nodes.append(vf.MessageNode(parent=parent, message=one, sampled=one is answer))
        return vf.Segment(messages=[answer])

    async def close(self) -> Any:
        """Finalize and score, once; the trace."""
        if not self._closed:
            self._closed = True
            await _awaited(_called(self.task.finalize, self.trace))
            await self.task.score(self.trace, None)
            self.trace.is_completed = self.trace.ok = True
        return self.trace

    def _new_messages(self, message: str | Sequence[Any] | None) -> list[Any]:
        data = self.task.data
        begins = not self.trace.nodes
        if begins == (message is not None) and (data.prompt is not None or not begins):
            raise ValueError(
                "the task's prompt opens this exchange: take the first reply with a bare turn()"
                if message is not None and begins
                else "nothing to run a turn on: this exchange takes its next user message"
            )
        new: list[Any] = []
        if begins and data.system_prompt is not None:
            new.append(vf.SystemMessage(content=data.system_prompt))
        found = data.prompt if message is None else message
        if found is None:
            raise ValueError("nothing to run a turn on: the task has no prompt, and no message came")
        return [*new, *([vf.UserMessage(content=found)] if isinstance(found, str) else map(_typed, found))]

    async def _is_stopped(self) -> bool:
        for stop, parameter in self._stops:
            if await _awaited(stop(**{parameter: self.trace})):
                self.trace.stop(stop.__name__)
                return True
        return False

    def _terminated(self) -> Any:
        self._over = True
        return vf.Segment(messages=[], terminated=True)


def check_task(task: Any) -> None:
    """Raise ConfigError where a task needs what the adapter has not: a box to run in, tools, hooks around a model call."""

    def refuse(what: str) -> None:
        raise ConfigError(f"verifiers: task {type(task).__name__} {what}. Use verifiers' own loop for it.")

    if task.NEEDS_CONTAINER or task.data.image is not None:
        refuse("needs a container, and the adapter runs none")
    if task.toolsets(task.config):
        refuse("brings tool servers, and the adapter serves none")
    hooks = [*task.hooks("reward"), *task.hooks("metric")]
    hooks += [getattr(task, name) for name in ("setup", "finalize") if _overridden(task, name)]
    for hook in hooks:
        parameter = inspect.signature(hook).parameters.get("runtime")
        if parameter is not None and parameter.default is inspect.Parameter.empty:
            refuse(f"has '{hook.__name__}' that works in a runtime, and the adapter has none")
    if intercepts := discover_decorated(task, "intercept"):
        refuse(f"rewrites model calls ('{intercepts[0].__name__}'), and the adapter makes none")
    for stop in task.hooks("stop"):
        if not _trace_parameter(stop):
            refuse(f"has a stop '{stop.__name__}' on something else than its trace")


def plain_message(message: Any) -> Message:
    """A message of verifiers as one of ours. Raises ConfigError on pictures."""
    content = message.content
    if isinstance(content, list):
        if any(part.type != "text" for part in content):
            raise ConfigError("verifiers: a message holds a picture, and messages are texts here.")
        content = "\n".join(part.text for part in content)
    return Message(role=message.role, content=content or "")


def _typed(message: Any) -> Any:
    if not isinstance(message, dict):
        return message
    kinds: dict[str, Any] = {
        "system": vf.SystemMessage,
        "user": vf.UserMessage,
        "assistant": vf.AssistantMessage,
        "tool": vf.ToolMessage,
    }
    return kinds[message["role"]].model_validate(message)


def _overridden(task: Any, name: str) -> bool:
    return getattr(type(task), name) is not getattr(vf.Task, name)


def _called(hook: Callable[..., Any], trace: Any) -> Any:
    """A hook with what it asks for by name."""
    names = inspect.signature(hook).parameters
    return hook(**{name: value for name, value in (("trace", trace), ("runtime", None)) if name in names})


def _trace_parameter(stop: Callable[..., Any]) -> str:
    """The parameter of a stop that takes the trace; empty where it looks at single model calls, or does not say."""
    kinds = {name: get_origin(hint) or hint for name, hint in get_type_hints(stop).items() if name != "return"}
    if any(kind in (vf.Request, vf.Response) for kind in kinds.values()):
        return ""
    return next((name for name, kind in kinds.items() if kind is vf.Trace), "")


async def _awaited(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value
