"""A writer with a fault is caught by the proof: the export fails, names the first message, and leaves no file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tutelage.errors import ConfigError, ExportError, SupervisionError
from tutelage.formats.export import export
from tutelage.formats.export_targets import TARGETS, Target
from tutelage.formats.row_files import read_rows
from tutelage.supervision.step_masks import all_steps, expert_labels, expert_steps
from tutelage.testing.byte_renderer import ByteRenderer
from tutelage.testing.trajectories import make_trajectory
from tutelage.types import Action, Message, Observation, ParseOutcome, Trajectory

Spoil = Callable[[dict[str, Any]], None]

FLAGS: dict[str, tuple[str, Spoil]] = {
    "openai": ("messages", lambda message: message.update(weight=1 - message["weight"])),
    "axolotl": ("messages", lambda message: message.update(train=not message["train"])),
    "slime": (
        "messages",
        lambda message: message.update(loss=1 - message["loss"], step_loss_mask=1 - message["step_loss_mask"]),
    ),
    "tinker": ("messages", lambda message: message.update(trainable=not message["trainable"])),
    "swift": ("messages", lambda message: message.update(loss=not message["loss"])),
    "parquet": ("messages", lambda message: message.update(train=not message["train"])),
}


def spoilt(spec: Target, spoil: Callable[[dict[str, Any]], None]) -> Target:
    """The target with a fault in its writer."""

    def row(*arguments: Any) -> dict[str, Any]:
        made = spec.row or spec.sample_row
        assert made is not None
        written = made(*arguments)
        spoil(written)
        return written

    return replace(spec, row=row if spec.row else None, sample_row=row if spec.sample_row else None)


def export_spoilt(
    target: str, spoil: Spoil, folder: Path, monkeypatch: pytest.MonkeyPatch, **options: Any
) -> pytest.ExceptionInfo[ExportError]:
    monkeypatch.setitem(TARGETS, target, spoilt(TARGETS[target], spoil))
    out = folder / ("rows.parquet" if target in ("parquet", "verl_sft") else "rows.jsonl")
    with pytest.raises(ExportError) as caught:
        export(target, [make_trajectory("sse")], out, supervise=expert_steps, **options)
    assert list(folder.iterdir()) == []
    return caught


@pytest.mark.parametrize("target", FLAGS)
@pytest.mark.parametrize("place", [1, 3, 5])
def test_a_flipped_flag_is_caught(target: str, place: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key, flip = FLAGS[target]
    caught = export_spoilt(target, lambda row: flip(row[key][place]), tmp_path, monkeypatch)
    read, meant = ("untrained", "trained") if place == 5 else ("trained", "untrained")
    assert str(caught.value).endswith(f"message {place} reads back as {read}, expected {meant}.")
    assert "row 1 (trajectory task-1.test.s0.n0.a0)" in str(caught.value)


@pytest.mark.parametrize("target", FLAGS)
def test_a_changed_text_is_caught(target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    caught = export_spoilt(target, lambda row: row["messages"][3].update(content="act one"), tmp_path, monkeypatch)
    assert "message 3: reads back as" in str(caught.value)


@pytest.mark.parametrize("target", FLAGS)
def test_a_lost_message_is_caught(target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    caught = export_spoilt(target, lambda row: row["messages"].pop(), tmp_path, monkeypatch)
    assert "message 5: 5 messages are read back, expected 6" in str(caught.value)


def test_a_missing_flag_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenAI trains what has no weight; tinker refuses a message without its flag."""
    caught = export_spoilt("openai", lambda row: row["messages"][1].pop("weight"), tmp_path, monkeypatch)
    assert "message 1 reads back as trained, expected untrained" in str(caught.value)
    caught = export_spoilt("tinker", lambda row: row["messages"][0].pop("trainable"), tmp_path, monkeypatch)
    assert "the trainer would refuse it: a message without 'trainable'" in str(caught.value)


@pytest.mark.parametrize(
    ("target", "spoil", "words"),
    [
        ("trl", lambda row: row.update(labels=[-100, *row["labels"][:-1]]), "the trainer would refuse it: labels"),
        ("trl", lambda row: row["labels"].__setitem__(-1, -100), "step 2: token 39 reads back as untrained"),
        ("trl", lambda row: row["labels"].__setitem__(9, row["input_ids"][9]), "step 0: token 9 reads back as trained"),
        ("trl", lambda row: row["input_ids"].__setitem__(3, 7), "step 0 differs at token 3"),
        ("verl_sft", lambda row: row["loss_mask"].__setitem__(-1, 0), "step 2: token 39 reads back as untrained"),
        ("verl_sft", lambda row: row["position_ids"].reverse(), "position_ids do not count from 0"),
    ],
)
def test_a_wrong_token_is_caught(
    target: str, spoil: Spoil, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    caught = export_spoilt(target, spoil, tmp_path, monkeypatch, renderer=ByteRenderer())
    assert words in str(caught.value)


def test_an_older_file_outlives_a_failed_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "rows.jsonl"
    out.write_text("mine\n")
    with pytest.raises(ConfigError, match="is there already"):
        export("openai", [make_trajectory("se")], out, supervise=expert_steps)
    spoil: Spoil = lambda row: row["messages"][1].update(weight=1)  # noqa: E731
    monkeypatch.setitem(TARGETS, "openai", spoilt(TARGETS["openai"], spoil))
    with pytest.raises(ExportError):
        export("openai", [make_trajectory("se")], out, supervise=expert_steps, force=True)
    assert (out.read_text(), [one.name for one in tmp_path.iterdir()]) == ("mine\n", ["rows.jsonl"])


def first_action(action: Action) -> Trajectory:
    return make_trajectory("ee", [action, "go"])


def reason_of(target: str, given: Trajectory, folder: Path, **options: Any) -> str:
    with pytest.raises(ExportError) as caught:
        export(target, [given], folder / "rows.jsonl", **({"supervise": all_steps} | options))
    return str(caught.value).split("Skipped: 1 ")[1].split(".")[0]


REASONING = Action(text="go", command="go", raw={"role": "assistant", "content": "go", "reasoning_content": "hm"})
NO_NAME = Action(
    text="", command="x", raw={"content": None, "tool_calls": [{"id": "a", "function": {"arguments": "{}"}}]}
)
NO_ID = Action(
    text="", command="x", raw={"content": None, "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}
)
NO_JSON = Action(
    text="",
    command="x",
    raw={"content": None, "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "{"}}]},
)
TWO = Action(
    text="",
    command="x",
    raw={"content": None, "tool_calls": [{"id": one, "function": {"name": "f", "arguments": "{}"}} for one in "ab"]},
)
BESIDE = Action(
    text="so",
    command="x",
    raw={"content": "so", "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": {}}}]},
)
CUT = Action(text="go", command="go", parse=ParseOutcome.ENDED_WITHOUT_STOP)


@pytest.mark.parametrize(
    ("target", "action", "reason"),
    [
        *((target, REASONING, "reasoning_content") for target in ("openai", "tinker", "swift", "llama_factory")),
        *((target, NO_NAME, "malformed_call") for target in ("openai", "axolotl", "swift", "sharegpt", "atif")),
        *((target, CUT, "cut_off_reply") for target in ("openai", "axolotl", "slime", "sharegpt")),
        ("openai", NO_ID, "call_without_id"),
        ("openai", TWO, "unanswered_call"),
        ("swift", NO_JSON, "arguments_not_json"),
        ("llama_factory", NO_JSON, "arguments_not_json"),
        ("sharegpt", BESIDE, "text_beside_a_call"),
        ("axolotl", Action(text="", command="x"), "empty_trained_message"),
        ("swift", Action(text="", command="x"), "empty_reply"),
    ],
)
def test_what_a_trainer_cannot_be_told_is_refused(target: str, action: Action, reason: str, tmp_path: Path) -> None:
    assert reason_of(target, first_action(action), tmp_path) == reason


def test_labels_go_into_tokenised_rows_only(tmp_path: Path) -> None:
    given = make_trajectory("ss", labels=["act 0", "other"])
    assert reason_of("openai", given, tmp_path, supervise=expert_labels) == "label_target"
    ledger = export("trl", [given], tmp_path / "rows.jsonl", supervise=expert_labels, renderer=ByteRenderer())
    assert (ledger.counts["rows"], ledger.counts["trained_tokens"]) == (2, len("act 0") + 1 + len("other") + 1)


def sampled(*ids: int) -> Action:
    return Action(text="hello", command="hello", token_ids=ids)


def test_sampled_ids_that_differ_are_refused_where_only_text_is_written(tmp_path: Path) -> None:
    """With the model at hand, messages are refused whose tokens the trainer would make otherwise; tokenised rows keep them."""

    class Merging(ByteRenderer):
        """Token 256 + 5 spells `lo` as well."""

        vocab_size = 262

        def parse(self, token_ids: Any, *, stopped: bool) -> Action:
            return super().parse(
                [one for token in token_ids for one in ([108, 111] if token == 261 else [token])], stopped=stopped
            )

    given = make_trajectory("e", [sampled(104, 101, 108, 261, 259)])
    assert reason_of("openai", given, tmp_path, renderer=Merging()) == "sampled_ids_differ"
    ledger = export("openai", [given], tmp_path / "text.jsonl", supervise=all_steps)
    assert ledger.counts["sampled_ids_left_out"] == 1
    ledger = export("trl", [given], tmp_path / "rows.jsonl", supervise=all_steps, renderer=Merging())
    assert ledger.counts["trained_tokens"] == 5


def test_ids_of_another_tokenizer_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(SupervisionError, match="another tokenizer"):
        export(
            "trl",
            [make_trajectory("e", [sampled(1, 2, 259)])],
            tmp_path / "rows.jsonl",
            supervise=all_steps,
            renderer=ByteRenderer(),
        )


def test_characters_that_are_no_utf8_are_replaced_and_counted(tmp_path: Path) -> None:
    """D5: a lone surrogate and a NUL."""
    given = make_trajectory("e", ["a\udc00b"], ["see\0", "end"])
    ledger = export("openai", [given], tmp_path / "rows.jsonl", supervise=all_steps)
    assert ledger.counts["replaced_characters"] == 2
    assert '"a\ufffdb"' in (tmp_path / "rows.jsonl").read_text(encoding="utf-8")


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999", "123456789012345678901234567890"])
def test_numbers_that_json_cannot_write(number: str, tmp_path: Path) -> None:
    """As the string that it is an argument goes anywhere; as an object it must be JSON."""
    call = {"id": "a", "function": {"name": "f", "arguments": f'{{"n": {number}}}'}}
    given = make_trajectory("e", [Action(text="", command="x", raw={"content": None, "tool_calls": [call]})])
    export("openai", [given], tmp_path / "openai.jsonl", supervise=all_steps)
    export("atif", [given], tmp_path / "atif.jsonl", supervise=all_steps)
    [document] = read_rows(tmp_path / "atif.jsonl", kind="jsonl")
    finite = number[0] == "1" and "e" not in number
    assert document["steps"][1]["tool_calls"][0]["arguments"] == ({"n": int(number)} if finite else {})
    if finite:
        export("swift", [given], tmp_path / "swift.jsonl", supervise=all_steps)
    else:
        assert reason_of("swift", given, tmp_path) == "arguments_not_json"


def test_an_answer_of_our_own_environment_names_the_call(tmp_path: Path) -> None:
    """A server's native call, executed here: the environment answers as the user, OpenAI wants the tool's answer by id."""
    call = {"id": "a7", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    native = Action(text="", command="x", raw={"role": "assistant", "content": None, "tool_calls": [call]})
    given = make_trajectory("eee", [native, native, "done"])
    ledger = export("openai", [given], tmp_path / "ours.jsonl", supervise=all_steps)
    [row] = read_rows(tmp_path / "ours.jsonl", kind="jsonl")
    assert row["messages"][2] == {"role": "tool", "content": "see 1", "tool_call_id": "a7"}
    assert [one["role"] for one in row["messages"]] == ["user", "assistant", "tool", "assistant", "tool", "assistant"]
    assert ledger.counts["answers_named"] == 2
    foreign = replace(given, info={"source": {"format": "openai_chat"}})
    assert reason_of("openai", foreign, tmp_path) == "unanswered_call"
    export("atif", [given], tmp_path / "atif.jsonl", supervise=all_steps)
    [document] = read_rows(tmp_path / "atif.jsonl", kind="jsonl")
    assert [step["source"] for step in document["steps"]] == ["user", "agent", "user", "agent", "user", "agent", "user"]


def test_a_demonstration_is_never_trained(tmp_path: Path) -> None:
    """An assistant message that was shown in the first observation; OpenAI and slime train what carries no flag."""
    given = make_trajectory("ee")
    shown = [("user", "q"), ("assistant", "demo"), ("user", "see")]
    first = Observation(messages=tuple(Message(role=role, content=content) for role, content in shown))
    given = replace(given, steps=(replace(given.steps[0], observation=first), given.steps[1]))
    for target, spec in TARGETS.items():
        if spec.reread is None or target in ("llama_factory", "parquet"):
            continue
        out = tmp_path / f"{target}.jsonl"
        if target == "sharegpt":
            assert reason_of(target, given, tmp_path) == "untrained_turn"
            continue
        export(target, [given], out, supervise=expert_steps)
        [row] = read_rows(out, kind="jsonl")
        assert sorted(spec.reread(row).trained) == [3, 5]
    export("llama_factory", [given], tmp_path / "rows.jsonl", supervise=expert_steps)
    assert len(read_rows(tmp_path / "rows.jsonl", kind="jsonl")) == 2


class Forgetting(ByteRenderer):
    """Of a past reply only the last word is left."""

    rewrites_history = True

    def view_ids(self, turns: Sequence[tuple[Observation, Action]], newest: Observation) -> list[list[int]]:
        pieces: list[list[int]] = []
        after: Action | None = None
        for observation, action in turns:
            last = replace(action, text=action.text.split()[-1])
            pieces += [self.observation_ids(observation, after=after), self.action_ids(last)]
            after = action
        return [*pieces, self.observation_ids(newest, after=after)]


def test_a_template_that_rewrites_the_past_needs_tokenised_rows(tmp_path: Path) -> None:
    """A trainer renders a conversation once, with past reasoning left out; we train every step as it was taken."""

    given = make_trajectory("ee", ["think a", "think b"])
    renderer = Forgetting()
    assert reason_of("openai", given, tmp_path, renderer=renderer) == "history_rewritten"
    first = make_trajectory("es", ["think a", "think b"])
    assert reason_of("openai", first, tmp_path, supervise=expert_steps, renderer=renderer) == "history_rewritten"
    last = make_trajectory("se", ["think a", "think b"])
    ledger = export("openai", [last], tmp_path / "last.jsonl", supervise=expert_steps, renderer=renderer)
    assert ledger.counts["trained_tokens"] == len("think b") + 1
    ledger = export("trl", [given], tmp_path / "rows.jsonl", supervise=all_steps, renderer=renderer)
    assert (ledger.counts["rows"], ledger.counts["trained_tokens"]) == (2, 2 * (len("think a") + 1))
    ledger = export("llama_factory", [given], tmp_path / "lf.jsonl", supervise=all_steps, renderer=renderer)
    assert (ledger.counts["rows"], ledger.counts["trained_tokens"]) == (2, 2 * (len("think a") + 1))


def test_joining_is_asked_for_and_only_of_one_role(tmp_path: Path) -> None:
    def seen(*roles: str) -> Trajectory:
        given = make_trajectory("e")
        messages = tuple(Message(role=role, content=role) for role in roles)
        return replace(given, steps=(replace(given.steps[0], observation=Observation(messages=messages)),))

    assert reason_of("sharegpt", seen("system", "user", "user"), tmp_path) == "not_alternating"
    assert reason_of("sharegpt", seen("user", "tool"), tmp_path, merge="join") == "not_alternating"
    assert reason_of("sharegpt", seen("user", "system"), tmp_path, merge="join") == "unknown_role"
    assert reason_of("sharegpt", seen("system"), tmp_path) == "not_alternating"
    export("sharegpt", [seen("system", "user", "user")], tmp_path / "a.jsonl", supervise=all_steps, merge="join")
    assert (tmp_path / "a.jsonl").read_text() == (
        '{"conversations":[{"from":"human","value":"user\\n\\nuser"},{"from":"gpt","value":"act 0"}],"system":"system","tools":""}\n'
    )


def test_an_unknown_target_and_a_missing_model(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"unknown 'axolot'. Did you mean 'axolotl'"):
        export("axolot", [], tmp_path / "rows.jsonl", supervise=all_steps)
    with pytest.raises(ConfigError, match="--model"):
        export("trl", [], tmp_path / "rows.jsonl", supervise=all_steps)
    with pytest.raises(ConfigError, match=r"expected NAME.jsonl for this target"):
        export("openai", [], tmp_path / "rows.json", supervise=all_steps)
    with pytest.raises(ExportError, match="No trajectory came in"):
        export("openai", [], tmp_path / "rows.jsonl", supervise=all_steps)
