"""What the cases share: a decoder of a few thousand weights, samples spelled by hand, and a place for fixtures."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest
from tokenizers import Tokenizer

from tutelage.run_dir import RunDir
from tutelage.types import LossComponent, TrainingSample

VOCAB_SIZE = 48


@pytest.fixture(scope="session")
def fixtures() -> Path:
    return Path(__file__).parents[1] / "fixtures" / "public_reports"


@pytest.fixture(scope="session")
def make_decoder() -> Callable[..., Any]:
    """A causal decoder with seeded weights; `vocab_size` rows in its output layer."""

    def make(vocab_size: int = VOCAB_SIZE, **options: Any) -> Any:
        import torch
        from transformers import LlamaConfig, LlamaForCausalLM

        torch.manual_seed(0)
        config = LlamaConfig(
            vocab_size=vocab_size, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2,
            intermediate_size=32, max_position_embeddings=512, initializer_range=0.2, **options,
        )  # fmt: skip
        return LlamaForCausalLM(config).eval()

    return make


@pytest.fixture(scope="session")
def make_sample() -> Callable[..., TrainingSample]:
    """`num_seen` ids of context, then `num_trained` trained ids."""

    def make(
        name: str,
        num_seen: int,
        num_trained: int,
        *,
        first_id: int = 1,
        last_id: int | None = None,
        components: Sequence[LossComponent] = (LossComponent.SFT,),
        **fields: Any,
    ) -> TrainingSample:
        length = num_seen + num_trained
        ids = [1 + (first_id + 7 * index) % (VOCAB_SIZE - 1) for index in range(length)]
        if last_id is not None:
            ids[-1] = last_id
        weights = (0.0,) * num_seen + (1.0,) * num_trained
        return TrainingSample(
            sample_id=name,
            trajectory_id=name,
            token_ids=tuple(ids),
            token_actors="o" * num_seen + "s" * num_trained,
            loss_mask=tuple(weight > 0 for weight in weights),
            loss_weights=dict.fromkeys(components, weights),
            step_spans=((0, num_seen, length),),
            **fields,
        )

    return make


RECIPE = """
name: counting
description: The expert alone counts.
workers: 1
env: {{name: counter_worlds, fault: {fault}}}
expert: {{name: scripted}}
student: {{start: builtin:household_tiny}}
limits: {limits}
rollouts:
  first:
    switch: {{name: expert_only}}
    tasks: {{split: train, start: 0, count: {count}}}
    retries: {retries}
select:
  solved: {{}}
"""


@pytest.fixture
def counter_worlds(fixtures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The module `counter_worlds` can be imported, here and in child processes."""
    folder = str(fixtures / "envs")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")])))


@pytest.fixture
def play_by_command_line(tmp_path: Path, counter_worlds: None) -> Callable[..., RunDir]:
    """`tutelage run` on a world with a fault; the run directory, which must end with the given exit code."""

    def play(
        fault: str,
        *,
        limits: str = "{}",
        count: int = 3,
        retries: int = 0,
        code: int = 0,
        more: Sequence[str] = ("--quiet",),
    ) -> RunDir:
        from tutelage.cli.main import main

        recipe = tmp_path / f"{fault}.yaml"
        recipe.write_text(RECIPE.format(fault=fault, limits=limits, count=count, retries=retries))
        assert main(["run", str(recipe), "--out", str(tmp_path / fault), *more]) == code
        return RunDir(tmp_path / fault)

    return play


SPECIALS = ("<s>", "</s>", "<|turn|>", "<|turn_end|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>", "<|tool|>")
CORPUS = (
    "system user assistant tool: go to the kitchen, take the apple 1 from the table 2 and look. "
    "Nothing happens. You see a drawer, a lamp and the fridge 3. hello hello yellow fellow. "
) * 6


@pytest.fixture(scope="session")
def byte_level() -> Tokenizer:
    """About 500 pieces over bytes, and the special tokens of the templates in `fixtures/public_reports/templates`."""
    from tokenizers import decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=500, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=list(SPECIALS),
        show_progress=False,
    )  # fmt: skip
    tokenizer.train_from_iterator([CORPUS], trainer)
    return tokenizer


def sentence_pieces(prepend_scheme: Literal["first", "always"]) -> Tokenizer:
    """Puts a space before the text: once, or before every run between special tokens."""
    from tokenizers import decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=prepend_scheme)
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=500, special_tokens=["<unk>", *SPECIALS, *(f"<0x{byte:02X}>" for byte in range(256))],
        show_progress=False,
    )  # fmt: skip
    tokenizer.train_from_iterator([CORPUS], trainer)
    made = json.loads(tokenizer.to_str())
    # The bytes are ordinary pieces; they were named to the trainer only so that it keeps them.
    made["added_tokens"] = [one for one in made["added_tokens"] if not one["content"].startswith("<0x")]
    return Tokenizer.from_str(json.dumps(made))


@pytest.fixture(scope="session")
def leading_space() -> Tokenizer:
    return sentence_pieces("first")


@pytest.fixture(scope="session")
def leading_spaces() -> Tokenizer:
    return sentence_pieces("always")


@pytest.fixture(scope="session")
def chat_folder(fixtures: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """A model folder without a model: a tokenizer and one of the templates, each with its trap."""

    def make(template: str, tokenizer: Tokenizer, *, eos: str = "</s>") -> Path:
        folder = tmp_path_factory.mktemp(template)
        tokenizer.save(str(folder / "tokenizer.json"))
        (folder / "config.json").write_text("{}")
        source = (fixtures / "templates" / f"{template}.jinja").read_text()
        (folder / "chat_template.jinja").write_text(source)
        (folder / "tokenizer_config.json").write_text(json.dumps({"bos_token": "<s>", "eos_token": eos}))
        return folder

    return make
