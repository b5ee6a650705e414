"""The household vocabulary: one token per thing and phrase, cut the same way everywhere."""

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tutelage.envs.household.engine import HELP, NOTHING_HAPPENS, WELCOME, Engine
from tutelage.envs.household.generator import generate_game
from tutelage.rendering.role_tokens import SPECIAL_TOKENS, RoleTokenRenderer
from tutelage.students import student_path
from tutelage.training.household_vocab import PHRASES, entities, highest_number

RENDERER = RoleTokenRenderer.from_folder(student_path("builtin:household_tiny"))
BYTE_IDS = range(len(SPECIAL_TOKENS), len(SPECIAL_TOKENS) + 256)
ORACLE = Path(__file__).parents[2] / "../shared/data/alfworld_oracle"


def spelled(text):
    return [RENDERER.decode([one]) for one in RENDERER.encode(text)]


def in_bytes(text):
    return sum(one in BYTE_IDS for one in RENDERER.encode(text))


def test_every_thing_and_every_phrase_is_one_token():
    for text in [thing.text for thing in entities()] + list(PHRASES):
        assert spelled(text) == [text]


def test_no_two_tokens_have_the_same_text():
    names = [thing.text for thing in entities()] + list(PHRASES)
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("take cd 1 from drawer 27", ["take ", "cd 1", " from ", "drawer 27"]),
        ("put a clean plate in sidetable.", ["put a clean ", "plate", " in ", "sidetable", "."]),
        ("toiletpaper 2", ["toiletpaper 2"]),
        ("toiletpaperhanger 1", ["toiletpaperhanger 1"]),
        ("apple 12", ["apple", " ", "1", "2"]),
        ("drawer 31", ["drawer", " ", "3", "1"]),
        ("teapot 1", ["t", "e", "a", "p", "o", "t", " ", "1"]),
        ("go to  desk 1", ["go to ", " ", "desk 1"]),
        ("a apple 1, a egg 2, and a egg 1.", ["a ", "apple 1", ", a ", "egg 2", ", and a ", "egg 1", "."]),
        (NOTHING_HAPPENS, [NOTHING_HAPPENS]),
        (HELP, [HELP]),
    ],
)
def test_texts_are_cut_at_the_longest_piece(text, tokens):
    assert spelled(text) == tokens


def test_an_intro():
    view = "You are in the middle of a room. Looking quickly around you, you see a "
    text = f"{WELCOME}\n\n{view}bed 1, and a desk 1.\n\nYour task is to: put some book on bed."
    assert spelled(text) == [
        f"{WELCOME}\n\n", view, "bed 1", ", and a ", "desk 1", ".\n\nYour task is to: ", "put some ", "book", " on ",
        "bed", ".",
    ]  # fmt: skip


@given(st.sampled_from(entities()), st.integers(0, 99))
def test_a_numbered_thing_is_one_token_within_its_range_and_else_spelled(thing, number):
    tokens = spelled(f"{thing.type} {number}")
    if 1 <= number <= highest_number(thing.kind, thing.type):
        assert tokens == [f"{thing.type} {number}"]
    else:
        assert tokens == [thing.type, " ", *str(number)]


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6), st.sampled_from(["small", "real"]), st.randoms(use_true_random=False))
def test_no_text_of_a_generated_game_needs_bytes(seed, size, random):
    engine = Engine(generate_game(seed, size=size))
    texts = [engine.reset()]
    for _ in range(20):
        command = random.choice(engine.admissible())
        texts += [command, engine.step(command)]
    assert {text: in_bytes(text) for text in texts if in_bytes(text)} == {}
    assert [RENDERER.decode(RENDERER.encode(text)) for text in texts] == texts


@pytest.mark.skipif(not ORACLE.is_dir(), reason="the recorded transcripts of the real game are not here")
def test_no_text_of_the_real_game_needs_bytes():
    spelled_out: set[str] = set()
    for path in sorted(ORACLE.glob("*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                row = json.loads(line)
                texts = [row["intro"], *(reply for _, reply, *_ in row["steps"])]
                texts += [command for command, reply, *_ in row["steps"] if reply != NOTHING_HAPPENS]
                spelled_out |= {text for text in texts if in_bytes(text)}
    assert spelled_out == set()
