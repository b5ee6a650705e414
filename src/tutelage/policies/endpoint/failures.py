"""Which failure it was: reasons for counting, and which of them may pass."""

from __future__ import annotations

import json
import re
from typing import Any, Final

REASONS: Final = {
    "auth": "the server does not accept the key (401, 403)",
    "quota": "the account has no money left (402, or 429 that says so)",
    "not_found": "no such address or model (404)",
    "bad_request": "the server does not accept the request (other 3xx and 4xx)",
    "context_overflow": "the prompt is too long for the model",
    "rate_limit": "too many requests (429), after all tries",
    "server": "the server failed (5xx), after all tries",
    "transport": "no connection, or one that broke before the answer was whole, after all tries",
    "timeout": "no whole answer in time, after all tries",
    "malformed_answer": "an answer that is no JSON, or not what was asked for, after all tries",
    "budget": "the episode may cost no more; nothing was sent",
    "cancelled": "called off, since its episode is over",
}
"""Why a request has no answer."""

PASSING: Final = ("rate_limit", "server", "transport", "timeout", "malformed_answer")

_TOO_LONG = re.compile(
    r"context_length_exceeded|maximum context length|exceeds? the (available )?context|exceed_context_size"
    r"|longer than the model'?s? (maximum )?context|prompt is too long|input is too long"
    r"|context (window|length) (is )?exceeded|too many tokens|max_model_len|exceeds? the model'?s? (maximum )?context",
    re.IGNORECASE,
)
_NO_MONEY = re.compile(
    r"insufficient_quota|exceeded your current quota|billing|insufficient (funds|balance|credits)", re.IGNORECASE
)


def is_passing(reason: str) -> bool:
    """Whether another try may succeed."""
    return reason in PASSING


def reason_of(status: int, words: str) -> str:
    """The reason behind an HTTP status other than 200 and what the server says with it.

    Example: 400 "This model's maximum context length is 4096 tokens" -> ``context_overflow``
    """
    if status in (400, 413, 422) and _TOO_LONG.search(words):
        return "context_overflow"
    if status == 402 or (status in (403, 429) and _NO_MONEY.search(words)):
        return "quota"
    named = {401: "auth", 403: "auth", 404: "not_found", 408: "timeout", 429: "rate_limit"}
    if status in named:
        return named[status]
    if status >= 500:
        # Some servers answer 500 to a prompt that does not fit; that does not pass.
        return "context_overflow" if _TOO_LONG.search(words) else "server"
    return "bad_request" if status >= 300 else "malformed_answer"


def words_of(body: bytes, most: int = 300) -> str:
    """What an error body says: its message and code if it has the usual form, else its beginning."""
    try:
        data: Any = json.loads(body)
    except (ValueError, RecursionError):
        return body[:most].decode(errors="replace")
    error = data.get("error", data) if isinstance(data, dict) else data
    if isinstance(error, dict):
        told = [error.get(key) for key in ("message", "code", "type", "detail") if error.get(key)]
        error = " ".join(str(one) for one in told) or json.dumps(error)
    return str(error)[:most]
