"""The text of an action in tokenised rows, through a renderer of a chat template and through the verb."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tutelage.cli.main import main
from tutelage.formats.base import Refused
from tutelage.formats.write_text import written_text
from tutelage.store import RecordStore
from tutelage.testing.trajectories import make_trajectory
from tutelage.types import Action


def calling(*arguments: str, text: str = "", **raw: Any) -> Action:
    calls = [{"id": "c", "type": "function", "function": {"name": "bash", "arguments": one}} for one in arguments]
    return Action(
        text=text, command="x", raw={"role": "assistant", "content": text or None, "tool_calls": calls, **raw}
    )


def test_the_text_to_the_letter() -> None:
    """Two calls, each argument string as it came, white space and all."""
    written = written_text(calling('{"command":  "ls"}', '{"n": 1}', text="I look."), "tool_call")
    assert written == (
        'I look.\n<tool_call>\n{"name": "bash", "arguments": {"command":  "ls"}}\n</tool_call>\n'
        '<tool_call>\n{"name": "bash", "arguments": {"n": 1}}\n</tool_call>'
    )
    assert written_text(Action(text="Thought.\nls", command="ls")) == "Thought.\nls"


@pytest.mark.parametrize(
    ("action", "calls", "reason"),
    [
        (calling("{}"), "refuse", "native_calls"),
        (calling("{"), "tool_call", "arguments_not_json"),
        (calling(text="a", reasoning_content="b"), "tool_call", "reasoning_content"),
    ],
)
def test_refusals(action: Action, calls: Any, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        written_text(action, calls)


TEMPLATE = (
    "{% if tools %}<|im_start|>tools\n{{ tools | tojson }}<|im_end|>\n{% endif %}"
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TOOLS = [{"type": "function", "function": {"name": "bash", "parameters": {"type": "object"}}}]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a byte-level tokenizer and a ChatML template that asks for tools."""
    tokenizers = pytest.importorskip("tokenizers")
    folder = tmp_path_factory.mktemp("model")
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    vocabulary = {token: index for index, token in enumerate([*special, *alphabet])}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.add_special_tokens(special)
    tokenizer.save(str(folder / "tokenizer.json"))
    told = {"chat_template": TEMPLATE, "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(told))
    (folder / "config.json").write_text("{}")
    return folder


def decoded(model: Path, ids: list[int]) -> str:
    from tokenizers import Tokenizer

    text: str = Tokenizer.from_file(str(model / "tokenizer.json")).decode(ids, skip_special_tokens=False)
    return text


def stored(folder: Path, *actions: Action, **fields: Any) -> Path:
    path = folder / "trajectories.jsonl"
    for number, action in enumerate(actions):
        given = make_trajectory("e", [action], task_id=f"t{number}", **fields)
        RecordStore(path, "trajectory").append(given)
    return path


def test_calls_and_tools_in_tokenised_rows(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = stored(tmp_path, calling('{"command": "ls"}'), Action(text="Hm. ls", command="ls"), info={"tools": TOOLS})
    command = f"export verl_sft {path} --out {tmp_path}/rows.jsonl --model {model}"
    assert main(command.split()) == 0
    assert "t0.test.s0.n0.a0: native_calls" in capsys.readouterr().err
    assert main([*command.split(), "--calls", "tool_call", "--force"]) == 0
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    trained = [
        decoded(model, [one for one, on in zip(row["input_ids"], row["loss_mask"], strict=True) if on]) for row in rows
    ]
    assert trained == [
        '<tool_call>\n{"name": "bash", "arguments": {"command": "ls"}}\n</tool_call><|im_end|>',
        "Hm. ls<|im_end|>",
    ]
    assert decoded(model, rows[0]["input_ids"]).startswith('<|im_start|>tools\n[{"')
    assert main([*command.split(), "--calls", "tool_call", "--text", "command", "--force"]) == 0
    [_, row] = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert (
        decoded(model, [one for one, on in zip(row["input_ids"], row["loss_mask"], strict=True) if on])
        == "ls<|im_end|>"
    )


def test_other_tools_in_other_episodes_are_refused(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = stored(tmp_path, Action.of("a"), info={"tools": TOOLS})
    RecordStore(path, "trajectory").append(make_trajectory("e", task_id="other", info={"tools": [{"name": "x"}]}))
    assert main(f"export trl {path} --out {tmp_path}/rows.jsonl --model {model}".split()) == 2
    assert "2 different lists of tools" in capsys.readouterr().err


def test_messages_are_proven_on_the_tokens_of_a_model(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = stored(tmp_path, calling('{"command": "ls"}'), Action(text="Hm. ls", command="ls"))
    written = '<tool_call>\n{"name": "bash", "arguments": {"command": "ls"}}\n</tool_call>'
    trained = len(written) + len("Hm. ls") + 2  # a token per character, and the stop tokens
    for target in ("openai", "axolotl", "swift", "slime", "tinker", "llama_factory", "sharegpt"):
        assert main(f"export {target} {path} --out {tmp_path}/{target}.jsonl --model {model}".split()) == 0
        printed = capsys.readouterr().out
        assert f"2 trained_messages, 129 tokens, {trained} trained_tokens" in printed, printed


def test_a_folder_whose_template_shows_no_tools_says_so(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    for name in ("tokenizer.json", "config.json"):
        (plain / name).write_text((model / name).read_text())
    told = json.loads((model / "tokenizer_config.json").read_text())
    told["chat_template"] = TEMPLATE[TEMPLATE.index("{% for") :]
    (plain / "tokenizer_config.json").write_text(json.dumps(told))
    path = stored(tmp_path, Action.of("a"), info={"tools": TOOLS})
    assert main(f"export verl_sft {path} --out {tmp_path}/rows.jsonl --model {plain}".split()) == 0
    assert "the tools that the agents had are not in the rows" in capsys.readouterr().out


def test_a_library_user_hands_it_to_the_renderer(model: Path) -> None:
    from tutelage.rendering.load import load_renderer

    renderer = load_renderer(model, text_of=partial(written_text, calls="tool_call"))
    ids = renderer.action_ids(calling('{"command": "ls"}', text="So."))
    assert decoded(model, list(ids)) == (
        'So.\n<tool_call>\n{"name": "bash", "arguments": {"command": "ls"}}\n</tool_call><|im_end|>'
    )
