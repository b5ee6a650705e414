"""Reports about divergences and teachers: directions, estimators used as losses, shifted scores, other vocabularies."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tutelage.errors import ConfigError, SupervisionError, TeacherError, TrainingError
from tutelage.policies.base import ScoreRequest, TokenScores
from tutelage.policies.scorer import LocalScorer, SelfScorer
from tutelage.rendering.load import load_renderer
from tutelage.store import read_records
from tutelage.students import student_path
from tutelage.supervision.distill import attach_teacher, check_vocabulary, score_steps
from tutelage.supervision.divergence import full_kl, topk_kl
from tutelage.supervision.samples import build_samples
from tutelage.tasks.registry import load_tasks
from tutelage.testing import ByteRenderer, make_trajectory
from tutelage.training import policy_losses as losses
from tutelage.training.batching import Row, SampleUse, make_rows
from tutelage.training.forward import TrainedPositions
from tutelage.training.rl import train_rl
from tutelage.training.rl_config import DISTILL_LOSS_OPTIONS, RLConfig
from tutelage.training.rl_update import DISTILL, PG, DistillTerm, Updater
from tutelage.types import Action, LossComponent, ParseOutcome, StepSupervision, TrainingSample


@pytest.fixture(scope="module")
def pairs(fixtures: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((fixtures / "kl" / "pairs.json").read_text())
    return loaded


def log(probabilities: Sequence[float]) -> Tensor:
    return torch.tensor([probabilities], dtype=torch.float64).log()


def value_and_slope(loss: Callable[[Tensor, Tensor], Tensor], teacher: Tensor) -> tuple[float, float]:
    """Of a loss over distributions, for the student softmax([theta, 0]) at theta = 0."""
    theta = torch.zeros((), dtype=torch.float64, requires_grad=True)
    student = torch.stack([theta, torch.zeros_like(theta)])[None].log_softmax(-1)
    value = loss(student, teacher).sum()
    value.backward()
    assert theta.grad is not None
    return value.item(), theta.grad.item()


def expected_slope(loss: Callable[[Tensor, Tensor], Tensor], teacher: Tensor) -> float:
    """Of a loss at the sampled token: its gradient at each token, weighed with the student's probability of it."""
    total = 0.0
    for token in (0, 1):
        theta = torch.zeros((), dtype=torch.float64, requires_grad=True)
        student = torch.stack([theta, torch.zeros_like(theta)]).log_softmax(-1)
        loss(student[token][None], teacher[0, token][None]).sum().backward()
        assert theta.grad is not None
        total += 0.5 * theta.grad.item()
    return total


def test_k1_directions_are_named_and_have_their_values(pairs: dict[str, Any]) -> None:
    """trl PR #4935, Self-Distillation#5: the arguments of a KL were swapped, so that it ran in the other direction."""
    pair = pairs["two_tokens"]
    teacher = log(pair["teacher"])
    forward = pytest.approx((pair["forward_kl"], pair["forward_gradient"]), abs=1e-5)
    reverse = pytest.approx((pair["reverse_kl"], pair["reverse_gradient"]), abs=1e-5)
    assert value_and_slope(losses.fkl_full, teacher) == forward
    assert value_and_slope(losses.rkl_full, teacher) == reverse
    student, theirs = log(pair["student"]).numpy(), teacher.numpy()
    assert full_kl(student, theirs, "forward") == pytest.approx(pair["forward_kl"], abs=1e-5)
    assert full_kl(student, theirs, "reverse") == pytest.approx(pair["reverse_kl"], abs=1e-5)


def test_k1_ends_of_the_interpolation(pairs: dict[str, Any]) -> None:
    """trl PR #4935: at the ends of its parameter the mix was the divergence of the other end."""
    pair = pairs["two_tokens"]
    teacher = log(pair["teacher"])
    for b, name in ((1e-6, "forward"), (1 - 1e-6, "reverse")):
        value, slope = value_and_slope(partial(losses.jsd, b=b), teacher)
        scale = b * (1 - b)
        assert value / scale == pytest.approx(pair[f"{name}_kl"], abs=1e-4)
        assert slope / scale == pytest.approx(pair[f"{name}_gradient"], abs=1e-4)
    for b in (0.0, 1.0):
        with pytest.raises(ConfigError, match=r"expected between 0 and 1\. Use fkl_full or rkl_full for the ends"):
            losses.jsd(teacher, teacher, b=b)
    assert losses.jsd.__doc__ is not None
    assert "tends to KL(T to S) and KL(S to T)" in losses.jsd.__doc__


def test_k2_estimators_as_losses(pairs: dict[str, Any]) -> None:
    """OpenRLHF PR #1309, verl PR #2953, NeMo-RL PR #2506, open-instruct#534, aprender#2153: good estimates, other gradients."""
    pair = pairs["two_tokens"]
    teacher = log(pair["teacher"])

    def k1(own: Tensor, other: Tensor) -> Tensor:
        return own - other

    def k2(own: Tensor, other: Tensor) -> Tensor:
        return (own - other) ** 2 / 2

    def k3_corrected(own: Tensor, other: Tensor) -> Tensor:
        return losses.k3_corrected(own, other, own.detach())

    # What mathematics says of the three, and what those that a recipe can name do.
    assert expected_slope(k1, teacher) == pytest.approx(0.0, abs=1e-12)
    assert expected_slope(k2, teacher) == pytest.approx(pair["reverse_gradient"], abs=1e-5)
    assert expected_slope(losses.k3, teacher) == pytest.approx(pair["forward_gradient"], abs=1e-5)
    assert expected_slope(losses.k1_pg, teacher) == pytest.approx(pair["reverse_gradient"], abs=1e-5)
    assert expected_slope(k3_corrected, teacher) == pytest.approx(pair["reverse_gradient"], abs=1e-5)
    for name, loss in losses.DISTILL_LOSSES.items():
        if name.startswith("rkl"):
            assert loss.full
            assert value_and_slope(loss.function, teacher)[1] == pytest.approx(pair["reverse_gradient"], abs=1e-5)
    with pytest.raises(ConfigError, match=r"distill: loss: unknown 'k1'"):
        DistillTerm.of("k1")
    with pytest.raises(ConfigError, match=r"distill: loss: unknown 'rkl_k3'"):
        DistillTerm.of("rkl_k3")
    assert losses.k3_distill.__doc__ is not None
    assert "KL(teacher to student)" in losses.k3_distill.__doc__


def test_k3_one_token_is_scored_at_its_own_position(pairs: dict[str, Any], make_decoder: Callable[..., Any]) -> None:
    """AReaL#1728, PR #1729, maxtext#2103: teacher scores were shifted by one, and a response of one token had none."""
    renderer = ByteRenderer()
    response = pairs["one_token_response"]
    action = Action(
        text="g", command="g", parse=ParseOutcome.ENDED_WITHOUT_STOP, token_ids=tuple(response["response_ids"])
    )
    trajectory = make_trajectory("s", [action], ["?"])
    model = make_decoder(renderer.vocab_size)
    scorer = SelfScorer(model, refresh="fixed", vocabulary_id=renderer.vocabulary_id)
    supervision = StepSupervision(
        trajectory_id=trajectory.trajectory_id, step_mask=(True,), step_weights={DISTILL: (1.0,)}, source="all"
    )
    [sample] = build_samples(trajectory, supervision, renderer)
    assert list(sample.token_ids) == [*response["prompt_ids"], *response["response_ids"]]
    scores, ledger = score_steps([trajectory], None, scorer, renderer)
    [attached], _ = attach_teacher([sample], scores)
    with torch.no_grad():
        logits = model(torch.tensor([sample.token_ids])).logits[0]
    own = logits[3].log_softmax(-1)[103].item()
    assert attached.teacher_logprobs == (None, None, None, None, pytest.approx(own, abs=1e-6))
    assert (ledger.scored_tokens, ledger.failed) == (1, {})


def test_k3_the_student_as_its_own_teacher_has_nothing_to_say(make_decoder: Callable[..., Any]) -> None:
    """AReaL#1728, maxtext#2103: with teacher = student each position must differ by 0, the first one after BOS too."""
    model = make_decoder()
    request = ScoreRequest(request_id="r", token_ids=np.array([1, 7, 3, 9, 2]), positions=np.arange(1, 5))
    scorer = SelfScorer(model, refresh="current", vocabulary_id="numbers")
    [mine] = LocalScorer(model, vocabulary_id="numbers").score([request])
    [theirs] = scorer.score([request])
    assert isinstance(mine, TokenScores)
    assert isinstance(theirs, TokenScores)
    assert np.isfinite(theirs.logprobs).all()
    assert (theirs.logprobs - mine.logprobs).tolist() == [0.0] * 4
    with pytest.raises(SupervisionError, match=r"expected ascending ones from 1 to 4"):
        replace(request, positions=np.array([0, 1]))


WIDE, NARROW = 40, 32
"""Stand for 152064 and 151936: one vocabulary, one output layer padded to a round number."""


def test_k4_a_padded_output_layer_is_the_same_vocabulary() -> None:
    """trl#2215, trl#3028, trl#4562, unsloth-zoo PR #965: equal tokenizers were refused, or glued, by the widths of logits."""
    generator = torch.Generator().manual_seed(3)
    student = torch.randn(5, NARROW, generator=generator, dtype=torch.float64).log_softmax(-1)
    logits = torch.randn(5, WIDE, generator=generator, dtype=torch.float64)
    logits[:, NARROW:] = -30.0
    teacher, sliced = logits.log_softmax(-1), logits[:, :NARROW].log_softmax(-1)
    own, theirs = losses.shared_ids(student, teacher)
    assert torch.allclose(own, student)
    assert (theirs - teacher[:, :NARROW]).abs().max() < 1e-6
    assert torch.allclose(theirs, sliced)
    for direction, loss in (("reverse", losses.rkl_full), ("forward", losses.fkl_full)):
        expected = loss(student, sliced)
        assert torch.allclose(loss(*losses.shared_ids(student, teacher)), expected)
        assert full_kl(student.numpy(), teacher.numpy(), direction) == pytest.approx(expected.numpy(), abs=1e-9)
        assert full_kl(teacher.numpy(), student.numpy(), direction) == pytest.approx(
            loss(sliced, student).numpy(), abs=1e-9
        )


def test_k4_spare_rows_that_hold_probability_are_told() -> None:
    """trl#6252, unsloth-zoo PR #965: rows that no id has were cut off with the probability that stood there."""
    student = torch.zeros(1, NARROW, dtype=torch.float64).log_softmax(-1)
    teacher = torch.zeros(1, WIDE, dtype=torch.float64).log_softmax(-1)
    message = r"8 output rows of the teacher beyond the 32 shared ids hold up to 0\.2 of its probability"
    with pytest.raises(TrainingError, match=message):
        losses.shared_ids(student, teacher)
    with pytest.raises(SupervisionError, match=message):
        full_kl(student.numpy(), teacher.numpy())


def test_k4_permuted_ids_are_refused_by_their_bytes(tmp_path: Path) -> None:
    """trl#4562, trl#6252: two vocabularies of one size were taken for one; two words had each other's id."""
    start = student_path("builtin:household_tiny")
    for path in start.iterdir():
        if path.is_file() and path.name != "tokenizer.json":
            (tmp_path / path.name).write_bytes(path.read_bytes())
    tokenizer = json.loads((start / "tokenizer.json").read_text())
    text = json.dumps(tokenizer)
    renderer = load_renderer(start)
    first, second = (renderer.action_ids(Action.of(word))[0] for word in ("look", "inventory"))
    names = {first: renderer.decode([first]), second: renderer.decode([second])}
    tokens: dict[str, int] = tokenizer["model"]["vocab"]
    tokens[names[first]], tokens[names[second]] = second, first
    (tmp_path / "tokenizer.json").write_text(json.dumps(tokenizer))
    assert len(json.dumps(tokenizer)) == len(text), "the sizes are equal"
    scorer = LocalScorer(tmp_path, device="cpu")
    assert scorer.model.config.vocab_size == LocalScorer(start, device="cpu").model.config.vocab_size
    with pytest.raises(TeacherError) as refused:
        check_vocabulary(scorer, renderer)
    low, high = sorted(names)
    assert (
        f"(id {low} is {names[high].encode()!r} to it and {names[low].encode()!r} to the student; "
        f"id {high} is {names[low].encode()!r} to it and {names[high].encode()!r} to the student)"
    ) in str(refused.value)


def test_k6_a_teacher_that_tells_its_top_two(pairs: dict[str, Any]) -> None:
    """trl PR #5594, verl PR #5041: ids that the teacher had not told stood at -inf, and the reverse KL was NaN."""
    pair = pairs["top_two_of_five"]
    teacher = log([*pair["teacher_top"], 0.0, 0.0, 0.0])
    for options, expected in (({}, "reverse_with_bucket"), ({"renormalise": True}, "reverse_renormalised")):
        logits = torch.zeros(1, 5, dtype=torch.float64, requires_grad=True)
        value = losses.rkl_topk(logits.log_softmax(-1), teacher, k=5, **options)
        assert value.item() == pytest.approx(pair[expected], abs=1e-4)
        value.sum().backward()
        assert logits.grad is not None
        assert bool(torch.isfinite(logits.grad).all())
        # Downhill is towards what the teacher said of the two.
        assert logits.grad[0, 0] < logits.grad[0, 1]
    assert DistillTerm.of("rkl_topk", k=2, renormalise=True).name == "rkl_topk k=2 renormalise=True"
    assert DISTILL_LOSS_OPTIONS["rkl_topk"] == ("k", "renormalise")


def test_k6_the_divergence_of_a_step_has_a_bucket(pairs: dict[str, Any]) -> None:
    """verl PR #5041: without the rest of the mass the sum over two ids was negative."""
    pair = pairs["top_two_of_five"]
    told = np.log(np.array([pair["teacher_top"]]))
    mine = np.log(np.array([pair["student"][:2]]))
    assert topk_kl(mine, told) == pytest.approx([pair["reverse_with_bucket"]], abs=1e-4)


@pytest.mark.parametrize("name", [name for name, loss in losses.DISTILL_LOSSES.items() if loss.full])
def test_k6_what_a_teacher_calls_impossible_gives_no_nan(name: str) -> None:
    """trl PR #5594: 0 times infinity, in the value or only in the gradient."""
    teacher = log([0.6, 0.3, 0.1, 0.0, 0.0])
    logits = torch.tensor([[0.3, -0.2, 0.9, 0.1, -0.5]], dtype=torch.float64, requires_grad=True)
    value = losses.DISTILL_LOSSES[name].function(logits.log_softmax(-1), teacher).sum()
    assert not math.isnan(value.item())
    if name == "rkl_full":
        assert value.item() == math.inf, "the student says what the teacher never would"
        return
    value.backward()
    assert logits.grad is not None
    assert bool(torch.isfinite(logits.grad).all())


@pytest.mark.parametrize(
    "name", [name for name, loss in losses.DISTILL_LOSSES.items() if loss.full and "fkl" not in name]
)
def test_k6_a_token_that_the_student_cannot_say_has_no_gradient(name: str) -> None:
    """verl PR #5041: the value was masked and its gradient was not: 0 times infinity again, one line further on."""
    logits = torch.tensor([[0.3, -0.2, -math.inf]], dtype=torch.float64, requires_grad=True)
    value = losses.DISTILL_LOSSES[name].function(logits.log_softmax(-1), log([0.6, 0.3, 0.1])).sum()
    value.backward()
    assert math.isfinite(value.item())
    assert logits.grad is not None
    assert bool(torch.isfinite(logits.grad).all())
    assert logits.grad[0, 2] == 0.0


def test_k6_an_infinite_loss_is_refused_before_it_reaches_the_weights(
    make_decoder: Callable[..., Any], make_sample: Callable[..., TrainingSample]
) -> None:
    """trl PR #5594: the update was made with NaN."""
    model = make_decoder()
    teacher = torch.zeros(len(model.lm_head.weight)).log_softmax(-1)
    teacher[5:] = -math.inf
    updater = distilling(model, "rkl_full", lambda rows: teacher.expand(sum(len(row.trained) for row in rows), -1))
    with pytest.raises(TrainingError, match=r"the loss is inf, expected a finite number"):
        updater.accumulate(taught_rows([make_sample("s", 3, 4)]))


def distilling(
    model: Any, loss: str, teacher: Callable[[Sequence[Row]], Tensor] | None = None, coefficient: float = 0.5
) -> Updater:
    config = RLConfig(distill_coefficient=coefficient, reference_coefficient=0.0, row_layout="padded")
    return Updater(TrainedPositions(model), config, DistillTerm.of(loss), teacher)


def taught_rows(samples: Sequence[TrainingSample], taught: bool = True) -> list[Row]:
    """Policy tokens with credit, each also taught, or none."""
    made = []
    for sample in samples:
        weights = sample.loss_weights[LossComponent.SFT]
        length = len(sample.token_ids)
        made.append(
            replace(
                sample,
                loss_weights={PG: weights, DISTILL: weights if taught else (0.0,) * length},
                advantages=(1.0,) * length,
                rollout_logprobs=(-4.0,) * length,
                teacher_logprobs=(-2.0,) * length,
            )
        )
    uses = [SampleUse(index, 0) for index in range(len(made))]
    return make_rows(made, uses, [PG, DISTILL], streams=("advantages", "rollout_logprobs", "teacher_logprobs"))


def test_k8_the_share_of_each_component_is_told(
    make_decoder: Callable[..., Any], make_sample: Callable[..., TrainingSample]
) -> None:
    """atropos#456, verl#7495: a coefficient was set and never multiplied with anything; nothing showed it."""
    figures = distilling(make_decoder(), "k1_pg").accumulate(taught_rows([make_sample("s", 3, 4)]))
    policy, teacher = abs(figures["pg/loss"]), abs(0.5 * figures["distill/loss"])
    assert figures["pg/share"] == pytest.approx(policy / (policy + teacher))
    assert figures["distill/share"] == pytest.approx(teacher / (policy + teacher))
    assert figures["distill/share"] > 0.01
    untaught = distilling(make_decoder(), "k1_pg").accumulate(taught_rows([make_sample("s", 3, 4)], taught=False))
    assert "distill/share" not in untaught
    assert untaught["pg/share"] == 1.0
    # And what is told is what happens: the gradient grows with the coefficient.
    none, half, whole = (gradient_at(make_decoder(), value, make_sample("s", 3, 4)) for value in (0.0, 0.5, 1.0))
    assert (half - none).abs().max() > 1e-3
    assert torch.allclose(whole - none, 2 * (half - none), rtol=1e-4, atol=1e-6)


def gradient_at(model: Any, coefficient: float, sample: TrainingSample) -> Tensor:
    distilling(model, "k1_pg", coefficient=coefficient).accumulate(taught_rows([sample]))
    return torch.cat([one.grad.flatten() for one in model.parameters()])


class SilentGuide:
    """A teacher that chooses no step at all."""

    def attach(self, student: Any, state: Any) -> None:
        pass

    def guide(self, groups: Any, tasks: Any, student: Any, round_index: int) -> Any:
        from tutelage.training.rl_round import GuidedRound

        return GuidedRound(guidance={}, metrics={}, teacher_tokens=0)

    def distributions(self, trajectory_ids: Sequence[str]) -> dict[str, Any]:
        return {}

    def identity(self) -> dict[str, Any]:
        return {"guide": "silent"}

    def state(self) -> dict[str, Any]:
        return {}


SHORT: dict[str, Any] = {
    "tasks_per_round": 1, "group_size": 2, "updates_per_round": 1, "learning_rate": 2e-3, "num_threads": 1,
    "warmup_updates": 0, "keep_trajectories": True,
}  # fmt: skip


def test_k8_a_teacher_that_never_reaches_the_loss_is_an_error(tmp_path: Path) -> None:
    """atropos#456, verl#7495: distillation was configured, and the loss was that of plain reinforcement learning."""
    tasks = load_tasks("household", "train", 0, 1, size="small", max_steps=4)
    config = RLConfig(num_rounds=1, distill_coefficient=0.1, **SHORT)
    with pytest.raises(TrainingError, match=r"component distill: coefficient 0\.1, but its weights are zero in all 2"):
        train_rl(
            student_path("builtin:household_tiny"), tasks, config, tmp_path / "out",
            guide=SilentGuide(), distill=DistillTerm.of("k1_pg"),
        )  # fmt: skip


def test_k8_the_sampler_plays_with_the_weights_that_were_updated(tmp_path: Path) -> None:
    """ms-swift#9855: the adapter was trained and never sent to the engine, which went on with the first weights."""
    tasks = load_tasks("household", "train", 0, 1, size="small", max_steps=4)
    start = student_path("builtin:household_tiny")
    options = {**SHORT, "group_size": 4, "learning_rate": 1e-2, "temperature": 1.5}
    train_rl(start, tasks, RLConfig(num_rounds=2, **options), tmp_path / "out")
    played = [
        read_records(tmp_path / "out" / "rounds" / f"{round_index:05d}.jsonl", "trajectory") for round_index in range(2)
    ]
    versions = [{step.policy_version for one in round for step in one.steps} for round in played]
    assert versions == [{"household_tiny@round-0"}, {"household_tiny@round-1"}]
    rows = [json.loads(line)["values"] for line in (tmp_path / "out" / "metrics.jsonl").read_text().splitlines()]
    assert rows[0]["grad_norm"] > 1e-3, "the first round has changed the weights"
    # The first ratio of a round compares who played with who is trained: 1 only if they are the same weights.
    assert [row["pg/first_ratio"] for row in rows] == pytest.approx([1.0, 1.0], abs=1e-4)
    # Scored with the first weights, the second round's actions have other log-probabilities than they were played with.
    scorer = LocalScorer(start, temperature=1.5, device="cpu")
    [scores], _ = score_steps(played[1][:1], None, scorer, load_renderer(start))
    before = [value for step in scores.logprobs for value in step or ()]
    then = [value for step in played[1][0].steps for value in step.action.rollout_logprobs or ()]
    assert np.abs(np.array(before) - np.array(then)).max() > 1e-3
