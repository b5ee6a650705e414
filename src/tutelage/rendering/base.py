"""The port between records and tokens: what a model reads and writes, as ids.

In: observations and actions. Out: lists of token ids, which are only ever joined, never cut or encoded again.
Where a format allows it, a whole episode is the concatenation of its pieces, so a longer episode extends the ids of a
shorter one. A format that writes past turns otherwise renders whole views (`ViewRenderer`), and its episodes fork.
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


def plain_text(action: Action) -> str:
    """The text of an action that the model did not sample, where no action format is given: its bare command."""
    return action.text if action.command is None else action.command


@runtime_checkable
class Renderer(Protocol):
    """Maps observations and actions to token ids and back, for one model family.

    Example, one command answered (role-token format):
      observation_ids(o0, after=None)   <|bos|> <|obs|> text of o0 <|act|>
      action_ids(a0)                    text of a0 <|end|>
      observation_ids(o1, after=a0)     <|obs|> text of o1 <|act|>
    """

    name: str
    """Name of the format, e.g. ``role_tokens``; recorded with samples."""
    stop_token_id: int
    """The id that ends an action. It is part of the action and trained with it."""
    stop_token_ids: tuple[int, ...]
    """All ids on which a sampler stops, `stop_token_id` first."""
    pad_token_id: int
    vocab_size: int
    """Number of ids; every id is below it."""
    vocabulary_id: str
    """Which vocabulary the ids belong to; see `vocabulary_id`."""
    rewrites_history: bool
    """False: the context before the next action always extends this context and the action. True: it need not; the
    renderer is then a `ViewRenderer`, and `render_episode` asks it for whole views."""

    def observation_ids(self, observation: Observation, *, after: Action | None) -> list[int]:
        """Template, text and generation prompt of one observation; special tokens written in the text stay text.

        `after` is the action that it answers. None: it opens the conversation. Whatever a template puts between an
        action's stop token and the next message belongs here, at the front, so that actions end with the stop token; the
        stop token itself too, where the action was cut off before it.
        """
        ...

    def action_ids(self, action: Action, *, followed_by: Sequence[Observation] = ()) -> list[int]:
        """The ids as sampled, if the action carries them; else its text in the model's format and the stop token.

        `followed_by`: the observations after it. A format that writes a past action otherwise gives that form.
        """
        ...

    def parse(self, token_ids: Sequence[int], *, stopped: bool) -> Action:
        """Read an action out of sampled ids, which it keeps. `stopped`: the last id is a stop token."""
        ...

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of ids, special tokens spelled out."""
        ...


@runtime_checkable
class ViewRenderer(Renderer, Protocol):
    """A renderer whose pieces depend on what comes after them."""

    def view_ids(self, turns: Sequence[tuple[Observation, Action]], newest: Observation) -> list[list[int]]:
        """The ids of each observation and action in order, then of the newest observation; joined, they are the context
        of the next action."""
        ...
