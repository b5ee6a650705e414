"""A model that acts through a chat template: the samples give its tokens the log-probabilities that it acted with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import transformers

from tutelage.policies.base import PartialTrajectory
from tutelage.policies.local import LocalPolicy
from tutelage.rendering.load import load_renderer
from tutelage.supervision.samples import SampleLedger, build_samples
from tutelage.supervision.step_masks import student_steps
from tutelage.testing import make_trajectory
from tutelage.types import Action, Actor, Observation, Step, Task

TURNS = (("user", "q"), ("tool", "r <|im_end|>"), ("user", "s"), ("user", "t"))


@pytest.fixture
def chat_model(model_folder: Callable[[str], Path], tmp_path: Path) -> Callable[[str], Path]:
    """A model folder of a family with small random weights that end an answer soon."""

    def make(family: str) -> Path:
        folder = model_folder(family)
        for path in folder.iterdir():
            (tmp_path / path.name).write_bytes(path.read_bytes())
        renderer = load_renderer(folder)
        torch.manual_seed(3)
        config = transformers.LlamaConfig(
            vocab_size=renderer.vocab_size, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512, tie_word_embeddings=False,
        )  # fmt: skip
        model = transformers.LlamaForCausalLM(config)
        with torch.no_grad():
            common = model.model(torch.arange(renderer.vocab_size)[None]).last_hidden_state[0].mean(0)
            for stop in renderer.stop_token_ids:
                model.lm_head.weight[stop] += 4.5 / len(renderer.stop_token_ids) * common / common.dot(common)
        model.save_pretrained(tmp_path)
        return tmp_path

    return make


@pytest.mark.parametrize("family", ["smollm2", "qwen3", "next owns stop"])
def test_samples_hold_the_log_probabilities_of_acting(family: str, chat_model: Callable[[str], Path]) -> None:
    folder = chat_model(family)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    student = LocalPolicy(folder, max_action_tokens=12, max_context=512)
    task = Task(task_id="t", env="toy", goal="")
    lengths, num_forks = set(), 0
    for seed in range(8):
        steps: list[Step] = []
        for role, text in TURNS:
            seen = Observation.of(text, role=role)
            so_far = PartialTrajectory(
                trajectory_id=f"t{seed}", task=task, steps=tuple(steps), observation=seen, seed=seed
            )
            action, actor = student.act(so_far), Actor.STUDENT
            if len(steps) == 1:
                action, actor = Action.of("go to drawer 1"), Actor.EXPERT
            steps.append(Step(observation=seen, action=action, actor=actor))
            lengths.add(len(action.token_ids or ()))
        told = replace(make_trajectory("s", trajectory_id="t"), steps=tuple(steps), final_observation=None)
        ledger = SampleLedger()
        samples = build_samples(told, student_steps(told), student.renderer, ledger=ledger)
        num_forks += ledger.num_forks
        assert sum(sample.num_trained_tokens for sample in samples) == sum(
            len(step.action.token_ids or ()) for step in steps if step.actor is Actor.STUDENT
        )
        for sample in samples:
            with torch.inference_mode():
                logprobs = model(input_ids=torch.tensor([sample.token_ids])).logits[0].log_softmax(-1)
            trained = [place for place, mask in enumerate(sample.loss_mask) if mask]
            assert sample.rollout_logprobs is not None
            recorded = [sample.rollout_logprobs[place] for place in trained]
            expected = [float(logprobs[place - 1, sample.token_ids[place]]) for place in trained]
            assert recorded == pytest.approx(expected, abs=1e-4)
    assert len(lengths) > 3
    assert (num_forks > 0) is (family == "next owns stop")
