"""The in-process policy: cached play equals a full forward, whatever joins, leaves, or was done by others."""

from __future__ import annotations

import dataclasses
import json
import math
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM
from transformers.utils import logging as transformers_logging

from tutelage.errors import ConfigError, ContextOverflow, PolicyError
from tutelage.policies.base import PartialTrajectory, Policy
from tutelage.policies.local import LocalPolicy, base_folder, draw
from tutelage.rendering.context import Full, LastObservations, LastSteps
from tutelage.types import Action, Actor, Observation, ParseOutcome, Step, Task

BEGIN, ACT, END, PAD = 32, 33, 34, 35
TASK = Task(task_id="t-1", env="toy", goal="say something")


class LetterRenderer:
    """Ids 0..31 are characters; begin, generation prompt, end and padding follow."""

    name = "letters"
    stop_token_id = END
    pad_token_id = PAD
    vocab_size = 36

    def observation_ids(self, observation: Observation, *, first: bool) -> list[int]:
        return [BEGIN] * first + [ord(letter) % 32 for letter in observation.text] + [ACT]

    def action_ids(self, action: Action) -> list[int]:
        if action.token_ids is not None:
            return list(action.token_ids)
        return [ord(letter) % 32 for letter in action.text] + [END]

    def parse(self, token_ids: Sequence[int], *, stopped: bool) -> Action:
        text = self.decode(token_ids[:-1] if stopped else token_ids)
        outcome = ParseOutcome.CLEAN if stopped else ParseOutcome.ENDED_WITHOUT_STOP
        return Action(text=text, command=text, parse=outcome, token_ids=tuple(token_ids))

    def decode(self, token_ids: Sequence[int]) -> str:
        return "".join(chr(96 + token_id) if token_id < 32 else f"<{token_id}>" for token_id in token_ids)


def save_model(folder: Path, model: torch.nn.Module, stop_bias: float = 0.0) -> Path:
    """Save a random model whose stop token is about exp(stop_bias) times as probable as another one."""
    transformers_logging.disable_progress_bar()
    if stop_bias:
        # A tied head has no bias: the common part of all hidden states serves as one.
        with torch.no_grad():
            hidden = model.model(torch.arange(36)[None]).last_hidden_state[0]
            common = hidden.mean(0)
            model.lm_head.weight[END] += stop_bias * common / common.dot(common)
    model.save_pretrained(folder)
    return folder


def llama(**options: object) -> LlamaForCausalLM:
    torch.manual_seed(5)
    settings = {
        "vocab_size": 36, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256,
        "initializer_range": 0.2, "tie_word_embeddings": False, "bos_token_id": BEGIN, "eos_token_id": END,
        "pad_token_id": PAD,
    }  # fmt: skip
    return LlamaForCausalLM(LlamaConfig(**(settings | options)))


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("models") / "letters", llama(), stop_bias=3.0)


def policy(folder: Path, **options: object) -> LocalPolicy:
    return LocalPolicy(folder, renderer=LetterRenderer(), max_action_tokens=6, max_context=256, **options)


def start(number: int, text: str = "open the door") -> PartialTrajectory:
    return PartialTrajectory(
        trajectory_id=f"tr-{number}", task=TASK, steps=(), observation=Observation.of(text), seed=100 + number
    )


def after(so_far: PartialTrajectory, action: Action, text: str, actor: Actor = Actor.STUDENT) -> PartialTrajectory:
    step = Step(observation=so_far.observation, action=action, actor=actor)
    return dataclasses.replace(so_far, steps=(*so_far.steps, step), observation=Observation.of(text))


def expected_action(student: LocalPolicy, reference: torch.nn.Module, so_far: PartialTrajectory) -> Action:
    """The same sampling, one token at a time, each from a full forward of everything before it."""
    token_ids = student.context_ids(so_far)
    uniforms = student._uniforms(so_far)
    sampled: list[int] = []
    logprobs: list[float] = []
    while len(sampled) < student.max_action_tokens and END not in sampled:
        with torch.inference_mode():
            logits = reference(input_ids=torch.tensor([token_ids + sampled]), use_cache=False).logits[0, -1].double()
        probabilities = (logits / (student.temperature or 1.0)).softmax(-1).numpy()
        if student.temperature == 0.0:
            sampled.append(int(probabilities.argmax()))
        else:
            sampled.append(int(np.searchsorted(np.cumsum(probabilities), uniforms[len(sampled)], side="right")))
        logprobs.append(math.log(probabilities[sampled[-1]]))
    action = LetterRenderer().parse(sampled, stopped=sampled[-1] == END)
    return dataclasses.replace(action, rollout_logprobs=tuple(logprobs))


def assert_same(got: Action, expected: Action) -> None:
    assert got.rollout_logprobs == pytest.approx(expected.rollout_logprobs, abs=1e-5)
    assert got == dataclasses.replace(expected, rollout_logprobs=got.rollout_logprobs)


def play_ragged(student: LocalPolicy, reference: torch.nn.Module, turns: int = 6) -> list[Action]:
    """Six episodes that begin at turns 0, 0, 0, 1, 2, 2, end at turns 2, 4, never, ..., sometimes acted by an expert."""
    live: dict[int, PartialTrajectory] = {}
    actions: list[Action] = []
    begins, ends = (0, 0, 0, 1, 2, 2), (2, 4, 9, 9, 4, 9)
    for turn in range(turns):
        for number in range(6):
            if begins[number] == turn:
                live[number] = start(number, "abcdefghij" * (number + 1))
            if ends[number] == turn:
                student.release(live.pop(number).trajectory_id)
        acting = [number for number in live if (turn + number) % 4 != 3]
        got = dict(zip(acting, student.act_batch([live[number] for number in acting]), strict=True))
        for number in acting:
            assert_same(got[number], expected_action(student, reference, live[number]))
        actions += got.values()
        for number in live:
            action = got.get(number, Action.of("take the key"))
            actor = Actor.STUDENT if number in got else Actor.EXPERT
            live[number] = after(live[number], action, "you see" + " a door" * ((turn * number) % 5), actor)
    return actions


@pytest.mark.parametrize("rule", [Full(), LastObservations(n=2), LastSteps(n=1)], ids=["full", "last", "steps"])
@pytest.mark.parametrize("temperature", [1.0, 0.7, 0.0])
def test_ragged_episodes_equal_a_full_forward(model_dir: Path, rule: object, temperature: float) -> None:
    student = policy(model_dir, context_rule=rule, temperature=temperature)
    reference = AutoModelForCausalLM.from_pretrained(model_dir).eval()
    actions = play_ragged(student, reference)
    assert len(actions) == 17
    if temperature > 0:
        # Rows did leave the batch at different tokens, by the stop token and by the limit.
        assert {len(action.token_ids or ()) for action in actions} >= {1, 2, 3, 6}
