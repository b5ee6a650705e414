"""Random play of any environment: the same for the same seed, and enough for a new student to start from."""

from __future__ import annotations

from tutelage.rendering.load import load_renderer
from tutelage.tasks.registry import load_tasks
from tutelage.training.env_play import env_play, play_texts
from tutelage.training.pretrain import PretrainConfig, pretrain
from tutelage.training.student_model import new_student
from tutelage.training.word_vocab import vocabulary_of


def test_a_play_is_a_function_of_task_and_seed():
    task = load_tasks("search", "train", count=1)[0]
    play = env_play(task, seed=1)
    assert play == env_play(task, seed=1)
    assert play != env_play(task, seed=2)
    assert play.intro.startswith("Question: ")
    assert len(play.commands) == len(play.replies) > 0
    assert list(play_texts([task], seed=1)) == [
        "\n".join([play.intro, *(part for pair in zip(play.commands, play.replies, strict=True) for part in pair)])
    ]


def test_a_new_student_of_any_environment_is_warmed_up_on_its_play(tmp_path):
    vocabulary = vocabulary_of("shop", num_tasks=20)
    fresh = new_student(tmp_path / "fresh", vocabulary=vocabulary, hidden=32, layers=1, heads=2)
    config = PretrainConfig(env="shop", num_tasks=5, num_tokens=6000, batch_tokens=2048, warmup_updates=2)
    losses: list[float] = []
    result = pretrain(fresh, tmp_path / "warm", config, on_update=lambda one: losses.append(one["loss"]))
    assert result.num_tokens >= 6000
    assert losses[-1] < losses[0]
    assert load_renderer(tmp_path / "warm").vocabulary_id == load_renderer(fresh).vocabulary_id
    again = pretrain(fresh, tmp_path / "again", config)
    assert again.loss == result.loss


def test_the_household_vocabulary_is_its_own():
    assert type(vocabulary_of("household")).__name__ == "HouseholdVocabulary"
