"""Asking an endpoint: bounded, patient, counted.

    client = EndpointClient(EndpointConfig(url="http://127.0.0.1:8000/v1", model="m"), folder="runs/a/endpoints")
    client.chat([{"role": "user", "content": "Say yes."}]).text

Called from many threads at once. Each request ends in exactly one answer or one `EndpointError`, and in one line of the
ledger. Errors that may pass are tried again under the same request id; all others end at once.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import datetime
import json
import os
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar

from tutelage.errors import ConfigError, EndpointError
from tutelage.policies.endpoint.bodies import chat_body, completion_request
from tutelage.policies.endpoint.completion import BYTES_PER_TOKEN, Completion, WrongAnswer, count_tokens, read_chat
from tutelage.policies.endpoint.config import EndpointConfig
from tutelage.policies.endpoint.failures import is_passing, reason_of, words_of
from tutelage.policies.endpoint.ledger import ANSWERED, EndpointUsage, RequestLedger, RequestRecord, Try
from tutelage.policies.endpoint.transport import LoopThread, Reply
from tutelage.policies.endpoint.waiting import TokenBucket, backoff, retry_after
from tutelage.types import stable_hash

T = TypeVar("T")

LONG_KEY: Final = 16
"""Characters. A dummy such as EMPTY is a word like any other, and stays in an answer that holds it."""


@dataclass(frozen=True, kw_only=True)
class _Request:
    kind: str
    url: str
    body: dict[str, Any]
    request_id: str
    episode: str
    read: Callable[[Mapping[str, Any], str], Any]
    keep_answer: bool


class EndpointClient:
    """One endpoint, for all threads of a process.

    folder: where the ledger and the answers are kept. None: in memory.
    The key is read from the environment here, and again by nobody; it is in no file, message or repr.
    """

    def __init__(self, config: EndpointConfig, *, folder: str | Path | None = None) -> None:
        self.config = config
        self.ledger = RequestLedger(config, folder)
        self._key = _key_of(config)
        self._start = threading.Lock()
        self._thread: LoopThread | None = None
        self._places: asyncio.Semaphore | None = None
        self._request_bucket = TokenBucket(config.requests_per_minute) if config.requests_per_minute else None
        self._token_bucket = TokenBucket(config.tokens_per_minute) if config.tokens_per_minute else None
        self._waiting: dict[str, set[concurrent.futures.Future[Any]]] = {}
        """Episode -> what is under way for it."""

    def __repr__(self) -> str:
        return f"EndpointClient('{self.config.name}', {self.config.url}, model '{self.config.model}')"

    def chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        response_format: Mapping[str, Any] | None = None,
        seed: int | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
        episode: str = "",
        draw: str = "",
    ) -> Completion:
        """Ask for the next message of a conversation.

        response_format: as the API defines it, e.g. ``{"type": "json_object"}``. max_tokens, temperature: None, those of
        the config. episode: whose budget and whose `cancel` it is under. draw: tells apart two requests that are equal
        otherwise; equal ones of one run get the same answer.

        Raises:
            EndpointError: no answer; its reason is one of `REASONS`.
            EpisodeBudgetSpent, RunBudgetSpent: nothing was sent.
        """
        body = chat_body(
            self.config,
            messages,
            tools=tools,
            response_format=response_format,
            seed=seed,
            max_tokens=max_tokens,
            temperature=temperature,
        )
        found: Completion = self._ask("chat", "/v1/chat/completions", body, read_chat, episode, draw)
        return found

    def complete(
        self,
        prompt: Sequence[int] | str,
        *,
        stop_token_ids: Sequence[int] = (),
        seed: int | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
        episode: str = "",
        draw: str = "",
    ) -> Completion:
        """Ask for what follows a prompt of token ids or text; else as `chat`.

        Servers of `ID_SERVERS` give the sampled ids and their log-probabilities. stop_token_ids: where they stop.
        """
        path, body, read = completion_request(
            self.config,
            prompt,
            stop_token_ids=stop_token_ids,
            seed=seed,
            max_tokens=max_tokens,
            temperature=temperature,
        )
        found: Completion = self._ask("completions", path, body, read, episode, draw)
        return found

    def post(
        self, path: str, body: Mapping[str, Any], read: Callable[[Mapping[str, Any]], T], *, kind: str, draw: str = ""
    ) -> T:
        """Any other request, e.g. for log-probabilities of a prompt. read: gives its value or raises `WrongAnswer`."""
        found: T = self._ask(kind, path, dict(body), lambda data, _: read(data), "", draw, keep_answer=False)
        return found

    def get(self, path: str, read: Callable[[Mapping[str, Any]], T]) -> T:
        """A question without a body, e.g. for the list of models."""
        found: T = self._ask("get", path, {}, lambda data, _: read(data), "", "", keep_answer=False)
        return found

    def cancel(self, episode: str) -> None:
        """Call off whatever is under way for an episode; its callers get the reason ``cancelled`` at once.

        What was sent already is perhaps paid for: its answer is still awaited and kept for a resume, but not tried again.
        """
        for future in tuple(self._waiting.get(episode, ())):
            future.cancel()

    def usage(self) -> EndpointUsage:
        """The account so far."""
        return self.ledger.usage()

    def close(self) -> None:
        """Call off what is under way, wait `GRACE_SECONDS` for what was sent, and end the thread.

        The client starts anew if it is asked again.
        """
        with self._start:
            thread, self._thread, self._places = self._thread, None, None
        if thread is not None:
            thread.close()

    # One request

    def _ask(
        self,
        kind: str,
        path: str,
        body: dict[str, Any],
        read: Callable[[Mapping[str, Any], str], Any],
        episode: str,
        draw: str,
        *,
        keep_answer: bool = True,
    ) -> Any:
        request_id = request_id_of(self.config, path, body, draw)
        if self.config.send_user and body:
            body["user"] = request_id
        url = self.config.root + path
        request = _Request(
            kind=kind, url=url, body=body, request_id=request_id, episode=episode, read=read, keep_answer=keep_answer
        )
        if keep_answer and (earlier := self.ledger.answer(request_id)) is not None:
            return replace(read(earlier, request_id), reused=True)
        return self._wait_for(request)

    def _wait_for(self, request: _Request) -> Any:
        future = self._loop_thread().submit(self._serve(request))
        waiting = self._waiting.setdefault(request.episode, set())
        waiting.add(future)
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise self._failure("cancelled", "the episode is over, the request was called off", request) from None
        except BaseException:
            future.cancel()  # Ctrl-C in the waiting thread must not leave a request that is paid for.
            raise
        finally:
            waiting.discard(future)
            if not waiting:
                self._waiting.pop(request.episode, None)

    def _loop_thread(self) -> LoopThread:
        with self._start:
            if self._thread is None:
                self._thread = LoopThread(trust_env=not self.config.is_local)
                self._places = asyncio.Semaphore(self.config.concurrency)
                weakref.finalize(self, self._thread.close)
            return self._thread

    async def _serve(self, request: _Request) -> Any:
        """From a free place to the answer. Runs in the loop's thread, as all below does."""
        assert self._places is not None
        async with self._places:
            self.ledger.admit(request.episode)
            tries: list[Try] = []
            started = time.monotonic()
            record: RequestRecord | None = None
            answer: dict[str, Any] | None = None
            try:
                answer, value = await self._try_until(request, tries, started)
                record = self._record(request, tries, started, ANSWERED, answer, value)
                return value
            except EndpointError as error:
                record = self._record(request, tries, started, error.reason)
                raise
            except asyncio.CancelledError:
                if tries:
                    record = self._record(request, tries, started, "cancelled")
                raise
            finally:
                self.ledger.finish(request.episode, record, answer if request.keep_answer else None)

    async def _try_until(self, request: _Request, tries: list[Try], started: float) -> tuple[dict[str, Any], Any]:
        """Tries until one is answered, it makes no sense to go on, or the time is over."""
        config = self.config
        thread = self._thread
        assert thread is not None
        content = json.dumps(request.body).encode()
        deadline = started + config.deadline_seconds
        wait = 0.0
        while True:
            if wait:
                await asyncio.sleep(wait)
            before = time.monotonic()
            reserved = await self._rate_limited(content, request)
            deadline += time.monotonic() - before  # It is we who wait there, not the server.
            left = min(config.try_seconds, deadline - time.monotonic())
            began = time.monotonic()
            # Until the reply is read it counts as called off, so that a cancelled try is in the account.
            tries.append(Try(outcome="cancelled", status=None, seconds=0.0, waited=round(wait, 6)))
            method, sent = ("GET", None) if request.kind == "get" else ("POST", content)
            headers = self._headers(request.request_id, len(tries) - 1)
            reply, called_off = await thread.send(method, request.url, sent, headers, left)
            reason, detail, data, value = self._read(reply, request)
            tries[-1] = Try(
                outcome=reason, status=reply.status, seconds=round(time.monotonic() - began, 6), waited=round(wait, 6)
            )
            self._settle(reserved, data)
            if reason == ANSWERED:
                assert data is not None
                return data, value
            if called_off:
                raise self._failure("cancelled", "the episode is over", request, reply.status)
            if not is_passing(reason):
                raise self._failure(reason, detail, request, reply.status)
            if len(tries) >= config.max_tries:
                raise self._failure(reason, f"{detail}; given up after {len(tries)} tries", request, reply.status)
            wait = backoff(
                len(tries), config.first_delay, config.longest_delay, seed=config.seed, request_id=request.request_id
            )
            asked = retry_after(reply.retry_after, datetime.datetime.now(datetime.UTC))
            wait = wait if asked is None else asked + wait / 10
            if time.monotonic() + wait >= deadline:
                raise self._failure(
                    reason,
                    f"{detail}; the next try would come {wait:.1f} s later, after the deadline of "
                    f"{config.deadline_seconds:g} s",
                    request,
                    reply.status,
                )

    def _read(self, reply: Reply, request: _Request) -> tuple[str, str, dict[str, Any] | None, Any]:
        """Outcome, detail, the JSON of an answer, and what it means."""
        if reply.failure is not None:
            return reply.failure, self._scrubbed(reply.detail), None, None
        if reply.status != 200:
            words = words_of(self._scrubbed(reply.body.decode("utf-8", "replace")).encode())
            return reason_of(reply.status or 0, words), f"HTTP {reply.status} {words!r}", None, None
        try:
            text = reply.body.decode("utf-8", "replace")
            data = json.loads(self._scrubbed(text) if self._key is not None and len(self._key) >= LONG_KEY else text)
            if not isinstance(data, dict):
                raise WrongAnswer(f"JSON of type {type(data).__name__}, expected an object")
            return ANSWERED, "", data, request.read(data, request.request_id)
        except (ValueError, RecursionError) as error:
            start = self._scrubbed(reply.body.decode("utf-8", "replace"))[:80]
            return "malformed_answer", f"not JSON ({error}): {start!r}", None, None
        except (WrongAnswer, KeyError, TypeError, AttributeError, IndexError) as error:
            return "malformed_answer", f"{type(error).__name__}: {error}", None, None

    def _headers(self, request_id: str, num_retries: int) -> dict[str, str]:
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json",
            "X-Request-Id": request_id,
            "Idempotency-Key": request_id,
            "X-Retry-Count": str(num_retries),
        }
        return headers if self._key is None else {**headers, "Authorization": f"Bearer {self._key}"}

    async def _rate_limited(self, content: bytes, request: _Request) -> float:
        """Wait for the rate limits. Returns the tokens that were reserved."""
        body = request.body
        answer = body.get("max_tokens") or body.get("n_predict") or self.config.max_tokens
        tokens = len(content) / BYTES_PER_TOKEN + float(answer)
        for bucket, amount in ((self._request_bucket, 1.0), (self._token_bucket, tokens)):
            if bucket is None:
                continue
            while (wait := bucket.wait(amount, time.monotonic())) > 0.0:
                await asyncio.sleep(wait)
            bucket.take(amount, time.monotonic())
        return tokens

    def _settle(self, reserved: float, data: dict[str, Any] | None) -> None:
        """Correct what was reserved by what was used. Without an answer nobody knows, so it stays."""
        if self._token_bucket is not None and data is not None:
            prompt, completion, _ = count_tokens(data, b"")
            if prompt or completion:
                self._token_bucket.take(prompt + completion - reserved, time.monotonic())

    def _record(
        self,
        request: _Request,
        tries: Sequence[Try],
        started: float,
        outcome: str,
        answer: dict[str, Any] | None = None,
        value: Any = None,
    ) -> RequestRecord:
        prompt = completion = 0
        estimated = False
        if answer is not None:
            content = json.dumps(request.body.get("messages") or request.body.get("prompt") or "").encode()
            if isinstance(value, Completion) and value.prompt_tokens is not None:
                prompt, completion = value.prompt_tokens, value.completion_tokens or 0
            else:
                prompt, completion, estimated = count_tokens(answer, content)
        return RequestRecord(
            request_id=request.request_id,
            kind=request.kind,
            outcome=outcome,
            tries=tuple(tries),
            episode=request.episode,
            model=str((answer or {}).get("model") or ""),
            prompt_tokens=prompt,
            completion_tokens=completion,
            estimated=estimated,
            cost=self.config.cost(prompt, completion),
            seconds=round(time.monotonic() - started, 6),
        )

    def _failure(self, reason: str, detail: str, request: _Request, status: int | None = None) -> EndpointError:
        return EndpointError(
            f"{request.url}: {detail} (request {request.request_id})",
            endpoint=self.config.name,
            reason=reason,
            request_id=request.request_id,
            status=status,
        )

    def _scrubbed(self, text: str) -> str:
        """Without the key, should a server repeat what it was sent."""
        return text if self._key is None else text.replace(self._key, "<key>")


def request_id_of(config: EndpointConfig, path: str, body: Mapping[str, Any], draw: str) -> str:
    """32 hex digits that tell this request from every other one. The same in each run, also if the server has moved."""
    told = json.dumps([config.name, path, body, draw], sort_keys=True, ensure_ascii=True)
    return f"{stable_hash(told):016x}{stable_hash('second half', told):016x}"


def _key_of(config: EndpointConfig) -> str | None:
    if config.api_key_env is None:
        return None
    key = os.environ.get(config.api_key_env, "").strip()
    if not key:
        raise ConfigError(
            f"endpoint '{config.name}': the environment variable {config.api_key_env} is not set. Set it to the key, or take "
            "api_key_env out if the server wants none."
        )
    if any(ord(one) < 33 or ord(one) > 126 for one in key):
        raise ConfigError(
            f"endpoint '{config.name}': the value of {config.api_key_env} holds spaces or other characters that no header "
            "can carry (it is not shown)."
        )
    return key
