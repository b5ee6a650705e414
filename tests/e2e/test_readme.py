"""What the README tells a reader to type does what it says."""

import re
from pathlib import Path

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def test_the_python_example_runs(tmp_path, monkeypatch, capsys):
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len(code.splitlines()) <= 12
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {})
    assert re.fullmatch(r"[01]\.\d{3} \[[01]\.\d{3}, [01]\.\d{3}\]\n", capsys.readouterr().out)
    assert (tmp_path / "runs" / "mine" / "model.safetensors").is_file()


def test_every_file_of_the_tree_is_there():
    root = Path(__file__).parents[2]
    tree = re.search(r"```text\n(.*?)```", README, re.DOTALL)[1]
    names = re.findall(r"(?:^| )([A-Za-z_]+(?:\.(?:md|py|yaml)|/[a-z_/]*))", tree, re.MULTILINE)
    assert len(names) > 30
    known = {path.name for path in root.rglob("*") if ".venv" not in path.parts}
    missing = [name for name in names if name.rstrip("/").split("/")[-1] not in known]
    assert missing == []
