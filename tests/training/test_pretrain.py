"""The warm-up: which tokens are targets, the loss against plain torch, batches, and a tiny real run."""

import json

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from tutelage.envs.household.engine import NOTHING_HAPPENS
from tutelage.errors import ConfigError
from tutelage.rendering.role_tokens import RoleTokenRenderer
from tutelage.students import student_path
from tutelage.training.augment import read_entities
from tutelage.training.pretrain import (
    PlayTokens,
    PretrainConfig,
    batches_of_like_length,
    draw_play,
    play_tokens,
    pretrain,
    weighted_loss,
)
from tutelage.training.random_play import Play
from tutelage.training.student_model import new_student

FOLDER = student_path("builtin:household_tiny")
RENDERER = RoleTokenRenderer.from_folder(FOLDER)
THINGS = {row["id"] for row in read_entities(FOLDER)}
TINY = PretrainConfig(num_tokens=6000, batch_tokens=1000, warmup_updates=2, max_steps=8)


def spelled_targets(play, config):
    """(token before, target, weight) of each target."""
    tokens = play_tokens(play, RENDERER, THINGS, config)
    rows = zip(tokens.positions, tokens.targets, tokens.weights, strict=True)
    return [
        (RENDERER.decode([tokens.token_ids[at]]), RENDERER.decode([one]), round(float(weight), 3))
        for at, one, weight in rows
    ]


def test_commands_weigh_one_replies_half_and_first_mentions_nothing():
    reply = "You arrive at desk 1. On the desk 1, you see a mug 1."
    play = Play("desk 1.", ("go to desk 1", "go to bed 1", "look"), (reply, NOTHING_HAPPENS, "a mug 1."))
    assert spelled_targets(play, PretrainConfig()) == [
        ("<|act|>", "go to ", 1.0), ("go to ", "desk 1", 1.0), ("desk 1", "<|end|>", 1.0),
        ("<|obs|>", "You arrive at ", 0.5), ("You arrive at ", "desk 1", 0.5), ("desk 1", ". On the ", 0.5),
        (". On the ", "desk 1", 0.5), ("desk 1", ", you see a ", 0.5), ("mug 1", ".", 0.5),
        ("<|obs|>", NOTHING_HAPPENS, 0.5),
        ("<|act|>", "look", 1.0), ("look", "<|end|>", 1.0),
        ("<|obs|>", "a ", 0.5), ("a ", "mug 1", 0.5), ("mug 1", ".", 0.5),
    ]  # fmt: skip


def test_refused_commands_and_replies_can_be_weighted():
    play = Play("desk 1.", ("go to bed 1",), (NOTHING_HAPPENS,))
    config = PretrainConfig(invalid_weight=0.25, observation_weight=0.0)
    assert spelled_targets(play, config) == [
        ("<|act|>", "go to ", 0.25), ("go to ", "bed 1", 0.25), ("bed 1", "<|end|>", 0.25),
    ]  # fmt: skip


def test_known_chances_are_learnt_as_a_distribution():
    options = ({"go to desk 1": 0.2, "go to bed 1": 0.3, "look": 0.5},)
    play = Play("desk 1.", ("go to bed 1",), ("You arrive at bed 1.",), options)
    assert spelled_targets(play, PretrainConfig(observation_weight=0.0)) == [
        ("<|act|>", "go to ", 0.5), ("<|act|>", "look", 0.5),
        ("go to ", "desk 1", 0.4), ("go to ", "bed 1", 0.6),
        ("bed 1", "<|end|>", 1.0),
    ]  # fmt: skip
    plain = spelled_targets(play, PretrainConfig(observation_weight=0.0, soft_targets=False))
    assert plain == [("<|act|>", "go to ", 1.0), ("go to ", "bed 1", 1.0), ("bed 1", "<|end|>", 1.0)]


def test_the_loss_is_that_of_plain_torch():
    model = AutoModelForCausalLM.from_pretrained(FOLDER)
    batch = [play_tokens(draw_play(seed, TINY), RENDERER, THINGS, TINY) for seed in (0, 1, 2)]
    assert len({len(one.token_ids) for one in batch}) > 1
    total, weight = 0.0, 0.0
    with torch.no_grad():
        for one in batch:
            logprobs = model(torch.from_numpy(one.token_ids)[None]).logits[0].log_softmax(-1)
            total -= float((logprobs[one.positions, one.targets] * torch.from_numpy(one.weights)).sum())
            weight += float(one.weights.sum())
        loss = weighted_loss(model, batch, pad_token_id=RENDERER.pad_token_id)
    assert float(loss) == pytest.approx(total / weight, rel=1e-5)


def test_batches_hold_like_lengths_and_no_more_than_asked():
    def play(length):
        empty = np.zeros(0)
        return PlayTokens(np.zeros(length, dtype=np.int64), empty, empty, empty)

    batches = batches_of_like_length([play(length) for length in (5, 2, 9, 3, 30, 4)], 12)
    assert [[len(one.token_ids) for one in batch] for batch in batches] == [[2, 3, 4], [5], [9], [30]]


def test_both_kinds_of_play_and_both_sizes_are_drawn():
    plays = [draw_play(seed, PretrainConfig(hindsight_share=0.5, real_share=0.5)) for seed in range(30)]
    assert 8 <= sum(play.options == () for play in plays) <= 22
    assert len({play.intro for play in plays}) == 30
    assert all(play.options for play in (draw_play(seed, PretrainConfig(hindsight_share=0.0)) for seed in range(5)))


def test_a_tiny_run_learns_and_repeats_itself(tmp_path):
    start = new_student(tmp_path / "new", hidden=32, layers=1, heads=2)
    rows = []
    result = pretrain(start, tmp_path / "warm", TINY, on_update=rows.append)
    assert result.model_dir == tmp_path / "warm"
    assert result.num_updates == len(rows)
    assert [row["update_index"] for row in rows] == list(range(len(rows)))
    assert rows[-1]["num_tokens"] == result.num_tokens >= 6000
    assert rows[-1]["loss"] < rows[0]["loss"]
    assert rows[0]["learning_rate"] == pytest.approx(TINY.learning_rate / 2)
    assert rows[-1]["learning_rate"] < TINY.learning_rate / 4

    record = json.loads((tmp_path / "warm" / "pretrain.json").read_text())
    assert record["config"]["num_tokens"] == 6000
    assert record["num_updates"] == result.num_updates
    assert AutoModelForCausalLM.from_pretrained(tmp_path / "warm").dtype == torch.float32
    assert (tmp_path / "warm" / "model.safetensors").stat().st_size < (start / "model.safetensors").stat().st_size * 0.6

    pretrain(start, tmp_path / "again", TINY)
    for name in ("model.safetensors", "config.json", "pretrain.json", "entities.json", "tokenizer.json"):
        assert (tmp_path / "warm" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


def test_a_budget_below_one_batch_is_refused():
    with pytest.raises(ConfigError, match=r"num_tokens is 10, expected at least batch_tokens \(2048\)"):
        PretrainConfig(num_tokens=10)


def test_a_warm_up_without_commands_is_refused():
    with pytest.raises(ConfigError, match=r"command_weight is 0.0, expected more than 0"):
        PretrainConfig(command_weight=0.0)
