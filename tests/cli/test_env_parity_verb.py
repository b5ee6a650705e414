from __future__ import annotations

import json

from tutelage.cli.main import main
from tutelage.evaluation.env_parity import PlaySettings

SETTINGS = PlaySettings(random_steps=3)


def log_of(path, differences):
    head = {"settings": {"seed": 0, "random_steps": 3, "expert_steps": 50, "rules": SETTINGS.rules}}
    episodes = [
        {"task_id": "generated-small-000000", "player": player, "num_steps": 3, "won": player == "expert",
         "differences": found, "num_differences": len(found), "seconds": 1.0}
        for player, found in (("expert", []), ("random", differences))
    ]  # fmt: skip
    path.write_text("".join(json.dumps(line) + "\n" for line in [head, *episodes]))
    return ["env", "parity", "household", "--generated", "1", "--random-steps", "3", "--log", str(path)]


def test_a_finished_log_without_differences_is_exit_code_0(tmp_path, capsys):
    assert main(log_of(tmp_path / "log.jsonl", [])) == 0
    assert capsys.readouterr().out == "2 episodes of 1 games, 6 steps, 0 differences\n"


def test_the_first_difference_is_shown_with_exit_code_1(tmp_path, capsys):
    difference = {"game": "generated-small-000000", "episode": "random", "step": 2, "command": "look",
                  "field": "feedback", "expected": "You see a mug 1.", "got": "You see nothing."}  # fmt: skip
    arguments = log_of(tmp_path / "log.jsonl", [difference])
    assert main(arguments) == 1
    assert capsys.readouterr().out == (
        "2 episodes of 1 games, 6 steps, 1 differences\n\n"
        "generated-small-000000 episode random step 2 'look': feedback\n"
        "  original: 'You see a mug 1.'\n  ours:     'You see nothing.'\n"
    )
    assert main([*arguments, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["first_differences"] == [difference]


def test_what_cannot_be_played_is_refused(tmp_path, capsys):
    for options, message in (
        ([], "nothing to play. Give --games FOLDER, --generated COUNT, or --transcripts FILE"),
        (["--transcripts", "t.jsonl"], "--transcripts without --games"),
        (["--generated", "1", "--size", "reel"], "Did you mean 'real'?"),
        (["--games", str(tmp_path / "absent")], "no such folder"),
    ):
        assert main(["env", "parity", "household", *options]) == 2
        assert message in capsys.readouterr().err
