"""A tiny student: a plain transformers model folder for the household game, made on the spot.

Out: a folder that `AutoModelForCausalLM` and `AutoTokenizer` load, with `entities.json` beside it: which ids are
things, of which type and number, for `training.augment`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from tutelage.errors import ConfigError
from tutelage.rendering.role_tokens import ACT, BOS, CHAT_TEMPLATE, END, OBSERVATION, PAD, SPECIAL_TOKENS, SYSTEM
from tutelage.training.augment import ENTITIES_FILE
from tutelage.training.household_vocab import PHRASES, Entity, entities, highest_number

if TYPE_CHECKING:
    from torch import Tensor


def new_student(
    out_dir: str | Path, *, hidden: int = 128, layers: int = 4, heads: int = 4, max_length: int = 4096, seed: int = 0
) -> Path:
    """Write an untrained student (about a million parameters by default) and return its folder.

    The embedding of `drawer 3` starts as the sum of one vector for `drawer`, one for `3` and a little noise, and the
    bare type `drawer` as the same vector with other noise: copying a thing and matching it to a goal are then near at
    hand. Same arguments, same bytes.
    """
    if hidden % heads or (hidden // heads) % 2:
        raise ConfigError(
            f"new_student: hidden={hidden} with heads={heads}; expected hidden to be an even multiple of heads."
        )
    folder = Path(out_dir)
    things = entities()
    tokenizer = household_tokenizer(things)
    ids = {token: tokenizer.token_to_id(token) for token in SPECIAL_TOKENS}
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
        bos_token_id=ids[BOS],
        eos_token_id=ids[END],
        pad_token_id=ids[PAD],
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LlamaForCausalLM(config)
        with torch.no_grad():
            _init_layers(model)
            _init_embeddings(model.model.embed_tokens.weight, tokenizer, things)
    model.save_pretrained(folder)
    save_tokenizer(tokenizer, folder, max_length=max_length)
    write_entities(tokenizer, things, folder)
    return folder


def household_tokenizer(things: Sequence[Entity]) -> Tokenizer:
    """A lossless tokenizer: one token per phrase and per thing, bytes for all other text.

    A text is cut, from the left, into the longest phrase, thing or type that fits, else one character; so every piece
    is one token, or the bytes of one character, and no piece can spell a byte token by accident.

    Example: ``go to drawer 3`` is `go to ` `drawer 3`; ``go to lair`` is `go to ` and four bytes.
    """
    vocabulary: dict[str, int] = {}
    for token in (
        *SPECIAL_TOKENS,
        *(f"<0x{byte:02X}>" for byte in range(256)),
        *sorted(PHRASES),
        *(thing.text for thing in things),
    ):
        assert token not in vocabulary, token
        vocabulary[token] = len(vocabulary)
    # A BPE without merges: `ignore_merges` takes a piece that is a token whole, `byte_fallback` spells the others.
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], byte_fallback=True, ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(_piece_pattern(things)), behavior="isolated")
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL_TOKENS])
    return tokenizer


def _piece_pattern(things: Sequence[Entity]) -> str:
    """Regex whose matches, from left to right, are the pieces of a text. Alternatives are tried in order."""
    phrases = "|".join(re.escape(phrase) for phrase in sorted(PHRASES, key=len, reverse=True))
    by_range: dict[int, list[str]] = {}
    for thing in things:
        if thing.number is None:
            by_range.setdefault(highest_number(thing.kind, thing.type), []).append(thing.type)
    # No letter or digit may follow or precede, so that a type inside a longer word is not taken for the type.
    numbered = "|".join(
        f"(?:{'|'.join(sorted(types, key=len, reverse=True))}) (?:{'|'.join(str(n) for n in range(highest, 0, -1))})"
        for highest, types in by_range.items()
    )
    bare = "|".join(sorted((t for types in by_range.values() for t in types), key=len, reverse=True))
    named = rf"(?<![A-Za-z0-9])(?:{numbered}|{bare})(?![A-Za-z0-9])"
    return rf"{phrases}|{named}|[\s\S]"


def save_tokenizer(tokenizer: Tokenizer, folder: Path, *, max_length: int) -> None:
    """Write the tokenizer files that `AutoTokenizer` loads, chat template included."""
    wrapped: Any = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        bos_token=BOS,
        eos_token=END,
        pad_token=PAD,
        additional_special_tokens=[SYSTEM, OBSERVATION, ACT],
        clean_up_tokenization_spaces=False,
        model_max_length=max_length,
        chat_template=CHAT_TEMPLATE,
    )
    wrapped.save_pretrained(folder)


def write_entities(tokenizer: Tokenizer, things: Sequence[Entity], folder: Path) -> None:
    """Write `entities.json`: one row per thing, ``{"id": 412, "kind": "object", "type": "apple", "number": 2, "group":
    "movable"}``; a bare type has the number null."""
    rows: list[dict[str, Any]] = [
        {
            "id": tokenizer.token_to_id(thing.text),
            "kind": thing.kind,
            "type": thing.type,
            "number": thing.number,
            "group": thing.group,
        }
        for thing in things
    ]
    text = ",\n".join(json.dumps(row) for row in rows)
    (folder / ENTITIES_FILE).write_text(f"[\n{text}\n]\n", encoding="utf-8")


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


def _init_embeddings(weight: Tensor, tokenizer: Tokenizer, things: Sequence[Entity]) -> None:
    """Embedding rows [V, D], all of one length; those of things are type + number + noise."""
    size = weight.shape[1]
    scale = 1.6 * size**-0.5
    weight.normal_(std=scale)
    type_vectors = {name: torch.randn(size) for name in dict.fromkeys(thing.type for thing in things)}
    number_vectors: dict[int | None, Tensor] = {}
    for thing in things:
        number = number_vectors.setdefault(thing.number, torch.randn(size))
        total = type_vectors[thing.type] + number + 0.5 * torch.randn(size)
        weight[tokenizer.token_to_id(thing.text)] = scale * total / total.std()
