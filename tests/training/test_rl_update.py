"""One update against plain torch on the same tensors: policy gradient, anchor and a teacher's part together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tutelage.errors import ConfigError, TrainingError
from tutelage.policies.packed_attention import use_packed_attention
from tutelage.training.batching import STREAMS, Row, SampleUse, make_rows
from tutelage.training.forward import TrainedPositions
from tutelage.training.losses import normalise
from tutelage.training.rl_config import RLConfig
from tutelage.training.rl_update import DISTILL, PG, DistillTerm, Updater
from tutelage.types import TrainingSample

TEMPERATURE = 0.7


def policy_samples(samples: Sequence[TrainingSample]) -> list[TrainingSample]:
    """The second half of each sample is the policy's; every second token of it is taught, with weight 1 or 2."""
    rng = np.random.default_rng(5)
    made = []
    for sample in samples:
        length = len(sample.token_ids)
        mask = [position >= length // 2 for position in range(length)]
        taught = [mask[position] and position % 2 == 0 for position in range(length)]
        values = rng.normal(size=(4, length))
        made.append(
            replace(
                sample,
                loss_mask=tuple(mask),
                loss_weights={
                    PG: tuple(float(one) for one in mask),
                    DISTILL: tuple((1.0 + position % 3) * one for position, one in enumerate(taught)),
                },
                advantages=tuple(values[0]),
                rollout_logprobs=tuple(-4.0 + 0.2 * values[1]),
                reference_logprobs=tuple(-4.0 + 0.2 * values[2]),
                teacher_logprobs=tuple(
                    float(value) if one else None for value, one in zip(-4.0 + values[3], taught, strict=True)
                ),
            )
        )
    return made


def rows_of(samples: list[TrainingSample]) -> list[Row]:
    uses = [SampleUse(index, 0) for index in range(len(samples))]
    return make_rows(samples, uses, [PG, DISTILL], streams=STREAMS)


def in_plain_torch(model: Any, samples: Sequence[TrainingSample], config: RLConfig, full: Tensor | None) -> Tensor:
    """The same loss, sample by sample, spelled out."""
    total = torch.zeros((), dtype=torch.float64)
    policy_tokens = sum(sum(sample.loss_weights[PG]) for sample in samples)
    taught_weight = sum(sum(sample.loss_weights[DISTILL]) for sample in samples)
    for sample in samples:
        ids = torch.tensor(sample.token_ids)
        logits = model(input_ids=ids[None]).logits[0, :-1].double() / TEMPERATURE
        distribution = logits.log_softmax(-1)
        for position in range(1, len(ids)):
            own = distribution[position - 1, ids[position]]
            if sample.loss_weights[PG][position]:
                assert sample.advantages is not None
                assert sample.rollout_logprobs is not None
                assert sample.reference_logprobs is not None
                ratio = (own - sample.rollout_logprobs[position]).exp()
                credit = sample.advantages[position]
                gain = torch.minimum(ratio * credit, ratio.clamp(0.8, 1.2) * credit)
                if credit < 0:
                    gain = torch.maximum(gain, torch.tensor(3.0 * credit))
                d = sample.reference_logprobs[position] - own
                total = total + (-gain + config.reference_coefficient * (d.exp() - 1 - d)) / policy_tokens
            weight = sample.loss_weights[DISTILL][position]
            if weight and full is not None:
                p = distribution[position - 1]
                total = total + config.distill_coefficient * weight * (p.exp() * (p - full)).sum() / taught_weight
            elif weight:
                assert sample.teacher_logprobs is not None
                delta = (sample.teacher_logprobs[position] - own).detach()
                total = total + config.distill_coefficient * weight * -delta * own / taught_weight
    return total


def gradient_of(model: Any) -> Tensor:
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()]).double()


@pytest.mark.parametrize("row_layout", ["padded", "packed"])
@pytest.mark.parametrize("loss", ["k1_pg", "rkl_full"])
def test_loss_and_gradient_equal_plain_torch(
    make_model: Callable[..., Any], make_samples: Callable[..., list[TrainingSample]], row_layout: Any, loss: str
) -> None:
    samples = policy_samples(make_samples([14, 9, 21, 6]))
    config = RLConfig(
        temperature=TEMPERATURE, reference_coefficient=0.3, distill_coefficient=0.5, row_layout=row_layout,
        micro_batch_tokens=30,
    )  # fmt: skip
    teacher = torch.randn(64, generator=torch.Generator().manual_seed(1), dtype=torch.float64).log_softmax(-1)
    theirs = make_model().double()
    expected = in_plain_torch(theirs, samples, config, teacher if loss == "rkl_full" else None)
    expected.backward()

    ours = make_model()
    if row_layout == "packed":
        use_packed_attention(ours)

    def everywhere(rows: Sequence[Row]) -> Tensor:
        return teacher.expand(sum(len(row.trained) for row in rows), -1)

    updater = Updater(TrainedPositions(ours), config, DistillTerm.of(loss), everywhere)
    figures = updater.accumulate(rows_of(samples))
    total = figures["pg/loss"] + 0.3 * figures["reference/loss"] + 0.5 * figures["distill/loss"]
    assert total == pytest.approx(float(expected.detach()), abs=1e-5)
    assert torch.allclose(gradient_of(ours), gradient_of(theirs), rtol=0.0, atol=1e-6)


def test_figures_are_means_over_policy_tokens(
    make_model: Callable[..., Any], make_samples: Callable[..., list[TrainingSample]]
) -> None:
    samples = policy_samples(make_samples([14, 9]))
    whole = Updater(TrainedPositions(make_model()), RLConfig(row_layout="padded")).accumulate(rows_of(samples))
    cut = RLConfig(row_layout="padded", micro_batch_tokens=14)
    parts = Updater(TrainedPositions(make_model()), cut).accumulate(rows_of(samples))
    assert whole.keys() == parts.keys()
    assert whole == pytest.approx(parts, abs=1e-5)
    assert whole["policy/entropy"] == pytest.approx(np.log(64), abs=0.1)


def test_a_coefficient_of_0_leaves_the_teacher_out_bit_for_bit(
    make_model: Callable[..., Any], make_samples: Callable[..., list[TrainingSample]]
) -> None:
    samples = policy_samples(make_samples([14, 9, 21]))
    bare = [replace(one, loss_weights={**one.loss_weights, DISTILL: (0.0,) * len(one.token_ids)}) for one in samples]
    gradients = []
    for data, term in ((samples, DistillTerm.of("k1_pg")), (bare, None)):
        model = make_model()
        Updater(TrainedPositions(model), RLConfig(row_layout="padded"), term).accumulate(rows_of(data))
        gradients.append(gradient_of(model))
    assert torch.equal(gradients[0], gradients[1])


def test_a_taught_token_without_a_score_shows(
    make_model: Callable[..., Any], make_samples: Callable[..., list[TrainingSample]]
) -> None:
    """A missing value is not a zero: if one slips through, the loss is not a number and nothing is learnt."""
    samples = policy_samples(make_samples([14, 9]))
    holes = [replace(one, teacher_logprobs=(None,) * len(one.token_ids)) for one in samples]
    updater = Updater(
        TrainedPositions(make_model()),
        RLConfig(row_layout="padded", distill_coefficient=0.1),
        DistillTerm.of("k1_pg"),
    )
    with pytest.raises(TrainingError, match="the loss is nan, expected a finite number"):
        updater.accumulate(rows_of(holes))


def test_unknown_losses_and_options_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"unknown 'k1_pgg'\. Did you mean 'k1_pg'"):
        DistillTerm.of("k1_pgg")
    with pytest.raises(ConfigError, match="option of loss 'jsd'"):
        DistillTerm.of("jsd", bb=0.5)


# The normalisers of a step mask: tokens per step 12 10 14 11 9 16, one constant value per step, steps 1 and 3 taught

LENGTHS = (12, 10, 14, 11, 9, 16)
DIVERGENCE = (0.31, 0.22, 0.18, 0.36, 0.24, 0.20)


def masked_sample(lengths: Sequence[int], mask: Sequence[bool], name: str) -> TrainingSample:
    """One token of context, then the steps one after the other."""
    starts = 1 + np.cumsum([0, *lengths[:-1]])
    taught = [float(one) for one, length in zip(mask, lengths, strict=True) for _ in range(length)]
    total = 1 + sum(lengths)
    return TrainingSample(
        sample_id=name,
        trajectory_id=name,
        token_ids=(0,) * total,
        token_actors="o" + "s" * (total - 1),
        loss_mask=(False, *(True,) * (total - 1)),
        loss_weights={PG: (0.0, *(1.0,) * (total - 1)), DISTILL: (0.0, *taught)},
        step_spans=tuple(
            (index, int(start), int(start) + length)
            for index, (start, length) in enumerate(zip(starts, lengths, strict=True))
        ),
    )


def distill_loss(samples: list[TrainingSample], values: list[Sequence[float]], normaliser: Any) -> float:
    total = 0.0
    for sample, weights, per_step in zip(samples, normalise(samples, DISTILL, normaliser), values, strict=True):
        total += sum(float(weights[start:end].sum()) * per_step[index] for index, start, end in sample.step_spans)
    return total


@pytest.mark.parametrize(
    ("normaliser", "expected"), [("token_mean", 0.2933), ("all_tokens", 0.0856), ("per_step_mean", 0.2900)]
)
def test_normalisers_of_a_step_mask(normaliser: str, expected: float) -> None:
    sample = masked_sample(LENGTHS, [False, True, False, True, False, False], "a")
    assert distill_loss([sample], [DIVERGENCE], normaliser) == pytest.approx(expected, abs=1e-4)


def test_every_step_taught() -> None:
    sample = masked_sample(LENGTHS, [True] * 6, "a")
    assert distill_loss([sample], [DIVERGENCE], "token_mean") == pytest.approx(0.2467, abs=1e-4)


def test_the_normaliser_belongs_to_the_batch() -> None:
    samples = [masked_sample(LENGTHS, [False, True, False, True, False, False], "a"), masked_sample([4], [True], "b")]
    assert distill_loss(samples, [DIVERGENCE, (0.5,)], "token_mean") == pytest.approx(0.3264, abs=1e-4)
    assert distill_loss(samples, [DIVERGENCE, (0.5,)], "per_trajectory_mean") == pytest.approx(0.3967, abs=1e-4)


def test_an_empty_mask_is_0_and_no_nan() -> None:
    sample = masked_sample(LENGTHS, [False] * 6, "a")
    for normaliser in ("token_mean", "all_tokens", "per_step_mean", "per_trajectory_mean"):
        assert distill_loss([sample], [DIVERGENCE], normaliser) == 0.0
