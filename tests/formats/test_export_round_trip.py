"""What is exported is read again by our own importers, which were written apart: same actions, same steps learnt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tutelage.cli.main import main
from tutelage.store import read_records
from tutelage.types import Trajectory

FLAGS = Path(__file__).parents[1] / "fixtures" / "flags" / "trajectories.jsonl"


def actions_of(trajectory: Trajectory) -> list[tuple[str, Any]]:
    return [(step.action.text, (step.action.raw or {}).get("tool_calls")) for step in trajectory.steps]


@pytest.mark.parametrize(
    ("target", "reader", "flag"),
    [
        ("openai", "openai_chat", "weight"),
        ("axolotl", "openai_chat", "train"),
        ("slime", "openai_chat", "loss"),
        ("tinker", "openai_chat", "trainable"),
        ("parquet", "parquet", "train"),
    ],
)
def test_messages_and_flags(target: str, reader: str, flag: str, tmp_path: Path) -> None:
    rows = tmp_path / ("rows.parquet" if target == "parquet" else "rows.jsonl")
    back = tmp_path / "back.jsonl"
    assert main(f"export {target} {FLAGS} --out {rows}".split()) == 0
    assert main(f"import {reader} {rows} --actor student --flag {flag} --out {back}".split()) == 0
    [given], [found] = read_records(FLAGS, "trajectory"), read_records(back, "trajectory")
    assert actions_of(found) == actions_of(given)
    assert [one.observation.text for one in found.steps] == [one.observation.text for one in given.steps]
    assert found.info["tools"] == given.info["tools"]
    [supervision] = read_records(tmp_path / "back.supervision.jsonl", "step_supervision")
    assert supervision.step_mask == (False, True, False, True)


@pytest.mark.parametrize("name", ["documents", "documents.jsonl"])
def test_atif(name: str, tmp_path: Path) -> None:
    """Authors, reward and ending come back too."""
    assert main(f"export atif {FLAGS} --out {tmp_path / name}".split()) == 0
    assert main(f"import atif {tmp_path / name} --out {tmp_path}/back.jsonl".split()) == 0
    [given], [found] = read_records(FLAGS, "trajectory"), read_records(tmp_path / "back.jsonl", "trajectory")
    assert actions_of(found) == actions_of(given)
    assert [step.observation for step in found.steps] == [step.observation for step in given.steps]
    assert [step.actor for step in found.steps] == [step.actor for step in given.steps]
    assert (found.reward, found.stop_reason, found.final_observation) == (
        given.reward,
        given.stop_reason,
        given.final_observation,
    )
