"""What a recipe says of one endpoint: where it is, how it is asked, what it may cost."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from tutelage.errors import ConfigError

Server = Literal["openai", "vllm", "sglang", "llama_cpp", "transformers"]
"""Whose dialect the server speaks beyond the common part."""

Api = Literal["chat", "completions"]

SERVERS: Final = ("openai", "vllm", "sglang", "llama_cpp", "transformers")

ID_SERVERS: Final = ("vllm", "sglang", "llama_cpp")
"""Servers that read token ids and give those that they sampled."""

LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")

OPERATIONAL: Final = (
    "url",
    "api_key_env",
    "concurrency",
    "requests_per_minute",
    "tokens_per_minute",
    "max_tries",
    "try_seconds",
    "deadline_seconds",
    "first_delay",
    "longest_delay",
    "price_prompt",
    "price_completion",
    "max_run_requests",
    "max_run_tokens",
    "max_run_cost",
)
"""Keys that decide nothing about an answer, so that a resumed run may change them."""

_SECRET_KEY = re.compile(r"api[-_]?key|authorization|bearer|password|secret|access[-_]?token", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class EndpointConfig:
    """One OpenAI-compatible server or hosted API, and one model on it.

    Example::

        EndpointConfig(url="http://127.0.0.1:8000/v1", model="SmolLM2-135M-Instruct", max_tokens=64)
    """

    url: str
    """Base address, with or without ``/v1``. No user, password or query in it."""
    model: str
    name: str = "endpoint"
    """For messages, ledgers and reports. In a recipe: the key of the section."""
    server: Server = "openai"
    """Dialect beyond the common part; see docs/endpoints.md for what each gives."""
    api: Api = "chat"
    """How actions are asked for: chat messages, or a prompt (token ids where the server reads them)."""
    style: Literal["text", "native"] = "text"
    """Of chat: actions as text in the environment's format, or as native tool calls."""
    action_format: str | None = None
    """Of the style text: another format than the environment's (``think_action``, ``functions``, ``tool_calls``, ``json``), or a
    place ``module:NAME``."""
    api_key_env: str | None = None
    """Name of the environment variable that holds the key. None: no key is sent. The key itself is never written."""
    tokenizer: str | None = None
    """Model folder with the server's tokenizer (``builtin:NAME`` too). Needed for prompts of token ids and for scoring."""
    instructions: str | None = None
    """What stands in the system message. None: nothing but what the environment says."""
    temperature: float = 0.0
    top_p: float = 1.0
    max_tokens: int = 512
    """Tokens of one answer."""
    max_context: int = 32_768
    """Most tokens of a prompt and its answer together; tested here only where prompts are token ids."""
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    """Further keys of each request, e.g. ``top_k: -1``. A null takes a key out that is sent otherwise."""
    send_user: bool = False
    """Send the request id as ``user`` in the body too. Some servers refuse keys that they do not know."""
    concurrency: int = 8
    """Requests in flight at once, per process."""
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    """Of prompts and answers together."""
    max_tries: int = 6
    """Of one request, the first included. Tried again: connection errors, time-outs, 429, 5xx, broken answers."""
    try_seconds: float = 120.0
    """Longest time of one try, from connecting to the last byte."""
    deadline_seconds: float = 480.0
    """Longest time of all tries and the waits between them. Waiting for a free place or a rate limit does not count."""
    first_delay: float = 0.5
    longest_delay: float = 30.0
    """Seconds before try n + 1 are drawn from 0 to min(longest_delay, first_delay x 2^(n - 1)); Retry-After rules."""
    price_prompt: float = 0.0
    """Money for a million tokens of prompt."""
    price_completion: float = 0.0
    """Money for a million tokens of answer."""
    max_run_requests: int | None = None
    max_run_tokens: int | None = None
    max_run_cost: float | None = None
    """Budgets of the whole run, over all its stages and resumes. Spent: the run stops, and can go on with more."""
    max_episode_requests: int | None = None
    max_episode_tokens: int | None = None
    max_episode_cost: float | None = None
    """Budgets of one episode. Spent: it ends as at a limit on steps."""
    seed: int = 0
    """Of the waits between tries."""

    def __post_init__(self) -> None:
        _check_url(self.name, self.url)
        _check_key_name(self.name, self.api_key_env)
        if self.server not in SERVERS:
            raise ConfigError.unknown(f"endpoint '{self.name}': server", self.server, SERVERS)
        if self.api not in ("chat", "completions") or self.style not in ("text", "native"):
            raise ConfigError(
                f"endpoint '{self.name}': api is {self.api!r} and style {self.style!r}, expected chat or completions, and "
                "text or native"
            )
        for key in self.extra_body:
            if _SECRET_KEY.search(key):
                raise ConfigError(
                    f"endpoint '{self.name}': extra_body.{key} looks like a key. Keys come from the environment alone: "
                    "write api_key_env: NAME_OF_THE_VARIABLE."
                )
        self._check_numbers()

    def _check_numbers(self) -> None:
        above_zero = (
            "max_tokens", "max_context", "concurrency", "requests_per_minute", "tokens_per_minute", "max_tries",
            "try_seconds", "deadline_seconds", "max_run_requests", "max_run_tokens", "max_run_cost",
            "max_episode_requests", "max_episode_tokens", "max_episode_cost",
        )  # fmt: skip
        for key in above_zero:
            value = getattr(self, key)
            if value is not None and not value > 0:
                raise ConfigError(f"endpoint '{self.name}': {key} is {value}, expected more than 0, or nothing")
        for key in ("temperature", "price_prompt", "price_completion", "first_delay", "longest_delay"):
            if not getattr(self, key) >= 0:
                raise ConfigError(f"endpoint '{self.name}': {key} is {getattr(self, key)}, expected 0 or more")
        if not 0.0 < self.top_p <= 1.0:
            raise ConfigError(f"endpoint '{self.name}': top_p is {self.top_p}, expected above 0 and at most 1")
        for scope in ("run", "episode"):
            if getattr(self, f"max_{scope}_cost") is not None and not self.price_prompt and not self.price_completion:
                raise ConfigError(
                    f"endpoint '{self.name}': max_{scope}_cost needs price_prompt and price_completion; without prices "
                    "nothing costs anything."
                )

    @property
    def root(self) -> str:
        """The address without ``/v1`` and without a slash at the end."""
        return self.url.rstrip("/").removesuffix("/v1")

    @property
    def is_local(self) -> bool:
        """On this machine, where no proxy leads."""
        return urlsplit(self.url).hostname in LOOPBACK

    @property
    def identity(self) -> dict[str, Any]:
        """What decides an answer: all keys that are not `OPERATIONAL`, plain values."""
        return {key: value for key, value in asdict(self).items() if key not in (*OPERATIONAL, "seed")}

    def cost(self, prompt_tokens: int, completion_tokens: int) -> float:
        """Money for one answer. Example, prices 3 and 15: 1000 and 100 tokens cost 0.0045."""
        return (prompt_tokens * self.price_prompt + completion_tokens * self.price_completion) / 1e6


def _check_url(name: str, url: str) -> None:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host, parts = None, urlsplit("")
    # The address is not repeated where it may hold a password or a key.
    if parts.username is not None or parts.password is not None or "@" in parts.netloc:
        raise ConfigError(
            f"endpoint '{name}': url holds a user or password. Take them out, put the key into an environment variable and "
            "name it: api_key_env: NAME_OF_THE_VARIABLE."
        )
    if parts.query or parts.fragment:
        raise ConfigError(
            f"endpoint '{name}': url holds a query ('?...') or a fragment. Expected a base address, e.g. http://host:8000/v1."
        )
    if parts.scheme not in ("http", "https") or not host:
        raise ConfigError(f"endpoint '{name}': url is {url!r}, expected a base address, e.g. http://127.0.0.1:8000/v1.")


def _check_key_name(name: str, variable: str | None) -> None:
    if variable is not None and not re.fullmatch(r"[A-Z][A-Z0-9_]{0,47}", variable):
        raise ConfigError(
            f"endpoint '{name}': api_key_env does not hold the name of an environment variable (capitals, digits, '_'; the "
            "value is not shown, in case it is a key). A key itself is never written into a recipe."
        )
