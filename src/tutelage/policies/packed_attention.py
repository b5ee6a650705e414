"""Attention over sequences that lie one after the other in a single row, so that nothing is padded.

Training and scoring share it: a model that was switched to it takes `row_lengths` with every call and attends within
each sequence alone. It is registered in transformers' table, so any model that takes its attention from there works.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor, nn
from transformers import AttentionInterface

from tutelage.errors import ConfigError

PACKED_ATTENTION: Final = "tutelage_packed"
"""Name of the attention over packed rows in transformers' table."""


def use_packed_attention(model: Any) -> None:
    """Let `model` attend within each of the rows named by `row_lengths`, row by row.

    Row by row keeps the causal kernel, which on a CPU is several times faster than one dense mask over all rows.
    """
    AttentionInterface.register(PACKED_ATTENTION, packed_attention)
    model.set_attn_implementation(PACKED_ATTENTION)


def packed_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    row_lengths: list[int] | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Causal attention within each packed row. [1, H, L, D] -> [1, L, H, D].

    Example, row_lengths [3, 2]: positions 0 to 2 attend among themselves, 3 and 4 among themselves.
    """
    if row_lengths is None or attention_mask is not None or options.get("sliding_window") or options.get("softcap"):
        raise ConfigError(
            f"{type(module).__name__} asks for attention that packed rows do not have (a mask, a sliding window or a "
            "soft cap). Set row_layout to 'padded'."
        )
    groups = query.shape[1] // key.shape[1]
    if groups > 1:
        key, value = (one.repeat_interleave(groups, dim=1) for one in (key, value))
    rows = zip(*(torch.split(one, row_lengths, dim=2) for one in (query, key, value)), strict=True)
    attended = [
        nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=dropout, scale=scaling)
        for q, k, v in rows
    ]
    return torch.cat(attended, 2).transpose(1, 2).contiguous(), None
