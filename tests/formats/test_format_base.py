"""Ledger, problems, and text at the border."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutelage.formats.base import (
    MAX_DEPTH,
    FormatLedger,
    ReadProblem,
    Refused,
    clean_json,
    clean_text,
    json_from_bytes,
    lines_of,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def test_ledger() -> None:
    ledger = FormatLedger(format="swe_agent")
    ledger.converted(steps=3, truncated=1)
    ledger.converted(steps=4)
    ledger.skip(ReadProblem(file="a.traj", byte=7, reason="cut", detail="ends early"))
    ledger.notes.append("One thing to know.")
    assert str(ledger) == "swe_agent: 3 read = 2 converted + 1 cut; 7 steps, 1 truncated\nOne thing to know."
    assert ledger.to_json() == {
        "format": "swe_agent",
        "num_read": 3,
        "num_converted": 2,
        "skipped": {"cut": 1},
        "counts": {"steps": 7, "truncated": 1},
        "notes": ["One thing to know."],
        "problems": [{"file": "a.traj", "line": None, "byte": 7, "reason": "cut", "detail": "ends early"}],
    }


def test_ledger_is_written_beside_the_output(tmp_path: Path) -> None:
    ledger = FormatLedger(format="atif")
    path = ledger.write_beside(tmp_path / "rows.jsonl")
    assert path == tmp_path / "rows.jsonl.ledger.json"
    assert json.loads(path.read_text()) == ledger.to_json()


def test_clean_text() -> None:
    assert clean_text("a\udc00b\0") == ("a\ufffdb\ufffd", 2)
    assert clean_text("é😀") == ("é😀", 0)


@given(JSON)
def test_clean_json_changes_nothing_but_what_utf8_cannot_say(value: Any) -> None:
    got, count = clean_json(value)
    text = json.dumps(got, ensure_ascii=False)
    assert text.encode()
    assert "\0" not in text
    assert count or got == value
    assert clean_json(got) == (got, 0)


def test_clean_json_cleans_keys_and_bounds_depth() -> None:
    assert clean_json({"a\udc00": ["\0"]}) == ({"a\ufffd": ["\ufffd"]}, 2)
    deep: Any = "x"
    for _ in range(MAX_DEPTH + 1):
        deep = [deep]
    with pytest.raises(Refused, match="too_deep"):
        clean_json(deep)


@given(st.dictionaries(st.text(), JSON, min_size=1, max_size=3), st.data())
def test_a_value_that_ends_too_early_is_cut(value: dict[str, Any], data: st.DataObject) -> None:
    """Every beginning of a JSON object, whichever way it is escaped, is told from a file with a mistake in it."""
    whole = json.dumps(value, ensure_ascii=data.draw(st.booleans())).encode("utf-8", "surrogatepass")
    end = data.draw(st.integers(1, len(whole) - 1))
    with pytest.raises(Refused) as caught:
        json_from_bytes(whole[:end])
    assert caught.value.reason == "cut"
    assert json_from_bytes(whole) == json.loads(whole.decode("utf-8", "surrogatepass")) or "\\ud" in repr(value)


@pytest.mark.parametrize(
    ("data", "reason", "byte"),
    [
        (b"", "empty", 0),
        (b" \n", "empty", 0),
        (b"\xef\xbb\xbf", "empty", 0),
        (b'{"a": 1} x', "not_json", 9),
        (b'{"\xff\xff": x}', "not_json", 7),
        (b"\xef\xbb\xbf{'a'}", "not_json", 4),
        (b"[" * 100_000, "not_json", 0),
        (b"9" * 5000, "not_json", 0),
    ],
)
def test_json_from_bytes_names_the_byte(data: bytes, reason: str, byte: int) -> None:
    with pytest.raises(Refused) as caught:
        json_from_bytes(data)
    assert (caught.value.reason, caught.value.byte) == (reason, byte)


def test_bytes_that_are_no_utf8_come_through_one_by_one() -> None:
    value = json_from_bytes(b'\xef\xbb\xbf{"a": "\xff\xfe"}')
    assert clean_json(value) == ({"a": "\ufffd\ufffd"}, 2)


def test_lines_of(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"1\r\n\n{\x85\n3")
    assert [(one.number, one.byte, one.data, one.torn) for one in lines_of(path)] == [
        (1, 0, b"1", False),
        (3, 4, b"{\x85", False),
        (4, 7, b"3", True),
    ]
