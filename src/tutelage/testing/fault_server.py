"""A small model server that fails by plan: for tests of whoever asks one.

    with FaultServer(faults={"429": 0.1, "cut": 0.05}, seed=0) as server:
        client = EndpointClient(EndpointConfig(url=server.url, model="fake"))

Loopback only, standard library only, and it stops by itself: at the end of the block, or after `most_seconds`.
Answers are drawn from a hash of the request, so the same request has the same answer; faults are drawn from the seed, the
request's id and the number of its try. It counts on its own what it answered, to be compared with what the client counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import email.utils
import json
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final

from tutelage.types import stable_hash

FAULTS: Final = (
    "429", "429_retry_after", "429_http_date", "500", "503", "hang", "drip", "late", "cut", "closed", "not_json",
    "wrong_shape", "wrong_length",
)  # fmt: skip
"""What can go wrong with a try:

429, 500, 503      that status; `429_retry_after` and `429_http_date` ask to wait, for 0 s
hang               no byte, until the client gives up
drip               a byte every `drip_seconds`, until the client gives up
late               the whole answer, counted as given, after `late_seconds`: when the client has given up
cut                the connection ends in the middle of the body
closed             the connection ends before any byte
not_json           status 200 and a body that is no JSON
wrong_shape        JSON without the answer in it
wrong_length       one log-probability too few; of requests without any, as `wrong_shape`
"""

TopLogprobs = Callable[[Sequence[int], int], Sequence[Mapping[int, float]]]
"""Token ids and k -> at each position the k most probable ids with their log-probabilities; the first is not looked at."""

Logprobs = Callable[[Sequence[int]], Sequence[float | None]]
"""Token ids -> natural log-probability of each given those before it; None for the first."""


def hash_logprobs(token_ids: Sequence[int]) -> list[float | None]:
    """A model that is no model: -log-probabilities between 0.1 and 10.1 from a hash of the id and its position."""
    return [
        None if index == 0 else -0.1 - (stable_hash(index, one) % 10_000) / 1000 for index, one in enumerate(token_ids)
    ]


@dataclass
class _Seen:
    """What the server knows of one request id."""

    played: dict[int, str] = field(default_factory=dict)
    """Number of each try that came, from 0 -> what was done: a fault, ``answered``, or ``refused``."""
    answered: int = 0
    """Whole answers that were sent."""


class FaultServer:
    """See the module. Attributes may be changed while it runs.

    faults: fault -> share of all tries, together at most 1.
    reply: text of an answer, from the body of the request. None: drawn from a hash.
    logprobs: of prompts, and of sampled ids behind their prompt. top_logprobs: None, the given id is the only one told.
    vocabulary: number of ids, for sampled ids, which are drawn from a hash. decode: their text; None, `reply` says it.
    message: whole assistant message of a chat, from the body. None: `reply` as its content.
    sample: a prompt of ids -> sampled ids and their log-probabilities, instead of the hash. finish_reason: of all answers.
    max_context: longer prompts of ids are refused. key: what the Authorization header must hold. None: nothing.
    status: answer everything by this status and body. delay: seconds before each answer.
    """

    def __init__(
        self,
        *,
        faults: Mapping[str, float] | None = None,
        seed: int = 0,
        reply: Callable[[dict[str, Any]], str] | None = None,
        logprobs: Logprobs = hash_logprobs,
        top_logprobs: TopLogprobs | None = None,
        decode: Callable[[Sequence[int]], str] | None = None,
        message: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
        sample: Callable[[list[int]], tuple[list[int], list[float]]] | None = None,
        finish_reason: str = "stop",
        vocabulary: int = 256,
        max_context: int = 4096,
        key: str | None = None,
        status: tuple[int, dict[str, Any]] | None = None,
        delay: float = 0.0,
        drip_seconds: float = 0.02,
        late_seconds: float = 0.3,
        most_seconds: float = 120.0,
    ) -> None:
        self.faults = dict(faults or {})
        unknown = sorted(set(self.faults) - set(FAULTS))
        if unknown or sum(self.faults.values()) > 1.0:
            raise ValueError(
                f"faults {unknown or self.faults}: expected shares of {', '.join(FAULTS)}, at most 1 in all"
            )
        self.seed = seed
        self.reply = reply
        self.logprobs = logprobs
        self.top_logprobs = top_logprobs
        self.decode = decode
        self.message = message
        self.sample = sample
        self.finish_reason = finish_reason
        self.vocabulary = vocabulary
        self.max_context = max_context
        self.key = key
        self.status = status
        self.delay = delay
        self.drip_seconds = drip_seconds
        self.late_seconds = late_seconds
        self.most_seconds = most_seconds
        self.seen: dict[str, _Seen] = {}
        """Request id -> its tries."""
        self.bodies: list[dict[str, Any]] = []
        """Bodies of the first thousand tries, for tests to look at."""
        self.port = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="fault-server", daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def answered(self) -> dict[str, int]:
        """Request id -> number of whole answers that the server sent, whether or not anybody read them."""
        return {one: seen.answered for one, seen in self.seen.items() if seen.answered}

    @property
    def fault_counts(self) -> dict[str, int]:
        """Fault -> how often it was played."""
        played = Counter(one for seen in self.seen.values() for one in seen.played.values())
        return {fault: played[fault] for fault in FAULTS if played[fault]}

    def __enter__(self) -> FaultServer:
        self._thread.start()
        if not self._ready.wait(5.0):
            raise RuntimeError("the fault server did not start within 5 s")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._loop is not None and self._stop is not None:
            with contextlib.suppress(RuntimeError):  # It has stopped by itself.
                self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(5.0)

    # Serving

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.most_seconds):
                await self._stop.wait()
        server.close()
        # Connections that hang or wait for a next request.
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._exchange(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            with contextlib.suppress(ConnectionError):
                writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request. False: the connection ends."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _ = head[0].split(" ", 2)
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
        content = await reader.readexactly(int(headers.get("content-length", "0")))
        if self.delay:
            await asyncio.sleep(self.delay)
        if method == "GET":
            known = path.endswith("/models")
            data = (
                {"object": "list", "data": [{"id": "fake", "object": "model"}]} if known else {"error": "no such path"}
            )
            return await _send(writer, 200 if known else 404, data)
        if self.key is not None and headers.get("authorization") != f"Bearer {self.key}":
            told = headers.get("authorization", "nothing")
            return await _send(writer, 401, {"error": {"message": f"wrong key: {told}", "code": "invalid_api_key"}})
        body = json.loads(content)
        if len(self.bodies) < 1000:
            self.bodies.append(body)
        request_id = headers.get("x-request-id", "")
        seen = self.seen.setdefault(request_id, _Seen())
        number = int(headers.get("x-retry-count", len(seen.played)))
        fault = self._draw(request_id, number)
        status, data = self._answer(path, body, fault)
        seen.played[number] = "refused" if status != 200 else fault or "answered"
        if status != 200:
            return await _send(writer, status, data)
        if fault is not None:
            return await self._fail(fault, writer, data, seen)
        going_on = await _send(writer, 200, data)
        seen.answered += 1
        return going_on

    def _draw(self, request_id: str, number: int) -> str | None:
        drawn = stable_hash(self.seed, request_id, number) / 2**64
        for fault, share in self.faults.items():
            drawn -= share
            if drawn < 0:
                return fault
        return None

    async def _fail(self, fault: str, writer: asyncio.StreamWriter, data: dict[str, Any], seen: _Seen) -> bool:
        body = json.dumps(data).encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        match fault:
            case "429" | "500" | "503":
                return await _send(writer, int(fault), {"error": {"message": "by plan"}})
            case "429_retry_after":
                return await _send(writer, 429, {"error": "by plan"}, "0")
            case "429_http_date":
                now = datetime.datetime.now(datetime.UTC)
                return await _send(writer, 429, {"error": "by plan"}, email.utils.format_datetime(now, usegmt=True))
            case "hang":
                await asyncio.sleep(self.most_seconds)
            case "drip":
                for byte in head + body:
                    writer.write(bytes([byte]))
                    await writer.drain()
                    await asyncio.sleep(self.drip_seconds)
                seen.answered += 1  # A client this patient has its answer.
                return True
            case "late":
                await asyncio.sleep(self.late_seconds)
                seen.answered += 1
                writer.write(head + body)
                await writer.drain()
                return True
            case "cut":
                writer.write(head + body[: len(body) // 2])
                await writer.drain()
            case "not_json":
                return await _send(writer, 200, b"<html>Bad gateway</html>")
            case "wrong_shape" | "wrong_length":
                return await _send(writer, 200, data if fault == "wrong_length" else {"object": "error", "choices": []})
        return False

    # Answers

    def _answer(self, path: str, body: dict[str, Any], fault: str | None) -> tuple[int, dict[str, Any]]:
        if self.status is not None:
            return self.status
        prompt = body.get("input_ids", body.get("prompt", ""))
        if isinstance(prompt, list) and len(prompt) >= self.max_context:
            message = f"This model's maximum context length is {self.max_context} tokens, got {len(prompt)}"
            return 400, {"error": {"message": message, "code": "context_length_exceeded"}}
        short = fault == "wrong_length"
        if path.endswith("/chat/completions"):
            return 200, self._chat(body, short)
        if path.endswith("/completions"):
            return 200, self._completions(body, short)
        if path.endswith("/generate"):
            return 200, self._generate(body, short)
        return 404, {"error": {"message": f"no such path {path}"}}

    def _text(self, body: dict[str, Any]) -> str:
        if self.reply is not None:
            return self.reply(body)
        return f"reply {stable_hash(json.dumps(body, sort_keys=True)) % 10**6}"

    def _chat(self, body: dict[str, Any], short: bool) -> dict[str, Any]:
        text = "" if self.message is not None else self._text(body)
        usage = {"prompt_tokens": len(json.dumps(body["messages"])) // 4, "completion_tokens": len(text.split())}
        message = {"role": "assistant", "content": text} if self.message is None else self.message(body)
        choice = {"index": 0, "message": message, "finish_reason": self.finish_reason}
        return {"model": "fake", "choices": [] if short else [choice], "usage": usage}

    def _completions(self, body: dict[str, Any], short: bool) -> dict[str, Any]:
        prompt = body["prompt"]
        ids, sampled = self._sampled(prompt, body)
        choice: dict[str, Any] = {"index": 0, "text": self._text_of(ids, body), "finish_reason": self.finish_reason}
        if body.get("return_token_ids"):
            choice["token_ids"], choice["prompt_token_ids"] = ids, prompt
        if body.get("prompt_logprobs") is not None:
            entries = [
                None if index == 0 else {str(one): {"logprob": value} for one, value in told.items()}
                for index, told in enumerate(self._told(prompt, body["prompt_logprobs"]))
            ]
            choice["prompt_logprobs"] = entries[:-1] if short else entries
        if body.get("echo"):
            numbers = [*self.logprobs(prompt), -0.5]
            tokens = [f"token_id:{one}" for one in prompt]
            choice["logprobs"] = {"tokens": tokens, "token_logprobs": numbers[:-2] if short else numbers}
        elif body.get("logprobs") is not None and sampled:
            choice["logprobs"] = {"token_logprobs": sampled[:-1] if short else sampled}
        usage = {"prompt_tokens": len(prompt), "completion_tokens": len(ids)}
        no_lists = short and "logprobs" not in choice and "prompt_logprobs" not in choice
        return {"model": "fake", "choices": [] if no_lists else [choice], "usage": usage}

    def _generate(self, body: dict[str, Any], short: bool) -> dict[str, Any]:
        prompt = body["input_ids"]
        ids, numbers = self._sampled(prompt, body["sampling_params"])
        sampled = [[value, one, None] for value, one in zip(numbers, ids, strict=True)]
        meta: dict[str, Any] = {
            "finish_reason": {"type": self.finish_reason},
            "prompt_tokens": len(prompt),
            "completion_tokens": len(ids),
            "output_token_logprobs": sampled[:-1] if short else sampled,
        }
        if body.get("logprob_start_len") == 0:
            scored = [[value, one, None] for value, one in zip(self.logprobs(prompt), prompt, strict=True)]
            meta["input_token_logprobs"] = scored[:-1] if short else scored
            if k := body.get("top_logprobs_num"):
                told = self._told(prompt, k)
                listed = [[[value, one, None] for one, value in each.items()] for each in told]
                meta["input_top_logprobs"] = [None, *listed[1:]]
        return {"text": self._text_of(ids, body), "output_ids": ids, "meta_info": meta}

    def _sampled(self, prompt: list[int] | str, body: dict[str, Any]) -> tuple[list[int], list[Any]]:
        """Ids and their log-probabilities; of a prompt of text, ids without any."""
        if self.sample is not None and isinstance(prompt, list):
            return self.sample(prompt)
        drawn = stable_hash(json.dumps([prompt, body], sort_keys=True))
        most = int(body.get("max_tokens", body.get("max_new_tokens", 3)))
        ids = [stable_hash(drawn, index) % self.vocabulary for index in range(min(3, most))]
        if isinstance(prompt, str):
            return ids, []
        return ids, list(self.logprobs([*prompt, *ids]))[len(prompt) :]

    def _text_of(self, ids: Sequence[int], body: dict[str, Any]) -> str:
        return self._text(body) if self.decode is None else self.decode(ids)

    def _told(self, prompt: Sequence[int], k: int) -> list[dict[int, float]]:
        """At each position the sent id, and the k most probable ones if they are known."""
        top = [{} for _ in prompt] if self.top_logprobs is None or not k else self.top_logprobs(prompt, k)
        scored = self.logprobs(prompt)
        return [
            {one: value, **dict(more)} if value is not None else {}
            for one, value, more in zip(prompt, scored, top, strict=True)
        ]


async def _send(
    writer: asyncio.StreamWriter, status: int, data: dict[str, Any] | bytes, retry_after: str | None = None
) -> bool:
    body = data if isinstance(data, bytes) else json.dumps(data).encode()
    wish = "" if retry_after is None else f"Retry-After: {retry_after}\r\n"
    head = f"HTTP/1.1 {status} Planned\r\nContent-Type: application/json\r\n{wish}Content-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    await writer.drain()
    return True
