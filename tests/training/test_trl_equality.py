"""Our loss and gradient on a batch are those of TRL's SFTTrainer. Runs where TRL is installed (extra `bench`)."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

from tutelage.policies.packed_attention import use_packed_attention
from tutelage.training.batching import SampleUse, collate, make_rows
from tutelage.training.forward import TrainedPositions
from tutelage.types import LossComponent, TrainingSample

pytestmark = [
    pytest.mark.skipif(
        any(find_spec(name) is None for name in ("trl", "datasets")),
        reason="TRL is not installed (make bench brings it)",
    ),
    pytest.mark.filterwarnings("ignore"),
]


def gradient_of(model: Any) -> torch.Tensor:
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


@pytest.mark.parametrize("row_layout", ["padded", "packed"])
def test_loss_and_gradient_equal_trl(
    tmp_path: Path, start_dir: Path, make_samples: Callable[..., list[TrainingSample]], row_layout: Any
) -> None:
    from datasets import Dataset
    from tokenizers import Tokenizer, models
    from transformers import LlamaForCausalLM, PreTrainedTokenizerFast
    from trl import SFTConfig, SFTTrainer

    samples = make_samples([23, 9, 31, 14])
    rows = [
        {
            "input_ids": list(sample.token_ids),
            "labels": [token if on else -100 for token, on in zip(sample.token_ids, sample.loss_mask, strict=True)],
        }
        for sample in samples
    ]
    words = Tokenizer(models.WordLevel({f"w{index}": index for index in range(64)}, unk_token="w3"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="w0", eos_token="w1")
    arguments = SFTConfig(
        output_dir=str(tmp_path), per_device_train_batch_size=4, bf16=False, gradient_checkpointing=False, use_cpu=True,
        max_length=None, report_to=[], save_strategy="no", disable_tqdm=True, train_sampling_strategy="sequential",
    )  # fmt: skip
    theirs = LlamaForCausalLM.from_pretrained(start_dir, dtype=torch.float32)
    trainer = SFTTrainer(
        model=theirs, args=arguments, train_dataset=Dataset.from_list(rows), processing_class=tokenizer
    )
    [inputs] = list(trainer.get_train_dataloader())
    reference = trainer.compute_loss(theirs, inputs)
    reference.backward()

    ours = LlamaForCausalLM.from_pretrained(start_dir, dtype=torch.float32)
    if row_layout == "packed":
        use_packed_attention(ours)
    uses = [SampleUse(index, 0) for index in range(4)]
    batch = collate(make_rows(samples, uses, [LossComponent.SFT]), row_layout)
    loss = (TrainedPositions(ours)(batch) * batch.weights[LossComponent.SFT]).sum()
    loss.backward()
    assert loss.item() == pytest.approx(reference.item(), abs=1e-6)
    assert torch.allclose(gradient_of(ours), gradient_of(theirs), rtol=0.0, atol=1e-6)
