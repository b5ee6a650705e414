from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutelage.envs.repo.embedded import PACKAGES, package_tree
from tutelage.envs.repo.mutate import MUTATORS, Mutation, mutations

SOURCE = b"""\
LIMIT = 3


def clip(values, low=0, loud=False):
    # a < b in a comment is nothing
    kept = []
    for value in values[1:]:
        if not loud and value < low:
            continue
        kept.append(value - 1)
    if kept:
        kept[0] += 2
    return kept
"""


def changed_lines(mutation: Mutation, source: bytes) -> tuple[str, str]:
    old, new = source.decode().splitlines(), mutation.apply(source).decode().splitlines()
    (at,) = [index for index, pair in enumerate(zip(old, new, strict=True)) if pair[0] != pair[1]]
    return old[at].strip(), new[at].strip()


def test_every_mutation_of_a_function() -> None:
    found = {(one.mutator, *changed_lines(one, SOURCE)) for one in mutations("m.py", SOURCE)}
    condition = "if not loud and value < low:"
    assert found == {
        ("wrong_default", "def clip(values, low=0, loud=False):", "def clip(values, low=1, loud=False):"),
        ("wrong_default", "def clip(values, low=0, loud=False):", "def clip(values, low=0, loud=True):"),
        ("off_by_one", "for value in values[1:]:", "for value in values[2:]:"),
        ("negate_condition", condition, "if not (not loud and value < low):"),
        ("swap_operator", condition, "if not loud or value < low:"),
        ("flip_comparison", condition, "if not loud and value <= low:"),
        ("drop_statement", "continue", "pass"),
        ("drop_statement", "kept.append(value - 1)", "pass"),
        ("swap_operator", "kept.append(value - 1)", "kept.append(value + 1)"),
        ("off_by_one", "kept.append(value - 1)", "kept.append(value - 2)"),
        ("negate_condition", "if kept:", "if not (kept):"),
        ("drop_statement", "kept[0] += 2", "pass"),
        ("swap_operator", "kept[0] += 2", "kept[0] -= 2"),
        ("return_none", "return kept", "return None"),
    }
    assert {one.function for one in mutations("m.py", SOURCE)} == {"clip"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a not  in b", "a in b"),
        ("a is not None", "a is None"),
        ("(a) < (b)", "(a) <= (b)"),
        ("a // b", "a * b"),
        ("a ** b", "a * b"),
        ("a and b and c", "a or b and c"),
        ('"\u00e4\u00f6" in a', '"\u00e4\u00f6" not in a'),
    ],
)
def test_operators(before: str, after: str) -> None:
    source = f"def f(a, b, c):\r\n    return {before}\r\n".encode()
    found = {one.apply(source) for one in mutations("m.py", source)}
    assert f"def f(a, b, c):\r\n    return {after}\r\n".encode() in found


def test_methods_and_inner_functions_have_full_names() -> None:
    source = b"class A:\n    def f(self):\n        def g(): return 1\n        return g\n"
    assert [(one.function, one.mutator) for one in mutations("m.py", source)] == [
        ("A.f.g", "return_none"),
        ("A.f", "return_none"),
    ]


@pytest.mark.parametrize("source", [b"def f(:\n", b"\xff\xfe", b"x = 1 < 2\n", b""])
def test_nothing_to_mutate(source: bytes) -> None:
    assert mutations("m.py", source) == []


def test_text_is_not_subtracted() -> None:
    assert [one.mutator for one in mutations("m.py", b'def f(a):\n    return "x" + a\n')] == ["return_none"]


def test_mutations_of_the_embedded_packages_are_python_and_have_names_of_their_own() -> None:
    used = set()
    for package in PACKAGES:
        names = []
        for path, entry in package_tree(package).items():
            for index, mutation in enumerate(mutations(path, entry.data)):
                if index % 40 == 0:
                    assert ast.dump(ast.parse(mutation.apply(entry.data))) != ast.dump(ast.parse(entry.data))
                names.append(mutation.name)
                used.add(mutation.mutator)
        assert len(set(names)) == len(names)
    assert used == set(MUTATORS)


@given(st.text(max_size=60))
def test_no_text_makes_it_raise(text: str) -> None:
    mutations("m.py", f"def f(a, b=1):\n    return a  # {text}\n".encode("utf-8", "replace"))
