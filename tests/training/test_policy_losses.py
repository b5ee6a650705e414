"""Values and gradients of the losses against numbers worked out by hand (student 0.5 0.5, teacher 0.8 0.2)."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tutelage.errors import ConfigError
from tutelage.training import policy_losses as losses

TEACHER = torch.tensor([0.8, 0.2], dtype=torch.float64).log()
P = torch.tensor([[0.5, 0.25, 0.15, 0.10]], dtype=torch.float64).log()
Q = torch.tensor([[0.4, 0.4, 0.05, 0.15]], dtype=torch.float64).log()


def sampled_gradient(
    loss: Callable[[Tensor, Tensor], Tensor], token: int, teacher: Tensor = TEACHER
) -> tuple[float, list[float]]:
    """Value and gradient with respect to the student's logits (0, 0), for one sampled token."""
    logits = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    value = loss(logits.log_softmax(-1)[token : token + 1], teacher[token : token + 1]).sum()
    value.backward()
    assert logits.grad is not None
    return float(value.detach()), logits.grad.tolist()


def full_gradient(loss: Callable[[Tensor, Tensor], Tensor]) -> tuple[float, list[float]]:
    logits = torch.zeros(1, 2, dtype=torch.float64, requires_grad=True)
    value = loss(logits.log_softmax(-1), TEACHER[None]).sum()
    value.backward()
    assert logits.grad is not None
    return float(value.detach()), logits.grad[0].tolist()


def close(*values: float) -> object:
    return pytest.approx(list(values), abs=1e-4)


def test_k1_pg_follows_the_reverse_kl() -> None:
    first, second = sampled_gradient(losses.k1_pg, 0)[1], sampled_gradient(losses.k1_pg, 1)[1]
    assert first == close(-0.2350, 0.2350)
    assert second == close(-0.4581, 0.4581)
    value, exact = full_gradient(losses.rkl_full)
    assert value == pytest.approx(0.2231, abs=1e-4)
    assert exact == close(-0.3466, 0.3466)
    assert [(a + b) / 2 for a, b in zip(first, second, strict=True)] == pytest.approx(exact, abs=1e-9)


def test_forward_kl() -> None:
    value, gradient = full_gradient(losses.fkl_full)
    assert value == pytest.approx(0.1927, abs=1e-4)
    assert gradient == close(-0.3, 0.3)


def test_k3_differentiated_follows_the_forward_kl() -> None:
    values, gradients = zip(*(sampled_gradient(losses.k3_distill, token) for token in (0, 1)), strict=True)
    assert list(values) == close(0.1300, 0.3163)
    assert gradients[0] == close(-0.3, 0.3)
    assert gradients[1] == close(-0.3, 0.3)
    assert sum(values) / 2 == pytest.approx(0.2231, abs=1e-4)


def test_k3_times_the_ratio_follows_the_reverse_kl() -> None:
    own = torch.full((2,), 0.5, dtype=torch.float64).log()
    gradients = [
        sampled_gradient(lambda new, other, old=own[token : token + 1]: losses.k3_corrected(new, other, old), token)[1]
        for token in (0, 1)
    ]
    assert [(a + b) / 2 for a, b in zip(*gradients, strict=True)] == close(-0.3466, 0.3466)


def test_the_gated_surrogate_pushes_disliked_tokens_up() -> None:
    gated = partial(losses.k1_direct, gate=5.0)
    deltas = TEACHER - math.log(0.5)
    assert torch.sigmoid(5 * deltas).tolist() == close(0.9129, 0.0101)
    assert [0.01 * one for one in sampled_gradient(gated, 0)[1]] == close(-0.0046, 0.0046)
    second = [0.01 * one for one in sampled_gradient(gated, 1)[1]]
    assert second == pytest.approx([0.0000505, -0.0000505], abs=1e-6)


@pytest.mark.parametrize("teacher", [(0.8, 0.2), (0.3, 0.7)])
def test_with_gate_0_there_is_no_teacher_in_the_gradient(teacher: tuple[float, float]) -> None:
    logs = torch.tensor(teacher, dtype=torch.float64).log()
    assert [0.01 * one for one in sampled_gradient(losses.k1_direct, 0, logs)[1]] == close(-0.0025, 0.0025)
    assert [0.01 * one for one in sampled_gradient(losses.k1_direct, 1, logs)[1]] == close(0.0025, -0.0025)


def test_jsd() -> None:
    value, gradient = full_gradient(losses.jsd)
    assert value == pytest.approx(0.0507, abs=1e-4)
    assert gradient == close(-0.0774, 0.0774)
    assert float(losses.jsd(P, Q)) == pytest.approx(float(losses.jsd(Q, P)), abs=1e-12)
    for b, limit in ((1e-4, 0.1927), (1 - 1e-4, 0.2231)):
        scaled = full_gradient(partial(losses.jsd, b=b))[0] / (b * (1 - b))
        assert scaled == pytest.approx(limit, abs=1e-4)
    with pytest.raises(ConfigError, match=r"b is 1\.0, expected between 0 and 1"):
        losses.jsd(P, Q, b=1.0)


def test_top_k() -> None:
    assert float(losses.rkl_full(P, Q)) == pytest.approx(0.1183, abs=1e-4)
    assert float(losses.fkl_full(P, Q)) == pytest.approx(0.1046, abs=1e-4)
    assert float(losses.rkl_topk(P, Q, k=2)) == pytest.approx(0.0499, abs=1e-4)
    assert float(losses.fkl_topk(P, Q, k=2)) == pytest.approx(0.0987, abs=1e-4)
    assert float(losses.fkl_topk(P, Q, k=2, renormalise=True)) == pytest.approx(0.3466, abs=1e-4)
    assert float(losses.rkl_topk(P, Q, k=4)) == pytest.approx(float(losses.rkl_full(P, Q)), abs=1e-12)
    assert float(losses.fkl_topk(P, Q, k=4)) == pytest.approx(float(losses.fkl_full(P, Q)), abs=1e-12)


def test_top_2_of_five_with_a_uniform_student() -> None:
    student = torch.tensor([[0.2, 0.2, 0.2 - 1e-9, 0.2 - 1e-9, 0.2 - 1e-9]], dtype=torch.float64).log()
    teacher = torch.tensor([[0.6, 0.3, 0.1 / 3, 0.1 / 3, 0.1 / 3]], dtype=torch.float64).log()
    assert float(losses.rkl_topk(student, teacher, k=2)) == pytest.approx(0.7743, abs=1e-4)


def test_a_token_that_the_student_cannot_say_adds_nothing() -> None:
    student = torch.tensor([[0.5, 0.5, 0.0]], dtype=torch.float64).log()
    teacher = torch.tensor([[0.5, 0.25, 0.25]], dtype=torch.float64).log()
    assert float(losses.rkl_full(student, teacher)) == pytest.approx(0.5 * math.log(2))


@pytest.mark.parametrize("name", ["k1_pg", "k3"])
def test_a_teacher_that_is_the_student_teaches_nothing(name: str) -> None:
    own = torch.full((2,), 0.5, dtype=torch.float64).log()
    assert sampled_gradient(losses.DISTILL_LOSSES[name].function, 0, own)[1] == [0.0, 0.0]


@pytest.mark.parametrize("name", ["rkl_full", "fkl_full", "jsd", "rkl_topk"])
def test_equal_distributions_have_no_gradient(name: str) -> None:
    logits = torch.tensor([[0.3, -0.2, 0.9]], dtype=torch.float64, requires_grad=True)
    student = logits.log_softmax(-1)
    losses.DISTILL_LOSSES[name].function(student, student.detach()).sum().backward()
    assert logits.grad is not None
    assert logits.grad.abs().max() < 1e-12


def test_clip() -> None:
    def loss(ratio: float, advantage: float, dual_clip: float | None = None) -> float:
        old = torch.zeros(1, dtype=torch.float64)
        new = torch.tensor([ratio], dtype=torch.float64).log()
        return float(losses.policy_gradient(new, old, torch.tensor([advantage]), dual_clip=dual_clip))

    assert [-loss(1.3, 1), -loss(1.3, -1), -loss(0.7, 1), -loss(0.7, -1)] == close(1.2, -1.3, 0.7, -0.8)
    assert [-loss(5, -1), -loss(5, -1, 3.0), -loss(5, 1, 3.0)] == close(-5, -3, 1.2)


def test_which_tokens_are_clipped() -> None:
    new = torch.tensor([1.3, 1.3, 0.7, 0.7, 1.1]).log()
    advantages = torch.tensor([1.0, -1.0, 1.0, -1.0, 1.0])
    told = losses.clipped(new, torch.zeros(5), advantages, clip_low=0.2, clip_high=0.2)
    assert told.tolist() == [True, False, False, True, False]


def test_the_first_minibatch_is_plain_policy_gradient() -> None:
    logits = torch.tensor([0.2, -0.4], dtype=torch.float64, requires_grad=True)
    logprobs = logits.log_softmax(-1)
    loss = losses.policy_gradient(logprobs, logprobs.detach(), torch.tensor([2.0, -1.0], dtype=torch.float64))
    [gradient] = torch.autograd.grad(loss.sum(), logits, retain_graph=True)
    [plain] = torch.autograd.grad(-(2.0 * logprobs[0] - logprobs[1]), logits)
    assert gradient.tolist() == pytest.approx(plain.tolist(), abs=1e-12)


def test_the_reference_anchor() -> None:
    own, other = torch.tensor([0.5]).log(), torch.tensor([0.4]).log()
    assert float(losses.k3(own, other)) == pytest.approx(0.0231, abs=1e-4)
    assert float(losses.k3(own, own)) == 0.0


@given(st.data())
def test_divergences_are_never_negative(data: st.DataObject) -> None:
    size = data.draw(st.integers(3, 6))
    weights = st.lists(st.floats(0.01, 1.0), min_size=size, max_size=size)
    student, teacher = (torch.tensor([data.draw(weights)], dtype=torch.float64).log().log_softmax(-1) for _ in range(2))
    for loss in (losses.rkl_full, losses.fkl_full, losses.jsd, partial(losses.rkl_topk, k=2)):
        assert float(loss(student, teacher)) >= -1e-12
    assert float(losses.jsd(student, teacher)) <= math.log(2) + 1e-12
