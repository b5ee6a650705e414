"""Files of rows: more rows than are held at once, in each kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tutelage.errors import ConfigError
from tutelage.formats import row_files
from tutelage.formats.row_files import RowWriter, iter_rows, kind_of, read_rows


def numbers(count: int) -> list[dict[str, Any]]:
    return [{"a": list(range(index % 5)), "b": [index]} for index in range(count)]


@pytest.mark.parametrize(("name", "kind"), [("r.jsonl", "jsonl"), ("r.parquet", "parquet"), ("r", "datasets")])
def test_rows_come_back_in_order(name: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if kind != "jsonl":
        pytest.importorskip("pyarrow" if kind == "parquet" else "datasets")
    monkeypatch.setattr(row_files, "_GROUP_ROWS", 7)
    with RowWriter(tmp_path / name, kind) as rows:
        for row in numbers(40):
            rows.add(row)
    assert kind_of(tmp_path / name, (kind,)) == kind
    assert read_rows(tmp_path / name, kind) == numbers(40)
    assert next(iter_rows(tmp_path / name, kind)) == {"a": [], "b": [0]}


def test_a_parquet_file_is_written_in_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By values where rows are long, so that the longest rows do not fill the memory."""
    parquet = pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr(row_files, "_GROUP_VALUES", 20)
    with RowWriter(tmp_path / "r.parquet", "parquet") as rows:
        for row in numbers(15):
            rows.add(row)
    assert parquet.read_metadata(tmp_path / "r.parquet").num_row_groups == 2  # of 8 rows with 21 values, and 7 with 24


def test_line_separators_of_unicode_do_not_end_a_row(tmp_path: Path) -> None:
    given = [{"text": "a\u2028b\u0085c\rd"}, {"n": 12345678901234567890123}]
    with RowWriter(tmp_path / "r.jsonl", "jsonl") as rows:
        for row in given:
            rows.add(row)
    assert read_rows(tmp_path / "r.jsonl", "jsonl") == given


def test_a_name_of_another_kind(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"expected NAME.jsonl or NAME.parquet or NAME \(a folder\) for this target"):
        kind_of(Path("r.csv"), ("jsonl", "parquet", "datasets"))
