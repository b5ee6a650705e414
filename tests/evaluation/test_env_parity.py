from __future__ import annotations

import json

import pytest

from tutelage.errors import ConfigError, FormatError
from tutelage.evaluation.env_parity import PlaySettings, folder_tasks, generated_tasks, play_both

SETTINGS = PlaySettings(random_steps=4)
HEAD = json.dumps({"settings": {"seed": 0, "random_steps": 4, "expert_steps": 50, "rules": SETTINGS.rules}})


def entry(task_id: str, player: str, differences: list[dict] | None = None) -> str:
    differences = differences or []
    return json.dumps(
        {"task_id": task_id, "player": player, "num_steps": 4, "won": False, "differences": differences,
         "num_differences": len(differences), "seconds": 0.5}
    )  # fmt: skip


def test_both_engines_say_the_same_and_the_log_is_gone_on_from(alfworld_python, tmp_path):
    log = tmp_path / "logs" / "parity.jsonl"
    tasks = generated_tasks(2, 40, ["small"])
    seen = []
    first = play_both(tasks[:1], SETTINGS, python=alfworld_python, log=log, on_episode=seen.append)
    assert first.first_differences == ()
    assert (first.num_episodes, first.num_games, first.num_differences) == (2, 1, 0)
    assert [(one.player, one.won) for one in seen] == [("expert", True), ("random", False)]
    assert first.num_steps == seen[0].num_steps + 4
    assert log.read_text().splitlines()[0] == HEAD
    both = play_both(tasks, SETTINGS, python=alfworld_python, log=log)
    assert (both.num_episodes, both.num_games, both.num_differences) == (4, 2, 0)
    assert len(log.read_text().splitlines()) == 5
    # All of it is stored now, so no engine is started.
    assert play_both(tasks, SETTINGS, python="/nowhere", log=log) == both


def test_generated_games_take_turns_in_size_and_type():
    tasks = generated_tasks(14, 7)
    assert [task.task_id for task in tasks[:3]] == [
        "generated-small-000007", "generated-real-000008", "generated-small-000009",
    ]  # fmt: skip
    assert len({(task.settings["size"], task.settings["task_type"]) for task in tasks[:12]}) == 12
    assert tasks[12].settings == {**tasks[0].settings, "game_seed": 19}
    assert {task.settings["size"] for task in generated_tasks(3, 0, ["real"])} == {"real"}


def test_differences_of_a_log_are_counted_and_shown(tmp_path):
    log = tmp_path / "parity.jsonl"
    difference = {"game": "generated-small-000000", "episode": "random", "step": 2, "command": "look",
                  "field": "feedback", "expected": "A.", "got": "B."}  # fmt: skip
    tasks = generated_tasks(1, 0)
    name = tasks[0].task_id
    log.write_text(f"{HEAD}\n{entry(name, 'expert')}\n{entry(name, 'random', [difference])}\n")
    report = play_both(tasks, SETTINGS, log=log)
    assert (report.num_episodes, report.num_steps, report.num_differences) == (2, 8, 1)
    (shown,) = report.first_differences
    assert (shown.step, shown.command, shown.expected, shown.got) == (2, "look", "A.", "B.")


def test_a_log_of_other_settings_or_of_something_else_is_refused(tmp_path):
    log = tmp_path / "parity.jsonl"
    log.write_text(HEAD + "\n")
    with pytest.raises(ConfigError, match=r"was made with .*'random_steps': 4.*, now .*'random_steps': 25"):
        play_both([], log=log)
    for text in ("", "{}\n", f"{HEAD}\n" + '{"task_id": "a"}\n', "steps\n"):
        log.write_text(text)
        with pytest.raises(FormatError, match="no log of parity play"):
            play_both([], SETTINGS, log=log)


def test_a_folder_without_games_is_refused(tmp_path):
    with pytest.raises(FormatError, match="no game found below it"):
        folder_tasks(tmp_path)
