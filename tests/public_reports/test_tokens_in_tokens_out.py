"""Reports about sampled ids: what was sampled is what is trained, and all numbers per token stay in one column."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from tutelage.cli.main import main
from tutelage.rendering.base import Renderer
from tutelage.rendering.load import load_renderer
from tutelage.store import RecordStore
from tutelage.supervision.samples import SampleLedger, build_samples
from tutelage.supervision.step_masks import all_steps
from tutelage.testing import make_trajectory
from tutelage.training.batching import STREAMS, SampleUse, collate, make_rows
from tutelage.training.forward import TrainedPositions
from tutelage.training.losses import weighted_sum
from tutelage.types import Action, LossComponent, ParseOutcome, StepSupervision, TrainingSample, Trajectory

PG, SFT, DISTILL = LossComponent.PG, LossComponent.SFT, LossComponent.DISTILL


@pytest.fixture(scope="module")
def two_ways() -> Tokenizer:
    """Spells hello as [hel, lo]; [he, llo] is there too, and a model may sample it."""
    letters = pre_tokenizers.ByteLevel.alphabet()
    merges = [("h", "e"), ("l", "o"), ("he", "l"), ("l", "lo")]
    vocabulary = {token: index for index, token in enumerate([*sorted(letters), "he", "lo", "hel", "llo"])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<s>", "</s>", "<|turn|>", "<|end|>"])
    return tokenizer


@pytest.fixture(scope="module")
def folder(chat_folder: Callable[..., Path], two_ways: Tokenizer) -> Path:
    return chat_folder("newline_after_turn_end", two_ways)


@pytest.fixture(scope="module")
def renderer(folder: Path) -> Renderer:
    return load_renderer(folder)


def sampled(two_ways: Tokenizer, pieces: Sequence[str], *, stop: bool) -> Action:
    """An action with ids as a model gave them, each with a log-probability of its own."""
    ids = [two_ways.token_to_id(piece) for piece in (*pieces, *(["<|end|>"] if stop else []))]
    return Action(
        text=two_ways.decode(ids),
        command=two_ways.decode(ids),
        parse=ParseOutcome.CLEAN if stop else ParseOutcome.ENDED_WITHOUT_STOP,
        token_ids=tuple(ids),
        rollout_logprobs=tuple(-0.5 - index for index in range(len(ids))),
    )


def test_t1_sampled_ids_are_kept(two_ways: Tokenizer, renderer: Renderer, make_decoder: Callable[..., Any]) -> None:
    """rllm PR #272, trl#5144, stanford-cs336 assignment 5 #15: the text was encoded again, and log-probs no longer fitted."""
    assert two_ways.encode("hello").tokens == ["hel", "lo"]
    action = sampled(two_ways, ["he", "llo"], stop=False)
    assert action.text == "hello"
    trajectory = make_trajectory("s", [action], ["?", "end"])
    ledger = SampleLedger()
    learnt = StepSupervision(
        trajectory_id=trajectory.trajectory_id, step_mask=(True,), step_weights={PG: (1.0,)}, source="test",
        step_advantages=(1.0,),
    )  # fmt: skip
    [sample] = build_samples(trajectory, learnt, renderer, ledger=ledger)
    trained = [index for index, on in enumerate(sample.loss_mask) if on]
    assert [two_ways.id_to_token(sample.token_ids[index]) for index in trained] == ["he", "llo"]
    assert (ledger.sampled_actions, ledger.drifted_actions) == (1, 1)
    assert sample.rollout_logprobs is not None
    assert [sample.rollout_logprobs[index] for index in trained] == [-0.5, -1.5]
    assert sum(one is not None for one in sample.rollout_logprobs) == 2
    batch = collate(make_rows([sample], [SampleUse(0, 0)], [PG], streams=["rollout_logprobs"]))
    loss = weighted_sum(torch.nn.functional.cross_entropy(
        make_decoder(renderer.vocab_size)(batch.input_ids).logits[0, batch.predictors], batch.targets, reduction="none"
    ), batch.weights[PG])  # fmt: skip
    assert bool(torch.isfinite(loss))


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.lists(st.sampled_from(["he", "llo", "hel", "lo", "h", "e", "l", "o"]), min_size=1, max_size=4),
        min_size=1,
        max_size=3,
    )
)
def test_t1_any_spelling_is_kept_and_only_the_others_count_as_drift(
    two_ways: Tokenizer, renderer: Renderer, spelt: list[list[str]]
) -> None:
    """rllm PR #272, trl#5144: a round trip through text is used to count, never to train."""
    actions = [sampled(two_ways, pieces, stop=True) for pieces in spelt]
    trajectory = make_trajectory("s" * len(actions), actions)
    ledger = SampleLedger()
    [sample] = build_samples(trajectory, all_steps(trajectory), renderer, ledger=ledger)
    assert [sample.token_ids[start:end] for _, start, end in sample.step_spans] == [one.token_ids for one in actions]
    assert sample.rollout_logprobs is not None
    assert [sample.rollout_logprobs[start:end] for _, start, end in sample.step_spans] == [
        one.rollout_logprobs for one in actions
    ]
    others = sum(two_ways.encode("".join(pieces)).tokens != pieces for pieces in spelt)
    assert (ledger.sampled_actions, ledger.drifted_actions) == (len(actions), others)


def test_t1_by_the_command_line(
    two_ways: Tokenizer, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """stanford-cs336 assignment 5 #15: tokenised rows hold the sampled ids; rows of text, which would lose them, are refused."""
    trajectory = make_trajectory("s", [sampled(two_ways, ["he", "llo"], stop=True)], ["?", "end"])
    RecordStore(tmp_path / "t.jsonl", "trajectory").append(trajectory)
    source, out = str(tmp_path / "t.jsonl"), tmp_path / "rows.jsonl"
    given_options = ["--mask", "student_steps", "--model", str(folder), "--out", str(out)]
    assert main(["export", "trl", source, *given_options]) == 0
    row = json.loads(out.read_text())
    labels = [label for label in row["labels"] if label != -100]
    assert [two_ways.id_to_token(label) for label in labels] == ["he", "llo", "<|end|>"]
    assert main(["export", "openai", source, *given_options, "--force"]) != 0
    assert "sampled_ids_differ" in capsys.readouterr().err


# T3


def sample_of(name: str, spans: Sequence[tuple[int, int]]) -> TrainingSample:
    """Steps as (seen, done) lengths; every number per token tells its position, so that a shift shows."""
    letters = "".join("o" * seen + "s" * done for seen, done in spans)
    length = len(letters)
    mask = tuple(letter == "s" for letter in letters)

    def numbers(base: float) -> tuple[float, ...]:
        return tuple(-(base + index) if on else 0.0 for index, on in enumerate(mask))

    return TrainingSample(
        sample_id=name,
        trajectory_id=name,
        token_ids=tuple(10 + index for index in range(length)),
        token_actors=letters,
        loss_mask=mask,
        loss_weights={PG: tuple(float(on) for on in mask), DISTILL: tuple((1.0 + i) * on for i, on in enumerate(mask))},
        advantages=tuple(float(index) if on else 0.0 for index, on in enumerate(mask)),
        rollout_logprobs=tuple(value if on else None for value, on in zip(numbers(100), mask, strict=True)),
        teacher_logprobs=tuple(value if on else None for value, on in zip(numbers(200), mask, strict=True)),
        reference_logprobs=tuple(value if on else None for value, on in zip(numbers(300), mask, strict=True)),
    )


def columns(samples: Sequence[TrainingSample]) -> list[dict[str, Any]]:
    """For each trained token of a padded batch, every number that belongs to it, found by its column."""
    rows = make_rows(samples, [SampleUse(index, 0) for index in range(len(samples))], [PG, DISTILL], streams=STREAMS)
    batch = collate(rows, "padded")
    width = batch.input_ids.shape[1]
    return [
        {
            "row": (predictor + 1) // width,
            "column": (predictor + 1) % width,
            "id": batch.input_ids.reshape(-1)[predictor + 1].item(),
            "target": batch.targets[index].item(),
            "weight": batch.weights[PG][index].item(),
            "distill": batch.weights[DISTILL][index].item(),
            **{name: values[index].item() for name, values in batch.streams.items()},
        }
        for index, predictor in enumerate(batch.predictors.tolist())
    ]


def test_t3_columns_line_up_after_padding() -> None:
    """Trinity-RFT#259, AReaL#104, AReaL PR #1452, trl PR #6191: one array was padded on the other side than the rest."""
    long, short = sample_of("long", [(1, 2), (2, 1), (1, 2)]), sample_of("short", [(1, 1), (1, 1), (1, 1)])
    assert (len(long.token_ids), len(short.token_ids)) == (9, 6)
    rows = make_rows([long, short], [SampleUse(0, 0), SampleUse(1, 0)], [PG, DISTILL], streams=STREAMS)
    batch = collate(rows, "padded")
    assert batch.input_ids.tolist() == [list(range(10, 19)), [*range(10, 16), 0, 0, 0]]
    found = columns([long, short])
    assert [(one["row"], one["column"]) for one in found] == [
        (0, 1), (0, 2), (0, 5), (0, 7), (0, 8), (1, 1), (1, 3), (1, 5),
    ]  # fmt: skip
    total = sum(1.0 + column for one in (long, short) for column, on in enumerate(one.loss_mask) if on)
    for one in found:
        column = one["column"]
        assert one["id"] == one["target"] == 10 + column
        assert one["weight"] == pytest.approx(1 / 8)
        assert one["distill"] == pytest.approx((1.0 + column) / total)
        assert one["advantages"] == column
        assert one["rollout_logprobs"] == -(100.0 + column)
        assert one["teacher_logprobs"] == -(200.0 + column)
        assert one["reference_logprobs"] == -(300.0 + column)


spans = st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3)), min_size=1, max_size=3)


@settings(max_examples=40, deadline=None)
@given(st.lists(spans, min_size=2, max_size=4))
def test_t3_any_lengths(made: list[list[tuple[int, int]]]) -> None:
    """AReaL#104, trl PR #6191: whatever the lengths, each number stays with its token."""
    samples = [sample_of(f"s{index}", one) for index, one in enumerate(made)]
    found = columns(samples)
    assert len(found) == sum(one.num_trained_tokens for one in samples)
    for one in found:
        assert one["rollout_logprobs"] == -(90.0 + one["id"])
        assert one["teacher_logprobs"] == -(190.0 + one["id"])


def test_t3_padding_on_the_left_gives_the_same_loss(make_decoder: Callable[..., Any]) -> None:
    """trl PR #6191, Trinity-RFT#259: whoever pads on the left must meet the columns that ours have, three further on."""
    long, short = sample_of("long", [(1, 2), (2, 1), (1, 2)]), sample_of("short", [(1, 1), (1, 1), (1, 1)])
    model = make_decoder().double()
    rows = make_rows([long, short], [SampleUse(0, 0), SampleUse(1, 0)], [PG, DISTILL])
    batch = collate(rows, "padded")
    ours = TrainedPositions(model)(batch)
    ids, mask = np.zeros((2, 9), np.int64), np.zeros((2, 9), np.int64)
    for row, sample in enumerate((long, short)):
        ids[row, 9 - len(sample.token_ids) :] = sample.token_ids
        mask[row, 9 - len(sample.token_ids) :] = 1
    assert mask[1].tolist() == [0, 0, 0, 1, 1, 1, 1, 1, 1], "the shorter one starts at column 3"
    positions = np.maximum(np.cumsum(mask, 1) - 1, 0)
    logits = model(
        input_ids=torch.from_numpy(ids), attention_mask=torch.from_numpy(mask), position_ids=torch.from_numpy(positions)
    ).logits
    theirs = []
    for row, sample in enumerate((long, short)):
        for index in np.flatnonzero(sample.loss_mask):
            column = 9 - len(sample.token_ids) + int(index)
            target = torch.tensor(sample.token_ids[index])
            theirs.append(torch.nn.functional.cross_entropy(logits[row, column - 1], target).item())
    assert ours.tolist() == pytest.approx(theirs, abs=1e-9)


def test_t3_arrays_of_unequal_length_are_no_sample() -> None:
    """AReaL PR #1452, trl PR #6191: an array that was one short was padded to fit."""
    good = sample_of("s", [(1, 2)])
    for name in ("advantages", "rollout_logprobs", "teacher_logprobs", "reference_logprobs"):
        values = getattr(good, name)
        with pytest.raises(ValueError, match=rf"{name} has 2 entries, expected 3"):
            replace(good, **{name: values[:-1]})
    with pytest.raises(ValueError, match=r"loss_mask has 2 entries, expected 3"):
        replace(good, loss_mask=good.loss_mask[:-1])
    with pytest.raises(ValueError, match=r"loss_weights\['pg'\] has 2 entries, expected 3"):
        replace(good, loss_weights={PG: (0.0, 1.0)})


def test_t3_a_trajectory_of_three_steps_has_arrays_of_one_length(two_ways: Tokenizer, renderer: Renderer) -> None:
    """Trinity-RFT#259, AReaL#104: several turns with observations between, of which only the own tokens have numbers."""
    actions = [sampled(two_ways, pieces, stop=True) for pieces in (["he"], ["he", "llo"], ["h", "e", "lo"])]
    trajectory: Trajectory = make_trajectory("sss", actions)
    [sample] = build_samples(trajectory, all_steps(trajectory), renderer)
    assert sample.rollout_logprobs is not None
    streams = [sample.token_actors, sample.loss_mask, sample.loss_weights[SFT], sample.rollout_logprobs]
    assert {len(one) for one in streams} == {len(sample.token_ids)}
    assert [value is not None for value in sample.rollout_logprobs] == list(sample.loss_mask)
