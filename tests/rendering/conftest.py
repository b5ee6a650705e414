"""Small model folders, one for each family of chat templates.

The templates of other projects are read from TRL, where it is installed; those under `fixtures/templates` are our own.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

OURS = Path(__file__).parents[1] / "fixtures/templates"

CHATML = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
LLAMA = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>", "<|eot_id|>"]
GEMMA = ["<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>"]
MISTRAL = ["<s>", "</s>", "[INST]", "[/INST]"]
GLM = ["<|endoftext|>", "[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>"]
OWNED = ["<|begin|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>", "<|tool|>"]
DEEPSEEK = ["<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>", "<｜tool▁outputs▁begin｜>",
            "<｜tool▁outputs▁end｜>", "<｜tool▁output▁begin｜>", "<｜tool▁output▁end｜>"]  # fmt: skip
TAGS = ["<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>"]
ARGUMENTS = ["<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"]

# As of Qwen and Llama 3: letters, single digits, marks with the line breaks after them, line breaks, white space.
PIECES = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
TEXTS = [
    "You are in the kitchen. You see a drawer 1, a fridge 2 and a sink 3.", "go to drawer 1", "open fridge 2",
    "system user assistant tool model ipython", "The drawer 1 is closed.\n\nNothing happens.\n", "hello hello world",
    "why not? let me think about it: the apple must be in the fridge.", "<|im_start|> [INST] </s> <think>", "naïve – ünï",
] * 4  # fmt: skip


@dataclass(frozen=True)
class Family:
    """A template, and the tokenizer that it is tried with."""

    template: str
    specials: list[str]
    tags: tuple[str, ...] = ()
    bos: str = ""
    eos: str = ""
    nfc: bool = False
    eos_ids: tuple[str, ...] = ()
    """Further stop tokens, as a generation config lists them."""

    def source(self) -> str:
        """The template; skips if it is TRL's and TRL is absent."""
        if (OURS / f"{self.template}.jinja").is_file():
            return (OURS / f"{self.template}.jinja").read_text(encoding="utf-8")
        found = importlib.util.find_spec("trl")
        if found is None or found.origin is None:
            pytest.skip("the templates of TRL are not here; the extra 'dev' brings them")
        return (Path(found.origin).parent / f"chat_templates/{self.template}.jinja").read_text(encoding="utf-8")


FAMILIES = {
    "smollm2": Family("smollm2", CHATML, bos="<|im_start|>", eos="<|im_end|>"),
    "qwen2.5": Family("qwen2_5", CHATML, tuple(TAGS[:4]), eos="<|im_end|>", nfc=True, eos_ids=("<|endoftext|>",)),
    "qwen3": Family("qwen3", CHATML, tuple(TAGS), eos="<|im_end|>", nfc=True),
    "qwen3.5": Family("qwen3_5_think", CHATML, tuple(TAGS), eos="<|im_end|>"),
    "llama3": Family("llama3", LLAMA, bos=LLAMA[0], eos="<|eot_id|>", eos_ids=("<|end_of_text|>", "<|eom_id|>")),
    "llama3.1": Family("llama3_1", LLAMA, bos=LLAMA[0], eos="<|eot_id|>", eos_ids=("<|end_of_text|>", "<|eom_id|>")),
    "gemma": Family("gemma", GEMMA, bos="<bos>", eos="<eos>"),
    "gemma3": Family("gemma3", GEMMA, bos="<bos>", eos="<eos>"),
    "mistral": Family("mistral", MISTRAL, bos="<s>", eos="</s>"),
    "glm": Family(
        "glm4moe", GLM, tuple(TAGS + ARGUMENTS), eos="<|endoftext|>", eos_ids=("<|user|>", "<|observation|>")
    ),
    "next owns stop": Family("next_owns_stop", OWNED, eos="<|end|>"),
    "deepseek": Family("deepseek_r1_distill", DEEPSEEK, tuple(TAGS[4:]), bos=DEEPSEEK[0], eos=DEEPSEEK[1]),
    "system in last": Family("system_in_last", MISTRAL, bos="<s>", eos="</s>"),
}


@pytest.fixture(scope="session")
def byte_level() -> Callable[..., Tokenizer]:
    """A byte-level tokenizer of about 500 pieces, with the given special tokens and tags."""
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    trained.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trained.train_from_iterator(
        TEXTS, trainers.BpeTrainer(vocab_size=500, initial_alphabet=alphabet, show_progress=False)
    )

    def make(specials: list[str], tags: tuple[str, ...] = (), *, nfc: bool = False) -> Tokenizer:
        tokenizer = Tokenizer.from_str(trained.to_str())
        if nfc:
            tokenizer.normalizer = normalizers.NFC()
        tokenizer.add_special_tokens([AddedToken(one, special=True, normalized=False) for one in specials])
        tokenizer.add_tokens([AddedToken(one, special=False, normalized=False) for one in tags])
        return tokenizer

    return make


@pytest.fixture(scope="session")
def model_folder(
    byte_level: Callable[..., Tokenizer], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Path]:
    """The folder of a family by its name."""
    made: dict[str, Path] = {}

    def folder(name: str) -> Path:
        if name not in made:
            family = FAMILIES[name]
            source = family.source()
            path = tmp_path_factory.mktemp("model")
            tokenizer = byte_level(family.specials, family.tags, nfc=family.nfc)
            tokenizer.save(str(path / "tokenizer.json"))
            (path / "chat_template.jinja").write_text(source, encoding="utf-8")
            settings: dict[str, Any] = {"bos_token": family.bos or None, "eos_token": family.eos}
            (path / "tokenizer_config.json").write_text(json.dumps(settings))
            stops = [tokenizer.token_to_id(one) for one in (family.eos, *family.eos_ids)]
            (path / "generation_config.json").write_text(json.dumps({"eos_token_id": stops}))
            made[name] = path
        return made[name]

    return folder
