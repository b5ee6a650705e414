"""BM25: scores by hand, ties, and an index on disk that is never trusted."""

from __future__ import annotations

import hashlib
import math
import os
import random
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from tutelage.envs.search import cache, sources
from tutelage.envs.search.bm25 import K1, B, Bm25Retriever, index_name, words_of
from tutelage.envs.search.cache import CacheWarning, default_cache_dir
from tutelage.envs.search.passages import Passage, read_passages
from tutelage.envs.search.questions import read_questions
from tutelage.errors import MissingExtra

SMALL = (
    Passage("Apple", "red fruit"),
    Passage("Pear", "green fruit fruit"),
    Passage("Sky", "blue"),
    Passage("Sea", "blue"),
    Passage("", "of the"),
)


def titles(found: list[list[Passage]]) -> list[list[str]]:
    return [[passage.title for passage in one] for one in found]


def test_words() -> None:
    assert words_of("Who wrote the “Émile-Book” in 1762?") == ["wrote", "emile", "book", "1762"]
    assert words_of("Which of the") == []


def score(tf: int, length: int, df: int) -> float:
    """Lucene's BM25 for one word; 5 passages with 3 + 4 + 2 + 2 + 0 words."""
    idf = math.log(1 + (5 - df + 0.5) / (df + 0.5))
    return idf * tf / (K1 * (1 - B + B * length / (11 / 5)) + tf)


def test_the_order_is_that_of_scores_by_hand() -> None:
    found = Bm25Retriever(SMALL).search(
        ["fruit", "red fruit", "Red apple?", "blue", "blue sea", "violet", "of the"], k=3
    )
    # fruit: twice in four words beats once in three.
    assert score(2, 4, 2) > score(1, 3, 2)
    # red fruit: the rare word decides.
    assert score(1, 3, 1) + score(1, 3, 2) > score(2, 4, 2)
    assert titles(found) == [
        ["Pear", "Apple"],
        ["Apple", "Pear"],
        ["Apple"],
        # A tie: the earlier passage first.
        ["Sky", "Sea"],
        ["Sea", "Sky"],
        [],
        [],
    ]


def test_scores_are_those_of_bm25s_and_ties_are_cut_by_position() -> None:
    bm25s = pytest.importorskip("bm25s")
    rng = random.Random(0)
    vocabulary = [f"w{index}" for index in range(30)]
    passages = [Passage(str(index), " ".join(rng.choices(vocabulary, k=rng.randint(3, 9)))) for index in range(200)]
    reference = bm25s.BM25(k1=K1, b=B, method="lucene")
    ids = {word: index for index, word in enumerate([*vocabulary, *map(str, range(200))])}
    texts = [words_of(f"{passage.title} {passage.text}") for passage in passages]
    reference.index(([[ids[word] for word in text] for text in texts], ids), show_progress=False)
    retriever = Bm25Retriever(passages)
    for _ in range(50):
        query = rng.choices(vocabulary, k=3)
        wanted = reference.get_scores_from_ids([ids[word] for word in query]).astype(float)
        top = retriever.top(" ".join(query), 10)
        assert len(top) == 10
        order = sorted(range(200), key=lambda index: (-wanted[index], index))
        assert [wanted[index] for index in top] == pytest.approx([wanted[index] for index in order[:10]], rel=1e-5)
        # Passages of one word multiset and length tie exactly; all others are told apart by their scores.
        assert top == sorted(top, key=lambda index: (-round(wanted[index], 4), index))


def test_no_words_at_all() -> None:
    assert Bm25Retriever([Passage("", "of the")]).search(["apple", ""], 3) == [[], []]


def test_without_bm25s_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bm25s", None)
    with pytest.raises(MissingExtra, match=r"retriever 'bm25' needs the extra 'search'"):
        Bm25Retriever(SMALL)


# On disk


def test_an_index_is_kept_and_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = Bm25Retriever(SMALL, tmp_path)
    (path,) = tmp_path.iterdir()
    assert path.name == index_name(SMALL)
    made_at = path.stat().st_mtime_ns
    second = Bm25Retriever(SMALL, tmp_path)
    assert path.stat().st_mtime_ns == made_at
    assert second.search(["red fruit"], 3) == first.search(["red fruit"], 3)


def test_other_passages_get_another_index(tmp_path: Path) -> None:
    Bm25Retriever(SMALL, tmp_path)
    changed = (*SMALL[:2], Passage("Sky", "grey"))
    assert titles(Bm25Retriever(changed, tmp_path).search(["grey"], 1)) == [["Sky"]]
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("damage", ["empty", "half", "flipped", "other arrays", "pickle", "text"])
def test_a_broken_index_is_made_anew(tmp_path: Path, damage: str) -> None:
    Bm25Retriever(SMALL, tmp_path)
    path = tmp_path / index_name(SMALL)
    whole = path.read_bytes()
    if damage == "other arrays":
        np.savez(path, data=np.zeros(3))
    elif damage == "pickle":
        np.savez(path, **{name: np.array([None]) for name in ("data", "indices", "indptr", "words")})
    else:
        place = whole.index(b"data.npy") + 200
        flipped = whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]
        path.write_bytes({"empty": b"", "half": whole[: len(whole) // 2], "flipped": flipped, "text": b"hello"}[damage])
    assert titles(Bm25Retriever(SMALL, tmp_path).search(["red fruit"], 3)) == [["Apple", "Pear"]]
    assert [one.name for one in tmp_path.iterdir()] == [path.name]
    with np.load(path) as again, np.load(_kept(tmp_path, whole)) as before:
        assert all((again[name] == before[name]).all() for name in before.files)


def _kept(folder: Path, content: bytes) -> Path:
    path = folder / "kept"
    path.write_bytes(content)
    return path


def test_a_folder_that_cannot_be_written_is_warned_of(tmp_path: Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("")
    with pytest.warns(CacheWarning, match="give another folder as cache_dir"):
        retriever = Bm25Retriever(SMALL, in_the_way)
    assert titles(retriever.search(["blue"], 1)) == [["Sky"]]


def test_a_failed_write_leaves_no_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache.os, "replace", full)
    with pytest.warns(CacheWarning, match="No space left"):
        Bm25Retriever(SMALL, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_usual_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_cache_dir() == tmp_path / "tutelage" / "search"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert default_cache_dir() == Path("/home/somebody/.cache/tutelage/search")


def test_threads_that_start_together_share_one_index(tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_text('{"title": "Sky", "text": "blue"}\n')
    settings = {"passages": "p.jsonl", "root": str(tmp_path), "cache_dir": str(tmp_path / "cache")}
    found: list[object] = []
    threads = [threading.Thread(target=lambda: found.append(sources.retriever_of(settings))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len({id(one) for one in found}) == 1


PRINT_HASH = """
import hashlib, sys
from tutelage.envs.search.bm25 import Bm25Retriever
from tutelage.envs.search.corpus import world_of
from tutelage.types import Split
passages = world_of("small", Split.TEST, 3, 1).passages
found = Bm25Retriever(passages).search([passage.text for passage in passages], 10)
print(hashlib.sha256(repr((passages, found)).encode()).hexdigest())
"""


def test_worlds_and_results_are_equal_in_any_process() -> None:
    hashes = {
        subprocess.run(
            [sys.executable, "-c", PRINT_HASH],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(hashes) == 1
    assert len(hashes.pop().strip()) == len(hashlib.sha256().hexdigest())


def test_real_passages(searchqa: Path, tmp_path: Path) -> None:
    passages = read_passages(searchqa / "2wiki_passages.jsonl.gz")
    assert len(passages) == 6119
    retriever = Bm25Retriever(passages, tmp_path)
    questions = read_questions(searchqa / "2wiki_dev.jsonl")
    found = retriever.search([question.question for question in questions], 3)
    shown = [
        len(set(question.supporting_titles) & {passage.title for passage in passages_of})
        / len(set(question.supporting_titles))
        for question, passages_of in zip(questions, found, strict=True)
    ]
    # Titles found by the bare question, the figure of the page in docs/.
    assert sum(shown) / len(shown) == pytest.approx(0.75, abs=0.02)
