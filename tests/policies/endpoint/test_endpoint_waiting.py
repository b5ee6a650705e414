"""Rate limits, growing waits, Retry-After: arithmetic by hand."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutelage.policies.endpoint.waiting import TokenBucket, backoff, retry_after

NOW = datetime.datetime(2026, 10, 21, 7, 27, 30, tzinfo=datetime.UTC)


def test_a_bucket_lets_a_tenth_of_a_minute_through_at_once_then_one_a_second():
    bucket = TokenBucket(per_minute=60)
    for _ in range(6):
        assert bucket.wait(1, now=100.0) == 0.0
        bucket.take(1, now=100.0)
    assert bucket.wait(1, now=100.0) == pytest.approx(1.0)
    assert bucket.wait(1, now=100.25) == pytest.approx(0.75)
    assert bucket.wait(1, now=101.0) == 0.0


def test_what_is_larger_than_the_bucket_passes_when_it_is_full_and_leaves_a_debt():
    bucket = TokenBucket(per_minute=600)  # holds 60, 10 a second
    assert bucket.wait(200, now=0.0) == 0.0
    bucket.take(200, now=0.0)
    assert bucket.wait(10, now=0.0) == pytest.approx(15.0)  # from -140 to 10
    bucket.take(-140, now=0.0)  # only 60 were used
    assert bucket.wait(10, now=0.0) == pytest.approx(1.0)


@given(st.floats(1, 10_000), st.lists(st.tuples(st.floats(0, 100), st.floats(0, 10)), max_size=30))
def test_never_more_passes_than_flows_in(per_minute: float, asked: list[tuple[float, float]]):
    bucket, now, passed = TokenBucket(per_minute=per_minute), 0.0, 0.0
    for amount, later in asked:
        now += later
        amount = min(amount, bucket.size)
        now += bucket.wait(amount, now)
        bucket.take(amount, now)
        passed += amount
        assert passed <= bucket.size + now * per_minute / 60.0 + 1e-6 * (1 + passed)


def test_waits_are_drawn_below_a_doubling_bound_and_the_same_each_time():
    bounds = [0.5, 1.0, 2.0, 4.0, 4.0]
    drawn = [backoff(tries, 0.5, 4.0, seed=0, request_id="a") for tries in range(1, 6)]
    assert all(0.0 <= one <= bound for one, bound in zip(drawn, bounds, strict=True))
    assert drawn == [backoff(tries, 0.5, 4.0, seed=0, request_id="a") for tries in range(1, 6)]
    assert len({backoff(1, 0.5, 4.0, seed=0, request_id=str(one)) for one in range(50)}) == 50
    mean = sum(backoff(3, 0.5, 4.0, seed=0, request_id=str(one)) for one in range(2000)) / 2000
    assert mean == pytest.approx(1.0, abs=0.05)  # full jitter: uniform from 0 to 2


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7.0),
        ("0", 0.0),
        ("1.5", 1.5),
        ("Wed, 21 Oct 2026 07:28:00 GMT", 30.0),
        ("Wed, 21 Oct 2026 07:27:00 GMT", 0.0),
        (None, None),
        ("soon", None),
        ("-3", None),
        ("nan", None),
        ("inf", None),
    ],
)
def test_retry_after_as_seconds_or_as_a_date(header: str | None, seconds: float | None):
    assert retry_after(header, NOW) == seconds
