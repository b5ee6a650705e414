"""Losses per token of reinforcement learning and on-policy distillation, as pure functions of log-probabilities.

All tensors are [M], one value per trained token, in natural logs; distributions are [M, V]. Gradients flow through
`logprobs` (the student as it is now) alone: advantages, teacher and reference are constants.

Notation: delta = teacher_logprobs - logprobs at the sampled token, ratio = exp(logprobs - rollout_logprobs).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from tutelage.errors import ConfigError, TrainingError

PADDING_MASS: Final = 1e-5
"""Most probability of output rows that pad a layer to a round width; float32 sums of many ids are no better."""


def policy_gradient(
    logprobs: Tensor,
    rollout_logprobs: Tensor,
    advantages: Tensor,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    dual_clip: float | None = 3.0,
) -> Tensor:
    """Clipped policy gradient (PPO, Schulman et al. 2017) with a second bound for negative advantages (Ye et al. 2020).

    loss = -min(ratio A, clip(ratio, 1 - clip_low, 1 + clip_high) A), and at most -dual_clip A where A < 0.

    Example, clip 0.2: ratio 1.3 gives -1.2 for A = 1 and 1.3 for A = -1; ratio 5 and A = -1 give 5, with dual clip 3: 3.
    """
    ratio = (logprobs - rollout_logprobs).exp()
    objective = torch.minimum(ratio * advantages, ratio.clamp(1.0 - clip_low, 1.0 + clip_high) * advantages)
    if dual_clip is not None:
        objective = torch.where(advantages < 0, torch.maximum(objective, dual_clip * advantages), objective)
    return -objective


def clipped(
    logprobs: Tensor, rollout_logprobs: Tensor, advantages: Tensor, *, clip_low: float, clip_high: float
) -> Tensor:
    """Which tokens the clip keeps from learning: their ratio has already gone the way the advantage points. Bool."""
    ratio = (logprobs - rollout_logprobs).exp()
    return ((ratio > 1.0 + clip_high) & (advantages > 0)) | ((ratio < 1.0 - clip_low) & (advantages < 0))


def k3(logprobs: Tensor, other_logprobs: Tensor) -> Tensor:
    """exp(d) - 1 - d with d = other - own, >= 0 (Schulman 2020): the KL anchor to a reference.

    On policy its mean is KL(own to other); differentiated, it follows the gradient of KL(other to own).

    Example: own 0.5, other 0.4 gives 0.0231.
    """
    d = other_logprobs - logprobs
    return torch.expm1(d) - d


def k3_corrected(logprobs: Tensor, other_logprobs: Tensor, rollout_logprobs: Tensor) -> Tensor:
    """`k3` times the ratio to the sampling policy: its mean gradient is that of KL(own to other) (DeepSeek-V3.2)."""
    return (logprobs - rollout_logprobs).exp() * k3(logprobs, other_logprobs)


# Distillation from log-probabilities of the sampled tokens


def k1_pg(logprobs: Tensor, teacher_logprobs: Tensor) -> Tensor:
    """-delta log pi with delta held constant. On policy, its mean gradient is that of KL(student to teacher)."""
    delta = (teacher_logprobs - logprobs).detach()
    return -delta * logprobs


def k1_direct(logprobs: Tensor, teacher_logprobs: Tensor, *, gate: float = 0.0) -> Tensor:
    """sigmoid(gate x delta) x delta, the gate held constant: the log-likelihood of the student's own token, weighted.

    The teacher acts through the gate only; with gate 0 it does not act at all (SDAR's surrogate). Kept to reproduce it.
    """
    delta = teacher_logprobs - logprobs
    return torch.sigmoid(gate * delta.detach()) * delta


def k3_distill(logprobs: Tensor, teacher_logprobs: Tensor) -> Tensor:
    """exp(delta) - 1 - delta, differentiated: on policy the gradient of KL(teacher to student)."""
    return k3(logprobs, teacher_logprobs)


# Distillation from whole distributions. [M, V] log-probabilities of student and teacher -> [M]


def rkl_full(student: Tensor, teacher: Tensor) -> Tensor:
    """KL(student to teacher) = sum over tokens of p_S (log p_S - log p_T)."""
    return _kl(student, teacher)


def fkl_full(student: Tensor, teacher: Tensor) -> Tensor:
    """KL(teacher to student) = sum over tokens of p_T (log p_T - log p_S)."""
    return _kl(teacher, student)


def jsd(student: Tensor, teacher: Tensor, *, b: float = 0.5) -> Tensor:
    """b KL(T to M) + (1 - b) KL(S to M) with M = b T + (1 - b) S (Agarwal et al. 2024).

    The value tends to 0 at both ends of b; divided by b (1 - b) it tends to KL(T to S) and KL(S to T).
    """
    if not 0.0 < b < 1.0:
        raise ConfigError(f"jsd: b is {b}, expected between 0 and 1. Use fkl_full or rkl_full for the ends.")
    middle = torch.logaddexp(teacher + math.log(b), student + math.log1p(-b))
    return b * _kl(teacher, middle) + (1.0 - b) * _kl(student, middle)


def rkl_topk(student: Tensor, teacher: Tensor, *, k: int = 64, renormalise: bool = False) -> Tensor:
    """KL(student to teacher) over the student's k likeliest tokens, and one bucket for the rest.

    The bucket is what keeps it a divergence: without it the value may be negative. Tokens that the teacher does not tell
    (-inf, where only its likeliest are known) are in the bucket too.

    renormalise: instead of the bucket, the mass of both sides over these tokens is scaled to 1.

    Example, student .2 .2 .2 .2 .2, teacher .6 .3 and no more told: 0.7743; renormalised 0.0589.
    """
    chosen = student.detach().topk(min(k, student.shape[-1]), dim=-1).indices
    own, other = student.gather(-1, chosen), teacher.gather(-1, chosen)
    told = other > -math.inf
    if renormalise:
        return _kl(_scaled(own, told), _scaled(other, told))
    if k >= student.shape[-1] and bool(told.all()):
        return _kl(own, other)
    own, other = own.masked_fill(~told, -math.inf), other.masked_fill(~told, -math.inf)
    return _kl(torch.cat([own, _rest(own)], -1), torch.cat([other, _rest(other)], -1))


def fkl_topk(student: Tensor, teacher: Tensor, *, k: int = 64, renormalise: bool = False) -> Tensor:
    """KL(teacher to student) over the teacher's k likeliest tokens; the student's stay those of its full vocabulary.

    renormalise: the teacher's mass over these tokens is scaled to 1.
    """
    chosen = teacher.topk(min(k, teacher.shape[-1]), dim=-1).indices
    other = teacher.gather(-1, chosen)
    if renormalise:
        other = other.log_softmax(-1)
    return _kl(other, student.gather(-1, chosen))


def shared_ids(student: Tensor, teacher: Tensor) -> tuple[Tensor, Tensor]:
    """Log-probabilities [M, V] of both over the ids that both have, scaled to mass 1.

    An output layer may be wider than the vocabulary, padded to a round number: two models of one tokenizer then differ in
    width. Raises TrainingError if what is cut off holds more probability than padding does.
    """
    num_ids = min(student.shape[-1], teacher.shape[-1])
    for role, logprobs in (("student", student), ("teacher", teacher)):
        lost = float(logprobs.detach()[..., num_ids:].exp().sum(-1).max()) if logprobs.numel() else 0.0
        if lost > PADDING_MASS:
            raise TrainingError(
                f"{logprobs.shape[-1] - num_ids} output rows of the {role} beyond the {num_ids} shared ids hold up to "
                f"{lost:.2g} of its probability, expected padding with none (at most {PADDING_MASS:g}). Use a loss of the "
                "sampled tokens (k1_pg).",
                component="distill",
            )
    if student.shape[-1] == teacher.shape[-1]:
        return student, teacher
    return student[..., :num_ids].log_softmax(-1), teacher[..., :num_ids].log_softmax(-1)


def _kl(p: Tensor, q: Tensor) -> Tensor:
    """Sum of p (log p - log q); a token of p that is impossible adds nothing, to the gradient neither."""
    weight = p.exp()
    # The gap is set to 0 before the product: after it, the gradient would be 0 times the gap, which may be infinite.
    return (weight * torch.where(weight > 0, p - q, torch.zeros_like(p))).sum(-1)


def _scaled(logprobs: Tensor, told: Tensor) -> Tensor:
    """Log-probabilities over the tokens that are told, scaled to mass 1. Finite, so that its gradient is."""
    return logprobs.masked_fill(~told, torch.finfo(logprobs.dtype).min / 2).log_softmax(-1)


def _rest(logprobs: Tensor) -> Tensor:
    """Log of the mass that some tokens leave to all others, [M, 1]. Never quite 0, so that its log stays finite."""
    return torch.log((1.0 - logprobs.exp().sum(-1, keepdim=True)).clamp_min(torch.finfo(logprobs.dtype).tiny))


@dataclass(frozen=True, slots=True)
class DistillLoss:
    """A way in which a teacher's opinion becomes a loss. Its settings are in `DISTILL_LOSS_OPTIONS`."""

    function: Callable[..., Tensor]
    """Of log-probabilities at the sampled tokens [M], or of distributions [M, V] if `full`."""
    full: bool
    """True: it needs whole distributions, so the teacher runs once more in each update."""


DISTILL_LOSSES: Final[dict[str, DistillLoss]] = {
    "k1_pg": DistillLoss(k1_pg, full=False),
    "k1_direct": DistillLoss(k1_direct, full=False),
    "k3": DistillLoss(k3_distill, full=False),
    "rkl_full": DistillLoss(rkl_full, full=True),
    "fkl_full": DistillLoss(fkl_full, full=True),
    "jsd": DistillLoss(jsd, full=True),
    "rkl_topk": DistillLoss(rkl_topk, full=True),
    "fkl_topk": DistillLoss(fkl_topk, full=True),
}
"""By name."""
