"""The parts of the training loss as pure functions, and their sum. Nothing here knows a method.

Each component has its own weights and its own normaliser. The normaliser belongs to the whole update: `normalise`
divides the weights before the update is cut into micro-batches and spread over processes, so what is left to do is a
plain sum, and 1x4 micro-batches give the gradient of 4x1.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tutelage.errors import TrainingError
from tutelage.training.config import Normaliser, check_choice
from tutelage.types import LossComponent, TrainingSample


def normalise(
    samples: Sequence[TrainingSample], component: LossComponent, normaliser: Normaliser = "token_mean"
) -> list[NDArray[np.float32]]:
    """The weights of one update, divided so that the component's loss is the sum of weight x NLL. One [T] per sample.

    token_mean            w / sum of w over the update                     (each token counts alike)
    per_step_mean         w / sum of w in its step / number of steps       (each trained step counts alike)
    per_trajectory_mean   w / sum of w in its trajectory / number of them  (each trajectory counts alike)
    all_tokens            w / number of tokens that any component trains   (a component on few of them weighs less)

    Example, trajectories with 3 and 1 trained tokens:
      token_mean            1/4 1/4 1/4   1/4
      per_trajectory_mean   1/6 1/6 1/6   1/2

    A component without weight in this update gives zeros. Use each sample once: a sample that occurs twice in an update
    stands twice in `samples`.
    """
    check_choice("normaliser", normaliser)
    weights = [np.asarray(sample.loss_weights.get(component, ()), dtype=np.float64) for sample in samples]
    weights = [w if len(w) else np.zeros(len(sample.token_ids)) for w, sample in zip(weights, samples, strict=True)]
    if normaliser in ("token_mean", "all_tokens"):
        mean = normaliser == "token_mean"
        total = sum(
            float(w.sum()) if mean else sample.num_trained_tokens for w, sample in zip(weights, samples, strict=True)
        )
        return [(w / total if total > 0.0 else w).astype(np.float32) for w in weights]
    groups: dict[object, list[NDArray[np.float64]]] = defaultdict(list)
    for sample, w in zip(samples, weights, strict=True):
        if normaliser == "per_trajectory_mean":
            groups[sample.trajectory_id].append(w)
            continue
        for step_index, start, end in sample.step_spans:
            groups[sample.trajectory_id, step_index].append(w[start:end])
        if not np.isclose(sum(w[start:end].sum() for _, start, end in sample.step_spans), w.sum()):
            raise TrainingError(
                f"sample {sample.sample_id} trains tokens outside its steps, so they belong to no step mean. "
                "Use the normaliser token_mean or per_trajectory_mean.",
                component=component.value,
            )
    # The views in `groups` share memory with `weights`, so dividing them in place divides the samples' weights.
    sums = {key: sum(float(part.sum()) for part in parts) for key, parts in groups.items()}
    num_groups = sum(total > 0.0 for total in sums.values())
    for key, parts in groups.items():
        for part in parts:
            if sums[key] > 0.0:
                part /= sums[key] * num_groups
    return [w.astype(np.float32) for w in weights]


def token_nll(logits: Tensor, targets: Tensor) -> Tensor:
    """Negative log-likelihood of each target, in nats and float32 at least. logits [M, V], targets [M] -> [M]."""
    wide = logits if logits.dtype == torch.float64 else logits.float()
    return torch.nn.functional.cross_entropy(wide, targets, reduction="none")


def weighted_sum(nll: Tensor, weights: Tensor) -> Tensor:
    """Loss of one component in one micro-batch: sum of weight x NLL, with weights from `normalise`. [M], [M] -> []."""
    return (nll * weights).sum()


def combine(components: Mapping[LossComponent, Tensor], coefficients: Mapping[LossComponent, float]) -> Tensor:
    """The total: sum of coefficient x component, each component normalised by itself.

    Example: ``combine({SFT: 2.0, DISTILL: 0.5}, {SFT: 1.0, DISTILL: 0.1})`` is 2.05.

    Raises:
        TrainingError: a coefficient other than 0 for a component that the data do not have, or a component without a
            coefficient. Say 0.0 to leave one out.
    """
    for component, coefficient in coefficients.items():
        if coefficient != 0.0 and component not in components:
            raise TrainingError(
                f"coefficient {coefficient}, but no sample has weights for it. Set the coefficient to 0, or build samples "
                "with a supervision that uses the component.",
                component=component.value,
            )
    total: Tensor | None = None
    for component, loss in components.items():
        if component not in coefficients:
            raise TrainingError(
                "samples have weights for it, but no coefficient is set. Set one; 0.0 leaves the component out.",
                component=component.value,
            )
        term = coefficients[component] * loss
        total = term if total is None else total + term
    if total is None:
        raise TrainingError("no loss component, expected at least one")
    return total


def shares(losses: Mapping[LossComponent, float], coefficients: Mapping[LossComponent, float]) -> dict[str, float]:
    """Part of each component in the total, by absolute value; sums to 1, or is 0 throughout if all losses are 0."""
    terms = {component.value: abs(coefficients[component] * loss) for component, loss in losses.items()}
    total = sum(terms.values())
    return {name: term / total if total > 0.0 else 0.0 for name, term in terms.items()}


def check_used(samples: Sequence[TrainingSample], coefficients: Mapping[LossComponent, float]) -> None:
    """Refuse data in which a wanted component has no weight at all, before any update is made.

    Raises:
        TrainingError: a coefficient other than 0 whose component has zero weight in every sample.
    """
    for component, coefficient in coefficients.items():
        if coefficient != 0.0 and not any(any(sample.loss_weights.get(component, ())) for sample in samples):
            raise TrainingError(
                f"coefficient {coefficient}, but its weights are zero in all {len(samples)} samples, so it would never "
                "reach the loss. Set the coefficient to 0, or build samples that use the component.",
                component=component.value,
            )
