"""The page on formats names every target and every reason of the exporters, and no other."""

from __future__ import annotations

import re
from pathlib import Path

import tutelage.formats
from tutelage.formats.export_targets import TARGETS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")
WRITTEN = PAGE[PAGE.index("## What tutelage writes") :]


def first_cells(heading: str) -> list[str]:
    """The names in the first column of the table below a heading."""
    below = WRITTEN[WRITTEN.index(heading) :]
    table = below[below.index("|---") :].split("\n\n")[0]
    cells = [line.split("|")[1] for line in table.splitlines()[1:]]
    return [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]


def test_every_target_is_in_the_table() -> None:
    assert sorted(first_cells("## What tutelage writes")) == sorted([*TARGETS, "native", "verl"])


def test_every_reason_is_in_the_table() -> None:
    folder = Path(tutelage.formats.__file__).parent
    sources = [*folder.glob("write_*.py"), folder / "export.py", folder / "proof.py"]
    text = "\n".join(path.read_text(encoding="utf-8") for path in sources)
    assert set(first_cells("### What is refused")) == set(re.findall(r'Refused\(\s*"(\w+)"', text))
