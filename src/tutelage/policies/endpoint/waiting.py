"""When a request may be sent: a rate limit before it, growing random waits between its tries. Pure arithmetic."""

from __future__ import annotations

import datetime
import email.utils
import random
from dataclasses import dataclass

from tutelage.types import stable_hash

BURST_SECONDS = 6.0
"""A bucket holds what flows in during this time, so that at most a tenth of a minute's amount goes out at once."""


@dataclass
class TokenBucket:
    """A rate limit. It fills at `per_minute` / 60 a second up to what `BURST_SECONDS` bring (at least 1), and starts full.

    An amount larger than the bucket is let through when it is full, and leaves it in debt.

    Example, 60 a minute: holds 6. Six amounts of 1 pass at time 0; the seventh waits 1 s.
    """

    per_minute: float
    level: float = 0.0
    read_at: float | None = None
    """Time of `level`, in seconds of any clock. None: not yet asked."""

    @property
    def size(self) -> float:
        return max(1.0, self.per_minute * BURST_SECONDS / 60.0)

    def _flow(self, now: float) -> None:
        if self.read_at is None:
            self.level = self.size
        else:
            self.level = min(self.size, self.level + (now - self.read_at) * self.per_minute / 60.0)
        self.read_at = now

    def wait(self, amount: float, now: float) -> float:
        """Seconds until `amount` may pass; 0: it may now."""
        self._flow(now)
        return max(0.0, (min(amount, self.size) - self.level) * 60.0 / self.per_minute)

    def take(self, amount: float, now: float) -> None:
        """Let `amount` pass. A negative one gives back what was taken too much."""
        self._flow(now)
        self.level = min(self.size, self.level - amount)


def backoff(tries: int, first: float, longest: float, *, seed: int, request_id: str) -> float:
    """Seconds to wait after so many failed tries: uniform from 0 to min(longest, first x 2^(tries - 1)).

    The same seed, request and try give the same number. Full jitter, so that many clients that failed together do not
    come back together.

    Example, first 0.5: after try 1 up to 0.5 s, after try 3 up to 2 s.
    """
    bound = min(longest, first * 2.0 ** (tries - 1))
    return random.Random(stable_hash(seed, request_id, tries)).uniform(0.0, bound)


def retry_after(header: str | None, now: datetime.datetime) -> float | None:
    """Seconds that a Retry-After header asks for, as a number or as an HTTP date (RFC 9110, 10.2.3). None: no such wish.

    Example: ``"7"`` -> 7.0; ``"Wed, 21 Oct 2026 07:28:00 GMT"`` at 07:27:30 -> 30.0; a date that is over -> 0.0
    """
    if header is None:
        return None
    try:
        seconds = float(header)
    except ValueError:
        try:
            when = email.utils.parsedate_to_datetime(header)
        except ValueError:
            return None
        if when.tzinfo is None:
            when = when.replace(tzinfo=datetime.UTC)
        return max(0.0, (when - now).total_seconds())
    # "nan" and "inf" are numbers to Python and no wish of a sane server.
    return seconds if 0.0 <= seconds < float("inf") else None
