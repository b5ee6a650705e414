"""The in-process scorer: packed, padded and one by one it gives what plain transformers gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM

from tutelage.errors import ConfigError, SupervisionError, TeacherError
from tutelage.policies.base import Access, ScoreFailure, Scorer, ScoreRequest, TokenScores
from tutelage.policies.local import LocalPolicy
from tutelage.policies.scorer import LocalScorer, SelfScorer
from tutelage.rendering.load import load_renderer
from tutelage.students import student_path

VOCABULARY = 40
TINY = "builtin:household_tiny"


def make_model(**options: Any) -> Any:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48,
        max_position_embeddings=64, initializer_range=0.2, **options,
    )  # fmt: skip
    return LlamaForCausalLM(config)


def make_requests(lengths: Sequence[int], seed: int = 0) -> list[ScoreRequest]:
    """Random ids; every third position is scored, the last one always."""
    rng = np.random.default_rng(seed)
    return [
        ScoreRequest(
            request_id=f"r{index}",
            token_ids=rng.integers(0, VOCABULARY, length),
            positions=np.arange(1 + (length - 2) % 3, length, 3),
            candidates=rng.integers(0, VOCABULARY, (len(np.arange(1 + (length - 2) % 3, length, 3)), 4)),
        )
        for index, length in enumerate(lengths)
    ]


def scorer_of(model: Any, **options: Any) -> LocalScorer:
    return LocalScorer(model, vocabulary_id="letters", **options)


def scores_of(scorer: Scorer, requests: Sequence[ScoreRequest], access: Access = "sampled", k: int = 64) -> list[Any]:
    answers = scorer.score(requests, access, k=k)
    assert all(isinstance(one, TokenScores) for one in answers)
    return cast(list[Any], answers)


def plain(model: Any, request: ScoreRequest, temperature: float = 1.0) -> torch.Tensor:
    """[M, V] of one request alone, by the model's own forward pass."""
    with torch.no_grad():
        logits = model(torch.from_numpy(request.token_ids[None])).logits[0]
    return (logits[request.positions - 1] / temperature).log_softmax(-1)


@pytest.mark.parametrize("options", [{}, {"num_key_value_heads": 2}, {"tie_word_embeddings": True}])
@pytest.mark.parametrize(
    ("row_layout", "micro_batch_tokens"), [("packed", 8192), ("packed", 40), ("padded", 8192), ("padded", 1)]
)
def test_scores_equal_plain_transformers(options: dict[str, Any], row_layout: Any, micro_batch_tokens: int) -> None:
    model = make_model(**options).double().eval()
    requests = make_requests([9, 33, 2, 17, 9])
    scorer = scorer_of(model, temperature=0.7, row_layout=row_layout, micro_batch_tokens=micro_batch_tokens)
    expected = [plain(model, request, 0.7) for request in requests]
    for request, full, got in zip(requests, expected, scores_of(scorer, requests, "full"), strict=True):
        assert got.request_id == request.request_id
        assert np.abs(got.full - full.numpy()).max() < 1e-6
        sampled = full[torch.arange(len(full)), torch.from_numpy(request.token_ids[request.positions])]
        assert np.abs(got.logprobs - sampled.numpy()).max() < 1e-6
        assert got.logprobs.dtype == np.float64
    for full, got in zip(expected, scores_of(scorer, requests, "topk", k=5), strict=True):
        top = full.topk(5, dim=-1)
        assert (got.top_ids == top.indices.numpy()).all()
        assert np.abs(got.top_logprobs - top.values.numpy()).max() < 1e-6
        assert got.full is None
    for request, full, got in zip(requests, expected, scores_of(scorer, requests, "candidates"), strict=True):
        assert request.candidates is not None
        assert np.abs(got.top_logprobs - np.take_along_axis(full.numpy(), request.candidates, 1)).max() < 1e-6


def test_few_passes_and_chunks_of_logits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lengths 9, 9, 33, 2, 17 in rows of 40 ids: (2, 9, 9, 17) and (33); chunks of the projection change nothing."""
    requests = make_requests([9, 9, 33, 2, 17])
    scorer = scorer_of(make_model().double(), micro_batch_tokens=40)
    whole = scores_of(scorer, requests)
    assert (scorer.num_passes, scorer.num_tokens) == (2, 70)
    monkeypatch.setattr("tutelage.policies.scorer.LOGITS_PER_CHUNK", 4 * VOCABULARY)
    for one, other in zip(whole, scores_of(scorer, requests), strict=True):
        assert np.abs(one.logprobs - other.logprobs).max() < 1e-12


def test_parts_of_scores() -> None:
    [request] = make_requests([17])
    [got] = scores_of(scorer_of(make_model()), [request], "full")
    part = got.part(1, 3)
    assert (len(got), len(part), part.full.shape) == (6, 2, (2, VOCABULARY))
    assert part.logprobs.tolist() == got.logprobs[1:3].tolist()


def test_float32_at_least() -> None:
    [got] = scores_of(scorer_of(make_model().bfloat16()), make_requests([9]), "full")
    assert got.full.dtype == np.float32
    assert np.exp(got.full).sum(-1) == pytest.approx(1.0, abs=1e-5)


def test_a_failed_row_is_a_failure_and_spoils_no_other() -> None:
    requests = make_requests([9, 65, 20])
    model = make_model()
    long = scorer_of(model).score(requests)
    assert [type(one) for one in long] == [TokenScores, ScoreFailure, TokenScores]
    assert long[1] == ScoreFailure(request_id="r1", reason="too_long", detail="65 ids, at most 64")
    short = scorer_of(model, max_context=12).score(requests)
    assert [isinstance(one, ScoreFailure) for one in short] == [False, True, True]
    # One id that poisons what comes after it: only the request that holds it fails.
    with torch.no_grad():
        model.model.embed_tokens.weight[7] = float("nan")
    clean, poisoned = make_requests([9, 9])
    clean.token_ids[clean.token_ids == 7] = 8
    poisoned.token_ids[0] = 7
    answers = scorer_of(model).score([clean, poisoned])
    assert isinstance(answers[0], TokenScores)
    assert isinstance(answers[1], ScoreFailure)
    assert answers[1].reason == "not_finite"


def test_a_live_model_is_scored_as_it_is_now_and_left_as_it_was() -> None:
    model = make_model(attention_dropout=0.5).train()
    scorer = scorer_of(model)
    [request] = make_requests([20])
    before = scores_of(scorer, [request])[0].logprobs
    assert (scores_of(scorer, [request])[0].logprobs == before).all()
    assert (model.training, model.config._attn_implementation) == (True, "sdpa")
    with torch.no_grad():
        model.model.layers[0].mlp.up_proj.weight.mul_(1.5)
    after = scores_of(scorer, [request])[0].logprobs
    assert np.abs(after - before).max() > 1e-3
    sampled = request.token_ids[request.positions]
    expected = plain(model.eval(), request).numpy()[np.arange(len(sampled)), sampled]
    assert np.abs(after - expected).max() < 1e-5


def test_a_policys_model_scores_without_disturbing_its_play() -> None:
    policy = LocalPolicy(TINY)
    scorer = LocalScorer(policy.model, vocabulary_id=policy.renderer.vocabulary_id)
    request = ScoreRequest(request_id="r", token_ids=np.arange(3, 40), positions=np.arange(1, 37))
    for layout in ("packed", "padded"):
        scorer.row_layout = layout
        got = scores_of(scorer, [request])[0].logprobs
        [expected] = scores_of(LocalScorer(TINY), [request])
        assert np.abs(got - expected.logprobs).max() < 1e-5
    assert policy.model.config._attn_implementation == "tutelage_kept_kv"


def test_a_folder_tells_version_vocabulary_and_limit() -> None:
    scorer = LocalScorer(TINY, name="big")
    assert isinstance(scorer, Scorer)
    assert scorer.version.startswith("household_tiny@")
    assert scorer.vocabulary_id == load_renderer(student_path(TINY)).vocabulary_id
    assert (scorer.max_context, scorer.name) == (4096, "big")
    assert LocalScorer(TINY, max_context=100).max_context == 100


def test_self_scorer_follows_its_student() -> None:
    student = make_model()
    [request] = make_requests([20])

    def rounds(refresh: Any, **options: Any) -> list[tuple[bool, float]]:
        """Rounds 0 to 4; after each, the student's weights grow. (changed, first weight of the teacher) per round."""
        with torch.no_grad():
            student.lm_head.weight[0, 0] = 0.0
        teacher = SelfScorer(student, refresh=refresh, vocabulary_id="letters", **options)
        seen = []
        for round_index in range(5):
            seen.append((teacher.on_round(round_index), round(teacher.model.lm_head.weight[0, 0].item(), 4)))
            assert not teacher.on_round(round_index)
            scores_of(teacher, [request])
            with torch.no_grad():
                student.lm_head.weight[0, 0] += 1.0
        return seen

    no, yes = False, True
    assert rounds("fixed") == [(no, 0.0)] * 5
    assert rounds("current") == [(no, 0.0), (no, 1.0), (no, 2.0), (no, 3.0), (no, 4.0)]
    assert rounds("every_n", every_n=2) == [(yes, 0.0), (no, 0.0), (yes, 2.0), (no, 2.0), (yes, 4.0)]
    assert rounds("ema", tau=0.5) == [(no, 0.0), (yes, 0.5), (yes, 1.25), (yes, 2.125), (yes, 3.0625)]


def test_self_scorer_resumes() -> None:
    student = make_model()
    teacher = SelfScorer(student, refresh="every_n", every_n=3, vocabulary_id="letters")
    teacher.on_round(3)
    with torch.no_grad():
        student.lm_head.weight.mul_(2.0)
    again = SelfScorer(student, refresh="every_n", every_n=3, vocabulary_id="letters")
    again.load_state_dict(teacher.state_dict())
    assert not again.on_round(3)
    assert torch.equal(again.model.lm_head.weight, teacher.model.lm_head.weight)
    assert not torch.equal(again.model.lm_head.weight, student.lm_head.weight)
    assert SelfScorer(student, refresh="current", vocabulary_id="letters").state_dict()["weights"] is None
    with pytest.raises(ConfigError, match="stored teacher has refresh 'every_n', expected 'fixed'"):
        SelfScorer(student, vocabulary_id="letters").load_state_dict(teacher.state_dict())


def test_refusals() -> None:
    model = make_model()
    with pytest.raises(ConfigError, match="temperature is 0"):
        scorer_of(model, temperature=0.0)
    with pytest.raises(ConfigError, match="a live module does not tell its vocabulary"):
        LocalScorer(model)
    with pytest.raises(ConfigError, match="unknown 'dense'"):
        scorer_of(model, row_layout="dense")
    with pytest.raises(ConfigError, match="every_n is 0"):
        SelfScorer(model, refresh="every_n", every_n=0, vocabulary_id="letters")
    with pytest.raises(TeacherError, match="teacher 'teacher': access 'best' is not one of"):
        scorer_of(model).score(make_requests([9]), cast(Access, "best"))
    bare = ScoreRequest(request_id="r", token_ids=np.arange(4), positions=np.array([1]))
    with pytest.raises(TeacherError, match="names no candidate ids"):
        scorer_of(model).score([bare], "candidates")
    for positions in ([0, 1], [1, 4], [2, 2]):
        with pytest.raises(SupervisionError, match="expected ascending ones from 1 to 3"):
            ScoreRequest(request_id="r", token_ids=np.arange(4), positions=np.array(positions))
    with pytest.raises(SupervisionError, match="candidates for 2 positions, expected 1"):
        ScoreRequest(
            request_id="r", token_ids=np.arange(4), positions=np.array([1]), candidates=np.zeros((2, 3), np.int64)
        )


def test_a_model_that_changes_its_logits_is_refused() -> None:
    model = make_model()
    model.lm_head.register_forward_hook(lambda module, inputs, output: 3 * output if output.ndim == 3 else output)
    with pytest.raises(TeacherError, match="LlamaForCausalLM changes its logits after the output projection"):
        scorer_of(model).score(make_requests([9]))


def test_a_sliding_window_needs_padded_rows() -> None:
    torch.manual_seed(0)
    model = MistralForCausalLM(
        MistralConfig(
            vocab_size=VOCABULARY, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2,
            intermediate_size=16, sliding_window=4, initializer_range=0.2,
        )
    ).double().eval()  # fmt: skip
    requests = make_requests([20, 9])
    with pytest.raises(ConfigError, match="Set row_layout to 'padded'"):
        scorer_of(model).score(requests)
    for request, got in zip(requests, scores_of(scorer_of(model, row_layout="padded"), requests, "full"), strict=True):
        assert np.abs(got.full - plain(model, request).numpy()).max() < 1e-6
