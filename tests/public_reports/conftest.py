"""What the cases share: a decoder of a few thousand weights, samples spelled by hand, and a place for fixtures."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tutelage.run_dir import RunDir
from tutelage.types import LossComponent, TrainingSample

VOCAB_SIZE = 48


@pytest.fixture(scope="session")
def fixtures() -> Path:
    return Path(__file__).parents[1] / "fixtures" / "public_reports"


@pytest.fixture(scope="session")
def make_decoder() -> Callable[..., Any]:
    """A causal decoder with seeded weights; `vocab_size` rows in its output layer."""

    def make(vocab_size: int = VOCAB_SIZE, **options: Any) -> Any:
        import torch
        from transformers import LlamaConfig, LlamaForCausalLM

        torch.manual_seed(0)
        config = LlamaConfig(
            vocab_size=vocab_size, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2,
            intermediate_size=32, max_position_embeddings=512, initializer_range=0.2, **options,
        )  # fmt: skip
        return LlamaForCausalLM(config).eval()

    return make


@pytest.fixture(scope="session")
def make_sample() -> Callable[..., TrainingSample]:
    """`num_seen` ids of context, then `num_trained` trained ids."""

    def make(
        name: str,
        num_seen: int,
        num_trained: int,
        *,
        first_id: int = 1,
        last_id: int | None = None,
        components: Sequence[LossComponent] = (LossComponent.SFT,),
        **fields: Any,
    ) -> TrainingSample:
        length = num_seen + num_trained
        ids = [1 + (first_id + 7 * index) % (VOCAB_SIZE - 1) for index in range(length)]
        if last_id is not None:
            ids[-1] = last_id
        weights = (0.0,) * num_seen + (1.0,) * num_trained
        return TrainingSample(
            sample_id=name,
            trajectory_id=name,
            token_ids=tuple(ids),
            token_actors="o" * num_seen + "s" * num_trained,
            loss_mask=tuple(weight > 0 for weight in weights),
            loss_weights=dict.fromkeys(components, weights),
            step_spans=((0, num_seen, length),),
            **fields,
        )

    return make


RECIPE = """
name: counting
description: The expert alone counts.
workers: 1
env: {{name: counter_worlds, fault: {fault}}}
expert: {{name: scripted}}
student: {{start: builtin:household_tiny}}
limits: {limits}
rollouts:
  first:
    switch: {{name: expert_only}}
    tasks: {{split: train, start: 0, count: {count}}}
    retries: {retries}
select:
  solved: {{}}
"""


@pytest.fixture
def counter_worlds(fixtures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The module `counter_worlds` can be imported, here and in child processes."""
    folder = str(fixtures / "envs")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")])))


@pytest.fixture
def play_by_command_line(tmp_path: Path, counter_worlds: None) -> Callable[..., RunDir]:
    """`tutelage run` on a world with a fault; the run directory, which must end with the given exit code."""

    def play(
        fault: str,
        *,
        limits: str = "{}",
        count: int = 3,
        retries: int = 0,
        code: int = 0,
        more: Sequence[str] = ("--quiet",),
    ) -> RunDir:
        from tutelage.cli.main import main

        recipe = tmp_path / f"{fault}.yaml"
        recipe.write_text(RECIPE.format(fault=fault, limits=limits, count=count, retries=retries))
        assert main(["run", str(recipe), "--out", str(tmp_path / fault), *more]) == code
        return RunDir(tmp_path / fault)

    return play
