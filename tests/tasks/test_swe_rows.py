from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tutelage.errors import ConfigError, FormatError
from tutelage.tasks.swe_rows import kind_of, read_rows

SMITH = {
    "instance_id": "owner__name.abc12345.lm_rewrite__x",
    "repo": "swesmith/owner__name.abc12345",
    "patch": "diff --git a/x b/x\r\n",
    "FAIL_TO_PASS": ["tests/test_x.py::test_a"],
    "PASS_TO_PASS": ["tests/test_x.py::test_b"],
    "image_name": "swesmith/owner__name",
    "problem_statement": "It is broken.",
}
BENCH = {
    "instance_id": "owner__name-1",
    "repo": "owner/name",
    "base_commit": "a" * 40,
    "patch": "the repair",
    "test_patch": "the tests",
    "problem_statement": "It is broken.",
    "FAIL_TO_PASS": '["tests/test_x.py::test_a"]',
    "PASS_TO_PASS": "[]",
    "version": "1.0",
}


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_rows_that_make_the_bug(tmp_path: Path) -> None:
    found = read_rows(write(tmp_path / "rows.jsonl", [SMITH]))
    (row,) = found.rows
    assert found.report() == "1 rows of kind swe_smith (patch makes the bug, the repair is its reverse), 0 left out"
    assert (row.bug_patch, row.fix_patch, row.test_patch, row.commit) == ("diff --git a/x b/x\r\n", "", "", None)
    assert (row.fail_to_pass, row.pass_to_pass) == (("tests/test_x.py::test_a",), ("tests/test_x.py::test_b",))


def test_rows_that_repair_it(tmp_path: Path) -> None:
    found = read_rows(write(tmp_path / "rows.jsonl", [BENCH]))
    (row,) = found.rows
    assert found.report() == "1 rows of kind swe_bench (patch is the repair, test_patch the hidden tests), 0 left out"
    assert (row.bug_patch, row.fix_patch, row.test_patch, row.commit) == ("", "the repair", "the tests", "a" * 40)
    assert (row.fail_to_pass, row.pass_to_pass) == (("tests/test_x.py::test_a",), ())


@pytest.mark.parametrize(
    "row",
    [
        {**BENCH, "image_name": "x"},
        {name: value for name, value in BENCH.items() if name != "test_patch"},
        {name: value for name, value in SMITH.items() if name != "image_name"},
        {**SMITH, "base_commit": "x"},
    ],
)
def test_a_doubt_is_not_guessed_away(row: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"do not tell SWE-bench from SWE-smith.*\n.*Give that kind"):
        kind_of(row)
    path = write(tmp_path / "rows.jsonl", [row])
    with pytest.raises(ConfigError, match=r"rows\.jsonl, row 1: the fields"):
        read_rows(path)


def test_a_kind_that_is_given_counts(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.jsonl", [{**BENCH, "image_name": "x"}])
    assert read_rows(path, "swe_bench").rows[0].fix_patch == "the repair"
    assert read_rows(path, "swe_smith").rows[0].bug_patch == "the repair"
    with pytest.raises(ConfigError, match="kind: unknown 'swebench'"):
        read_rows(path, "swebench")


def test_kinds_are_not_mixed(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="rows of both kinds, swe_bench and swe_smith"):
        read_rows(write(tmp_path / "rows.jsonl", [BENCH, SMITH]))


def test_forms_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "list.json").write_text(json.dumps([SMITH, SMITH]))
    assert len(read_rows(tmp_path / "list.json").rows) == 2
    (tmp_path / "one.json").write_text(json.dumps(SMITH, indent=2))
    assert read_rows(tmp_path / "one.json").rows == read_rows(write(tmp_path / "l.jsonl", [SMITH])).rows
    parquet = pytest.importorskip("pyarrow.parquet")
    import pyarrow

    parquet.write_table(pyarrow.Table.from_pylist([BENCH]), tmp_path / "rows.parquet")
    assert read_rows(tmp_path / "rows.parquet").rows == read_rows(write(tmp_path / "b.jsonl", [BENCH])).rows
    parquet.write_table(pyarrow.Table.from_pylist([SMITH]), tmp_path / "rows.parquet")
    assert read_rows(tmp_path / "rows.parquet").rows == read_rows(tmp_path / "one.json").rows


def test_rows_that_cannot_be_played_are_counted(tmp_path: Path) -> None:
    django = {**BENCH, "instance_id": "d", "FAIL_TO_PASS": ["test_x (app.tests.X)"]}
    empty = {**BENCH, "instance_id": "e", "FAIL_TO_PASS": []}
    silent = {**SMITH, "instance_id": "s", "problem_statement": ""}
    found = read_rows(write(tmp_path / "rows.jsonl", [BENCH, django, empty]))
    assert found.skipped == (("d", "tests are not ids of pytest"), ("e", "no test that must pass"))
    assert len(found.rows) == 1
    assert read_rows(write(tmp_path / "s.jsonl", [silent])).skipped == (("s", "no problem statement"),)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no rows in it"),
        ('{"a": 1}\n{"b": ', "line 2: not JSON"),
        ("[1, 2]", "expected JSON objects"),
        (json.dumps({**SMITH, "patch": None}), "row 1: no patch; a row of kind swe_smith needs instance_id, repo"),
        (json.dumps({**SMITH, "FAIL_TO_PASS": "tests/a.py::x"}), "FAIL_TO_PASS: 'tests/a.py::x', expected a list"),
        (json.dumps({**SMITH, "PASS_TO_PASS": [1]}), "PASS_TO_PASS"),
    ],
)
def test_broken_files(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "rows.jsonl").write_text(text)
    with pytest.raises(FormatError, match=said):
        read_rows(tmp_path / "rows.jsonl")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="cannot be read"):
        read_rows(tmp_path / "nothing.jsonl")
