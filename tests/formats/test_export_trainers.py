"""The rules of trainers on real tokens: what they learn of our rows through a Hugging Face chat template, against our samples.

Axolotl's and slime's ways of finding the learnt tokens, written down here from their sources' behaviour.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tutelage.errors import ExportError
from tutelage.formats.export import export
from tutelage.formats.row_files import read_rows
from tutelage.formats.write_text import written_text
from tutelage.rendering.load import load_renderer
from tutelage.supervision.samples import build_samples
from tutelage.supervision.step_masks import expert_steps
from tutelage.testing.trajectories import make_trajectory
from tutelage.types import Trajectory

transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
COMMANDS = ["DISCUSSION\nls", "cat a.py | head", "x", "sed -i 's/a/é🙂/' b"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A byte-level BPE tokenizer with some merges and a ChatML template."""
    folder = tmp_path_factory.mktemp("model")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    learner = tokenizers.trainers.BpeTrainer(
        vocab_size=330,
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([*COMMANDS, "see act user assistant"] * 3, learner)
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>", chat_template=TEMPLATE
    ).save_pretrained(folder)
    return folder


def ids_of(tokenizer: Any, messages: list[dict[str, Any]], **options: Any) -> list[int]:
    ids: list[int] = tokenizer.apply_chat_template(messages, tokenize=True, return_dict=False, **options)
    return ids


def axolotl(tokenizer: Any, messages: list[dict[str, Any]]) -> tuple[list[int], set[int]]:
    """A turn stands where the conversation up to it differs from one with a dummy in its place; then the next eos."""
    ids = ids_of(tokenizer, messages)
    learnt: set[int] = set()
    for index, message in enumerate(messages):
        if message["train"] is not True:
            continue
        dummy = ids_of(tokenizer, [*messages[:index], {"role": message["role"], "content": "[[dummy_message]]"}])
        full = ids_of(tokenizer, messages[: index + 1])
        first = next(place for place in range(len(full)) if dummy[place] != full[place])
        back = next(place for place in range(len(full)) if dummy[-1 - place] != full[-1 - place])
        learnt |= set(range(first, len(full) - back))
        stop = next(place for place in range(len(full) - back, len(ids)) if ids[place] == tokenizer.eos_token_id)
        learnt |= {stop} if stop - (len(full) - back) <= 3 else set()
    return ids, learnt


def slime(tokenizer: Any, messages: list[dict[str, Any]]) -> tuple[list[int], set[int]]:
    """Message by message, all but the generation prompt of each assistant message whose flag is 1 or absent."""
    ids: list[int] = []
    learnt: set[int] = set()
    opening = len(ids_of(tokenizer, messages[:1], add_generation_prompt=True)) - len(ids_of(tokenizer, messages[:1]))
    for message in messages:
        own = ids_of(tokenizer, [message])
        if message["role"] == "assistant" and message.get("step_loss_mask", 1) == 1:
            learnt |= set(range(len(ids) + opening, len(ids) + len(own)))
        ids += own
    return ids, learnt


def ours(model: Path, trajectory: Trajectory) -> tuple[list[int], set[int]]:
    renderer = load_renderer(model, text_of=written_text)
    [sample] = build_samples(trajectory, expert_steps(trajectory), renderer)
    return list(sample.token_ids), {index for index, trained in enumerate(sample.loss_mask) if trained}


@pytest.fixture
def trajectory() -> Trajectory:
    return make_trajectory("sese", COMMANDS)


def row_of(target: str, trajectory: Trajectory, model: Path, folder: Path) -> list[dict[str, Any]]:
    renderer = load_renderer(model, text_of=written_text)
    export(target, [trajectory], folder / "rows.jsonl", supervise=expert_steps, renderer=renderer, force=True)
    [row] = read_rows(folder / "rows.jsonl", "jsonl")
    messages: list[dict[str, Any]] = row["messages"]
    return messages


def test_m10_axolotl_on_tokens(trajectory: Trajectory, model: Path, tmp_path: Path) -> None:
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    ids, learnt = axolotl(tokenizer, row_of("axolotl", trajectory, model, tmp_path))
    meant_ids, meant = ours(model, trajectory)
    assert ids[: len(meant_ids)] == meant_ids
    assert tokenizer.decode(ids[len(meant_ids) :]) == "\n"
    assert learnt == meant


def test_m10_a_bracket_at_the_border_is_refused_for_axolotl(model: Path, tmp_path: Path) -> None:
    """Its own way of finding a turn would lose the token that the text shares with the dummy."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    for text in ("[1, 2", "1, 2]"):
        given = make_trajectory("e", [text])
        with pytest.raises(ExportError, match="1 shared_border"):
            row_of("axolotl", given, model, tmp_path)
        messages = [
            {"role": "user", "content": "see 0", "train": False},
            {"role": "assistant", "content": text, "train": True},
        ]
        assert axolotl(tokenizer, messages)[1] < ours(model, given)[1]


def test_m10_slime_on_tokens_learns_the_newline_too(trajectory: Trajectory, model: Path, tmp_path: Path) -> None:
    """What the ledger's note says: the same tokens, and the newline that this template writes after each stop token."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    ids, learnt = slime(tokenizer, row_of("slime", trajectory, model, tmp_path))
    meant_ids, meant = ours(model, trajectory)
    assert ids[: len(meant_ids)] == meant_ids
    assert meant < learnt
    assert tokenizer.decode([ids[place] for place in sorted(learnt - meant)]) == "\n\n"
