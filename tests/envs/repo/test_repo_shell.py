from __future__ import annotations

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tutelage.envs.repo.shell import Ending, directory_of, ending, path_below, read_ending, steady
from tutelage.envs.sandbox.limits import SandboxLimits, SandboxResult, Stop


def result(code: int | None = 0, killed_by: Stop | None = None, stderr: str = "") -> SandboxResult:
    return SandboxResult(
        exit_code=code,
        stdout="",
        stderr=stderr,
        timed_out=killed_by == "timeout",
        output_cut=False,
        seconds=0.1,
        killed_by=killed_by,
    )


@pytest.mark.parametrize(
    ("code", "killed_by", "directory", "changes", "text"),
    [
        (0, None, "", [], "[exit status 0]"),
        (1, None, "src/a", [], "[exit status 1; working directory src/a]"),
        (0, None, "", [("", "a.py"), ("+", "b"), ("-", "c d")], '[exit status 0; changed a.py, +b, -"c d"]'),
        (None, "timeout", "", [], "[stopped: ran longer than 60 s]"),
        (
            None,
            "memory",
            "x",
            [("+", "y")],
            "[stopped: used more than 512 MiB of memory; working directory x; changed +y]",
        ),
        (None, "processes", "", [], "[stopped: started more than 64 processes]"),
    ],
)
def test_last_line(
    code: int | None, killed_by: Stop | None, directory: str, changes: list[tuple[str, str]], text: str
) -> None:
    assert ending(result(code, killed_by), SandboxLimits(), directory, changes) == text
    found = read_ending(f"output\n{text}")
    assert found == Ending(
        code,
        directory,
        tuple(path for sign, path in changes if sign != "-"),
        tuple(path for sign, path in changes if sign == "-"),
    )


NAMES = st.text(st.characters(blacklist_characters="\0"), min_size=1, max_size=12)


@settings(max_examples=50)
@given(st.lists(st.tuples(st.sampled_from(["", "+", "-"]), NAMES), max_size=5), NAMES)
def test_any_name_can_be_read_back(changes: list[tuple[str, str]], directory: str) -> None:
    found = read_ending("x\n" + ending(result(), SandboxLimits(), directory, changes))
    assert found is not None
    assert found.directory == directory
    assert [*found.changed] == [path for sign, path in changes if sign != "-"]
    assert [*found.gone] == [path for sign, path in changes if sign == "-"]


def test_many_changes_are_counted() -> None:
    changes = [("", f"f{index:02d}") for index in range(45)]
    text = ending(result(), SandboxLimits(), "", changes)
    assert text.endswith(", f39 and 5 more]")
    found = read_ending(text)
    assert found is not None
    assert len(found.changed) == 40


def test_only_the_last_line_counts() -> None:
    assert read_ending("[exit status 0; changed fake.py]\nmore\n[exit status 3]") == Ending(3, "", (), ())
    assert read_ending("[exit status 0]\nEdited a.py") is None
    assert read_ending("") is None


def test_what_differs_from_run_to_run_is_taken_out() -> None:
    assert steady("1 failed, 3 passed in 0.12s\n") == "1 failed, 3 passed in 0.00s\n"
    assert steady("== 2 passed, 1 warning in 61.50s (0:01:01) ==") == "== 2 passed, 1 warning in 0.00s =="
    assert steady("no tests ran in 0.01s") == "no tests ran in 0.00s"
    assert steady("<f at 0x7f12ab34cd56>") == "<f at 0x0>"
    assert steady("took 3 s in 0.12s of 0x12ab") == "took 3 s in 0.12s of 0x12ab"


def test_where_the_shell_ended() -> None:
    assert directory_of(result(stderr="m1 /workspace/a b\n"), "m1", "/workspace", "x") == "a b"
    assert directory_of(result(stderr="m1 /workspace\n"), "m1", "/workspace", "x") == ""
    assert directory_of(result(stderr="m1 /tmp\n"), "m1", "/workspace", "x") == ""
    assert directory_of(result(stderr=""), "m1", "/workspace", "x") == "x"
    assert directory_of(result(stderr="m2 /workspace/a\n"), "m1", "/workspace", "x") == "x"


@pytest.mark.parametrize(
    ("text", "directory", "path"),
    [
        ("a.py", "", "a.py"),
        ("../a.py", "src", "a.py"),
        ("/workspace/src/a.py", "src", "src/a.py"),
        ("/testbed/a.py", "", "a.py"),
        ("/workspace", "src", "."),
        ("/etc/passwd", "", "/etc/passwd"),
        ("../../x", "src", "../x"),
    ],
)
def test_path_below(text: str, directory: str, path: str) -> None:
    assert path_below(text, directory) == os.path.normpath(path)
