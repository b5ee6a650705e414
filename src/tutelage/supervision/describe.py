"""A training sample as a person reads it: coloured by author, with what is trained standing out."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Final

from rich.text import Text

from tutelage.rendering.base import Renderer
from tutelage.types import TrainingSample

STYLES: Final = {"s": "cyan", "e": "green", "o": "default", ".": "bright_black"}
"""Author letter -> colour: student, expert, observation, template."""

TRAINED_STYLE: Final = "bold reverse"
"""Laid over the author's colour where a token carries loss."""


def describe_sample(sample: TrainingSample, renderer: Renderer) -> Text:
    """One line that counts, then the decoded sample. Colours tell the author, reverse video tells the loss.

    Example, expert step trained: ``... <|act|>`` in grey, then ``go to drawer 3<|end|>`` in green and reversed.
    """
    text = Text()
    text.append(
        f"{sample.sample_id}: {len(sample.token_ids)} tokens, {sample.num_trained_tokens} trained, "
        f"fork {sample.fork_index}\n",
        style="bold",
    )
    for letter, trained, token_ids in _runs(sample):
        style = f"{TRAINED_STYLE} {STYLES[letter]}" if trained else STYLES[letter]
        text.append(renderer.decode(token_ids), style=style)
    return text


def _runs(sample: TrainingSample) -> Iterator[tuple[str, bool, list[int]]]:
    """Stretches of tokens with one author and one mask. Longer than a token, since a character may take several."""
    tokens = zip(sample.token_actors, sample.loss_mask, sample.token_ids, strict=True)
    for (letter, trained), run in groupby(tokens, key=lambda token: token[:2]):
        yield letter, trained, [token_id for _, _, token_id in run]
