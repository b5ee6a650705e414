from __future__ import annotations

import copy
import importlib.util
import os
from pathlib import Path

import pytest

from tutelage.envs.household.parity import check_transcripts, read_transcripts
from tutelage.envs.household.recording import record_transcripts, write_transcripts
from tutelage.errors import FormatError, MissingExtra

REPOSITORY = Path(__file__).parents[3]
SHARED_DATA = Path(os.environ.get("TUTELAGE_SHARED_DATA", REPOSITORY.parent / "shared" / "data"))
FIXTURES = REPOSITORY / "tests" / "fixtures" / "household"
TRANSCRIPTS = FIXTURES / "transcripts.jsonl.gz"


@pytest.mark.parametrize(("name", "num_steps"), [("random_play", 12842), ("expert_play", 2205)])
def test_real_games_play_word_for_word_as_recorded(name, num_steps):
    games, transcripts = SHARED_DATA / "alfworld", SHARED_DATA / "alfworld_oracle" / f"{name}.jsonl.gz"
    if not transcripts.exists():
        pytest.skip(f"no recorded transcripts at {transcripts}; set TUTELAGE_SHARED_DATA to their folder")
    report = check_transcripts(transcripts, games)
    assert report.first_differences == ()
    assert (report.num_differences, report.num_steps) == (0, num_steps)


def test_generated_games_play_word_for_word_as_recorded():
    report = check_transcripts(TRANSCRIPTS, FIXTURES / "games")
    assert report.first_differences == ()
    assert report.num_differences == 0
    assert report.num_episodes >= 12
    assert report.num_steps >= 500


def test_the_recorded_transcripts_cover_the_rules():
    verbs, types, invalid, wins = set(), set(), 0, set()
    for record in read_transcripts(TRANSCRIPTS):
        types.add(record["task_type"])
        for command, feedback, _admissible, won in record["steps"]:
            if feedback == "Nothing happens.":
                invalid += 1
            else:
                verbs.add(command.split()[0])
            if won:
                wins.add(record["task_type"])
    assert verbs == {
        "clean", "close", "cool", "examine", "go", "heat", "help", "inventory", "look", "move", "open", "slice",
        "take", "use",
    }  # fmt: skip
    assert len(types) == 6
    assert wins == types
    assert invalid >= 20


@pytest.mark.skipif(
    importlib.util.find_spec("textworld") is None or importlib.util.find_spec("alfworld") is None,
    reason="the original engine is not installed; the extra 'alfworld' brings it",
)
@pytest.mark.filterwarnings("default")  # The original engine leaves files open.
def test_generated_games_play_as_in_the_original_engine_now(tmp_path):
    games = sorted((FIXTURES / "games").iterdir())[:2]
    path = tmp_path / "now.jsonl.gz"
    record_transcripts(games, FIXTURES / "games", path, seed=7, max_steps=15)
    report = check_transcripts(path, FIXTURES / "games")
    assert report.first_differences == ()
    assert report.num_steps == 30


def altered(tmp_path, change):
    record = copy.deepcopy(next(read_transcripts(TRANSCRIPTS)))
    change(record)
    path = tmp_path / "altered.jsonl.gz"
    write_transcripts([record], path)
    return check_transcripts(path, FIXTURES / "games")


@pytest.mark.parametrize(("position", "field"), [(1, "feedback"), (2, "admissible"), (3, "won")])
def test_one_altered_field_is_one_difference(tmp_path, position, field):
    def change(record):
        record["steps"][4][position] = {1: "You sneeze.", 2: ["sneeze"], 3: not record["steps"][4][3]}[position]

    report = altered(tmp_path, change)
    assert (report.num_episodes, report.num_differences) == (1, 1)
    (difference,) = report.first_differences
    assert (difference.step, difference.field) == (4, field)
    assert difference.expected != difference.got
    assert difference.command == next(read_transcripts(TRANSCRIPTS))["steps"][4][0]


def test_an_altered_intro_is_a_difference_before_the_first_step(tmp_path):
    def change(record):
        record["intro"] += " "
        record["admissible0"].append("sneeze")

    report = altered(tmp_path, change)
    assert [(d.step, d.field) for d in report.first_differences] == [(-1, "intro"), (-1, "admissible")]


def test_at_most_ten_differences_are_kept(tmp_path):
    def change(record):
        for step in record["steps"]:
            step[1] = ""

    report = altered(tmp_path, change)
    assert report.num_differences == report.num_steps > 10
    assert len(report.first_differences) == 10


def test_broken_transcripts_are_refused(tmp_path):
    whole = TRANSCRIPTS.read_bytes()
    for name, content, message in (
        ("cut.jsonl.gz", whole[: len(whole) // 2], "broken gzip file"),
        ("plain.jsonl.gz", b"{}", "broken gzip file"),
        ("text.jsonl", b'{"game": ', "line 1: broken JSON"),
        ("keys.jsonl", b'{"game": "g", "episode": 0, "task": "t"}', "line 1: no intro, admissible0, steps"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(FormatError, match=message):
            check_transcripts(tmp_path / name, FIXTURES / "games")
    with pytest.raises(FormatError, match="no such file"):
        check_transcripts(tmp_path / "absent.jsonl", FIXTURES / "games")


@pytest.mark.skipif(importlib.util.find_spec("textworld") is not None, reason="the original engine is installed")
def test_recording_names_the_extra_it_needs(tmp_path):
    with pytest.raises(MissingExtra, match=r"pip install \"tutelage\[alfworld\]\""):
        record_transcripts(sorted((FIXTURES / "games").iterdir())[:1], FIXTURES / "games", tmp_path / "t.jsonl.gz")
