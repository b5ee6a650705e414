"""A tiny student: a plain transformers model folder, made on the spot for the vocabulary of an environment.

Out: a folder that `AutoModelForCausalLM` and `AutoTokenizer` load, with `entities.json` beside it: which ids may stand in
for each other, for `training.augment`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import torch
from tokenizers import Tokenizer
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from tutelage.errors import ConfigError
from tutelage.training.augment import ENTITIES_FILE
from tutelage.training.household_tokenizer import HouseholdVocabulary
from tutelage.training.turn_tokens import TurnTokens

if TYPE_CHECKING:
    from torch import Tensor


class StudentVocabulary(Protocol):
    """Which texts have a token of their own, and how alike those start out."""

    @property
    def turns(self) -> TurnTokens:
        """Its special tokens and its chat template."""
        ...

    def tokenizer(self) -> Tokenizer:
        """A lossless tokenizer that has the special tokens of `turns`."""
        ...

    def entity_rows(self, tokenizer: Tokenizer) -> Iterable[Mapping[str, Any]]:
        """Rows of `entities.json`: id, kind, type, number, group."""
        ...

    def init_embeddings(self, weight: Tensor, tokenizer: Tokenizer) -> None:
        """Fill the embedding rows [V, D] in place, from torch's generator."""
        ...


def new_student(
    out_dir: str | Path,
    *,
    vocabulary: StudentVocabulary | None = None,
    hidden: int = 128,
    layers: int = 4,
    heads: int = 4,
    max_length: int = 4096,
    seed: int = 0,
) -> Path:
    """Write an untrained student (about a million parameters by default) and return its folder.

    vocabulary: None takes the household game's. Same arguments, same bytes.
    """
    if hidden % heads or (hidden // heads) % 2:
        raise ConfigError(
            f"new_student: hidden={hidden} with heads={heads}; expected hidden to be an even multiple of heads."
        )
    folder = Path(out_dir)
    vocabulary = vocabulary or HouseholdVocabulary()
    tokenizer = vocabulary.tokenizer()
    turns = vocabulary.turns
    config = LlamaConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=hidden,
        intermediate_size=8 * ((hidden * 8 // 3 + 7) // 8),
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        max_position_embeddings=max_length,
        # Small, so that near and far can be told apart by few frequencies; good for some thousand tokens.
        rope_parameters={"rope_type": "default", "rope_theta": 1000.0},
        tie_word_embeddings=True,
        bos_token_id=tokenizer.token_to_id(turns.bos),
        eos_token_id=tokenizer.token_to_id(turns.end),
        pad_token_id=tokenizer.token_to_id(turns.pad),
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LlamaForCausalLM(config)
        with torch.no_grad():
            _init_layers(model)
            vocabulary.init_embeddings(model.model.embed_tokens.weight, tokenizer)
    model.save_pretrained(folder)
    save_tokenizer(tokenizer, turns, folder, max_length=max_length)
    rows = ",\n".join(json.dumps(row) for row in vocabulary.entity_rows(tokenizer))
    (folder / ENTITIES_FILE).write_text(f"[\n{rows}\n]\n", encoding="utf-8")
    return folder


def save_tokenizer(tokenizer: Tokenizer, turns: TurnTokens, folder: Path, *, max_length: int) -> None:
    """Write the tokenizer files that `AutoTokenizer` loads, chat template included."""
    wrapped: Any = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        bos_token=turns.bos,
        eos_token=turns.end,
        pad_token=turns.pad,
        additional_special_tokens=list(turns.others),
        clean_up_tokenization_spaces=False,
        model_max_length=max_length,
        chat_template=turns.chat_template,
    )
    wrapped.save_pretrained(folder)


def _init_layers(model: LlamaForCausalLM) -> None:
    """Start attention close to copying ("mimetic initialization", Trockman and Kolter 2023, arXiv:2305.09828).

    Query and key matrices start nearly equal, so a token attends to its like; value and output matrices together start
    near the identity, so what is attended to is passed on. Copying then appears in a fifth of the tokens.
    """
    depth = model.config.num_hidden_layers
    for layer in model.model.layers:
        for parameter in layer.parameters():
            if parameter.dim() == 2:
                parameter.normal_(std=parameter.shape[1] ** -0.5)
        attention = layer.self_attn
        hidden = attention.q_proj.weight.shape[1]
        shared = torch.randn(hidden, hidden) * hidden**-0.5
        for projection in (attention.q_proj, attention.k_proj):
            projection.weight.mul_(0.1).add_(shared, alpha=0.9)
        rotation, _ = torch.linalg.qr(torch.randn(hidden, hidden))
        attention.v_proj.weight.copy_(rotation)
        attention.o_proj.weight.copy_(0.8 * rotation.T)
        layer.mlp.down_proj.weight.div_((2 * depth) ** 0.5)
