"""Files of evaluations: what is read, what is refused, and that no message tells a question."""

from __future__ import annotations

import base64
import csv
import json
import os
import pickle
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutelage.envs.python.problems import HiddenTest
from tutelage.envs.python.readers import read_problems
from tutelage.errors import ConfigError, FormatError

GPQA = {
    "Record ID": "rec1",
    "Question": "A secret question?",
    "Correct Answer": "right",
    "Incorrect Answer 1": "wrong 1",
    "Incorrect Answer 2": "wrong 2",
    "Incorrect Answer 3": "wrong 3",
    "High-level domain": "Physics",
}

LCB = {
    "question_id": "1873_A",
    "question_content": "Add two numbers.",
    "starter_code": "",
    "difficulty": "easy",
    "public_test_cases": json.dumps([{"input": "1 2", "output": "3", "testtype": "stdin"}]),
    "private_test_cases": [{"input": "2 2", "output": "4", "testtype": "stdin"}],
    "metadata": "{}",
}


def write(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_aime(tmp_path):
    path = write(tmp_path / "aime.jsonl", {"id": "a-0", "problem": "P?", "answer": "007"})
    [(row_id, problem)] = read_problems("aime", path).items()
    assert (row_id, problem.text, problem.answer, problem.judge, problem.kind) == ("a-0", "P?", "7", "aime", "aime")


def test_the_real_files(tir):
    for name in ("aime24", "aime25"):
        problems = read_problems("aime", tir / f"{name}.jsonl")
        assert len(problems) == 30
        assert all(0 <= int(problem.answer) <= 999 for problem in problems.values())
    assert problems["aime25-0"].answer == "70"


def test_math(tmp_path):
    path = write(tmp_path / "m.jsonl", {"id": 1, "problem": "P?", "answer": "\\frac{1}{2}"})
    assert read_problems("math", path)["1"].answer == "\\frac{1}{2}"


def test_gpqa_options_are_shuffled_by_question_and_the_key_follows(tmp_path):
    rows = [GPQA | {"Record ID": f"rec{number}"} for number in range(40)]
    path = write(tmp_path / "gpqa.jsonl", *rows)
    problems = read_problems("gpqa", path)
    assert {problem.answer for problem in problems.values()} == set("ABCD")
    for problem in problems.values():
        question, _, options = problem.text.partition("\n\n")
        assert question == "A secret question?"
        assert f"{problem.answer}. right" in options.split("\n")
        assert sorted(line[3:] for line in options.split("\n")) == ["right", "wrong 1", "wrong 2", "wrong 3"]
        assert problem.kind == "physics"
    # A question keeps its order whatever else is in the file; another seed gives another order.
    alone = read_problems("gpqa", write(tmp_path / "one.jsonl", rows[7]))
    assert alone["rec7"] == problems["rec7"]
    assert read_problems("gpqa", path, shuffle_seed=1) != problems


def test_gpqa_as_csv(tmp_path):
    path = tmp_path / "gpqa.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, GPQA)
        writer.writeheader()
        writer.writerow(GPQA | {"Question": "Two\nlines, with a comma?"})
    assert read_problems("gpqa", path)["rec1"].text.startswith("Two\nlines, with a comma?\n\nA. ")


def test_lcb_program(tmp_path):
    problem = read_problems("lcb", write(tmp_path / "lcb.jsonl", LCB))["1873_A"]
    assert problem.tests == (HiddenTest(given="1 2", expected="3"), HiddenTest(given="2 2", expected="4"))
    assert problem.text.startswith("Add two numbers.\n\nYour answer is the whole program.")
    assert (problem.judge, problem.kind) == ("program", "easy")


def packed(value) -> str:
    return base64.b64encode(zlib.compress(pickle.dumps(value))).decode()


def test_lcb_function_with_packed_tests(tmp_path):
    tests = packed(json.dumps([{"input": "[1]\n2", "output": "3", "testtype": "functional"}]))
    row = LCB | {
        "starter_code": "class Solution:\n    def add(self, a, b):\n",
        "metadata": json.dumps({"func_name": "add"}),
        "public_test_cases": "[]",
        "private_test_cases": tests,
    }
    problem = read_problems("lcb", write(tmp_path / "lcb.jsonl", row))["1873_A"]
    assert problem.tests == (HiddenTest(given="[1]\n2", expected="3", function="add"),)
    assert problem.text.endswith("class Solution:\n    def add(self, a, b):")


class Harmful:
    def __reduce__(self):
        return os.system, ("echo harm",)


@pytest.mark.parametrize("value", [Harmful(), {"a": Harmful()}])
def test_packed_tests_run_no_code(tmp_path, value, capfd):
    path = write(tmp_path / "lcb.jsonl", LCB | {"private_test_cases": packed(value)})
    with pytest.raises(FormatError, match="UnpicklingError"):
        read_problems("lcb", path)
    assert "harm" not in capfd.readouterr().out


@pytest.mark.parametrize(
    ("source", "row", "message"),
    [
        ("aime", {"id": "1", "problem": "secret", "answer": "1000"}, "0 to 999"),
        ("aime", {"id": "1", "problem": "secret", "answer": "x"}, "0 to 999"),
        ("aime", {"id": "1", "problem": "secret"}, "'answer' is missing"),
        ("aime", {"id": "1", "problem": "", "answer": "1"}, "'problem' is empty"),
        ("gpqa", GPQA | {"Incorrect Answer 1": "right"}, "two options are the same"),
        ("gpqa", GPQA | {"Record ID": None}, "'Record ID' is missing"),
        ("lcb", LCB | {"public_test_cases": "[]", "private_test_cases": []}, "no tests"),
        ("lcb", LCB | {"private_test_cases": "not base64!"}, "cannot be read"),
        ("lcb", LCB | {"starter_code": "def f():"}, "no 'func_name'"),
        ("lcb", LCB | {"private_test_cases": [{"input": "", "output": "", "testtype": "functional"}]}, "of type"),
    ],
)
def test_rows_that_are_refused(tmp_path, source, row, message):
    path = write(tmp_path / "problems.jsonl", row)
    with pytest.raises(FormatError, match=message) as caught:
        read_problems(source, path)
    assert "problems.jsonl, row 1: " in str(caught.value)
    assert "secret" not in str(caught.value)


def test_files_that_are_refused(tmp_path):
    with pytest.raises(FormatError, match="no such file"):
        read_problems("aime", tmp_path / "none.jsonl")
    row = {"id": "1", "problem": "P", "answer": "1"}
    with pytest.raises(FormatError, match="row 2: id '1' came before"):
        read_problems("aime", write(tmp_path / "twice.jsonl", row, row))
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(FormatError, match="no problem in it"):
        read_problems("aime", tmp_path / "empty.jsonl")
    (tmp_path / "bad.jsonl").write_text('{"id": "secret"')
    with pytest.raises(FormatError, match=r"line 1: no JSON \(JSONDecodeError\)"):
        read_problems("aime", tmp_path / "bad.jsonl")
    (tmp_path / "latin.jsonl").write_bytes(b"\xe9")
    with pytest.raises(FormatError, match="byte 0 is no UTF-8"):
        read_problems("aime", tmp_path / "latin.jsonl")
    with pytest.raises(ConfigError, match="Did you mean 'aime'"):
        read_problems("amie", tmp_path / "empty.jsonl")


@given(
    st.dictionaries(st.sampled_from([*LCB, *GPQA, "id", "problem", "answer"]), st.none() | st.text() | st.integers())
)
def test_any_row_is_read_or_refused(tmp_path_factory, row):
    path = write(tmp_path_factory.getbasetemp() / "any.jsonl", row)
    for source in ("aime", "math", "gpqa", "lcb"):
        try:
            assert len(read_problems(source, path)) == 1
        except FormatError:
            continue
