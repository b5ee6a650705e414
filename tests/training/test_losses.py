"""Losses with numbers that can be checked by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from tutelage.errors import ConfigError, TrainingError
from tutelage.training.losses import check_used, combine, normalise, shares, token_nll, weighted_sum
from tutelage.types import LossComponent, TrainingSample

SFT, PG, DISTILL = LossComponent.SFT, LossComponent.PG, LossComponent.DISTILL


def make_sample(weights: list[float], name: str = "a", spans: tuple[tuple[int, int, int], ...] = ()) -> TrainingSample:
    return TrainingSample(
        sample_id=name,
        trajectory_id=name,
        token_ids=tuple(range(len(weights))),
        token_actors="e" * len(weights),
        loss_mask=tuple(weight > 0 for weight in weights),
        loss_weights={SFT: tuple(weights)},
        step_spans=spans,
    )


def loss_of(samples: list[TrainingSample], nll: list[list[float]], normaliser: str) -> float:
    weights = normalise(samples, SFT, normaliser)  # type: ignore[arg-type]
    return sum(float((w * np.asarray(values)).sum()) for w, values in zip(weights, nll, strict=True))


T20 = [make_sample([0, 1, 1, 1], "long"), make_sample([0, 1], "short")]
T20_NLL = [[9.0, 1.0, 1.0, 1.0], [9.0, 5.0]]


def test_t20_token_mean() -> None:
    assert loss_of(T20, T20_NLL, "token_mean") == 2.0


def test_t20_per_trajectory_mean() -> None:
    assert loss_of(T20, T20_NLL, "per_trajectory_mean") == pytest.approx(3.0)


def test_samples_of_one_trajectory_share_its_mean() -> None:
    """Per-step samples: a trajectory counts once, however many samples it has in the update."""
    samples = [make_sample([0, 1], "long"), make_sample([0, 1, 1], "long"), make_sample([0, 1], "short")]
    assert [w.tolist() for w in normalise(samples, SFT, "per_trajectory_mean")] == [
        [0.0, pytest.approx(1 / 6)],
        [0.0, pytest.approx(1 / 6), pytest.approx(1 / 6)],
        [0.0, 0.5],
    ]


def test_per_step_mean_counts_each_step_alike() -> None:
    sample = make_sample([0, 1, 1, 1, 0, 1], spans=((0, 1, 4), (1, 5, 6)))
    third = pytest.approx(1 / 6)
    assert normalise([sample], SFT, "per_step_mean")[0].tolist() == [0.0, third, third, third, 0.0, 0.5]


def test_per_step_mean_refuses_tokens_outside_steps() -> None:
    with pytest.raises(TrainingError, match="sample a trains tokens outside its steps"):
        normalise([make_sample([0, 1, 1], spans=((0, 1, 2),))], SFT, "per_step_mean")


def test_weights_enter_the_denominator() -> None:
    assert normalise([make_sample([0, 2, 0.5])], SFT)[0].tolist() == pytest.approx([0.0, 0.8, 0.2])


def test_a_component_without_weight_gives_zeros() -> None:
    assert normalise(T20, PG)[1].tolist() == [0.0, 0.0]


def test_unknown_normaliser() -> None:
    with pytest.raises(ConfigError, match=r"unknown 'token_men'\. Did you mean 'token_mean'"):
        normalise(T20, SFT, "token_men")  # type: ignore[arg-type]


def test_token_nll_of_two_tokens() -> None:
    logits = torch.tensor([[math.log(0.9), math.log(0.1)], [0.0, 0.0]])
    nll = token_nll(logits, torch.tensor([1, 0]))
    assert nll.tolist() == pytest.approx([-math.log(0.1), math.log(2.0)])
    assert weighted_sum(nll, torch.tensor([0.0, 2.0])).item() == pytest.approx(2 * math.log(2.0))


def test_combine_adds_components_with_their_coefficients() -> None:
    components = {SFT: torch.tensor(2.0), DISTILL: torch.tensor(0.5)}
    assert combine(components, {SFT: 1.0, DISTILL: 0.1}).item() == pytest.approx(2.05)
    assert combine(components, {SFT: 1.0, DISTILL: 0.0, PG: 0.0}).item() == 2.0


def test_k8_a_coefficient_without_component_raises() -> None:
    with pytest.raises(TrainingError, match=r"component distill: coefficient 0\.1, but no sample has weights for it"):
        combine({SFT: torch.tensor(2.0)}, {SFT: 1.0, DISTILL: 0.1})


def test_k8_a_component_without_coefficient_raises() -> None:
    with pytest.raises(TrainingError, match="component sft: samples have weights for it, but no coefficient is set"):
        combine({SFT: torch.tensor(2.0)}, {})


def test_k8_a_component_that_would_never_reach_the_loss_raises() -> None:
    check_used(T20, {SFT: 1.0, PG: 0.0})
    with pytest.raises(
        TrainingError, match=r"component pg: coefficient 0\.5, but its weights are zero in all 2 samples"
    ):
        check_used(T20, {SFT: 1.0, PG: 0.5})


def test_k8_shares_of_the_total() -> None:
    assert shares({SFT: 3.0, DISTILL: -10.0}, {SFT: 1.0, DISTILL: 0.1}) == {"sft": 0.75, "distill": 0.25}
    assert shares({SFT: 0.0}, {SFT: 1.0}) == {"sft": 0.0}
