"""Random episodes and masks through every target: the file says exactly what was meant, or it is refused with a reason."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tutelage.errors import ExportError
from tutelage.formats.export import export
from tutelage.formats.export_targets import TARGETS
from tutelage.formats.row_files import read_rows
from tutelage.supervision.step_masks import expert_steps
from tutelage.testing.byte_renderer import ByteRenderer
from tutelage.types import (
    Action,
    Actor,
    LossComponent,
    Message,
    Observation,
    Step,
    StepSupervision,
    StopReason,
    Trajectory,
)

REASONS = {
    "no_trained_step", "reasoning_content", "call_without_id", "unanswered_call", "unmatched_answer", "arguments_not_json",
    "consecutive_actions", "empty_reply", "empty_trained_message", "untrained_turn", "several_calls", "text_beside_a_call",
    "not_alternating", "unknown_role", "fractional_weight", "shared_border",
}  # fmt: skip

texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8) | st.sampled_from(
    ["<|im_end|>", "</tool_call>", "\n", "\u2028", "🙂", '{"a": 1}', "null", "[1]"]
)
values = st.none() | st.booleans() | st.integers(-9, 9) | texts
arguments = st.dictionaries(texts, values | st.lists(values, max_size=2), max_size=2).map(json.dumps) | st.sampled_from(
    ["{", '{"id":1}', '{"id":"x"}', "[]"]
)


@st.composite
def episodes(draw: st.DrawFn, task_id: str) -> Trajectory:
    steps: list[Step] = []
    waiting: list[str] = []
    for index in range(draw(st.integers(1, 4))):
        seen = [Message(role="tool", content=draw(texts), extra={"tool_call_id": one}) for one in waiting]
        roles = draw(st.lists(st.sampled_from(["user", "user", "system"]), max_size=2))
        seen += [Message(role=role, content=draw(texts)) for role in (["user"] if index == 0 else roles)]
        action, waiting = draw(actions(index))
        actor = draw(st.sampled_from([Actor.STUDENT, Actor.EXPERT]))
        steps.append(Step(observation=Observation(messages=tuple(seen)), action=action, actor=actor))
    return Trajectory(
        trajectory_id=task_id,
        task_id=task_id,
        env="repo",
        steps=tuple(steps),
        final_observation=Observation.of("end"),
        stop_reason=StopReason.COMPLETED,
        reward=1.0,
        seed=0,
    )


@st.composite
def actions(draw: st.DrawFn, index: int) -> tuple[Action, list[str]]:
    """An action, and the ids of its calls."""
    text = draw(texts)
    identities = [f"c{index}{place}" for place in range(draw(st.sampled_from([0, 0, 1, 1, 2])))]
    raw: dict[str, Any] = {"role": "assistant", "content": text or None, "train": draw(st.booleans())}
    if identities:
        raw["tool_calls"] = [
            {
                "id": one,
                "type": "function",
                "function": {"name": draw(st.sampled_from(["read", "run"])), "arguments": draw(arguments)},
            }
            for one in identities
        ]
    if draw(st.integers(0, 9)) == 0:
        raw["reasoning_content"] = "because"
    return Action(text=text, command=text, raw=raw if identities or "reasoning_content" in raw else None), identities


def said(message: dict[str, Any]) -> str:
    """What an assistant message says, whatever the format: text and calls."""
    calls = message.get("tool_calls") or ()
    parsed = [(one["function"]["name"], json.loads(one["function"]["arguments"])) for one in calls]
    return json.dumps([message["content"] or "", parsed])


def meant(trajectory: Trajectory) -> Counter[str]:
    found: Counter[str] = Counter()
    for step in trajectory.steps:
        if step.actor is Actor.EXPERT:
            found[said(dict(step.action.raw or {}) | {"content": step.action.text})] += 1
    return found


@pytest.mark.parametrize("merge", ["reject", "join"])
@pytest.mark.parametrize("target", [name for name, spec in TARGETS.items() if spec.reread is not None])
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(data=st.data())
def test_messages_say_what_was_meant_or_are_refused(target: str, merge: Any, data: st.DataObject) -> None:
    given_ones = [data.draw(episodes("a")), data.draw(episodes("b"))]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / ("rows.parquet" if target == "parquet" else "rows.jsonl")
        try:
            ledger = export(target, given_ones, out, supervise=expert_steps, merge=merge)
        except ExportError as error:
            if "no row to write. Skipped:" not in str(error):
                raise
            assert list(Path(folder).iterdir()) == []
            return
        refused = {problem.file: problem.reason for problem in ledger.problems}
        assert set(refused.values()) <= REASONS
        assert (ledger.num_read, ledger.num_converted) == (2, 2 - len(refused))
        reread = TARGETS[target].reread
        assert reread is not None
        found: Counter[str] = Counter()
        for row in read_rows(out, kind="parquet" if target == "parquet" else "jsonl"):
            reading = reread(row)
            try:
                found.update(said(reading.messages[index]) for index in reading.trained)
            except json.JSONDecodeError:  # arguments that are no JSON, kept as they came
                return
        assert found == sum((meant(one) for one in given_ones if one.trajectory_id not in refused), Counter())


@pytest.mark.parametrize("target", ["trl", "verl_sft"])
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(data=st.data())
def test_tokens_say_what_was_meant(target: str, data: st.DataObject) -> None:
    episode = data.draw(episodes("a"))
    mask = tuple(data.draw(st.booleans()) for _ in episode.steps)
    renderer = ByteRenderer()

    def supervise(trajectory: Trajectory) -> StepSupervision:
        return StepSupervision(
            trajectory_id="a",
            step_mask=mask,
            step_weights={LossComponent.SFT: tuple(map(float, mask))},
            source="test",
        )

    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "rows.parquet"
        if not any(mask):
            with pytest.raises(ExportError, match="1 no_trained_step"):
                export(target, [episode], out, supervise=supervise, renderer=renderer)
            return
        export(target, [episode], out, supervise=supervise, renderer=renderer)
        [row] = read_rows(out, kind="parquet")
    key, off = ("labels", -100) if target == "trl" else ("loss_mask", 0)
    trained = [token for token, flag in zip(row["input_ids"], row[key], strict=True) if flag != off]
    texts_meant = [step.action.text for step, on in zip(episode.steps, mask, strict=True) if on]
    assert renderer.decode(trained) == "".join(f"{text}<stop>" for text in texts_meant)
