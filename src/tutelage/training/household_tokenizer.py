"""The tokenizer of the household game: one token per phrase and per thing, from the tables of `household_vocab`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

from tutelage.rendering.role_tokens import SPECIAL_TOKENS
from tutelage.training.household_vocab import PHRASES, Entity, entities, highest_number
from tutelage.training.turn_tokens import ROLE_TURNS, TurnTokens

if TYPE_CHECKING:
    from torch import Tensor


class HouseholdVocabulary:
    """Phrases of the game's texts, things and their types."""

    turns: ClassVar[TurnTokens] = ROLE_TURNS

    def __init__(self) -> None:
        self.things = entities()

    def tokenizer(self) -> Tokenizer:
        return household_tokenizer(self.things)

    def entity_rows(self, tokenizer: Tokenizer) -> list[dict[str, Any]]:
        """One row per thing, ``{"id": 412, "kind": "object", "type": "apple", "number": 2, "group": "movable"}``; a bare
        type has the number null."""
        return [
            {
                "id": tokenizer.token_to_id(thing.text),
                "kind": thing.kind,
                "type": thing.type,
                "number": thing.number,
                "group": thing.group,
            }
            for thing in self.things
        ]

    def init_embeddings(self, weight: Tensor, tokenizer: Tokenizer) -> None:
        """Embedding rows [V, D], all of one length; those of things are type + number + noise.

        The embedding of `drawer 3` starts as the sum of one vector for `drawer`, one for `3` and a little noise, and the
        bare type `drawer` as the same vector with other noise: copying a thing and matching it to a goal are then near at
        hand.
        """
        size = weight.shape[1]
        scale = 1.6 * size**-0.5
        weight.normal_(std=scale)
        type_vectors = {name: torch.randn(size) for name in dict.fromkeys(thing.type for thing in self.things)}
        number_vectors: dict[int | None, Tensor] = {}
        for thing in self.things:
            number = number_vectors.setdefault(thing.number, torch.randn(size))
            total = type_vectors[thing.type] + number + 0.5 * torch.randn(size)
            weight[tokenizer.token_to_id(thing.text)] = scale * total / total.std()


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
