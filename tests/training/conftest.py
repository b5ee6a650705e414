"""A model small enough to train in a test, and samples for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.utils import logging as transformers_logging

from tutelage.types import LossComponent, TrainingSample

VOCAB_SIZE = 64


def number_samples(lengths: list[int], *, every: int = 3, seed: int = 0) -> list[TrainingSample]:
    """Random ids; every third token is trained, the last one always."""
    rng = np.random.default_rng(seed)
    samples = []
    for index, length in enumerate(lengths):
        mask = tuple(position > 0 and (length - 1 - position) % every == 0 for position in range(length))
        samples.append(
            TrainingSample(
                sample_id=f"sample-{index}",
                trajectory_id=f"trajectory-{index}",
                token_ids=tuple(rng.integers(0, VOCAB_SIZE, length).tolist()),
                token_actors="".join("e" if trained else "o" for trained in mask),
                loss_mask=mask,
                loss_weights={LossComponent.SFT: tuple(float(trained) for trained in mask)},
            )
        )
    return samples


@pytest.fixture(scope="session")
def make_samples() -> Callable[..., list[TrainingSample]]:
    return number_samples


@pytest.fixture(scope="session")
def make_model() -> Callable[..., Any]:
    def make(**options: Any) -> Any:
        torch.manual_seed(0)
        config = LlamaConfig(
            vocab_size=VOCAB_SIZE,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=64,
            max_position_embeddings=256,
            tie_word_embeddings=True,
            **{"num_key_value_heads": 4, **options},
        )
        return LlamaForCausalLM(config).eval()

    return make


@pytest.fixture(scope="session")
def start_dir(tmp_path_factory: pytest.TempPathFactory, make_model: Callable[..., Any]) -> Path:
    """A plain model folder with side files, as a student's is."""
    transformers_logging.disable_progress_bar()
    folder = tmp_path_factory.mktemp("models") / "start"
    make_model().save_pretrained(folder)
    (folder / "entities.json").write_text("[]\n")
    (folder / "tokenizer.json").write_text("{}\n")
    (folder / "training.json").write_text('{"of": "the start model"}\n')
    return folder
