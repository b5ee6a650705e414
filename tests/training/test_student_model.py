"""The student folder: what transformers loads is what the renderer says."""

import json

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from tutelage.errors import ConfigError
from tutelage.rendering.load import load_renderer
from tutelage.students import student_path
from tutelage.training.augment import read_entities
from tutelage.training.household_vocab import entities
from tutelage.training.student_model import new_student
from tutelage.types import Action, Message, Observation

SYSTEM = Message(role="system", content="look")
INTRO = Message(role="user", content="You arrive at drawer 3. The drawer 3 is closed.\n\n ü\x00 <0x41> apple 12")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return new_student(tmp_path_factory.mktemp("student") / "tiny", hidden=32, layers=1, heads=2, seed=3)


def test_transformers_loads_it(folder):
    model = AutoModelForCausalLM.from_pretrained(folder)
    renderer = load_renderer(folder)
    assert model.config.vocab_size == renderer.vocab_size
    assert model.generation_config.eos_token_id == model.config.eos_token_id == renderer.stop_token_id
    assert model.generation_config.pad_token_id == renderer.pad_token_id
    assert model.lm_head.weight is model.model.embed_tokens.weight


def test_the_same_seed_gives_the_same_bytes(folder, tmp_path):
    state = torch.random.get_rng_state()
    new_student(tmp_path / "again", hidden=32, layers=1, heads=2, seed=3)
    assert torch.equal(torch.random.get_rng_state(), state)
    names = sorted(path.name for path in folder.iterdir())
    assert names == sorted(path.name for path in (tmp_path / "again").iterdir())
    for name in names:
        assert (folder / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


def test_heads_must_divide_hidden(tmp_path):
    with pytest.raises(ConfigError, match="hidden=100 with heads=3"):
        new_student(tmp_path, hidden=100, heads=3)


def test_the_chat_template_gives_the_renderers_ids(folder):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    renderer = load_renderer(folder)
    first = Observation(messages=(SYSTEM, INTRO))
    second = Observation.of("Nothing happens.")
    expected = renderer.observation_ids(first, after=None)
    chat = [{"role": "system", "content": SYSTEM.content}, {"role": "user", "content": INTRO.content}]
    assert tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=False) == expected
    action = renderer.action_ids(Action.of("open drawer 3"))
    chat.append({"role": "assistant", "content": "open drawer 3"})
    assert tokenizer.apply_chat_template(chat, return_dict=False) == expected + action
    chat.append({"role": "user", "content": second.text})
    expected += action + renderer.observation_ids(second, after=Action.of("open drawer 3"))
    assert tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=False) == expected


def test_the_chat_template_marks_what_the_assistant_said(folder):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    chat = [{"role": "user", "content": "look"}, {"role": "assistant", "content": "open drawer 3"}]
    masked = tokenizer.apply_chat_template(chat, return_dict=True, return_assistant_tokens_mask=True)
    #                                    bos obs look act open drawer end
    assert masked["assistant_masks"] == [0, 0, 0, 0, 1, 1, 1]


def test_the_tokenizer_is_lossless_in_transformers_too(folder):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    renderer = load_renderer(folder)
    text = INTRO.content + "teapot 1 <|obs|> \n\n  go to  drawer 31\ufffd\U0001f600"
    ids = tokenizer(text, split_special_tokens=True)["input_ids"]
    assert ids == renderer.encode(text)
    assert tokenizer.decode(ids) == text


def test_entities_json_names_each_thing(folder):
    renderer = load_renderer(folder)
    rows = read_entities(folder)
    assert [renderer.decode([row["id"]]) for row in rows] == [thing.text for thing in entities()]
    assert rows[0] == {"id": rows[0]["id"], "kind": "object", "type": "alarmclock", "number": None, "group": "movable"}


def test_things_of_one_type_or_number_start_alike(folder):
    weight = AutoModelForCausalLM.from_pretrained(folder).model.embed_tokens.weight.detach().numpy()
    rows = {thing["type"] + str(thing["number"] or ""): weight[thing["id"]] for thing in read_entities(folder)}

    def cosine(a, b):
        return float(np.dot(rows[a], rows[b]) / np.linalg.norm(rows[a]) / np.linalg.norm(rows[b]))

    assert cosine("drawer3", "drawer7") > 0.25
    assert cosine("drawer3", "drawer") > 0.25
    assert cosine("drawer3", "apple3") > 0.25
    assert abs(cosine("drawer3", "apple2")) < 0.45


def test_the_built_in_student_is_small_and_whole():
    folder = student_path("builtin:household_tiny")
    assert sum(path.stat().st_size for path in folder.iterdir()) < 3_000_000
    assert json.loads((folder / "config.json").read_text())["dtype"] == "float32"
    assert AutoModelForCausalLM.from_pretrained(folder).dtype == torch.float32
    record = json.loads((folder / "pretrain.json").read_text())
    assert record["num_tokens"] >= record["config"]["num_tokens"]


def test_unknown_students_are_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"unknown 'household_tyni'. Did you mean 'household_tiny'"):
        student_path("builtin:household_tyni")
    with pytest.raises(ConfigError, match=r"no config.json, expected a model folder"):
        student_path(tmp_path)
    assert student_path(student_path("builtin:household_tiny")) == student_path("builtin:household_tiny")
