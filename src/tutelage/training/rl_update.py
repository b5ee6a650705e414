"""One update of reinforcement learning: rows in, gradients and figures out. It knows components, not methods.

loss = pg x policy gradient + reference x KL anchor + distill x teacher's part,   each with its own normaliser
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from tutelage.errors import ConfigError, TrainingError
from tutelage.training.batching import Batch, Row, collate, micro_batches
from tutelage.training.forward import TrainedPositions
from tutelage.training.policy_losses import DISTILL_LOSSES, clipped, k3, k3_corrected, policy_gradient, shared_ids
from tutelage.training.rl_config import DISTILL_LOSS_OPTIONS, RLConfig
from tutelage.types import LossComponent

PG, DISTILL = LossComponent.PG, LossComponent.DISTILL


@dataclass(frozen=True, slots=True)
class DistillTerm:
    """How a teacher's opinion enters the loss."""

    loss: Callable[..., Tensor]
    full: bool
    """Whether `loss` takes whole distributions [M, V] rather than log-probabilities of the sampled tokens [M]."""
    name: str
    """With its options, to tell one term from another."""

    @classmethod
    def of(cls, name: str, **options: Any) -> DistillTerm:
        """By name, from `DISTILL_LOSSES`, e.g. ``DistillTerm.of("jsd", b=0.5)``."""
        if name not in DISTILL_LOSSES:
            raise ConfigError.unknown("distill: loss", name, DISTILL_LOSSES)
        known = DISTILL_LOSSES[name]
        for option in options:
            if option not in DISTILL_LOSS_OPTIONS[name]:
                raise ConfigError.unknown(f"distill: option of loss '{name}'", option, DISTILL_LOSS_OPTIONS[name])
        told = name + "".join(f" {option}={value}" for option, value in sorted(options.items()))
        return cls(partial(known.function, **options), known.full, told)


TeacherDistribution = Callable[[Sequence[Row]], Tensor]
"""Rows of a micro-batch -> the teacher's log-probabilities [M, V] at their trained tokens, at the run's temperature."""


class Updater:
    """Adds up the gradients of one update over its micro-batches."""

    def __init__(
        self,
        scorer: TrainedPositions,
        config: RLConfig,
        distill: DistillTerm | None = None,
        teacher: TeacherDistribution | None = None,
    ) -> None:
        self.scorer = scorer
        self.config = config
        self.distill = distill if config.distill_coefficient > 0 else None
        self.teacher = teacher
        self.device = next(scorer.parameters()).device

    def accumulate(self, rows: Sequence[Row]) -> dict[str, float]:
        """Gradients of one update, whose rows carry weights that are normalised over it; returns its figures.

        Raises:
            TrainingError: the loss is not finite.
        """
        sums: Counter[str] = Counter()
        for part in micro_batches(rows, self.config.micro_batch_tokens, self.config.row_layout):
            batch = collate(part, self.config.row_layout).to(self.device)
            loss, figures = self._losses(part, batch)
            if not bool(torch.isfinite(loss)):
                raise TrainingError(
                    f"the loss is {loss.item()}, expected a finite number. Lower the learning rate "
                    f"({self.config.learning_rate:.3g} now); the weights are still those before this update."
                )
            loss.backward()  # type: ignore[no-untyped-call]  # torch's own
            sums.update(figures)
        return self._figures(sums) | self._shares(sums)

    def _losses(self, part: Sequence[Row], batch: Batch) -> tuple[Tensor, dict[str, float]]:
        config = self.config
        distribution = token_distribution(self.scorer.logits(batch), config.temperature)
        logprobs = distribution.gather(-1, batch.targets[:, None])[:, 0]
        total = logprobs.new_zeros(())
        figures: dict[str, float] = {}
        weights = batch.weights[PG]
        on = weights > 0
        if bool(on.any()):
            old, credit = batch.streams["rollout_logprobs"][on], batch.streams["advantages"][on]
            own, weight = logprobs[on], weights[on]
            clip = {"clip_low": config.clip_low, "clip_high": config.clip_high}
            terms = {
                "pg/loss": (
                    config.pg_coefficient,
                    policy_gradient(own, old, credit, dual_clip=config.dual_clip, **clip),
                )
            }
            if config.reference_coefficient > 0:
                reference = batch.streams["reference_logprobs"][on]
                corrected = config.reference_loss == "k3_corrected"
                anchor = k3_corrected(own, reference, old) if corrected else k3(own, reference)
                terms["reference/loss"] = (config.reference_coefficient, anchor)
            for name, (coefficient, values) in terms.items():
                value = (values * weight).sum()
                figures[name] = value.item()
                if coefficient > 0:
                    total = total + coefficient * value
            figures |= self._policy_figures(distribution[on], own, old, credit, clip)
        if self.distill is not None and bool((batch.weights[DISTILL] > 0).any()):
            value = self._distillation(self.distill, part, batch, distribution, logprobs)
            figures["distill/loss"] = value.item()
            total = total + config.distill_coefficient * value
        return total, figures

    def _distillation(
        self, term: DistillTerm, part: Sequence[Row], batch: Batch, distribution: Tensor, logprobs: Tensor
    ) -> Tensor:
        weights = batch.weights[DISTILL]
        taught = weights > 0
        if not term.full:
            return (term.loss(logprobs[taught], batch.streams["teacher_logprobs"][taught]) * weights[taught]).sum()
        assert self.teacher is not None, "a loss over distributions comes with a teacher that gives them"
        own, theirs = shared_ids(distribution[taught], self.teacher(part).to(distribution)[taught])
        return (term.loss(own, theirs) * weights[taught]).sum()

    @torch.no_grad()
    def _policy_figures(
        self, distribution: Tensor, own: Tensor, old: Tensor, credit: Tensor, clip: Mapping[str, float]
    ) -> dict[str, float]:
        """Sums over policy tokens, to be divided by their number."""
        ratio = (own - old).exp()
        return {
            "tokens": float(len(own)),
            "pg/ratio": float(ratio.sum()),
            "pg/clip_share": float(clipped(own, old, credit, **clip).sum()),
            "policy/entropy": float(-(distribution.exp() * distribution).sum()),
            "policy/kl_to_rollout": float((ratio - 1 - (own - old)).sum()),
        }

    def _shares(self, sums: Mapping[str, float]) -> dict[str, float]:
        """Part of each term in the total, by absolute value after its coefficient; a term that never came in has none."""
        config = self.config
        coefficients = {"pg": config.pg_coefficient, "reference": config.reference_coefficient}
        coefficients["distill"] = config.distill_coefficient if self.distill is not None else 0.0
        terms = {name: abs(coefficient * sums[f"{name}/loss"]) for name, coefficient in coefficients.items()}
        total = sum(terms.values())
        return {
            f"{name}/share": term / total if total > 0.0 else 0.0
            for name, term in terms.items()
            if f"{name}/loss" in sums
        }

    def _figures(self, sums: Counter[str]) -> dict[str, float]:
        tokens = max(sums.pop("tokens", 0.0), 1.0)
        per_token = ("pg/ratio", "pg/clip_share", "policy/entropy", "policy/kl_to_rollout")
        return {name: value / tokens if name in per_token else float(value) for name, value in sums.items()}


def token_distribution(logits: Tensor, temperature: float) -> Tensor:
    """Log-softmax of logits / temperature in float32 at least. [M, V] -> [M, V]"""
    wide = logits if logits.dtype == torch.float64 else logits.float()
    return (wide / temperature).log_softmax(-1)
