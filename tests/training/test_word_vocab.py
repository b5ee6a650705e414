"""A vocabulary of words: what is one token, what may stand in for what, and that no text is lost."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tutelage.errors import ConfigError
from tutelage.rendering.load import load_renderer
from tutelage.rendering.role_tokens import RoleTokenRenderer
from tutelage.training.augment import Renaming
from tutelage.training.student_model import new_student
from tutelage.training.word_vocab import WordVocabulary, forms_of, mine_vocabulary
from tutelage.types import Observation

NAMES = [
    "red mug",
    "oak lamp",
    "old clock",
    "tin box",
    "big shelf",
    "wet towel",
    "dry towel",
    "raw silk",
    "hot iron",
    "new rug",
]
EPISODES = [
    f"Shop. You look for: {name}.\nsearch[{name}]\nBack to Search | {name} | Price: $1{index}.5"
    for index, name in enumerate(NAMES)
]
VOCABULARY = mine_vocabulary(EPISODES)
RENDERER = RoleTokenRenderer(VOCABULARY.tokenizer())


def pieces(text: str) -> list[str]:
    return [RENDERER.decode([index]) for index in RENDERER.encode(text)]


def test_words_of_every_episode_are_closed_and_names_are_open():
    assert {"shop", "search", "price", "look"} & VOCABULARY.open_words == set()
    assert {"red", "mug", "oak", "lamp", "silk"} <= VOCABULARY.open_words
    assert "towel" not in VOCABULARY.open_words  # two of ten episodes: a fifth, and the bound is below it


def test_a_word_is_one_token_in_each_of_its_forms():
    assert forms_of("mug") == ["mug", " mug", "Mug", " Mug"]
    assert pieces("mug mug Mug Mug") == ["mug", " mug", " Mug", " Mug"]
    assert pieces("[red mug]") == ["[", "red", " mug", "]"]
    assert pieces("$12.5") == ["$", "1", "2", ".", "5"]


def test_stretches_that_come_in_every_episode_are_one_token():
    assert pieces("search[mug]\nBack to Search | mug") == ["search", "[", "mug", "]\nBack to Search |", " mug"]
    assert not any(word in phrase.lower().split() for phrase in VOCABULARY.phrases for word in ("red", "oak", "mug"))


def test_a_word_that_is_not_known_is_spelled_and_comes_back():
    assert RENDERER.decode(RENDERER.encode("zyzzyva Zyzzyva")) == "zyzzyva Zyzzyva"
    assert len(RENDERER.encode("qqq")) == 3


@given(st.text(max_size=80))
def test_no_text_is_lost(text: str):
    assert RENDERER.decode(RENDERER.encode(text)) == text


def test_the_same_texts_give_the_same_vocabulary_in_the_order_of_frequency():
    assert mine_vocabulary(EPISODES) == VOCABULARY
    assert mine_vocabulary(["b a a", "c a"], max_words=2, max_phrases=0).words == ("a", "b")


def test_texts_without_words_are_refused():
    with pytest.raises(ConfigError, match="no word in 1 episodes"):
        mine_vocabulary(["12 + 3"])


def test_a_student_of_the_vocabulary_renames_open_words_in_all_their_forms(tmp_path):
    folder = new_student(tmp_path / "student", vocabulary=VOCABULARY, hidden=32, layers=1, heads=2)
    renderer, rename = load_renderer(folder), Renaming(folder)
    ids = renderer.observation_ids(Observation.of("Shop. Mug search[red mug] Back to Search"), after=None)
    new = rename(np.array(ids), np.random.default_rng(0))
    text = renderer.decode(new[2:-1].tolist())
    assert text.startswith("Shop. ")
    assert text.endswith("] Back to Search")
    capital, _, rest = text.removeprefix("Shop. ").partition(" search[")
    red, mug = rest.removesuffix("] Back to Search").split(" ")
    assert capital == mug.capitalize()
    assert red != mug
    assert {red, mug} <= VOCABULARY.open_words


def test_forms_of_a_word_start_alike_and_other_words_do_not():
    tokenizer = VOCABULARY.tokenizer()
    weight = torch.empty(tokenizer.get_vocab_size(), 64)
    torch.manual_seed(0)
    VOCABULARY.init_embeddings(weight, tokenizer)
    mug, spaced, red = (weight[tokenizer.token_to_id(one)] for one in ("mug", " mug", "red"))
    assert torch.cosine_similarity(mug, spaced, dim=0) > 0.7
    assert torch.cosine_similarity(mug, red, dim=0).abs() < 0.4


def test_an_empty_set_of_open_words_renames_nothing(tmp_path):
    closed = WordVocabulary(words=("go", "stop"), open_words=frozenset())
    folder = new_student(tmp_path / "student", vocabulary=closed, hidden=32, layers=1, heads=2)
    ids = np.array(load_renderer(folder).observation_ids(Observation.of("go stop"), after=None))
    assert (Renaming(folder)(ids, np.random.default_rng(0)) == ids).all()
