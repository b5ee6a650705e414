"""The optimizer and the learning rate."""

from __future__ import annotations

import math

import torch
from torch import nn


def learning_rate_at(
    update_index: int, num_updates: int, *, peak: float, warmup_updates: int, final_fraction: float = 0.0
) -> float:
    """Linear warm-up to `peak`, then a half cosine that would reach `final_fraction` of it one update after the last.

    Example, 5 updates, 2 of warm-up, peak 1: 0.5 1.0 0.854 0.5 0.146
    """
    if update_index < warmup_updates:
        return peak * (update_index + 1) / warmup_updates
    progress = (update_index + 1 - warmup_updates) / (num_updates - warmup_updates + 1)
    cosine = 0.5 * (1.0 + math.cos(math.pi * progress))
    return peak * (final_fraction + (1.0 - final_fraction) * cosine)


def make_optimizer(
    module: nn.Module, *, learning_rate: float, betas: tuple[float, float], weight_decay: float
) -> torch.optim.AdamW:
    """AdamW over the trainable parameters. Vectors (norm gains, biases) are not decayed."""
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    groups = [
        {"params": [one for one in trained if one.ndim >= 2], "weight_decay": weight_decay},
        {"params": [one for one in trained if one.ndim < 2], "weight_decay": 0.0},
    ]
    # Fused: one call per group instead of a dozen small ones per parameter.
    return torch.optim.AdamW(groups, lr=learning_rate, betas=betas, fused=True)
