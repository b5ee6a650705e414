"""Tokenised rows: the ids and the trained positions of samples, for trainers without a flag per message.

TRL reads `input_ids`, `labels`, `attention_mask`; verl's SFT reads `input_ids`, `attention_mask`, `position_ids`,
`loss_mask`.
"""

from __future__ import annotations

from typing import Final

from tutelage.types import TrainingSample

IGNORED: Final = -100
"""The label of a token without loss."""


def trl_row(sample: TrainingSample) -> dict[str, list[int]]:
    """Example: ids 5 6 7 of which 7 is trained -> ``labels`` -100 -100 7."""
    pairs = zip(sample.token_ids, sample.loss_mask, strict=True)
    return {
        "input_ids": list(sample.token_ids),
        "labels": [token if trained else IGNORED for token, trained in pairs],
        "attention_mask": [1] * len(sample.token_ids),
    }


def verl_sft_row(sample: TrainingSample) -> dict[str, list[int]]:
    """The mask says which token is learnt, at that token's own position; verl shifts it with the ids.

    Example: ids 5 6 7 of which 7 is trained -> ``loss_mask`` 0 0 1, ``position_ids`` 0 1 2.
    """
    return {
        "input_ids": list(sample.token_ids),
        "attention_mask": [1] * len(sample.token_ids),
        "position_ids": list(range(len(sample.token_ids))),
        "loss_mask": [int(trained) for trained in sample.loss_mask],
    }
