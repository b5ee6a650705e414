"""The verb `export`: what it prints, what it writes, and how it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tutelage.cli.main import main
from tutelage.store import RecordStore
from tutelage.supervision.step_masks import student_steps
from tutelage.testing.trajectories import make_trajectory


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    path = tmp_path / "trajectories.jsonl"
    store: RecordStore = RecordStore(path, "trajectory")
    for one in (
        make_trajectory("se", task_id="a"),
        make_trajectory("ss", task_id="b"),
        make_trajectory("se", task_id="c", reward=0.0),
        make_trajectory("eeee", ["x"] * 4, task_id="d"),
    ):
        store.append(one)
    return path


def test_it_prints_the_account_and_where_the_files_are(
    stored: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(stored.parent)
    command = "export axolotl trajectories.jsonl --out rows.jsonl --select solved,no_repetition:max_identical=4"
    assert main(command.split()) == 0
    printed = capsys.readouterr()
    assert printed.out == (
        "axolotl: 2 read = 1 converted + 1 no_trained_step; 1 rows, 4 messages, 1 trained_messages, 160 characters, "
        "42 trained_characters\n"
        "trained fraction 0.2625 of the characters; read back and equal in all 1 rows\n"
        "settings of the trainer by which the flags rule: rows.axolotl.yaml\n"
        "-> rows.jsonl   ledger rows.jsonl.ledger.json\n"
    )
    assert "select  4 in  2 kept  1 not_successful  1 identical_actions" in printed.err
    assert "skipped  b.test.s0.n0.a0: no_trained_step: the mask trains none of its steps" in printed.err
    ledger = json.loads((stored.parent / "rows.jsonl.ledger.json").read_text())
    assert (ledger["num_read"], ledger["skipped"]) == (2, {"no_trained_step": 1})


def test_tokenised_rows_with_the_student_of_the_package(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = stored.parent / "rows.parquet"
    assert (
        main(f"export verl_sft {stored} --out {out} --model builtin:household_tiny --mask all_steps --json".split())
        == 0
    )
    ledger = json.loads(capsys.readouterr().out)
    assert (ledger["num_converted"], ledger["counts"]["rows"], ledger["counts"]["trained_actions"]) == (4, 4, 10)


def test_a_supervision_file_replaces_the_mask(stored: Path) -> None:
    supervision = stored.parent / "supervision.jsonl"
    store: RecordStore = RecordStore(supervision, "step_supervision")
    for one in RecordStore(stored, "trajectory"):
        store.append(student_steps(one))
    out = stored.parent / "rows.jsonl"
    assert main(f"export openai {stored} --out {out} --supervision {supervision}".split()) == 0
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [[one["weight"] for one in row["messages"][1::2]] for row in rows] == [[1, 0], [1, 1], [1, 0]]


def test_native_and_verl(stored: Path) -> None:
    folder = stored.parent
    assert main(f"export native {stored} --out {folder}/mine.jsonl --mask all_steps".split()) == 0
    assert len(RecordStore(folder / "mine.jsonl", "trajectory")) == 4
    assert main(f"export verl household:train --count 2 --out {folder}/tasks.jsonl".split()) == 0
    assert len((folder / "tasks.jsonl").read_text().splitlines()) == 2


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        ("export axolot T --out O.jsonl", 2, "Did you mean 'axolotl'?"),
        ("export axolotl T", 2, "name what to read and --out FILE"),
        ("export trl T --out O.jsonl", 2, "--model FOLDER"),
        ("export axolotl T --out O.csv", 2, "expected NAME.jsonl for this target"),
        ("export axolotl T --out T", 2, "is there already"),
        ("export axolotl T --out O.jsonl --mask experts", 2, "unknown 'experts'. Did you mean 'expert_steps'?"),
        ("export axolotl T --out O.jsonl --merge newline", 2, "unknown 'newline'"),
        ("export axolotl T --out O.jsonl --select solve", 2, "unknown 'solve'. Did you mean 'solved'?"),
        ("export axolotl T --out O.jsonl --model builtin:none", 2, "built-in student"),
        ("export sharegpt T --out O.jsonl --select has_expert_steps,solved:min_reward=2", 1, "No trajectory came in"),
        ("export verl T --out O.jsonl", 2, "holds records of kind 'trajectory'"),
        ("export verl household:train --out O.jsonl", 2, "--count N"),
    ],
)
def test_refusals(command: str, code: int, words: str, stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = {"T": str(stored), "O.jsonl": str(stored.parent / "o.jsonl"), "O.csv": str(stored.parent / "o.csv")}
    assert main([names.get(word, word) for word in command.split()]) == code
    printed = capsys.readouterr()
    assert words in printed.out + printed.err


def test_a_dry_run_shows_the_first_episode_and_keeps_nothing(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(stored.parent.iterdir())
    assert main(f"export openai {stored} --out {stored.parent}/o.jsonl --dry-run".split()) == 0
    assert capsys.readouterr().out.splitlines()[:6] == [
        "a.test.s0.n0.a0",
        "    user       see 0",
        "    assistant  act 0",
        "    user       see 1",
        "  * assistant  act 1",
        "openai: 4 read = 3 converted + 1 no_trained_step; 3 rows, 16 messages, 6 trained_messages, 624 characters, "
        "236 trained_characters",
    ]
    assert sorted(stored.parent.iterdir()) == before


def test_more_skipped_than_allowed(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = f"export openai {stored} --out {stored.parent}/o.jsonl --force --max-skipped"
    assert [main([*command.split(), bound]) for bound in ("0", "1")] == [3, 0]
    assert "1 no_trained_step" in capsys.readouterr().out


def test_the_targets_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [
        "openai", "mistral", "axolotl", "swift", "slime", "tinker", "llama_factory", "sharegpt", "parquet", "trl",
        "verl_sft", "atif", "native", "verl",
    ]  # fmt: skip
