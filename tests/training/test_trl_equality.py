"""Our losses and gradients on a batch are those of TRL's trainers. Runs where TRL is installed (extra `bench`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

from tutelage.policies.packed_attention import use_packed_attention
from tutelage.training.batching import SampleUse, collate, make_rows
from tutelage.training.forward import TrainedPositions
from tutelage.training.rl_config import RLConfig
from tutelage.training.rl_update import Updater
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


def as_policy_sample(sample: TrainingSample, first: int, seed: int) -> TrainingSample:
    """Ids from `first` on are a completion of the policy, with credit and earlier log-probabilities drawn at random."""
    generator = torch.Generator().manual_seed(seed)
    length = len(sample.token_ids)
    mask = tuple(position >= first for position in range(length))
    weights = {LossComponent.PG: tuple(float(one) for one in mask), LossComponent.DISTILL: (0.0,) * length}
    noise = torch.randn(2, length, generator=generator, dtype=torch.float64)
    return replace(
        sample,
        loss_mask=mask,
        loss_weights=weights,
        advantages=(float(noise[0, 0]),) * length,
        rollout_logprobs=tuple((-4.1 + 0.3 * noise[0]).tolist()),
        reference_logprobs=tuple((-4.1 + 0.3 * noise[1]).tolist()),
    )


@pytest.mark.parametrize("row_layout", ["padded", "packed"])
@pytest.mark.parametrize("reference_loss", ["k3", "k3_corrected"])
@pytest.mark.parametrize(("loss_type", "normaliser"), [("bnpo", "token_mean"), ("grpo", "per_trajectory_mean")])
def test_grpo_loss_and_gradient_equal_trl(
    tmp_path: Path,
    start_dir: Path,
    make_samples: Callable[..., list[TrainingSample]],
    loss_type: str,
    normaliser: Any,
    reference_loss: Any,
    row_layout: Any,
) -> None:
    from datasets import Dataset
    from tokenizers import Tokenizer, models
    from transformers import LlamaForCausalLM, PreTrainedTokenizerFast
    from trl import GRPOConfig, GRPOTrainer

    prompt, lengths = 7, [23, 12, 31, 14]
    samples = [as_policy_sample(one, prompt, seed) for seed, one in enumerate(make_samples(lengths))]
    words = Tokenizer(models.WordLevel({f"w{index}": index for index in range(64)}, unk_token="w3"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="w0", eos_token="w1")
    arguments = GRPOConfig(
        output_dir=str(tmp_path), per_device_train_batch_size=4, num_generations=2, loss_type=loss_type, beta=0.04,
        bf16=False, gradient_checkpointing=False, use_cpu=True, report_to=[], save_strategy="no", disable_tqdm=True,
        epsilon=0.2, temperature=1.0, use_bias_correction_kl=reference_loss == "k3_corrected",
    )  # fmt: skip
    theirs = LlamaForCausalLM.from_pretrained(start_dir, dtype=torch.float32)
    trainer = GRPOTrainer(
        model=theirs, args=arguments, train_dataset=Dataset.from_list([{"prompt": "w4 w5"}] * 4),
        reward_funcs=lambda completions, **_: [0.0] * len(completions), processing_class=tokenizer,
    )  # fmt: skip
    trainer.current_gradient_accumulation_steps = 1
    longest = max(lengths) - prompt

    def padded(values: list[list[float]], fill: float, dtype: torch.dtype) -> torch.Tensor:
        return torch.tensor([row + [fill] * (longest - len(row)) for row in values], dtype=dtype)

    def completion(name: str) -> list[list[Any]]:
        return [list(getattr(sample, name)[prompt:]) for sample in samples]

    theirs.train()
    reference = trainer._compute_loss(
        theirs,
        {
            "prompt_ids": torch.tensor([sample.token_ids[:prompt] for sample in samples]),
            "prompt_mask": torch.ones(4, prompt, dtype=torch.long),
            "completion_ids": padded(completion("token_ids"), 0, torch.long),
            "completion_mask": padded([[1] * (length - prompt) for length in lengths], 0, torch.long),
            "advantages": torch.tensor([sample.advantages[0] for sample in samples]),  # type: ignore[index]
            "old_per_token_logps": padded(completion("rollout_logprobs"), 0.0, torch.float32),
            "ref_per_token_logps": padded(completion("reference_logprobs"), 0.0, torch.float32),
        },
    )
    reference.backward()

    ours = LlamaForCausalLM.from_pretrained(start_dir, dtype=torch.float32)
    if row_layout == "packed":
        use_packed_attention(ours)
    rows = make_rows(
        samples,
        [SampleUse(index, 0) for index in range(4)],
        [LossComponent.PG, LossComponent.DISTILL],
        normaliser,
        streams=("advantages", "rollout_logprobs", "reference_logprobs"),
    )
    config = RLConfig(
        reference_coefficient=0.04,
        reference_loss=reference_loss,
        dual_clip=None,
        row_layout=row_layout,
        micro_batch_tokens=40,
    )
    figures = Updater(TrainedPositions(ours), config).accumulate(rows)
    assert figures["pg/loss"] + 0.04 * figures["reference/loss"] == pytest.approx(reference.item(), abs=1e-6)
    assert torch.allclose(gradient_of(ours), gradient_of(theirs), rtol=0.0, atol=1e-6)
