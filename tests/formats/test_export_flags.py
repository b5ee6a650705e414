"""Report M10: four assistant turns, the expert's two are trained, one of them makes two calls; every trainer, by table."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tutelage.errors import ExportError
from tutelage.formats.export import export
from tutelage.formats.export_targets import TARGETS
from tutelage.formats.row_files import read_rows
from tutelage.store import read_records
from tutelage.supervision.step_masks import expert_steps, student_steps
from tutelage.testing.byte_renderer import ByteRenderer
from tutelage.types import Action, LossComponent, Observation, StepSupervision, Trajectory

FLAGS = Path(__file__).parents[1] / "fixtures" / "flags"
EXPECTED = json.loads((FLAGS / "expected.json").read_text())


def the_trajectory() -> Trajectory:
    [one] = read_records(FLAGS / "trajectories.jsonl", "trajectory")
    return one


def rows_of(target: str, path: Path) -> list[dict[str, Any]]:
    return read_rows(path, kind="parquet" if path.suffix == ".parquet" else "jsonl")


def out_of(target: str, folder: Path) -> Path:
    return folder / ("rows.parquet" if target in ("parquet", "verl_sft") else "rows.jsonl")


@pytest.mark.parametrize("case", list(EXPECTED["trained"]))
def test_m10_the_trained_set_that_each_trainer_reads(case: str, tmp_path: Path) -> None:
    """M10: a flag that a trainer reads otherwise trains the wrong turns in silence."""
    target = case.split()[0]
    out = out_of(target, tmp_path)
    export(target, [the_trajectory()], out, supervise=expert_steps, merge="join" if "join" in case else "reject")
    reread = TARGETS[target].reread
    assert reread is not None
    assert [sorted(reread(row).trained) for row in rows_of(target, out)] == EXPECTED["trained"][case]


@pytest.mark.parametrize(("target", "reason"), EXPECTED["refused"].items())
def test_m10_what_cannot_be_said_is_refused(target: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=f"Skipped: 1 {reason}"):
        export(target, [the_trajectory()], tmp_path / "rows.jsonl", supervise=expert_steps)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("target", ["trl", "verl_sft"])
def test_m10_tokenised_rows_hold_the_trained_texts(target: str, tmp_path: Path) -> None:
    renderer, out = ByteRenderer(), out_of(target, tmp_path)
    export(target, [the_trajectory()], out, supervise=student_steps, renderer=renderer)
    reread_sample = TARGETS[target].reread_sample
    assert reread_sample is not None
    [row] = rows_of(target, out)
    ids, positions = reread_sample(row)
    assert renderer.decode([ids[position] for position in sorted(positions)]) == (
        "I will look at a.py first.<stop>Both files look fine to me.<stop>"
    )


def test_the_rows_to_the_letter(tmp_path: Path) -> None:
    """The calls keep their argument strings, null content stays null, and every trainer finds its own key."""
    calls = [
        {"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"path": "a.py"}'}},
        {"id": "c2", "type": "function", "function": {"name": "read", "arguments": '{"path":"b.py","line":7}'}},
    ]
    written: dict[str, Any] = {}
    for target in ("openai", "axolotl", "slime", "tinker", "swift"):
        export(target, [the_trajectory()], tmp_path / f"{target}.jsonl", supervise=expert_steps)
        [written[target]] = rows_of(target, tmp_path / f"{target}.jsonl")
    plain = {"role": "assistant", "content": None, "tool_calls": calls}
    assert written["openai"]["messages"][2:6] == [
        {"role": "assistant", "content": "I will look at a.py first.", "weight": 0},
        {"role": "user", "content": "Go on."},
        plain | {"weight": 1},
        {"role": "tool", "content": "x = 1\n", "tool_call_id": "c1"},
    ]
    assert written["openai"]["tools"] == list(the_trajectory().info["tools"])
    assert [one["train"] for one in written["axolotl"]["messages"]] == [index in (4, 9) for index in range(10)]
    assert written["slime"]["messages"][4] == plain | {"loss": 1, "step_loss_mask": 1}
    assert written["slime"]["messages"][7]["step_loss_mask"] == 0
    assert [one["trainable"] for one in written["tinker"]["messages"]] == [index in (4, 9) for index in range(10)]
    assert written["swift"]["messages"][4:8] == [
        {"role": "tool_call", "content": '{"name": "read", "arguments": {"path": "a.py"}}', "loss": True},
        {"role": "tool_call", "content": '{"name": "read", "arguments": {"path": "b.py", "line": 7}}', "loss": True},
        {"role": "tool_response", "content": "x = 1\n"},
        {"role": "tool_response", "content": "y = x\n"},
    ]


def test_llama_factory_rows_to_the_letter(tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"
    ledger = export("llama_factory", [the_trajectory()], out, supervise=expert_steps, merge="join")
    first, second = rows_of("llama_factory", out)
    assert first["conversations"] == [
        {"from": "human", "value": "Two files, one bug."},
        {"from": "gpt", "value": "I will look at a.py first."},
        {"from": "human", "value": "Go on."},
        {
            "from": "function_call",
            "value": '[{"name": "read", "arguments": {"path": "a.py"}}, {"name": "read", "arguments": {"path": "b.py", "line": 7}}]',
        },
    ]
    assert second["conversations"][4] == {"from": "observation", "value": "x = 1\n\n\ny = x\n"}
    assert (first["system"], json.loads(first["tools"])) == ("You mend programs.", list(the_trajectory().info["tools"]))
    assert (ledger.counts["joined_messages"], ledger.counts["rows"], ledger.counts["trained_messages"]) == (1, 2, 2)
    assert "mask_history: true" in (tmp_path / "rows.llama_factory.config.txt").read_text()


def test_axolotl_settings_are_written_beside(tmp_path: Path) -> None:
    export("axolotl", [the_trajectory()], tmp_path / "rows.jsonl", supervise=expert_steps)
    assert (tmp_path / "rows.axolotl.yaml").read_text() == (
        "datasets:\n  - path: rows.jsonl\n    type: chat_template\n    field_messages: messages\n"
        "    message_field_training: train\n    roles_to_train: []\n    train_on_eos: turn\n"
    )


def without_observation(trajectory: Trajectory, index: int) -> Trajectory:
    """Step `index` follows the one before it directly, as two calls of two authors in a row."""
    steps = list(trajectory.steps)
    steps[index] = replace(steps[index], observation=Observation(messages=()))
    return replace(trajectory, steps=tuple(steps))


def test_m10_swift_cannot_say_two_actions_in_a_row(tmp_path: Path) -> None:
    """M10: ms-swift joins consecutive tool calls and takes the first one's flag."""
    with pytest.raises(ExportError, match=r"consecutive_actions: messages 2 and 3: .*, and theirs differ"):
        export("swift", [without_observation(the_trajectory(), 1)], tmp_path / "rows.jsonl", supervise=expert_steps)


def weighed(*weights: float) -> Callable[[Trajectory], StepSupervision]:
    def supervise(trajectory: Trajectory) -> StepSupervision:
        return StepSupervision(
            trajectory_id=trajectory.trajectory_id,
            step_mask=tuple(weight > 0 for weight in weights),
            step_weights={LossComponent.SFT: weights},
            source="test",
        )

    return supervise


@pytest.mark.parametrize("target", [name for name, spec in TARGETS.items() if not spec.whole])
def test_m10_a_weight_between_is_refused(target: str, tmp_path: Path) -> None:
    """M10: a weight of 0.5 in a format that knows 0 and 1."""
    with pytest.raises(ExportError, match=r"fractional_weight: step 1 weighs 0.5; --round-weights"):
        export(
            target,
            [the_trajectory()],
            out_of(target, tmp_path),
            supervise=weighed(0, 0.5, 0, 1),
            renderer=ByteRenderer(),
        )
    assert list(tmp_path.iterdir()) == []


def test_rounded_weights_are_counted(tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"
    ledger = export("openai", [the_trajectory()], out, supervise=weighed(0.4, 0.5, 0, 1), round_weights=True)
    [row] = rows_of("openai", out)
    assert [one.get("weight") for one in row["messages"]] == [None, None, 0, None, 1, None, None, 0, None, 1]
    assert ledger.counts["rounded_weights"] == 2


def test_keys_of_a_foreign_message_never_become_flags(tmp_path: Path) -> None:
    """A file that came with `train` and `weight` on its messages does not decide what is trained now."""
    given = the_trajectory()
    action = Action(
        text="look",
        command="look",
        raw={"role": "assistant", "content": "look", "train": True, "weight": 1, "loss": True},
    )
    steps = (replace(given.steps[0], action=action), *given.steps[1:])
    ledger = export("axolotl", [replace(given, steps=steps)], tmp_path / "rows.jsonl", supervise=expert_steps)
    [row] = rows_of("axolotl", tmp_path / "rows.jsonl")
    assert row["messages"][2] == {"role": "assistant", "content": "look", "train": False}
    assert ledger.counts["keys_left_out"] == 3
