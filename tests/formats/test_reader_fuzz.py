"""No reader raises on what stands in a file: any bytes, any JSON, any change of a good file give trajectories or problems."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tutelage.formats.base import ReadOptions, ReadProblem
from tutelage.formats.registry import FORMATS
from tutelage.store import from_json, to_json
from tutelage.types import Actor, Trajectory

FILES = Path(__file__).parents[1] / "fixtures" / "formats"
OPTIONS = ReadOptions(actor=Actor.EXPERT)

WORDS = st.sampled_from(
    [
        "role",
        "content",
        "messages",
        "assistant",
        "user",
        "tool",
        "tool_calls",
        "function",
        "name",
        "arguments",
        "id",
        "history",
        "trajectory",
        "info",
        "action",
        "response",
        "observation",
        "conversations",
        "from",
        "value",
        "gpt",
        "human",
        "function_call",
        "steps",
        "source",
        "agent",
        "step_id",
        "message",
        "schema_version",
        "ATIF-v1.8",
        "extra",
        "results",
        "tools",
        "exit_status",
        "submitted",
        "is_demo",
        "state",
        "tutelage",
        "tutelage_actor",
        "expert",
        "kind",
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS | st.text(max_size=3), inner, max_size=5),
    max_leaves=12,
)
GOOD: dict[str, Any] = {
    "swe_agent": json.loads((FILES / "traj" / "switched.traj").read_text()),
    "mini_swe_agent": json.loads((FILES / "mini" / "finished.traj.json").read_text()),
    "openai_chat": json.loads((FILES / "rows" / "mixed.jsonl").read_text("utf-8", "replace").splitlines()[0]),
    "sharegpt": json.loads((FILES / "rows" / "sharegpt.json").read_text())[0],
    "atif": json.loads((FILES / "atif" / "main.json").read_text()),
}

SETTINGS = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


def check(name: str, path: Path) -> None:
    """Whatever comes out is a problem, or a trajectory that our own files can hold."""
    for one in FORMATS[name].read(path, OPTIONS):
        assert isinstance(one, Trajectory | ReadProblem)
        if isinstance(one, Trajectory):
            assert repr(from_json("trajectory", json.loads(json.dumps(to_json(one))))) == repr(one)


@pytest.mark.parametrize("name", FORMATS)
@SETTINGS
@given(data=st.binary(max_size=200))
def test_any_bytes(name: str, data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a"
    for start in (b"", b"{", b"[{", b"PAR1"):
        path.write_bytes(start + data)
        check(name, path)


@pytest.mark.parametrize("name", FORMATS)
@SETTINGS
@given(value=JSON)
def test_any_json(name: str, value: Any, tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text(json.dumps(value))
    check(name, path)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [(*path, key) for key, _ in items] + [one for key, inner in items for one in places(inner, (*path, key))]


@pytest.mark.parametrize("name", GOOD)
@settings(parent=SETTINGS, max_examples=80)
@given(data=st.data())
def test_any_change_of_a_good_file(name: str, data: st.DataObject, tmp_path: Path) -> None:
    value = copy.deepcopy(GOOD[name])
    for place in data.draw(st.lists(st.sampled_from(places(value)), min_size=1, max_size=3)):
        holder: Any = value
        for key in place[:-1]:
            if not (isinstance(holder, dict) and key in holder) and not (
                isinstance(holder, list) and key in range(len(holder))
            ):
                break
            holder = holder[key]
        else:
            if isinstance(holder, dict) or (isinstance(holder, list) and place[-1] in range(len(holder))):
                holder[place[-1]] = data.draw(JSON)
    path = tmp_path / "a"
    path.write_text(json.dumps(value))
    check(name, path)


@pytest.mark.parametrize("name", GOOD)
@settings(parent=SETTINGS, max_examples=30)
@given(data=st.data())
def test_any_cut_of_a_good_file(name: str, data: st.DataObject, tmp_path: Path) -> None:
    whole = json.dumps(GOOD[name]).encode()
    path = tmp_path / "a"
    path.write_bytes(whole[: data.draw(st.integers(1, len(whole) - 1))])
    (got,) = FORMATS[name].read(path, OPTIONS)
    assert isinstance(got, ReadProblem)
    assert got.reason in ("cut", "torn_line")
