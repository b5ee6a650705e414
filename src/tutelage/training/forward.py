"""The model as the trainer calls it: a micro-batch in, the NLL of its trained tokens out.

The output projection runs at trained positions only, so the logits of the whole batch are never built. Works for every
causal model of transformers whose logits are its output projection applied to its base model; `check_head` refuses others.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor, nn

from tutelage.errors import TrainingError
from tutelage.policies.packed_attention import PACKED_ATTENTION
from tutelage.training.batching import Batch, Row, collate
from tutelage.training.config import Precision
from tutelage.training.losses import token_nll


class TrainedPositions(nn.Module):
    """Wraps a causal language model: Batch -> NLL [M] in nats, in the order of `Batch.targets`."""

    def __init__(self, model: Any, *, mixed_precision: bool = False) -> None:
        """`model` is a causal model of transformers. `mixed_precision`: compute in bfloat16, weights as they are."""
        super().__init__()
        self.model = model
        self.mixed_precision = mixed_precision

    def forward(self, batch: Batch) -> Tensor:
        return token_nll(self.logits(batch), batch.targets)

    def logits(self, batch: Batch) -> Tensor:
        """[M, V] what the model gives for each trained token, before any softmax."""
        arguments: dict[str, Any] = {"input_ids": batch.input_ids, "use_cache": False}
        if batch.row_lengths is not None:
            arguments |= {"position_ids": batch.position_ids, "row_lengths": batch.row_lengths}
        with torch.autocast(batch.input_ids.device.type, torch.bfloat16, enabled=self.mixed_precision):
            hidden = self.model.base_model(**arguments).last_hidden_state
            logits: Tensor = self.model.get_output_embeddings()(hidden.flatten(0, 1)[batch.predictors])
        return logits


def load_model(model_dir: str, precision: Precision = "float32") -> Any:
    """A causal model for training, from a plain folder."""
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
    model: Any = AutoModelForCausalLM.from_pretrained(model_dir, dtype=dtype, local_files_only=True)
    return model.train()


def add_lora(model: Any, *, rank: int, alpha: int, targets: str | tuple[str, ...], seed: int) -> Any:
    """Freeze the model and add low-rank adapters. Returns peft's handle, which merges them in the end."""
    import peft

    torch.manual_seed(seed)
    modules = targets if isinstance(targets, str) else list(targets)
    config = peft.LoraConfig(r=rank, lora_alpha=alpha, target_modules=modules, task_type="CAUSAL_LM")
    with warnings.catch_warnings():
        # peft 0.21 asks for an attribute that transformers 5 renames; nothing a user could change.
        warnings.filterwarnings("ignore", "`is_gradient_checkpointing` is deprecated", FutureWarning)
        return peft.get_peft_model(model, config)


@torch.no_grad()
def check_head(scorer: TrainedPositions, row: Row) -> None:
    """Compare one sample with the model's own logits.

    Raises:
        TrainingError: the model does more to its logits than its output projection (a soft cap, a scale).
    """
    device = next(scorer.parameters()).device
    batch = collate([row], "packed" if scorer.model.config._attn_implementation == PACKED_ATTENTION else "padded")
    batch = batch.to(device)
    extra = {} if batch.row_lengths is None else {"row_lengths": batch.row_lengths}
    with torch.autocast(device.type, torch.bfloat16, enabled=scorer.mixed_precision):
        logits = scorer.model(input_ids=batch.input_ids, use_cache=False, **extra).logits
    expected = token_nll(logits.flatten(0, 1)[batch.predictors], batch.targets)
    got = scorer(batch)
    # Numbers that are not finite are reported by the first update.
    if not torch.allclose(got, expected, rtol=1e-3, atol=1e-3, equal_nan=True):
        raise TrainingError(
            f"{type(scorer.model).__name__}: the model's own NLL of the first sample is {float(expected.mean()):.4f}, its "
            f"output projection alone gives {float(got.mean()):.4f}. Models that change their logits afterwards are not "
            "supported."
        )
