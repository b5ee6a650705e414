"""The pages of docs/howto are true: their commands run in an empty folder and print what stands there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HOWTO = Path(__file__).parents[2] / "docs" / "howto"


def blocks(page: Path) -> Iterator[tuple[str, str]]:
    """(language, text) of the fenced blocks of a page, in order."""
    yield from re.findall(r"^```(\w+)\n(.*?)^```$", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def commands(text: str) -> Iterator[tuple[str, str]]:
    """(command, what it prints) of a console block."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, printed = part.partition("\n")
        yield command, printed


def fits(printed: str, page: str) -> bool:
    """Equal but for times; a line ``...`` of the page stands for any lines."""
    lines = [r"(?:.*\n)*" if line == "...\n" else re.escape(line) for line in timeless(page).splitlines(keepends=True)]
    return re.fullmatch("".join(lines), timeless(printed)) is not None


def timeless(text: str) -> str:
    return re.sub(r"\d+\.\d+ ?s\b", "N s", text)


OWN_TEST = {"pretrained_student.md", "swe_agent_to_trl.md"}
"""Pages that another test follows."""


@pytest.mark.parametrize("name", sorted({page.name for page in HOWTO.glob("*.md")} - OWN_TEST))
def test_a_page(name: str, tmp_path: Path) -> None:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    folder = tmp_path
    num_commands = 0
    for language, text in blocks(HOWTO / name):
        if language == "python":
            (folder / re.match(r"# (\w+\.py)\n", text)[1]).write_text(text)
        for command, printed in commands(text) if language == "console" else ():
            if command.startswith("cd "):
                folder = folder / command[3:]
                continue
            done = subprocess.run(
                command, shell=True, cwd=folder, env=environment, check=False, capture_output=True, text=True
            )
            assert fits(done.stdout, printed), f"$ {command}\n{done.stdout}{done.stderr}"
            num_commands += 1
    assert num_commands > 3
