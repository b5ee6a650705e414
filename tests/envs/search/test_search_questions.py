"""Question files: the common rows, and the releases of the seven data sets, each by a row of its form."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tutelage.envs.search.questions import DATA_SETS, Question, golden_answers, read_questions
from tutelage.errors import FormatError, MissingExtra

WIKI = {
    "_id": "a1",
    "type": "compositional",
    "question": "Q?",
    "context": [],
    "supporting_facts": [["T", 0]],
    "answer": "x",
}


@pytest.mark.parametrize(
    ("row", "golden"),
    [
        ({"question": "Q?", "golden_answers": ["a", "b", "a"], "answer": "c"}, ("a", "b")),
        # nq
        ({"question": "Q?", "answer": ["a", "b"]}, ("a", "b")),
        # triviaqa
        ({"answer": {"value": "a", "aliases": ["b", "a"], "normalized_aliases": ["z"]}}, ("a", "b")),
        # popqa: a list written as a string
        ({"obj": "a", "possible_answers": '["a", "b \\" c"]'}, ("a", 'b " c')),
        # hotpotqa, 2wikimultihopqa
        (WIKI, ("x",)),
        # musique
        ({"answer": "a", "answer_aliases": ["b"], "answerable": True}, ("a", "b")),
        # bamboogle
        ({"Question": "Q?", "Answer": "a"}, ("a",)),
        ({"answer": 1961}, ("1961",)),
        ({"answer": "[sic"}, ("[sic",)),
        ({"answer": True}, ()),
        ({"answer": ["", " "]}, ()),
        ({}, ()),
    ],
)
def test_answers_of_every_form(row: dict[str, Any], golden: tuple[str, ...]) -> None:
    assert golden_answers(row) == golden


def write(path: Path, rows: list[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(lines.encode()))
    else:
        path.write_text(json.dumps(rows) if path.suffix == ".json" else lines)
    return path


@pytest.mark.parametrize("name", ["dev.jsonl", "dev.jsonl.gz", "dev.json"])
def test_lines_and_arrays(tmp_path: Path, name: str) -> None:
    rows = [{"id": "q1", "question": " Q? ", "golden_answers": ["a"], "data_source": "nq"}, WIKI]
    assert read_questions(write(tmp_path / "2wikimultihopqa" / name, rows)) == (
        Question(id="q1", question="Q?", golden_answers=("a",), data_source="nq"),
        Question(id="a1", question="Q?", golden_answers=("x",), data_source="2wikimultihopqa"),
    )


def test_parquet_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match="reading Parquet needs the extra 'data'"):
        read_questions(tmp_path / "test.parquet")


def test_parquet(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = [
        {"id": "test_0", "question": "Q?", "golden_answers": ["a", "b"], "data_source": "triviaqa", "extra": {"n": 1}},
        {"id": "test_1", "question": "R?", "golden_answers": ["c"], "data_source": "popqa", "extra": {"n": 2}},
    ]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "test.parquet")
    assert read_questions(tmp_path / "test.parquet") == (
        Question(id="test_0", question="Q?", golden_answers=("a", "b"), data_source="triviaqa"),
        Question(id="test_1", question="R?", golden_answers=("c",), data_source="popqa"),
    )
    (tmp_path / "broken.parquet").write_bytes(b"PAR1")
    with pytest.raises(FormatError, match="cannot be read as Parquet"):
        read_questions(tmp_path / "broken.parquet")


@pytest.mark.parametrize(
    ("name", "source"),
    [
        *((f"{data_set}/dev.jsonl", data_set) for data_set in DATA_SETS),
        ("2wiki_dev.jsonl", "2wikimultihopqa"),
        ("bamboogle_questions.jsonl", "bamboogle"),
        ("hotpotqa-distractor.jsonl", "hotpotqa"),
        ("nq_open/train.jsonl", "nq"),
        ("mine.jsonl", "mine"),
    ],
)
def test_the_data_set_that_a_path_names(tmp_path: Path, name: str, source: str) -> None:
    (question,) = read_questions(write(tmp_path / name, [{"question": "Q?", "answer": "a"}]))
    assert (question.data_source, question.id) == (source, "0")
    (question,) = read_questions(tmp_path / name, data_source="own")
    assert question.data_source == "own"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "holds no question"),
        (
            '{"question": "Q?"}',
            r"line 1: fields \['question'\] with question 'Q\?', expected a question and its answers",
        ),
        ('{"answer": "a"}', "with question None"),
        ("[1]", "line 1: list, expected an object"),
        ("{", "line 1: no JSON"),
    ],
)
def test_what_is_no_question_is_said_with_its_line(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "q.jsonl").write_text(content)
    with pytest.raises(FormatError, match=message):
        read_questions(tmp_path / "q.jsonl")


def test_an_array_file_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "q.json").write_text('{"question": "Q?", "answer": "a"}')
    with pytest.raises(FormatError, match="dict, expected an array"):
        read_questions(tmp_path / "q.json")
    (tmp_path / "q.json").write_text('{"question": "Q?"}\n{"question": "R?"}')
    with pytest.raises(FormatError, match=r"needs the suffix \.jsonl"):
        read_questions(tmp_path / "q.json")


def test_a_content_hash_looks_through_spelling() -> None:
    def of(question: str, *golden: str) -> str:
        return Question(id="", question=question, golden_answers=golden, data_source="").content_hash

    assert of("Who is the man?", "A", "B") == of("who is man", "b", "a")
    assert of("Who is it?", "A") != of("Who is it?", "C")


def test_real_files(searchqa: Path) -> None:
    train, dev, bamboogle = (
        read_questions(searchqa / name)
        for name in ("2wiki_train.jsonl", "2wiki_dev.jsonl", "bamboogle_questions.jsonl")
    )
    assert [len(rows) for rows in (train, dev, bamboogle)] == [500, 250, 125]
    assert dev[0] == Question(
        id="2wiki-392",
        question="Where was the place of death of Nana Saheb's father?",
        golden_answers=("Bithoor",),
        data_source="2wikimultihopqa",
        supporting_titles=("Nana Saheb", "Baji Rao II"),
    )
    assert bamboogle[1].golden_answers == ("Titan IIIE",)
    assert {row.data_source for row in bamboogle} == {"bamboogle"}
