from __future__ import annotations

import os
from pathlib import Path

import pytest

from tutelage.envs.repo.editor import Editor
from tutelage.envs.repo.tree import Entry, Tree
from tutelage.envs.repo.workspace import CLOCK_START, Workspace

TREE = Tree(
    {
        "a.py": Entry(b"one\ntwo\ntwo\nthree"),
        "crlf.txt": Entry(b"x\r\ny\r\n"),
        "empty": Entry(b""),
        "data.bin": Entry(b"\0\1"),
        "src/b.py": Entry(b"b\n"),
        "src/deep/c.py": Entry(b"c\n"),
        "src/deep/er/d.py": Entry(b"d\n"),
    }
)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    (tmp_path / "work").mkdir()
    return Workspace(tmp_path / "work", TREE, max_mb=1)


@pytest.fixture
def edit(workspace: Workspace):  # type: ignore[no-untyped-def]
    editor = Editor(workspace, "/workspace", 400)
    return lambda command, path, directory="", **more: editor.run({"command": command, "path": path, **more}, directory)


def content(workspace: Workspace, path: str) -> bytes:
    return (workspace.folder / path).read_bytes()


def test_view(edit) -> None:  # type: ignore[no-untyped-def]
    assert edit("view", "a.py") == "     1\tone\n     2\ttwo\n     3\ttwo\n     4\tthree\n[no newline at the end]"
    assert edit("view", "a.py", first_line="2", last_line="3") == "     2\ttwo\n     3\ttwo"
    assert edit("view", "/workspace/src/b.py") == "     1\tb"
    assert edit("view", "../src/b.py", directory="src") == "     1\tb"
    assert edit("view", "crlf.txt") == "     1\tx\n     2\ty\n[lines end with CRLF]"
    assert edit("view", "empty") == "[empty file]"


def test_view_of_a_folder_is_two_levels_deep(edit) -> None:  # type: ignore[no-untyped-def]
    assert edit("view", "src").split("\n") == ["b.py", "deep/", "deep/c.py", "deep/er/"]
    assert edit("view", ".").split("\n")[:3] == ["a.py", "crlf.txt", "data.bin"]


def test_long_views_lose_their_middle(edit, workspace: Workspace) -> None:  # type: ignore[no-untyped-def]
    (workspace.folder / "long").write_text("\n".join(f"line {number}" for number in range(200)))
    text = edit("view", "long")
    assert text.startswith("     1\tline 0\n")
    assert text.endswith("   200\tline 199\n[no newline at the end]")
    assert "\n[... output cut ...]\n" in text
    assert len(text) == 400 + len("\n[... output cut ...]\n")


@pytest.mark.parametrize(
    ("command", "path", "more", "said"),
    [
        ("view", "nothing.py", {}, "nothing.py: no such file or directory."),
        ("view", "a.py", {"first_line": "9"}, "a.py has 4 lines; lines 9 to 4 cannot be shown."),
        ("view", "a.py", {"first_line": "x"}, "first_line is 'x', expected a whole number."),
        ("view", "data.bin", {}, "data.bin is no text file (2 bytes). Use bash."),
        ("view", "../outside", {}, "../outside is outside of /workspace."),
        ("view", "/etc/passwd", {}, "/etc/passwd is outside of /workspace."),
        ("str_replace", "a.py", {"old_str": "two", "new_str": "2"}, "old_str occurs 2 times in a.py (see lines 2, 3); it must occur exactly once. Give more lines around it."),
        ("str_replace", "a.py", {"old_str": "Two", "new_str": "2"}, "old_str does not occur in a.py; it must match exactly, white space included."),
        ("str_replace", "crlf.txt", {"old_str": "x\ny", "new_str": "2"}, "old_str does not occur in crlf.txt: its lines end with CRLF, those of old_str with LF."),
        ("str_replace", "a.py", {"new_str": "2"}, "edit str_replace needs 'old_str'."),
        ("insert", "a.py", {"insert_line": "5", "insert_text": "x"}, "a.py has 4 lines; insert_line is 5, expected 0 to 4."),
        ("insert", "a.py", {"insert_text": "x"}, "edit insert needs 'insert_line'."),
        ("create", "a.py/b.py", {"file_text": "x"}, "a.py/b.py: not a directory."),
        ("create", "b.py", {}, "edit create needs 'file_text'."),
        ("undo", "a.py", {}, "edit has made no change of a.py that could be taken back."),
        ("delete", "a.py", {}, "edit has the commands view, create, str_replace, insert, undo, not 'delete'."),
        ("view", "", {}, "edit view needs 'path'."),
    ],
)  # fmt: skip
def test_refusals_change_nothing(edit, workspace: Workspace, command, path, more, said) -> None:  # type: ignore[no-untyped-def]
    assert edit(command, path, **more) == f"Error: {said}"
    assert workspace.tree() == TREE


def test_str_replace(edit, workspace: Workspace) -> None:  # type: ignore[no-untyped-def]
    reply = edit("str_replace", "a.py", old_str="one\ntwo\ntwo", new_str="1\n2")
    assert reply == "Edited a.py:\n     1\t1\n     2\t2\n     3\tthree"
    assert content(workspace, "a.py") == b"1\n2\nthree"
    edit("str_replace", "a.py", old_str="2\n")
    assert content(workspace, "a.py") == b"1\nthree"


def test_line_ends_stay(edit, workspace: Workspace) -> None:  # type: ignore[no-untyped-def]
    edit("str_replace", "crlf.txt", old_str="y", new_str="z")
    assert content(workspace, "crlf.txt") == b"x\r\nz\r\n"
    edit("str_replace", "a.py", old_str="three", new_str="drei")
    assert content(workspace, "a.py") == b"one\ntwo\ntwo\ndrei"


def test_insert(edit, workspace: Workspace) -> None:  # type: ignore[no-untyped-def]
    assert edit("insert", "src/b.py", insert_line="0", insert_text="a") == "Edited src/b.py:\n     1\ta\n     2\tb"
    edit("insert", "src/b.py", insert_line=2, insert_text="c\nd\n")
    assert content(workspace, "src/b.py") == b"a\nb\nc\nd\n"
    edit("insert", "a.py", insert_line="4", insert_text="four")
    assert content(workspace, "a.py") == b"one\ntwo\ntwo\nthree\nfour"


def test_create_and_undo(edit, workspace: Workspace) -> None:  # type: ignore[no-untyped-def]
    assert edit("create", "new/x.py", file_text="x = 1\n") == "Created new/x.py, 1 line."
    assert edit("create", "new/x.py", file_text="") == "Wrote new/x.py, 0 lines."
    assert edit("create", "new/x.py", file_text="\udcff\r\n") == "Wrote new/x.py, 1 line."
    assert content(workspace, "new/x.py") == b"\xff\r\n"
    assert edit("undo", "new/x.py") == "Took back the last change of new/x.py."
    edit("undo", "new/x.py")
    assert content(workspace, "new/x.py") == b"x = 1\n"
    assert edit("undo", "new/x.py") == "Took back the last change of new/x.py: it is gone."
    assert not (workspace.folder / "new/x.py").exists()


def test_links_are_not_followed(edit, workspace: Workspace, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    secret = tmp_path / "secret"
    secret.write_text("secret")
    (workspace.folder / "link").symlink_to(secret)
    (workspace.folder / "folder").symlink_to(tmp_path)
    for command, path in [("view", "link"), ("view", "folder/secret"), ("create", "link"), ("create", "folder/new")]:
        reply = edit(command, path, file_text="overwritten")
        assert reply == f"Error: {path} is a symbolic link, or lies behind one. Use bash."
    assert secret.read_text() == "secret"
    assert not (tmp_path / "new").exists()


def test_a_pipe_does_not_block(edit, workspace: Workspace) -> None:  # type: ignore[no-untyped-def]
    os.mkfifo(workspace.folder / "pipe")
    assert edit("view", "pipe") == "Error: pipe: not a regular file."
    assert edit("create", "pipe", file_text="x").startswith("Error: pipe: ")


def test_changes_of_a_workspace(workspace: Workspace) -> None:
    folder = workspace.folder
    assert workspace.changes(1) == []
    (folder / "a.py").write_bytes(b"other")
    (folder / "src/b.py").unlink()
    (folder / "new file").write_bytes(b"")
    (folder / "empty").chmod(0o755)
    os.utime(folder / "crlf.txt")
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__/x.pyc").write_bytes(b"x")
    assert workspace.changes(2) == [("", "a.py"), ("", "empty"), ("+", "new file"), ("-", "src/b.py")]
    assert workspace.changes(3) == []
    # Files carry the clock of the episode, not the host's.
    assert (folder / "a.py").stat().st_mtime == CLOCK_START + 120
    assert (folder / "data.bin").stat().st_mtime == CLOCK_START


def test_a_rewrite_with_the_old_time_is_noticed(workspace: Workspace) -> None:
    path = workspace.folder / "src/b.py"
    before = path.stat()
    path.write_bytes(b"B\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert workspace.changes(1) == [("", "src/b.py")]


def test_the_hash_of_a_state(workspace: Workspace) -> None:
    first = workspace.state_hash()
    (workspace.folder / "a.py").write_bytes(b"other")
    workspace.changes(1)
    assert workspace.state_hash() != first
    (workspace.folder / "a.py").write_bytes(TREE["a.py"].data)
    workspace.changes(2)
    assert workspace.state_hash() == first


def test_a_workspace_that_grows_too_big(workspace: Workspace) -> None:
    (workspace.folder / "big").write_bytes(b"x" * (2 << 20))
    assert workspace.changes(1) == []
    assert workspace.too_big
