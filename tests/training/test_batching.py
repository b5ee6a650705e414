"""Order, micro-batches and tensors: equal gradients however an update is cut."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tutelage.errors import ConfigError, TrainingError
from tutelage.policies.packed_attention import use_packed_attention
from tutelage.training.batching import (
    Row,
    SampleUse,
    collate,
    make_rows,
    micro_batches,
    plan_updates,
)
from tutelage.training.forward import TrainedPositions, check_head
from tutelage.types import LossComponent, TrainingSample

SFT = LossComponent.SFT
Samples = Callable[..., list[TrainingSample]]


def uses(count: int) -> list[SampleUse]:
    return [SampleUse(index, 0) for index in range(count)]


def small_row(ids: list[int], trained: list[int]) -> Row:
    weights = {SFT: np.ones(len(trained), np.float32)}
    return Row(token_ids=np.asarray(ids), trained=np.asarray(trained), weights=weights)


def gradients(
    model: Any, samples: list[TrainingSample], max_tokens: int, row_layout: Any
) -> tuple[float, torch.Tensor]:
    """Loss and flat gradient of one update over all samples."""
    model.zero_grad()
    scorer = TrainedPositions(model)
    loss = 0.0
    for part in micro_batches(make_rows(samples, uses(len(samples)), [SFT]), max_tokens, row_layout):
        batch = collate(part, row_layout)
        value = (scorer(batch) * batch.weights[SFT]).sum()
        value.backward()
        loss += value.item()
    return loss, torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


def test_collate_example_of_the_docstring() -> None:
    rows = [small_row([5, 6, 7], [2]), small_row([8, 9], [1])]
    packed = collate(rows, "packed")
    assert packed.input_ids.tolist() == [[5, 6, 7, 8, 9]]
    assert packed.row_lengths == [3, 2]
    assert packed.position_ids is not None
    assert packed.position_ids.tolist() == [[0, 1, 2, 0, 1]]
    padded = collate(rows, "padded")
    assert padded.input_ids.tolist() == [[5, 6, 7], [8, 9, 0]]
    assert (padded.row_lengths, padded.position_ids) == (None, None)
    for batch in (packed, padded):
        assert batch.predictors.tolist() == [1, 3]
        assert batch.targets.tolist() == [7, 9]
        assert batch.weights[SFT].tolist() == [1.0, 1.0]
        assert batch.num_tokens == 5


def test_m9_trained_tokens_and_positions_after_packing() -> None:
    """Lengths 7, 5, 9 packed into 12 + 9: counts 3, 2, 4 before, 9 after; positions restart; no target crosses over."""
    rows = [
        small_row(list(range(7)), [2, 4, 6]),
        small_row(list(range(5)), [1, 4]),
        small_row(list(range(9)), [1, 2, 3, 8]),
    ]
    first, second = [collate(part, "packed") for part in micro_batches(rows, 12, "packed")]
    assert (first.row_lengths, second.row_lengths) == ([5, 7], [9])
    assert len(first.targets) + len(second.targets) == 9
    assert first.position_ids is not None
    assert first.position_ids.tolist() == [[0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 5, 6]]
    # Each id equals its position, so a target that crossed a boundary would not follow its predictor.
    assert first.targets.tolist() == [1, 4, 2, 4, 6]
    assert first.position_ids[0, first.predictors].tolist() == [0, 3, 1, 3, 5]


def test_t3_streams_line_up_after_padding() -> None:
    """Lengths 9 and 6: the padded columns of the shorter are 6 to 8, and nothing points at them."""
    rows = [small_row(list(range(10, 19)), [3, 8]), small_row(list(range(20, 26)), [2, 5])]
    batch = collate(rows, "padded")
    assert batch.input_ids.shape == (2, 9)
    assert batch.input_ids[1].tolist() == [20, 21, 22, 23, 24, 25, 0, 0, 0]
    assert batch.targets.tolist() == [13, 18, 22, 25]
    assert batch.input_ids.flatten()[batch.predictors].tolist() == [12, 17, 21, 24]


def test_micro_batches_of_like_length() -> None:
    rows = [small_row([0] * length, [1]) for length in (7, 5, 9, 2)]
    padded = [[len(row.token_ids) for row in part] for part in micro_batches(rows, 14, "padded")]
    packed = [[len(row.token_ids) for row in part] for part in micro_batches(rows, 14, "packed")]
    assert padded == [[2, 5], [7], [9]]
    assert packed == [[2, 5, 7], [9]]


def test_every_process_gets_as_many_micro_batches() -> None:
    rows = [small_row([0] * length, [1]) for length in (7, 5, 9)]
    parts = micro_batches(rows, 9, "packed", num_processes=2)
    assert [[len(row.token_ids) for row in part] for part in parts] == [[5], [7], [9], [5]]
    assert [row.weights[SFT].tolist() for row in parts[3]] == [[0.0]]


@pytest.mark.parametrize("key_value_heads", [4, 2])
def test_g4_cut_and_layout_do_not_change_the_gradient(
    make_model: Callable[..., Any], make_samples: Samples, key_value_heads: int
) -> None:
    """Trained lengths 1, 3, 20, 200 as 1x4, 2x2, 4x1; padded and packed: one loss, one gradient."""
    model = make_model(num_key_value_heads=key_value_heads).double()
    samples = [make_samples([length + 1], every=1, seed=length)[0] for length in (1, 3, 20, 200)]
    assert [sample.num_trained_tokens for sample in samples] == [1, 3, 20, 200]
    results = [gradients(model, samples, max_tokens, "padded") for max_tokens in (1, 50, 10_000)]
    use_packed_attention(model)
    results += [gradients(model, samples, max_tokens, "packed") for max_tokens in (1, 50, 10_000)]
    for loss, gradient in results[1:]:
        assert loss == pytest.approx(results[0][0], abs=1e-12)
        assert torch.allclose(gradient, results[0][1], rtol=0.0, atol=1e-12)


def test_loss_equals_plain_transformers_with_labels_and_mask(
    make_model: Callable[..., Any], make_samples: Samples
) -> None:
    """No attention mask and no logits at other positions, yet the loss and gradient that transformers gives."""
    model = make_model().double()
    samples = make_samples([23, 9, 31, 14])
    width = max(len(sample.token_ids) for sample in samples)
    input_ids = torch.full((4, width), 2)
    labels = torch.full((4, width), -100)
    attention_mask = torch.zeros((4, width), dtype=torch.long)
    for index, sample in enumerate(samples):
        ids = torch.tensor(sample.token_ids)
        input_ids[index, : len(ids)] = ids
        attention_mask[index, : len(ids)] = 1
        labels[index, : len(ids)] = torch.where(torch.tensor(sample.loss_mask), ids, -100)
    reference = model(input_ids=input_ids, attention_mask=attention_mask, labels=labels).loss
    model.zero_grad()
    reference.backward()
    expected = torch.cat([parameter.grad.flatten() for parameter in model.parameters()])
    for row_layout in ("padded", "packed"):
        if row_layout == "packed":
            use_packed_attention(model)
        loss, gradient = gradients(model, samples, 10_000, row_layout)
        assert loss == pytest.approx(reference.item(), abs=1e-6)
        assert torch.allclose(gradient, expected, rtol=0.0, atol=1e-6)


def test_g4_padding_is_never_trained_and_a_real_stop_is(make_model: Callable[..., Any]) -> None:
    """The fill id is 0, and 0 is also a real, trained token here: only the real one is a target."""
    rows = [small_row([5, 6, 7, 8], [3]), small_row([9, 0], [1])]
    assert collate(rows, "padded").targets.tolist() == [8, 0]


def test_packed_rows_do_not_see_each_other(make_model: Callable[..., Any]) -> None:
    model = make_model()
    use_packed_attention(model)
    scorer = TrainedPositions(model)
    alone = scorer(collate([small_row([8, 9, 10], [1, 2])]))
    beside = scorer(collate([small_row([5, 6, 7], [2]), small_row([8, 9, 10], [1, 2])]))
    other = scorer(collate([small_row([1, 2, 3], [2]), small_row([8, 9, 10], [1, 2])]))
    assert torch.allclose(beside[1:], alone, atol=1e-6)
    assert torch.allclose(other[1:], alone, atol=1e-6)


def test_packed_attention_refuses_a_sliding_window() -> None:
    from transformers import MistralConfig, MistralForCausalLM

    model = MistralForCausalLM(
        MistralConfig(
            vocab_size=32, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2,
            intermediate_size=16, sliding_window=4,
        )
    )  # fmt: skip
    use_packed_attention(model)
    with pytest.raises(ConfigError, match="Set row_layout to 'padded'"):
        TrainedPositions(model)(collate([small_row([1, 2, 3], [2])]))


def test_a_model_that_changes_its_logits_is_refused(make_model: Callable[..., Any]) -> None:
    model = make_model()
    check_head(TrainedPositions(model), small_row([1, 2, 3], [1, 2]))
    model.lm_head.register_forward_hook(lambda module, inputs, output: 3 * output if output.ndim == 3 else output)
    with pytest.raises(
        TrainingError, match=r"the model's own NLL of the first sample is .* its output projection alone"
    ):
        check_head(TrainedPositions(model), small_row([1, 2, 3], [1, 2]))


def test_plan_is_a_new_order_each_epoch_and_updates_reach_over(make_samples: Samples) -> None:
    plan = plan_updates(make_samples([5, 6, 7]), budget=2, budget_unit="epochs", batch_size=2, seed=1)
    flat = [use for update in plan for use in update]
    assert [len(update) for update in plan] == [2, 2, 2]
    assert [use.epoch for use in flat] == [0, 0, 0, 1, 1, 1]
    assert sorted(use.sample_index for use in flat[:3]) == sorted(use.sample_index for use in flat[3:]) == [0, 1, 2]


def test_plan_depends_on_the_seed_alone(make_samples: Samples) -> None:
    samples = make_samples([5] * 20)
    plans = [plan_updates(samples, budget=2, budget_unit="epochs", batch_size=3, seed=seed) for seed in (0, 0, 1)]
    assert plans[0] == plans[1] != plans[2]


def test_a_longer_budget_starts_with_the_shorter_plan(make_samples: Samples) -> None:
    samples = make_samples([5, 6, 7, 8])
    short, long = (plan_updates(samples, budget=n, budget_unit="updates", batch_size=3) for n in (4, 9))
    assert (len(short), len(long)) == (4, 9)
    assert long[:4] == short


@pytest.mark.parametrize(("budget", "expected"), [(11, 3), (13, 3), (14, 3), (15, 4), (16, 4), (1, 0), (3, 1)])
def test_a_token_budget_stops_at_the_nearest_sample(make_samples: Samples, budget: int, expected: int) -> None:
    """Four trained tokens a sample; 14 is as near to 12 as to 16, and a tie leaves the sample out."""
    samples = make_samples([5], every=1) * 6
    plan = plan_updates(samples, budget=budget, budget_unit="trained_tokens", batch_size=2)
    assert sum(len(update) for update in plan) == expected


def test_updates_counted_in_tokens(make_samples: Samples) -> None:
    samples = make_samples([5], every=1) * 6
    plan = plan_updates(samples, budget=1, budget_unit="epochs", batch_size=9, batch_unit="trained_tokens")
    assert [len(update) for update in plan] == [3, 3]


def test_plan_refusals(make_samples: Samples) -> None:
    with pytest.raises(TrainingError, match="no samples"):
        plan_updates([], budget=1, budget_unit="epochs", batch_size=1)
    with pytest.raises(ConfigError, match=r"unknown 'epoch'\. Did you mean 'epochs'"):
        plan_updates(make_samples([5]), budget=1, budget_unit="epoch", batch_size=1)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="expected both above 0"):
        plan_updates(make_samples([5]), budget=0, budget_unit="epochs", batch_size=1)


def test_augmentation_is_drawn_by_seed_epoch_and_sample(make_samples: Samples) -> None:
    def shift(token_ids: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return token_ids + rng.integers(1, 1_000_000)

    samples = make_samples([5, 6])
    plan = [SampleUse(0, 0), SampleUse(0, 1), SampleUse(1, 0)]
    rows = make_rows(samples, plan, [SFT], augmentation=shift, seed=3)
    again = make_rows(samples, plan[1:], [SFT], augmentation=shift, seed=3)
    other = make_rows(samples, plan, [SFT], augmentation=shift, seed=4)
    firsts = [int(row.token_ids[0]) for row in rows]
    assert [int(row.token_ids[0]) for row in again] == firsts[1:]
    assert len({*firsts, *(int(row.token_ids[0]) for row in other)}) == 6
    with pytest.raises(TrainingError, match=r"made shape \(4,\) of \(5,\)"):
        make_rows(samples, plan, [SFT], augmentation=lambda token_ids, rng: token_ids[1:])


@settings(max_examples=50, deadline=None)
@given(
    lengths=st.lists(st.integers(2, 40), min_size=1, max_size=12),
    max_tokens=st.integers(1, 100),
    row_layout=st.sampled_from(["packed", "padded"]),
    num_processes=st.integers(1, 3),
)
def test_no_row_is_lost_and_limits_hold(
    make_samples: Samples, lengths: list[int], max_tokens: int, row_layout: Any, num_processes: int
) -> None:
    rows = make_rows(make_samples(lengths), uses(len(lengths)), [SFT])
    parts = micro_batches(rows, max_tokens, row_layout, num_processes=num_processes)
    loud = [row for part in parts for row in part if row.weights[SFT].any()]
    assert sorted(len(row.token_ids) for row in loud) == sorted(lengths)
    assert len(parts) % num_processes == 0
    for part in parts:
        batch = collate(part, row_layout)
        assert batch.input_ids.numel() <= max_tokens or len(part) == 1
        assert batch.num_tokens == sum(len(row.token_ids) for row in part)
    total = sum(float(batch.weights[SFT].sum()) for batch in map(collate, parts))
    assert total == pytest.approx(1.0, abs=1e-5)
