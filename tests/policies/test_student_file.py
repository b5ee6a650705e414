"""A model folder says how its model was taught to read and write; whoever plays it later goes by that."""

import json

import pytest

from tutelage.envs.action_formats import JsonFormat, TagFormat, ThinkActionFormat
from tutelage.errors import ConfigError
from tutelage.policies.base import PartialTrajectory
from tutelage.policies.student_file import STUDENT_FILE, StudentText, taught_policy
from tutelage.students import student_path
from tutelage.training.student_model import new_student
from tutelage.training.word_vocab import vocabulary_of
from tutelage.types import Action, Observation, Task

TAGS = TagFormat(tags={"search": "query"}, help="?")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    vocabulary = vocabulary_of("household", tokens="bpe", num_tasks=2, size="small")
    return new_student(tmp_path_factory.mktemp("chat") / "m", vocabulary=vocabulary, hidden=32, layers=1, heads=2)


def test_what_is_written_is_read(tmp_path):
    text = StudentText(instructions="Be brief.\nü", action_format="json", enable_thinking=False)
    text.write(tmp_path)
    assert StudentText.read(tmp_path) == text
    StudentText().write(tmp_path)
    assert not (tmp_path / STUDENT_FILE).exists()
    assert StudentText.read(tmp_path) == StudentText()


def test_a_policy_reads_as_it_was_taught(folder):
    StudentText(instructions="Be brief.", action_format="think_action").write(folder)
    policy = taught_policy(folder, None, temperature=0.0)
    so_far = PartialTrajectory(
        trajectory_id="t", task=Task(task_id="t", env="x", goal="g"), steps=(), observation=Observation.of("o"), seed=0
    )
    assert policy.renderer.decode(policy.context_ids(so_far)) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\no<|im_end|>\n<|im_start|>assistant\n"
    )
    assert policy.action_format == ThinkActionFormat()
    # What an expert did is shown to it in its own format.
    assert policy.renderer.decode(policy.renderer.action_ids(Action.of("look"))) == "<action>look</action><|im_end|>"
    StudentText().write(folder)
    assert taught_policy(folder, None).action_format is None


def test_formats_of_calls_have_those_of_the_environment():
    made = StudentText(action_format="json").format_in(TAGS)
    assert isinstance(made, JsonFormat)
    assert made.calls == {"search": ("query",)}
    with pytest.raises(ConfigError, match=r"student\.json: 'think_action' writes plain commands.*search"):
        StudentText(action_format="think_action").format_in(TAGS)


def test_a_small_student_of_ours_has_none_and_sees_bare_commands():
    folder = student_path("builtin:household_tiny")
    policy = taught_policy(folder, None)
    assert policy.renderer.action_ids(Action(text="I look.\nlook", command="look"))[:-1] == policy.renderer.encode(
        "look"
    )


@pytest.mark.parametrize("text", ["{", "[]", json.dumps({"instruction": "x"})])
def test_a_broken_file_is_named(tmp_path, text):
    (tmp_path / STUDENT_FILE).write_text(text)
    with pytest.raises(ConfigError, match=r"student\.json: .*instructions, action_format, enable_thinking"):
        StudentText.read(tmp_path)
