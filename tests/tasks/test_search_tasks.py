"""Search tasks: generated panels, files by split and data set, and what is refused."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tutelage.errors import ConfigError, FormatError
from tutelage.tasks.base import check_disjoint, manifest, manifest_hash
from tutelage.tasks.registry import load_tasks
from tutelage.tasks.search import SearchTasks
from tutelage.types import Split, Task


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "passages.jsonl", [{"title": "A", "text": "b"}])
    rows = [{"question": f"nq {number}?", "answer": [str(number)]} for number in range(4)]
    write(tmp_path / "nq" / "train.jsonl", rows[:3])
    write(tmp_path / "nq" / "test.jsonl", rows[2:])
    write(tmp_path / "hotpotqa" / "train.jsonl", [{"question": "hotpot?", "answer": "x"}])
    write(tmp_path / "hotpotqa_dev.jsonl", [{"question": "hotpot dev?", "answer": "x"}])
    write(tmp_path / "popqa.jsonl", [{"question": "pop?", "possible_answers": '["x"]'}])
    (tmp_path / "README.md").write_text("no questions")
    return tmp_path


def test_generated_tasks_by_their_values() -> None:
    tasks = load_tasks("search", "train", 58, 4)
    assert [task.task_id for task in tasks] == [f"sr-small-train-0000{number}" for number in (58, 59, 60, 61)]
    assert [task.kind for task in tasks] == ["two_hops", "three_hops"] * 2
    assert [task.settings["corpus"]["world"] for task in tasks] == [0, 0, 1, 1]
    first = tasks[0]
    settings = dict(first.settings)
    assert {len(settings.pop(name)) for name in ("content_hash", "passages_hash")} == {64}
    assert settings == {
        "question": first.goal,
        "golden_answers": settings["golden_answers"],
        "data_source": "generated",
        "corpus": {"size": "small", "split": "train", "seed": 0, "world": 0},
        "evidence": settings["evidence"],
        "max_steps": 4,
        "top_k": 3,
        "reward": "em",
        "retriever": "bm25",
    }
    assert len(settings["golden_answers"]) == 1
    assert len(settings["evidence"]) == 2
    json.dumps(settings)


def test_a_task_hangs_on_its_index_alone() -> None:
    assert load_tasks("search", "test", 7, 3) == load_tasks("search", "test", 0, 30)[7:10]
    assert len(load_tasks("search", "test")) == 120


def test_generated_splits_share_nothing() -> None:
    panels = [load_tasks("search", split, 0, 130) for split in Split]
    check_disjoint(*panels)
    assert all(len({task.settings["content_hash"] for task in panel}) == 130 for panel in panels)
    other_seed = load_tasks("search", "train", 0, 60, seed=7)
    assert other_seed[0].task_id == "sr-small@7-train-000000"
    check_disjoint(panels[0], other_seed)


def test_hops_can_be_chosen() -> None:
    assert {task.kind for task in load_tasks("search", "train", 0, 4, hops=[3])} == {"three_hops"}


# Files


def test_files_by_split_with_data_sets_in_turns(folder: Path) -> None:
    tasks = SearchTasks(questions=folder, passages=folder / "passages.jsonl")
    assert [task.task_id for task in tasks.load("train")] == [
        "sr-hotpotqa.train-000000",
        "sr-nq.train-000000",
        "sr-nq.train-000001",
    ]
    assert [task.task_id for task in tasks.load("validation")] == ["sr-hotpotqa_dev-000000"]
    assert [task.kind for task in tasks.load("test")] == ["nq", "popqa", "nq"]
    # nq 2? stands in train and test: training loses it.
    assert tasks.skipped == Counter({"seen before": 1})
    assert tasks.report() == "3 train, 1 validation, 3 test; left out: 1 seen before"
    check_disjoint(*(tasks.load(split) for split in Split))
    assert [task.task_id for task in tasks.load("train", 1, 1)] == ["sr-nq.train-000000"]


def test_settings_of_a_question_of_a_file(folder: Path) -> None:
    (task,) = SearchTasks(
        questions=folder / "hotpotqa_dev.jsonl",
        passages=folder / "passages.jsonl",
        top_k=5,
        reward="f1",
        cache_dir=folder / "cache",
    ).load("validation")
    settings = dict(task.settings)
    assert {len(settings.pop(name)) for name in ("content_hash", "passages_hash")} == {64}
    assert settings == {
        "question": "hotpot dev?",
        "golden_answers": ["x"],
        "data_source": "hotpotqa",
        "question_id": "0",
        "root": str(folder),
        "passages": "passages.jsonl",
        "max_steps": 4,
        "top_k": 5,
        "reward": "f1",
        "retriever": "bm25",
        "cache_dir": str(folder / "cache"),
    }
    assert task.kind == "hotpotqa"


def test_a_manifest_does_not_hang_on_where_files_and_servers_are(folder: Path, tmp_path_factory: Any) -> None:
    other = tmp_path_factory.mktemp("other")
    for path in folder.rglob("*.jsonl"):
        target = other / path.relative_to(folder)
        target.parent.mkdir(exist_ok=True)
        target.write_text(path.read_text())
    panels: list[list[Task]] = [
        SearchTasks(questions=root, passages=root / "passages.jsonl", cache_dir=root).load("test")
        for root in (folder, other)
    ]
    assert manifest_hash(panels[0]) == manifest_hash(panels[1])
    assert str(folder) not in manifest(panels[0])
    served = [
        SearchTasks(questions=folder / "popqa.jsonl", retriever="http", url=f"http://{host}:80").load("test")
        for host in ("one", "two")
    ]
    assert manifest_hash(served[0]) == manifest_hash(served[1])
    # What is asked and searched does make a difference.
    write(folder / "passages.jsonl", [{"title": "A", "text": "other"}])
    changed = SearchTasks(questions=folder, passages=folder / "passages.jsonl").load("test")
    assert manifest_hash(changed) != manifest_hash(panels[0])


def test_chosen_data_sets(folder: Path) -> None:
    tasks = SearchTasks(questions=folder, passages=folder / "passages.jsonl", data_sets=["nq"])
    assert {task.kind for task in tasks.load("test")} == {"nq"}
    assert tasks.skipped["of other data sets"] == 3
    with pytest.raises(FormatError, match=r"no question of split 'validation'; there are 2 of train, 2 of test"):
        tasks.load("validation")


def test_real_files(searchqa: Path) -> None:
    tasks = SearchTasks(questions=searchqa, passages=searchqa / "2wiki_passages.jsonl.gz")
    assert {split: len(tasks.load(split)) for split in Split} == {
        Split.TRAIN: 500,
        Split.VALIDATION: 250,
        Split.TEST: 125,
    }
    assert tasks.skipped == Counter()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": "smal"}, "Did you mean 'small'"),
        ({"reward": "f2"}, "reward: unknown 'f2'"),
        ({"retriever": "bm26"}, "Did you mean 'bm25'"),
        ({"hops": [4]}, r"hops is \[4\], expected some of \[2, 3\]"),
        ({"hops": []}, r"hops is \[\]"),
        ({"top_k": 0}, "top_k 0, expected at least 1"),
        ({"retriever": "http"}, "Give a url with 'http'"),
        ({"url": "http://x"}, "Give a url with 'http'"),
        ({"questions": "q.jsonl"}, "need the passages"),
        ({"passages": "p.jsonl"}, "need the passages"),
        ({"wording": "plain"}, "option"),
    ],
)
def test_options_that_do_not_fit(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_tasks("search", "train", **options)


def test_ranges_that_do_not_fit() -> None:
    with pytest.raises(ConfigError, match="start -1"):
        load_tasks("search", "train", -1)
    with pytest.raises(ConfigError, match="count 0"):
        load_tasks("search", "train", 0, 0)


def test_a_folder_without_questions(tmp_path: Path) -> None:
    write(tmp_path / "p.jsonl", [{"title": "A", "text": "b"}])
    with pytest.raises(FormatError, match="no question file below it"):
        SearchTasks(questions=tmp_path, passages=tmp_path / "p.jsonl").load("test")
    write(tmp_path / "q.jsonl", [{"question": "a?", "answer": "b"}])
    with pytest.raises(ConfigError, match="no passages there"):
        SearchTasks(questions=tmp_path / "q.jsonl", passages=tmp_path / "none.jsonl").load("test")
