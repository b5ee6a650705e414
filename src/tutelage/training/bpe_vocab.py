"""A byte-level BPE vocabulary with chat turns for a tiny student, learnt from texts of an environment.

Such a student is a language model in small: its tokenizer, its turns and its chat template are of the kind that pretrained
models have, so that what runs with it runs with them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

from tutelage.errors import ConfigError
from tutelage.training.turn_tokens import CHATML_TURNS, TurnTokens

if TYPE_CHECKING:
    from torch import Tensor


class BpeVocabulary:
    """Bytes and the most frequent merges of some texts."""

    turns: ClassVar[TurnTokens] = CHATML_TURNS

    def __init__(self, texts: Iterable[str], *, num_merges: int = 700) -> None:
        self._texts = tuple(texts)
        self._num_merges = num_merges
        if not any(self._texts):
            raise ConfigError("vocabulary: no text to learn from; give the texts of some episodes that were played.")

    def tokenizer(self) -> Tokenizer:
        """Lossless on any text: 256 bytes, then at most `num_merges` merges; digits stand apart."""
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        )
        tokenizer.decoder = decoders.ByteLevel()
        special = [AddedToken(token, special=True, normalized=False) for token in self.turns.special]
        trainer = trainers.BpeTrainer(
            vocab_size=len(special) + 256 + self._num_merges,
            special_tokens=special,
            initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
            show_progress=False,
        )
        tokenizer.train_from_iterator(self._texts, trainer)
        return tokenizer

    def entity_rows(self, tokenizer: Tokenizer) -> list[dict[str, Any]]:
        """None: a name is several tokens, so that none can stand in for another."""
        return []

    def init_embeddings(self, weight: Tensor, tokenizer: Tokenizer) -> None:
        """Embedding rows [V, D]: normal, of the length that those of other new students have."""
        weight.normal_(std=1.6 * weight.shape[1] ** -0.5)
