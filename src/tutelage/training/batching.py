"""Samples -> updates -> micro-batches of tensors.

The order is a function of seed and position alone, so a resumed run meets the batches of an unbroken one. Rows are
padded on the right, or packed one after the other; both need no attention mask: under causal attention nothing looks
at padding that comes later, and packed rows attend one by one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tutelage.errors import ConfigError, TrainingError
from tutelage.training.augment import Augmentation
from tutelage.training.config import BatchUnit, BudgetUnit, Normaliser, RowLayout, check_choice
from tutelage.training.losses import normalise
from tutelage.types import LossComponent, TrainingSample, stable_hash

STREAMS: Final = ("advantages", "rollout_logprobs", "teacher_logprobs", "reference_logprobs")
"""Fields of a sample with one number per token, besides the weights."""


@dataclass(frozen=True, slots=True)
class SampleUse:
    """One use of one sample."""

    sample_index: int
    epoch: int


def plan_updates(
    samples: Sequence[TrainingSample],
    *,
    budget: float,
    budget_unit: BudgetUnit,
    batch_size: int,
    batch_unit: BatchUnit = "samples",
    seed: int = 0,
) -> list[list[SampleUse]]:
    """Which samples make up each update. Every epoch is a new order; an update may reach over into the next epoch.

    A budget in tokens stops at the sample that brings the total nearest to it (a tie leaves the sample out), so that
    runs on different data can be compared at equal tokens. An update of `batch_size` tokens closes once it has them.

    Example, 3 samples, 5 samples of budget (1.67 epochs), 2 per update: [2 0] [1 | 1] [0]
    """
    _check_plan(samples, budget, budget_unit, batch_size, batch_unit)
    trained = [sample.num_trained_tokens for sample in samples]
    total = [len(sample.token_ids) for sample in samples]
    cost = {"trained_tokens": trained, "total_tokens": total}.get(budget_unit, [1] * len(samples))
    fill = {"trained_tokens": trained, "total_tokens": total}.get(batch_unit, [1] * len(samples))
    limit = budget * len(samples) if budget_unit == "epochs" else budget
    updates: list[list[SampleUse]] = []
    current: list[SampleUse] = []
    spent, filled, epoch = 0, 0, 0
    while True:
        order = np.random.default_rng(stable_hash(seed, "order", epoch)).permutation(len(samples))
        for index in order.tolist():
            if budget_unit != "updates" and abs(limit - (spent + cost[index])) >= abs(limit - spent):
                return [*updates, current] if current else updates
            current.append(SampleUse(index, epoch))
            spent += cost[index]
            filled += fill[index]
            if filled >= batch_size:
                updates.append(current)
                current, filled = [], 0
                if budget_unit == "updates" and len(updates) >= limit:
                    return updates
        epoch += 1


def _check_plan(
    samples: Sequence[TrainingSample], budget: float, budget_unit: str, batch_size: int, batch_unit: str
) -> None:
    if not samples:
        raise TrainingError("no samples. Look into the sample ledger: every trajectory was refused or none came in")
    check_choice("budget_unit", budget_unit)
    check_choice("batch_unit", batch_unit)
    if budget <= 0 or batch_size < 1:
        raise ConfigError(f"budget {budget} {budget_unit}, batch_size {batch_size} {batch_unit}: expected both above 0")


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One use of a sample, ready for collation: ids after augmentation, weights after normalisation."""

    token_ids: NDArray[np.int64]
    """[T]"""
    trained: NDArray[np.int64]
    """[M] positions of the trained tokens, ascending."""
    weights: Mapping[LossComponent, NDArray[np.float32]]
    """Per component [M], of the trained tokens only."""
    streams: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)
    """Per name of `STREAMS` [M], of the trained tokens only. NaN: not computed, so that using it by mistake shows."""
    sample_index: int = 0
    """Which of the samples it is of."""

    def silent(self) -> Row:
        """The same tokens without any weight: it takes part in the computation and changes nothing."""
        return Row(
            token_ids=self.token_ids,
            trained=self.trained[:1],
            weights={component: np.zeros(1, np.float32) for component in self.weights},
            streams={name: np.full(1, np.nan, np.float32) for name in self.streams},
            sample_index=self.sample_index,
        )


def make_rows(
    samples: Sequence[TrainingSample],
    uses: Sequence[SampleUse],
    components: Sequence[LossComponent],
    normaliser: Normaliser = "token_mean",
    *,
    augmentation: Augmentation | None = None,
    seed: int = 0,
    streams: Sequence[str] = (),
) -> list[Row]:
    """The rows of one update, in the order of `uses`. `streams` are names of `STREAMS` to carry along.

    The augmentation draws from seed, epoch and sample id, so that a resumed run draws the same.
    """
    used = [samples[use.sample_index] for use in uses]
    weights = {component: normalise(used, component, normaliser) for component in components}
    rows = []
    for position, (use, sample) in enumerate(zip(uses, used, strict=True)):
        token_ids = np.asarray(sample.token_ids, dtype=np.int64)
        if augmentation is not None:
            token_ids = augment(augmentation, token_ids, stable_hash(seed, "augment", use.epoch, sample.sample_id))
        trained = np.flatnonzero(sample.loss_mask)
        rows.append(
            Row(
                token_ids=token_ids,
                trained=trained,
                weights={component: weights[component][position][trained] for component in components},
                streams={
                    name: np.array([values[index] for index in trained], dtype=np.float32)
                    for name in streams
                    for values in [getattr(sample, name) or [None] * len(token_ids)]
                },
                sample_index=use.sample_index,
            )
        )
    return rows


def augment(augmentation: Augmentation, token_ids: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """The ids after one draw of the augmentation. Raises TrainingError if their number changed."""
    changed = augmentation(token_ids, np.random.default_rng(seed))
    if changed.shape != token_ids.shape:
        raise TrainingError(
            f"{type(augmentation).__name__} made shape {changed.shape} of {token_ids.shape}, expected the same, since the "
            "loss mask belongs to positions. Give an augmentation that keeps the length."
        )
    return changed


def micro_batches(
    rows: Sequence[Row], max_tokens: int, row_layout: RowLayout, *, num_processes: int = 1
) -> list[list[Row]]:
    """Cut one update into micro-batches of at most `max_tokens` tokens, padding included, with rows of similar length.

    A row longer than the limit stands alone. The number of micro-batches is a multiple of `num_processes`: each process
    takes part in the same number of forward passes, the last ones perhaps with a row that has no weight.

    Example, padded, lengths 7 5 9 2, limit 14: [2 5] [7] [9] (2 and 5 take 10 tokens; with 7 it would be 21)
    """
    batches: list[list[Row]] = []
    size = 0
    for row in sorted(rows, key=lambda row: len(row.token_ids)):
        length = len(row.token_ids)
        # Rows come in ascending order, so the newest sets the padded width.
        grown = size + length if row_layout == "packed" else length * (len(batches[-1]) + 1 if batches else 1)
        if not batches or grown > max_tokens:
            batches.append([])
            grown = length
        batches[-1].append(row)
        size = grown
    while len(batches) % num_processes:
        batches.append([batches[0][0].silent()])
    return batches


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """Tensors of one micro-batch. R rows of width L (packed: one row with all tokens), M trained tokens."""

    input_ids: Tensor
    """[R, L] int64"""
    row_lengths: list[int] | None
    """Lengths of the packed samples. None: padded, one sample per row."""
    position_ids: Tensor | None
    """[1, L] starting anew with each packed sample. None: padded, 0 to L - 1."""
    predictors: Tensor
    """[M] flat index into [R * L] of the position whose output predicts each target."""
    targets: Tensor
    """[M] the trained ids."""
    weights: Mapping[LossComponent, Tensor]
    """Per component [M] float32, normalised over the update."""
    num_tokens: int
    """Real tokens, without padding."""
    streams: Mapping[str, Tensor] = field(default_factory=dict)
    """Per name of `STREAMS` [M] float32."""

    def to(self, device: torch.device) -> Batch:
        """The same batch on another device."""
        if self.input_ids.device == device:
            return self
        return Batch(
            input_ids=self.input_ids.to(device),
            row_lengths=self.row_lengths,
            position_ids=None if self.position_ids is None else self.position_ids.to(device),
            predictors=self.predictors.to(device),
            targets=self.targets.to(device),
            weights={component: weights.to(device) for component, weights in self.weights.items()},
            num_tokens=self.num_tokens,
            streams={name: values.to(device) for name, values in self.streams.items()},
        )


def collate(rows: Sequence[Row], row_layout: RowLayout = "packed") -> Batch:
    """Rows -> tensors.

    Example, ids [5,6,7] with token 2 trained and [8,9] with token 1 trained:
      packed   input_ids [[5,6,7,8,9]]       position_ids [[0,1,2,0,1]]   predictors [1,3]   targets [7,9]
      padded   input_ids [[5,6,7],[8,9,0]]   position_ids None            predictors [1,3]   targets [7,9]
    """
    check_choice("row_layout", row_layout)
    lengths = [len(row.token_ids) for row in rows]
    packed = row_layout == "packed"
    if packed:
        input_ids = np.concatenate([row.token_ids for row in rows])[None]
        starts = np.cumsum([0, *lengths[:-1]])
    else:
        # The fill is never looked at: it comes after every real token of its row, and no mask covers it.
        input_ids = np.zeros((len(rows), max(lengths)), dtype=np.int64)
        for index, row in enumerate(rows):
            input_ids[index, : lengths[index]] = row.token_ids
        starts = np.arange(len(rows)) * max(lengths)
    target_index = np.concatenate([row.trained + start for row, start in zip(rows, starts, strict=True)])
    batch = Batch(
        input_ids=torch.from_numpy(input_ids),
        row_lengths=lengths if packed else None,
        position_ids=torch.from_numpy(np.concatenate([np.arange(n) for n in lengths])[None]) if packed else None,
        predictors=torch.from_numpy(target_index - 1),
        targets=torch.from_numpy(input_ids.reshape(-1)[target_index]),
        weights={
            component: torch.from_numpy(np.concatenate([row.weights[component] for row in rows]))
            for component in rows[0].weights
        },
        num_tokens=sum(lengths),
        streams={
            name: torch.from_numpy(np.concatenate([row.streams[name] for row in rows])) for name in rows[0].streams
        },
    )
    expected = sum(len(row.trained) for row in rows)
    assert len(batch.targets) == expected, f"collation kept {len(batch.targets)} trained tokens of {expected}"
    return batch
