"""The port between records and tokens: what a model reads and writes, as ids.

In: observations and actions. Out: lists of token ids, which are only ever joined, never cut or encoded again.
A whole episode is the concatenation of its pieces, so a longer episode extends the ids of a shorter one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from tutelage.types import Action, Observation


def vocabulary_id(vocabulary: Mapping[str, int]) -> str:
    """16 hex digits of SHA-256 over the tokens and their ids: two models with the same one read ids alike."""
    listed = json.dumps(sorted((index, token) for token, index in vocabulary.items()))
    return hashlib.sha256(listed.encode()).hexdigest()[:16]


@runtime_checkable
class Renderer(Protocol):
    """Maps observations and actions to token ids and back, for one model family.

    Example, one command answered (role-token format):
      observation_ids(o0, first=True)   <|bos|> <|obs|> text of o0 <|act|>
      action_ids(a0)                    text of a0 <|end|>
      observation_ids(o1, first=False)  <|obs|> text of o1 <|act|>
    """

    name: str
    """Name of the format, e.g. ``role_tokens``; recorded with samples."""
    stop_token_id: int
    """The id that ends an action. It is part of the action and trained with it."""
    pad_token_id: int
    vocab_size: int
    """Number of ids; every id is below it."""
    vocabulary_id: str
    """Which vocabulary the ids belong to; see `vocabulary_id`."""

    def observation_ids(self, observation: Observation, *, first: bool) -> list[int]:
        """Template, text and generation prompt of one observation; special tokens written in the text stay text.

        `first` adds what opens a conversation. Whatever a template puts between an action's stop token and the next
        message belongs here, at the front, so that actions end with the stop token.
        """
        ...

    def action_ids(self, action: Action) -> list[int]:
        """The ids as sampled, if the action carries them; else its text in the model's format and the stop token."""
        ...

    def parse(self, token_ids: Sequence[int], *, stopped: bool) -> Action:
        """Read an action out of sampled ids, which it keeps. `stopped`: the last id is the stop token."""
        ...

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of ids, special tokens spelled out."""
        ...
