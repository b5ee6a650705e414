"""The Python API: ten lines for a whole run, and the same stages one by one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tutelage as t


def test_ten_lines(tmp_path: Path) -> None:
    recipe = t.load_recipe("smoke/household_oec", set=["seed=1", "student.start=builtin:household_tiny"])
    run = t.run(recipe, out=tmp_path / "run")
    print(run.table())
    print(run.report_path)
    assert set(run.states().values()) == {"done"}
    assert run.report_path.is_file()
    assert repr(run) == f"Run('{tmp_path / 'run'}', 17 of 17 stages done)"
    assert t.Run(tmp_path / "run").table() == run.table()


def test_the_readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The lines of the README as they stand, with fewer games."""
    text = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    code = re.search(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert code is not None
    assert len(code[1].strip().splitlines()) <= 14
    monkeypatch.chdir(tmp_path)
    smaller = re.sub(r"budget=\d+", "budget=1", re.sub(r"count=\d+", "count=6", code[1]))
    exec(compile(smaller, "README.md", "exec"), {})
    assert re.fullmatch(r"\d\.\d+ \[\d\.\d+, \d\.\d+\]\n", capsys.readouterr().out)
