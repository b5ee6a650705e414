"""A small chat model: its tokenizer keeps every text, its turns are ChatML."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM, AutoTokenizer

from tutelage.errors import ConfigError
from tutelage.training.bpe_vocab import BpeVocabulary
from tutelage.training.student_model import new_student
from tutelage.training.word_vocab import vocabulary_of

TEXTS = ["You open the drawer 12. In it, you see a pen 1.", "You close the drawer 12.", "You open the shelf 3."]
TOKENIZER = BpeVocabulary(TEXTS, num_merges=20).tokenizer()


def test_special_tokens_come_first_then_bytes_then_merges():
    assert [TOKENIZER.id_to_token(index) for index in range(4)] == ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "!"]
    assert TOKENIZER.get_vocab_size() == 3 + 256 + 20


def test_digits_stand_apart():
    assert TOKENIZER.encode(" 12").tokens == ["Ġ", "1", "2"]


@given(st.text())
def test_no_text_is_lost(text):
    ids = TOKENIZER.encode(text, add_special_tokens=False).ids
    assert TOKENIZER.decode(ids, skip_special_tokens=False) == text


def test_the_same_texts_give_the_same_vocabulary():
    assert BpeVocabulary(TEXTS, num_merges=20).tokenizer().to_str() == TOKENIZER.to_str()


def test_a_new_student_with_chat_turns(tmp_path):
    vocabulary = vocabulary_of("household", tokens="bpe", num_tasks=2, size="small")
    folder = new_student(tmp_path / "chat", vocabulary=vocabulary, hidden=32, layers=1, heads=2)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    messages = [{"role": "user", "content": "Look."}, {"role": "assistant", "content": "go"}]
    assert tokenizer.apply_chat_template(messages, tokenize=False) == (
        "<|im_start|>user\nLook.<|im_end|>\n<|im_start|>assistant\ngo<|im_end|>\n"
    )
    model = AutoModelForCausalLM.from_pretrained(folder)
    assert model.generation_config.eos_token_id == tokenizer.convert_tokens_to_ids("<|im_end|>") == 2
    assert model.generation_config.pad_token_id == 0


def test_nothing_to_learn_from():
    with pytest.raises(ConfigError, match="no text to learn from"):
        BpeVocabulary(["", ""])
