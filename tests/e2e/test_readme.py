"""The README is true of this tree; its Python example runs in test_python_api.py."""

import re
from pathlib import Path

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def test_every_file_of_the_tree_is_there():
    root = Path(__file__).parents[2]
    tree = re.search(r"```text\n(.*?)```", README, re.DOTALL)[1]
    names = re.findall(r"(?:^| )([A-Za-z_]+(?:\.(?:md|py|yaml)|/[a-z_/]*))", tree, re.MULTILINE)
    assert len(names) > 30
    known = {path.name for path in root.rglob("*") if ".venv" not in path.parts}
    missing = [name for name in names if name.rstrip("/").split("/")[-1] not in known]
    assert missing == []
