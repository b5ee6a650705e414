from __future__ import annotations

import os
import subprocess
import tarfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tutelage.envs.repo.patch import apply_patch, make_patch, paths_of_patch
from tutelage.envs.repo.tree import EXECUTABLE, LINK, Entry, Tree, read_commit, read_folder, read_tar, run_git
from tutelage.errors import FormatError

ODD = Tree(
    {
        "crlf.txt": Entry(b"one\r\ntwo\r\n"),
        "no newline": Entry(b"end"),
        'd/\xe4 "q"\n\t.txt': Entry(b"1\n2\n"),
        os.fsdecode(b"b\xff"): Entry(b"\0\1binary"),
        "link": Entry(b"crlf.txt", LINK),
        "gone/away": Entry(b"x\n"),
        "trailing": Entry(b"a  \n\n\n"),
    }
)
CHANGED = ODD.changed(
    {
        "crlf.txt": Entry(b"one\r\nTWO\r\n"),
        "no newline": Entry(b"other end"),
        'd/\xe4 "q"\n\t.txt': Entry(b"1\n3"),
        os.fsdecode(b"b\xff"): Entry(b"\0\2binary"),
        "link": Entry(b"trailing", LINK),
        "gone/away": None,
        "gone": Entry(b"a file where a folder was\n", EXECUTABLE),
        "trailing": Entry(b"a  \n\t\n"),
    }
)


def test_a_folder_comes_back_byte_for_byte(tmp_path: Path) -> None:
    CHANGED.write(tmp_path)
    assert read_folder(tmp_path) == CHANGED
    assert read_folder(tmp_path).digest() == CHANGED.digest()
    assert os.stat(tmp_path / "gone").st_mode & 0o111


def test_histories_caches_and_pipes_are_left_out(tmp_path: Path) -> None:
    Tree({"a.py": Entry(b""), ".git/HEAD": Entry(b"x"), "p/__pycache__/a.pyc": Entry(b"x")}).write(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    assert list(read_folder(tmp_path)) == ["a.py"]


def test_a_folder_has_a_limit(tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(b"x" * 3000)
    with pytest.raises(FormatError, match="more than 0 MiB"):
        read_folder(tmp_path, max_bytes=2999)


@pytest.mark.parametrize("path", ["/a", "a//b", "../a", "a/..", "a\0b", ""])
def test_paths_that_lead_elsewhere_are_refused(path: str) -> None:
    with pytest.raises(FormatError, match="is not a plain relative path"):
        Tree({path: Entry(b"")})


def test_a_file_below_a_file_is_refused() -> None:
    with pytest.raises(FormatError, match=r"'a/b' lies below 'a', which is a file"):
        Tree({"a": Entry(b""), "a/b": Entry(b"")})


def test_changes_between_trees() -> None:
    assert ODD.changed(ODD.changes_to(CHANGED)) == CHANGED
    assert ODD.changes_to(ODD) == {}
    assert ODD.changes_to(CHANGED)["gone/away"] is None


def test_a_tar_file_without_its_top_folder(tmp_path: Path) -> None:
    (tmp_path / "top" / "sub").mkdir(parents=True)
    (tmp_path / "top" / "sub" / "a.py").write_bytes(b"x\r\n")
    (tmp_path / "top" / "b").symlink_to("sub/a.py")
    with tarfile.open(tmp_path / "t.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "top", "top")
    assert dict(read_tar(tmp_path / "t.tar.gz")) == {"b": Entry(b"sub/a.py", LINK), "sub/a.py": Entry(b"x\r\n")}
    with pytest.raises(FormatError, match="cannot be read as a tar file"):
        read_tar(tmp_path / "top" / "sub" / "a.py")


def test_a_commit_is_read_without_its_history(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        run_git(list(arguments), tmp_path)

    git("init", "--quiet")
    # Neither attributes nor settings of the repository change a byte.
    (tmp_path / ".gitattributes").write_text("* text eol=crlf\n*.txt export-ignore\n")
    (tmp_path / "a.txt").write_bytes(b"bug\r\nmixed\n")
    git("-c", "core.autocrlf=false", "-c", "core.safecrlf=false", "add", ".")
    git("commit", "--quiet", "-m", "bug")
    first = run_git(["rev-parse", "HEAD"], tmp_path).decode().strip()
    (tmp_path / "a.txt").write_bytes(b"fixed\n")
    git("commit", "--quiet", "-am", "fix")
    tree = read_commit(tmp_path, first)
    stored = subprocess.run(["git", "show", f"{first}:a.txt"], cwd=tmp_path, capture_output=True, check=True).stdout
    assert list(tree) == [".gitattributes", "a.txt"]
    assert tree["a.txt"].data == stored
    with pytest.raises(FormatError, match="git ls-tree failed"):
        read_commit(tmp_path, "0" * 40)


def test_a_patch_keeps_line_ends_and_names() -> None:
    patch = make_patch(ODD, CHANGED)
    assert apply_patch(ODD, patch) == CHANGED
    assert apply_patch(CHANGED, patch, reverse=True) == ODD
    assert paths_of_patch(patch) == tuple(sorted(ODD.changes_to(CHANGED)))
    assert b"\\ No newline at end of file" in patch


def test_no_change_is_an_empty_patch() -> None:
    assert make_patch(ODD, ODD) == b""
    assert apply_patch(ODD, "") == ODD
    assert paths_of_patch(" \n") == ()


def test_a_patch_that_does_not_apply_is_refused() -> None:
    patch = make_patch(ODD, CHANGED)
    with pytest.raises(FormatError, match="patch does not apply: "):
        apply_patch(CHANGED, patch)
    with pytest.raises(FormatError, match="patch does not apply in reverse: "):
        apply_patch(ODD, patch, reverse=True)


def test_both_names_of_a_renamed_file() -> None:
    patch = "diff --git a/old.py b/new.py\nsimilarity index 100%\nrename from old.py\nrename to new.py\n"
    assert paths_of_patch(patch) == ("new.py", "old.py")
    assert list(apply_patch(Tree({"old.py": Entry(b"x\n")}), patch)) == ["new.py"]


NAMES = st.text(st.characters(blacklist_characters="/\0", blacklist_categories=["Cs"]), min_size=1, max_size=6).filter(
    lambda name: name not in (".", "..") and not name.lower().startswith(".git")
)
TREES = st.dictionaries(NAMES, st.binary(max_size=40).map(Entry), max_size=3).map(Tree)


@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(TREES, TREES)
def test_any_change_goes_through_a_patch(before: Tree, after: Tree) -> None:
    patch = make_patch(before, after)
    assert apply_patch(before, patch) == after
    assert apply_patch(after, patch, reverse=True) == before
