"""The command line: exit codes, and one clear paragraph for everything a user can mend."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import tutelage
from tutelage.cli.main import main

VERBS = [
    "run",
    "quickstart",
    "recipes",
    "rollout",
    "select",
    "build",
    "train",
    "evaluate",
    "report",
    "show",
    "graph",
    "play",
    "student",
    "env",
]


def test_help_names_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert [verb for verb in VERBS if f"\n  {verb} " not in shown] == []


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([verb, "--help"]) == 0
    assert f"tutelage {verb}" in capsys.readouterr().out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"tutelage {tutelage.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["rnu"], "No such command 'rnu'"),
        (["run"], "Missing argument"),
        (["run", "household_oec", "--sett", "x=1"], "No such option"),
        (["run", "houshold_oec"], "Did you mean 'household_oec'?"),
        (["run", "household_oec", "--set", "evalute.samples=2"], "unknown key 'evalute'. Did you mean 'evaluate'?"),
        (["evaluate"], "name a run directory and an arm"),
        (["evaluate", "--games", "/nowhere"], "say who plays"),
        (["evaluate", "--games", "/nowhere", "--expert"], "/nowhere: no such folder"),
        (["evaluate", "run", "arm", "--games", "/nowhere", "--expert"], "leave out the run directory 'run'"),
        (["train", "/nowhere", "corrected"], "/nowhere: not a run directory"),
        (["report", "/nowhere"], "not a run directory"),
        (["show", "/nowhere", "x"], "not a run directory"),
        (["play", "--type", "pick_two"], "Did you mean 'pick_two_obj_and_place'?"),
        (["play", "--game", "/nowhere/game"], "/nowhere/game: no such folder"),
        (["env", "parity", "houshold", "--transcripts", "x", "--games", "y"], "Did you mean 'household'?"),
        (["env", "parity", "household", "--transcripts", "/nowhere.jsonl", "--games", "y"], "/nowhere.jsonl: no such file"),
        (["env", "generate", "household", "--out", "x", "--type", "cook"], "cook"),
        (["student", "pretrain", "a", "b", "--set", "num_token=3"], "unknown key '--set.num_token'"),
    ],
)  # fmt: skip
def test_a_users_mistake_is_one_paragraph_and_exit_code_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.out == ""
    assert "Traceback" not in captured.err


def test_the_installed_command_exits_with_these_codes() -> None:
    command = [sys.executable, "-m", "tutelage"]
    assert subprocess.run([*command, "recipes"], capture_output=True, check=False).returncode == 0
    done = subprocess.run([*command, "run", "nothing"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("ConfigError: recipe: unknown 'nothing'.")


def test_a_reader_that_has_seen_enough_is_no_error(tmp_path: Path) -> None:
    command = f"{sys.executable} -m tutelage run --help | head -n 1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "0"
    assert done.stderr == ""
