"""The dense retriever with a tiny encoder made here: nearness by hand, ties, vectors on disk."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import numpy as np
import pytest

from tutelage.envs.registry import make_env
from tutelage.envs.search.dense import DenseRetriever
from tutelage.envs.search.passages import Passage
from tutelage.errors import ConfigError, MissingExtra
from tutelage.tasks.registry import load_tasks
from tutelage.types import Action

WORDS = ["[PAD]", "[UNK]", "red", "green", "blue", "apple", "pear", "sky", "query", "passage", ":"]
PASSAGES = [Passage("apple", "red"), Passage("sky", "blue"), Passage("pear", "green"), Passage("sky", "blue")]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT without layers whose word vectors are unit vectors: a text is the set of its words."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    folder = tmp_path_factory.mktemp("encoder")
    words = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: index for index, word in enumerate(WORDS)}, unk_token="[UNK]")
    )
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="[PAD]", unk_token="[UNK]", model_max_length=32
    ).save_pretrained(folder)
    config = transformers.BertConfig(
        vocab_size=len(WORDS), hidden_size=12, num_hidden_layers=0, num_attention_heads=1, max_position_embeddings=32
    )
    model = transformers.BertModel(config, add_pooling_layer=False)
    with torch.no_grad():
        for weight in model.parameters():
            weight.zero_()
        model.embeddings.LayerNorm.weight.fill_(1.0)
        model.embeddings.word_embeddings.weight[: len(WORDS), : len(WORDS)] = torch.eye(len(WORDS))
    model.save_pretrained(folder)
    return folder


def titles(found: list[list[Passage]]) -> list[list[str]]:
    return [[passage.title for passage in one] for one in found]


def test_the_nearest_first_and_ties_by_position(encoder: Path) -> None:
    retriever = DenseRetriever(PASSAGES, str(encoder))
    found = retriever.search(["red apple", "blue", "green blue"], 3)
    assert titles(found)[0][0] == "apple"
    assert titles(found)[1][:2] == ["sky", "sky"]
    assert found[1][0] is PASSAGES[1]
    assert found[1][1] is PASSAGES[3]
    assert retriever.search([], 3) == []
    # A batch of texts of unequal length gives what each gives alone: the padding counts for nothing.
    alone = [retriever.search([query], 3)[0] for query in ("red apple", "blue", "green blue")]
    assert alone == found


def test_vectors_are_kept_by_the_weights_and_texts_they_were_made_of(encoder: Path, tmp_path: Path) -> None:
    first = DenseRetriever(PASSAGES, str(encoder), cache_dir=tmp_path)
    (path,) = tmp_path.iterdir()
    made_at = path.stat().st_mtime_ns
    again = DenseRetriever(PASSAGES, str(encoder), cache_dir=tmp_path)
    assert path.stat().st_mtime_ns == made_at
    assert again.search(["green"], 2) == first.search(["green"], 2)
    with np.load(path) as kept:
        assert kept["vectors"].shape == (4, 12)
        assert np.linalg.norm(kept["vectors"], axis=1) == pytest.approx([1.0] * 4)
    DenseRetriever(PASSAGES, str(encoder), cache_dir=tmp_path, passage_prefix="")
    DenseRetriever(PASSAGES[:2], str(encoder), cache_dir=tmp_path)
    assert len(list(tmp_path.iterdir())) == 3


def test_in_the_environment(encoder: Path, tmp_path: Path) -> None:
    (task,) = load_tasks(
        "search",
        "test",
        0,
        1,
        retriever="dense",
        retriever_options={"model": str(encoder)},
        cache_dir=tmp_path,
    )
    env = make_env(task)
    assert not env.inline
    env.reset(0)
    shown = env.step(Action.of("<search>apple</search>")).observation.text
    assert shown.count("\nDoc ") == 3
    assert [path.name.partition("-")[0] for path in tmp_path.iterdir()] == ["dense"]
    without = dataclasses.replace(task, settings={**task.settings, "retriever_options": {}})
    with pytest.raises(ConfigError, match=r"retriever 'dense': options .* missing a required argument: 'model'"):
        make_env(without).reset(0)


def test_without_transformers_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingExtra, match="retriever 'dense' needs the extra 'train'"):
        DenseRetriever(PASSAGES, "somewhere")


def test_no_encoder_there(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    with pytest.raises(ConfigError, match="no encoder at"):
        DenseRetriever(PASSAGES, str(tmp_path / "none"))
