"""Instructions in front of exported episodes: what a student of tutelage is told by its renderer."""

import json

import pytest
from typer.testing import CliRunner

from tutelage.cli.main import app
from tutelage.envs.household.instructions import INSTRUCTIONS
from tutelage.errors import ConfigError
from tutelage.formats.instructions import with_instructions
from tutelage.rendering.load import load_renderer
from tutelage.store import RecordStore
from tutelage.supervision.samples import build_samples
from tutelage.supervision.step_masks import expert_steps
from tutelage.testing.trajectories import make_trajectory
from tutelage.training.student_model import new_student
from tutelage.training.word_vocab import vocabulary_of
from tutelage.types import Message, Observation

PLAYED = make_trajectory("se", ["look", "go to desk 1"], env="household")


def test_a_system_message_is_put_in_front_of_the_first_observation_only():
    [told] = with_instructions([PLAYED], "Be brief.")
    assert [message.role for message in told.steps[0].observation.messages] == ["system", "user"]
    assert told.steps[0].observation.messages[0].content == "Be brief."
    assert told.steps[1:] == PLAYED.steps[1:]
    [auto] = with_instructions([PLAYED], "auto")
    assert auto.steps[0].observation.messages[0].content == INSTRUCTIONS


def test_an_episode_that_has_one_keeps_it_and_an_unknown_environment_says_so():
    [told] = with_instructions([PLAYED], "Be brief.")
    assert list(with_instructions([told], "Be long.")) == [told]
    empty = make_trajectory("")
    assert list(with_instructions([empty], "x")) == [empty]
    with pytest.raises(ConfigError, match="'counting' has no text of its own"):
        list(with_instructions([make_trajectory("e")], "auto"))
    assert told.steps[0].observation.messages == (
        Message(role="system", content="Be brief."),
        *Observation.of("see 0").messages,
    )


def test_exported_rows_are_the_samples_that_a_run_would_build(tmp_path):
    vocabulary = vocabulary_of("household", tokens="bpe", num_tasks=2, size="small")
    folder = new_student(tmp_path / "m", vocabulary=vocabulary, hidden=32, layers=1, heads=2)
    RecordStore(tmp_path / "t.jsonl", "trajectory").append(PLAYED)
    options = ["--model", str(folder), "--instructions", "auto", "--out", str(tmp_path / "rows.jsonl")]
    done = CliRunner().invoke(app, ["export", "trl", str(tmp_path / "t.jsonl"), *options])
    assert done.exit_code == 0, done.output
    [sample] = build_samples(PLAYED, expert_steps(PLAYED), load_renderer(folder, instructions=INSTRUCTIONS))
    row = json.loads((tmp_path / "rows.jsonl").read_text())
    assert tuple(row["input_ids"]) == sample.token_ids
    assert [label != -100 for label in row["labels"]] == list(sample.loss_mask)
    chat = CliRunner().invoke(
        app,
        [
            "export",
            "openai",
            str(tmp_path / "t.jsonl"),
            "--instructions",
            "Be brief.",
            "--out",
            str(tmp_path / "c.jsonl"),
        ],
    )
    assert chat.exit_code == 0, chat.output
    messages = json.loads((tmp_path / "c.jsonl").read_text())["messages"]
    assert [one["role"] for one in messages[:2]] == ["system", "user"]
