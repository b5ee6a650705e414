"""Renaming: consistent, one to one, within groups, and nothing else touched."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutelage.errors import ConfigError, FormatError
from tutelage.rendering.role_tokens import RoleTokenRenderer
from tutelage.students import student_path
from tutelage.training.augment import ObjectRenaming, read_entities
from tutelage.training.household_vocab import entities

FOLDER = student_path("builtin:household_tiny")
RENDERER = RoleTokenRenderer.from_folder(FOLDER)
ROWS = {row["id"]: row for row in read_entities(FOLDER)}
TEXT = (
    "put a apple in fridge. drawer 5, a drawer 2, a cabinet 3, a safe 1, a fridge 1. You see a apple 2, a mug 1, a knife 1, "
    "a desklamp 1, a houseplant 1, and a apple 1."
)
things = st.lists(st.sampled_from(entities()), max_size=40).map(
    lambda drawn: np.array(RENDERER.encode(", a ".join(thing.text for thing in drawn)), dtype=np.int64)
)
options = st.fixed_dictionaries(
    {name: st.booleans() for name in ("objects", "receptacles", "object_numbers", "receptacle_numbers")}
)


def ids(text):
    return np.array(RENDERER.encode(text))


def test_only_carried_types_are_renamed_by_default():
    text = "put a apple in fridge. drawer 5: a apple 2, a mug 1, a drawer 1, and a apple 1."
    after = RENDERER.decode(ObjectRenaming(FOLDER)(ids(text), np.random.default_rng(0)).tolist())
    new = after.removeprefix("put a ").split(" ")[0]
    other = after.split(f"a {new} 2, a ")[1].split(" ")[0]
    assert after == text.replace("apple", new).replace("mug", other)
    assert len({"apple", new, "mug", other}) == 4


@given(things, options, st.integers(0, 1000))
def test_renaming_is_one_to_one_within_groups(before, chosen, seed):
    after = ObjectRenaming(FOLDER, **chosen)(before, np.random.default_rng(seed))
    assert after.shape == before.shape
    pairs = set(zip(before.tolist(), after.tolist(), strict=True))
    assert len(pairs) == len(set(before.tolist())) == len(set(after.tolist()))
    types = {}
    for old, new in pairs:
        if old not in ROWS:
            assert new == old
            continue
        was, now = ROWS[old], ROWS[new]
        assert (was["kind"], was["group"]) == (now["kind"], now["group"])
        assert (was["number"] is None) == (now["number"] is None)
        assert types.setdefault((was["kind"], was["type"]), now["type"]) == now["type"]
        if not chosen["objects" if was["kind"] == "object" else "receptacles"]:
            assert was["type"] == now["type"]
        if not chosen["object_numbers" if was["kind"] == "object" else "receptacle_numbers"]:
            assert was["number"] == now["number"]


@given(things, st.integers(0, 1000))
def test_new_numbers_rise_in_the_same_order(before, seed):
    renaming = ObjectRenaming(FOLDER, receptacles=True, object_numbers=True, receptacle_numbers=True)
    numbers = {}
    for old, new in zip(before, renaming(before, np.random.default_rng(seed)), strict=True):
        if int(old) in ROWS and ROWS[int(old)]["number"] is not None:
            row = ROWS[int(old)]
            numbers.setdefault((row["kind"], row["type"]), set()).add((row["number"], ROWS[int(new)]["number"]))
    for pairs in numbers.values():
        ordered = sorted(pairs)
        assert [new for _, new in ordered] == sorted({new for _, new in ordered})


def test_a_high_number_only_goes_to_a_type_that_has_it():
    renaming = ObjectRenaming(FOLDER, receptacles=True)
    before = ids("drawer 30, a safe 2, a cabinet 7")
    seen = {RENDERER.decode(renaming(before, np.random.default_rng(seed)).tolist()) for seed in range(40)}
    assert seen == {
        "drawer 30, a safe 2, a cabinet 7", "cabinet 30, a safe 2, a drawer 7",
    }  # fmt: skip


def test_each_use_draws_anew_and_the_same_seed_draws_the_same():
    renaming = ObjectRenaming(FOLDER)
    first, second = (renaming(ids(TEXT), np.random.default_rng(seed)).tolist() for seed in (1, 2))
    assert first != second
    assert first == renaming(ids(TEXT), np.random.default_rng(1)).tolist()


def test_with_everything_off_nothing_changes():
    assert ObjectRenaming(FOLDER, objects=False)(ids(TEXT), np.random.default_rng(0)).tolist() == RENDERER.encode(TEXT)


def test_a_folder_without_table_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="expected the table of things that renaming needs"):
        ObjectRenaming(tmp_path)


@pytest.mark.parametrize("content", ["{", "[{}]", '[{"id": 1}]'])
def test_a_broken_table_is_refused(tmp_path, content):
    (tmp_path / "entities.json").write_text(content)
    with pytest.raises(FormatError, match="expected a list of rows with id, kind, type, number, group"):
        ObjectRenaming(tmp_path)


def test_a_table_with_a_gap_is_refused(tmp_path):
    row = {"kind": "object", "type": "apple", "group": "movable"}
    rows = [{"id": 1, "number": None} | row, {"id": 2, "number": 2} | row]
    (tmp_path / "entities.json").write_text(json.dumps(rows))
    with pytest.raises(FormatError, match="object type 'apple' has no row for each of its bare form"):
        ObjectRenaming(tmp_path)
