"""Reports about advantages and denominators: rewards that are no numbers, equal rewards, and who counts in a mean."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tutelage.supervision.advantages import group_advantages
from tutelage.testing import ByteRenderer, make_trajectory
from tutelage.training.batching import Row, SampleUse, collate, make_rows, micro_batches
from tutelage.training.forward import TrainedPositions
from tutelage.training.losses import normalise, weighted_sum
from tutelage.training.rl_config import RLConfig
from tutelage.training.rl_round import Play, build_round
from tutelage.training.rl_update import PG, Updater
from tutelage.types import LossComponent, TrainingSample, TrajectoryGroup

SFT = LossComponent.SFT
EOS = 0
"""Also what `collate` fills rows with."""


def groups_of(fixtures: Path) -> dict[str, list[float | None]]:
    """Rewards by name of the group; a string stands for the number that JSON has no word for."""
    loaded = json.loads((fixtures / "groups" / "rewards.json").read_text())
    return {name: [float(one) if isinstance(one, str) else one for one in group] for name, group in loaded.items()}


def rewarded_group(rewards: Sequence[float | None]) -> TrajectoryGroup:
    trajectories = tuple(
        make_trajectory("s", ["go"], reward=reward, sample_index=i) for i, reward in enumerate(rewards)
    )
    return TrajectoryGroup(group_id="task-1", trajectories=trajectories)


def test_g1_unscored_and_nan_rewards_leave_the_group(fixtures: Path) -> None:
    """trl#5773, trl#5775, trl PR #5902, ms-swift#8123: a reward of None became NaN, and NaN the whole group's mean."""
    rewards = groups_of(fixtures)["unscored_and_nan"]
    scores = [None if reward is None else (reward,) for reward in rewards]
    credit = group_advantages(scores)
    assert credit.steps[1] is None
    assert credit.steps[3] is None
    assert [credit.steps[0], credit.steps[2]] == [pytest.approx((1.0,), abs=1e-5), pytest.approx((-1.0,), abs=1e-5)]
    assert (credit.num_unscored, credit.num_non_finite) == (1, 1)
    sample = group_advantages(scores, std="sample")
    assert [sample.steps[0], sample.steps[2]] == [
        pytest.approx((0.7071,), abs=1e-4),
        pytest.approx((-0.7071,), abs=1e-4),
    ]


def test_g1_the_excluded_are_out_of_the_loss_and_counted_by_reason(fixtures: Path) -> None:
    """trl#5773, ms-swift#8123: what has no advantage was trained with 0 and still divided the loss."""
    group = rewarded_group(groups_of(fixtures)["unscored_and_nan"])
    made = build_round([group], ByteRenderer(), RLConfig(invalid_action_penalty=0.0), Play())
    kept = [group.trajectories[0], group.trajectories[2]]
    assert [sample.trajectory_id for sample in made.samples] == [one.trajectory_id for one in kept]
    assert [max(sample.advantages or (), key=abs) for sample in made.samples] == pytest.approx([1.0, -1.0], abs=1e-5)
    assert made.num_episodes == 2
    assert made.metrics["groups/unscored_episodes"] == 2
    assert made.metrics["groups/non_finite_episodes"] == 1
    # "go" and the stop token of two episodes: the other two are in no denominator.
    assert [weights.sum() for weights in normalise(made.samples, PG)] == pytest.approx([0.5, 0.5])


@pytest.mark.parametrize("std", ["population", "sample", "none"])
@pytest.mark.parametrize(
    "rewards",
    [[0.1] * 3, [0.1] * 64, [1e8 + 0.1] * 64, [float(np.float32(0.1))] * 3, [float(np.float32(1e8 + 0.1))] * 64],
    ids=["three", "64", "large", "float32", "large float32"],
)
def test_g2_equal_rewards_give_exactly_zero(rewards: list[float], std: Any) -> None:
    """atropos PR #481, trl PR #7068, trl#6365: a variance computed in one pass came out below 0, its root NaN."""
    credit = group_advantages([(reward,) for reward in rewards], std=std)
    assert credit.steps == ((0.0,),) * len(rewards)
    assert credit.zero_variance


@settings(max_examples=60, deadline=None)
@given(st.floats(-1e12, 1e12), st.integers(2, 70))
def test_g2_no_number_of_copies_gives_anything_but_zero(reward: float, copies: int) -> None:
    """atropos PR #481: three copies were found, other counts and sizes have their own rounding."""
    assert group_advantages([(reward,)] * copies).steps == ((0.0,),) * copies


def test_g2_the_anchor_is_averaged_where_no_advantage_is_left(
    fixtures: Path, make_decoder: Callable[..., Any], make_sample: Callable[..., TrainingSample]
) -> None:
    """trl PR #7068, trl#6365: a group without advantages was left out, and with it the KL term or its count."""
    rewards = groups_of(fixtures)["equal"]
    advantages = [
        one[0] for one in group_advantages([(reward,) for reward in rewards if reward is not None]).steps if one
    ]
    samples = [
        make_sample(
            f"s{index}", 3, length, first_id=index, components=[PG],
            advantages=(advantage,) * (3 + length), rollout_logprobs=(-3.0,) * (3 + length),
            reference_logprobs=(-4.0,) * (3 + length),
        )
        for index, (advantage, length) in enumerate(zip(advantages, (1, 2, 5), strict=True))
    ]  # fmt: skip
    model = make_decoder()
    updater = Updater(TrainedPositions(model), RLConfig(row_layout="padded", reference_coefficient=0.5))
    figures = updater.accumulate(
        rows_of(samples, [PG], streams=("advantages", "rollout_logprobs", "reference_logprobs"))
    )
    by_hand = [k3_of(model, sample) for sample in samples]
    assert figures["pg/loss"] == 0.0
    assert figures["reference/loss"] == pytest.approx(sum(map(sum, by_hand)) / 8, abs=1e-5)
    assert all(bool(torch.isfinite(one.grad).all()) for one in model.parameters())


def k3_of(model: Any, sample: TrainingSample) -> list[float]:
    """exp(d) - 1 - d at each trained token, d = -4 - own log-probability."""
    ids = torch.tensor([sample.token_ids])
    with torch.no_grad():
        own = model(ids).logits[0, :-1].log_softmax(-1).gather(-1, ids[0, 1:, None])[:, 0]
    gaps = [-4.0 - own[position - 1].item() for position in np.flatnonzero(sample.loss_mask)]
    return [math.exp(gap) - 1 - gap for gap in gaps]


def rows_of(
    samples: Sequence[TrainingSample], components: Sequence[LossComponent], streams: Sequence[str] = ()
) -> list[Row]:
    uses = [SampleUse(index, 0) for index in range(len(samples))]
    return make_rows(samples, uses, components, streams=streams)


LENGTHS = (1, 3, 20, 200)


def gradient(model: Any, parts: Sequence[Sequence[Row]], layout: Any = "padded") -> torch.Tensor:
    """Summed over micro-batches, as the trainer does."""
    model.zero_grad()
    scorer = TrainedPositions(model)
    for part in parts:
        batch = collate(part, layout)
        weighted_sum(scorer(batch), batch.weights[SFT]).backward()
    return torch.cat([one.grad.flatten() for one in model.parameters()])


def test_g4_the_cut_into_micro_batches_changes_no_gradient(
    make_decoder: Callable[..., Any], make_sample: Callable[..., TrainingSample]
) -> None:
    """trl#2995, trl#3021, ms-swift#10117, open-instruct#1137, #1161: a mean of means per micro-batch weighs short ones more."""
    samples = [make_sample(f"s{length}", 4, length, first_id=length, last_id=EOS) for length in LENGTHS]
    weights = normalise(samples, SFT)
    assert {value for one in weights for value in one[one > 0].tolist()} == {float(np.float32(1 / 224))}
    assert sum(int((one > 0).sum()) for one in weights) == 224
    rows = rows_of(samples, [SFT])
    model = make_decoder().double()
    whole = gradient(model, [rows])
    for parts in ([[row] for row in rows], [rows[:2], rows[2:]], [rows[::-1]]):
        assert torch.allclose(gradient(model, parts), whole, rtol=0.0, atol=1e-6)
    # And it is the mean over 224 tokens that plain torch computes, sample by sample.
    model.zero_grad()
    for sample in samples:
        ids = torch.tensor([sample.token_ids])
        nll = torch.nn.functional.cross_entropy(model(ids).logits[0, :-1], ids[0, 1:], reduction="none")
        (nll[3:].sum() / 224).backward()
    assert torch.allclose(torch.cat([one.grad.flatten() for one in model.parameters()]), whole, rtol=0.0, atol=1e-6)


def test_g4_padding_is_never_trained_and_a_real_end_of_sequence_is(
    make_decoder: Callable[..., Any], make_sample: Callable[..., TrainingSample]
) -> None:
    """trl PR #4970, agentcore-rl-toolkit PR #122: the mask was read off the pad id, which was the end of sequence as well."""
    samples = [make_sample(f"s{length}", 4, length, first_id=length, last_id=EOS) for length in LENGTHS]
    [rows] = micro_batches(rows_of(samples, [SFT]), 10_000, "padded")
    batch = collate(rows, "padded")
    assert batch.input_ids.shape == (4, 204)
    assert int((batch.input_ids == EOS).sum()) > 4, "rows are filled with the id that ends a reply"
    assert len(batch.targets) == 224
    assert int((batch.targets == EOS).sum()) == sum(one == EOS for s in samples for one in s.token_ids[4:])
    ends = np.cumsum([len(row.trained) for row in rows]) - 1
    assert batch.targets[torch.from_numpy(ends)].tolist() == [EOS] * 4
    real = {row * 204 + position for row, one in enumerate(rows) for position in range(len(one.token_ids))}
    assert set((batch.predictors + 1).tolist()) <= real
    # Other fill, other gradient? No: nothing looks at it.
    model = make_decoder()
    before = gradient(model, [rows])
    filled = collate(rows, "padded")
    for row, one in enumerate(rows):
        filled.input_ids[row, len(one.token_ids) :] = 5
    model.zero_grad()
    weighted_sum(TrainedPositions(model)(filled), filled.weights[SFT]).backward()
    assert torch.equal(torch.cat([one.grad.flatten() for one in model.parameters()]), before)
